"""Steps that make A in registers piece by piece, and read their own sums."""

from __future__ import annotations

from passes.synchronize_wgmma import synchronize_wgmma
from tests.passes.test_synchronize_wgmma import HEAD, LOOP, RELEASED
from tests.passes.texts import lowered

SCALED = """
      row: frag<f32, 64x1> = frag.load_global x[k, 0], trans=true
      zeros: frag<bf16, 64x32> = ldmatrix C_s[k % 2, 0, 0]
      release slow, k
      left: frag<bf16, 64x32> = frag.pointwise sub, zeros, 8.0
      next: frag<f32, 64x1> = frag.load_global x[k + 1, 0], trans=true
      wait_full ring, k
      part: frag<f32, 64x256> = mma.tile old, left, B_s[k % 4, 0, 0], 32, false
      release ring, k
      scaled: frag<f32, 64x256> = frag.pointwise mul, part, row
      acc1: frag<f32, 64x256> = frag.update add, acc, scaled
"""


def scaled(warps: int = 4, step: str = SCALED) -> str:
    """A loop whose sums are scaled in it, of a role of so many warps."""
    product = LOOP[LOOP.index("      wait_full") : LOOP.index("      yield")]
    text = LOOP.replace(product, step[1:]).replace("0 .. 4 {", f"0 .. {warps} as wg {{", 1)
    text = text.replace("    for k", "    none: frag<f32, 64x256> = frag.fill 0.0\n    for k")
    text = text.replace("-> sum)", "-> sum, old: frag<f32, 64x256> = none -> rest)")
    text = text.replace("yield acc1", "yield acc1, part")
    head = "global x: f32[64, 64]\nshared C_s: bf16[2][64x32] swizzle 64\n"
    return head + HEAD.format(in_flight=1) + RELEASED + text


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in lowered(synchronize_wgmma, text).splitlines()]


def test_four_warpgroups_make_all_of_it_first() -> None:
    """While one waits for its products the others compute."""
    lines = lines_of(scaled(16))
    assert lines.count("wgmma.fence") == lines.count("wgmma.commit") == 1
    assert [lines_of(scaled(n)).count("wgmma.fence") for n in (12, 4)] == [2, 2]
    assert lines.index("release slow, k") < lines.index("wgmma.fence")


def test_a_step_that_reads_its_sums_makes_a_in_pieces() -> None:
    """The ring of what is read, and the load for the next step, are behind all of them."""
    lines = lines_of(scaled())
    first = lines.index("wait_full ring, k") + 1
    assert lines[first : first + 15] == [
        "zeros_k0: frag<bf16, 64x16> = ldmatrix C_s[k % 2, 0, 0]",
        "left_k0: frag<bf16, 64x16> = frag.pointwise sub, zeros_k0, 8.0",
        "wgmma.fence",
        "part_k0: frag<f32, 64x256, async> = wgmma old, left_k0, B_s[k % 4, 0, 0], "
        "accumulate=false",
        "wgmma.commit",
        "zeros_k16: frag<bf16, 64x16> = ldmatrix C_s[k % 2, 0, 16]",
        "left_k16: frag<bf16, 64x16> = frag.pointwise sub, zeros_k16, 8.0",
        "wgmma.fence",
        "part_k16: frag<f32, 64x256, async> = wgmma part_k0, left_k16, B_s[k % 4, 0, 16]",
        "wgmma.commit",
        "part: frag<f32, 64x256> = wgmma.wait part_k16, 0",
        "release ring, k",
        "release slow, k",
        "next: frag<f32, 64x1> = frag.load_global x[k + 1, 0], trans=true",
        "scaled: frag<f32, 64x256> = frag.pointwise mul, part, row",
    ]


def test_what_the_step_itself_reads_is_loaded_where_it_was() -> None:
    """The load for the next step alone is behind the groups."""
    row, _, _, left, following, _, _, release, reader, _ = SCALED[1:].splitlines(keepends=True)
    step = SCALED.replace(row, "").replace(release, "")
    step = step.replace(left, left + row).replace(reader, reader + release)
    lines = lines_of(scaled(step=step))
    assert lines.index(row.strip()) < lines.index("wgmma.fence")
    assert lines.index(reader.strip()) < lines.index(following.strip())
