from __future__ import annotations

import pytest

from lowering.kernel.text import print_kernel
from lowering.kernel.verify import verify
from passes.options import LoweringOptions
from passes.order_promotions import order_promotions
from tests.passes.texts import kernel

HEAD = """
param n: i32
param m: i32
shared A_s: e4m3[4][256x128] swizzle 128
shared B_s: e4m3[4][128x128] swizzle 128
ring ring(A_s, B_s) stages 4 in_flight 1
roles {
  role compute warps 0 .. 8 as wg {
"""
TAIL = """
    half: frag<bf16, 128x128> = frag.cast total
  }
}
"""


def sums(name: str, acc: str, row: int) -> list[str]:
    """The wgmmas of 64 rows over 128 of K."""
    parts = [acc, *(f"{name}_k{k}" for k in (0, 32, 64, 96))]
    more = ["accumulate=false", "accumulate=true", "accumulate=true", "accumulate=true"]
    return [
        f"{out}: frag<f32, 64x128, async> = wgmma {before}, A_s[k % 4, {row}, {32 * n}], "
        f"B_s[k % 4, 0, {32 * n}], {keep}"
        for n, (before, out, keep) in enumerate(zip(parts[:-1], parts[1:], more, strict=True))
    ]


def rows(name: str, acc: str, row: int, *, turns: bool) -> str:
    """A group of wgmmas, and what is waited for; with turns."""
    first, wait = sums(name, acc, row), f"{name}: frag<f32, 64x128> = wgmma.wait"
    if not turns:
        return "\n".join(["wgmma.fence", *first, "wgmma.commit", f"{wait} {name}_k96, 0"])
    last = f"{name}_last: frag<f32, 64x128, async> = wgmma.wait {name}_k96, 1"
    return "\n".join([
        "bar.sync turn[wg]", "wgmma.fence", *first[:2], "wgmma.commit", *first[2:],
        "wgmma.commit", last, "bar.arrive turn[1 - wg]", f"{wait} {name}_last, 0",
    ])  # fmt: skip


def loop(*, turns: bool) -> str:
    """Steps of two blocks of rows."""
    return f"""
    none: frag<f32, 128x128> = frag.fill 0.0
    first: frag<f32, 64x128> = frag.fill 0.0
    for k in m .. n carry (acc: frag<f32, 128x128> = none -> total,
        part: frag<f32, 64x128> = first -> rest) {{
      wait_full ring, k
      {rows("sum", "part", 0, turns=turns)}
      scaled: frag<f32, 64x128> = frag.pointwise mul, sum, 2.0
      acc1: frag<f32, 128x128> = frag.update add, acc, scaled, rows=64
      {rows("more", "sum", 64, turns=turns)}
      release ring, k
      twice: frag<f32, 64x128> = frag.pointwise mul, more, 2.0
      acc2: frag<f32, 128x128> = frag.update add, acc1, twice, row=64, rows=64
      yield acc2, more
    }}
"""


BEFORE, AFTER = loop(turns=False), loop(turns=True)


def ordered(text: str) -> str:
    given = kernel(text)
    assert verify(given) == []
    made = order_promotions(given, LoweringOptions(promotion=128))
    assert verify(made) == []
    return print_kernel(made)


def test_a_turn_for_each_group_of_a_trip() -> None:
    head = HEAD.replace("ring ring", "named_barrier turn[2] threads 256\nring ring")
    begin, end = "if wg == 1 { bar.arrive turn[0] }\n", "if wg == 0 { bar.sync turn[0] }\n"
    tail = TAIL.replace("cast total\n", "cast total\n" + end)
    assert ordered(HEAD + BEFORE + TAIL) == print_kernel(kernel(head + begin + AFTER + tail))


def test_what_covers_the_way_of_the_next() -> None:
    """Of 16 columns all wgmmas of a group: then its turn ends when they do."""
    text = (HEAD + BEFORE + TAIL).replace("x128,", "x16,").replace("x128>", "x16>")
    found = ordered(text)
    assert found.count("wgmma.commit") == found.count("wgmma.wait") == 2
    for behind in found.split("wgmma.wait")[1:]:
        assert behind.splitlines()[1].strip() == "bar.arrive turn[1 - wg]"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("warps 0 .. 8 as wg", "warps 0 .. 4 as wg"),
        ("warps 0 .. 8 as wg", "warps 0 .. 12 as wg"),
        ("warps 0 .. 8 as wg", "warps 0 .. 8"),
        ("stages 4 in_flight 1", "stages 4 teams 2 in_flight 1"),
        ("for k in m .. n", "for k in m + wg .. n"),
        ("for k in m .. n", "let last: i32 = n - wg\n    for k in m .. last"),
        ("for k in m .. n", "for k in m .. n step 2"),
        ("frag.pointwise mul, sum, 2.0", "frag.fill 1.0"),
    ],
    ids=["one warpgroup", "three", "no index", "turns of main loops", "trips of its own",
         "an end of its own", "other steps", "sums without scales"],
)  # fmt: skip
def test_who_takes_no_turns(old: str, new: str) -> None:
    text = (HEAD + BEFORE + TAIL).replace(old, new)
    if "fill 1.0" in new:
        text = text.replace("frag.pointwise mul, more, 2.0", new)
    assert text != HEAD + BEFORE + TAIL
    assert ordered(text) == print_kernel(kernel(text))


def test_who_adds_once_a_step_takes_no_turns() -> None:
    text = BEFORE.replace("acc2, more", "acc1, sum")
    begin, end = text.index(rows("more", "sum", 64, turns=False)), text.index("release")
    text = HEAD + text[:begin] + text[end:] + TAIL
    lines = [s for s in text.splitlines() if "twice" not in s]
    assert ordered("\n".join(lines)) == print_kernel(kernel("\n".join(lines)))


def test_who_adds_under_wgmmas_takes_none() -> None:
    """A step in flight is waited for in the next one."""
    text = HEAD + BEFORE + TAIL
    text = text.replace("more_k96, 0", "more_k96, 1").replace(
        "more: frag<f32, 64x128> = wgmma.wait", "more0: frag<f32, 64x128, async> = wgmma.wait"
    )
    text = text.replace("release", "more: frag<f32, 64x128> = wgmma.wait more0, 0\nrelease")
    assert ordered(text) == print_kernel(kernel(text))


def test_trips_of_one_branch() -> None:
    """A loop that only one warpgroup enters."""
    text = HEAD + BEFORE + TAIL
    none = "    none: frag"
    end = "    half: frag<bf16, 128x128> = frag.cast total\n"
    text = text.replace(none, "    if wg == 0 {\n" + none).replace(end, end + "    }\n")
    assert ordered(text) == print_kernel(kernel(text))


def test_only_of_promoted_sums() -> None:
    given = kernel(HEAD + BEFORE + TAIL)
    assert order_promotions(given, LoweringOptions()) is given
