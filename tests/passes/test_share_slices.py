"""Warpgroups that share slices of K, in place of one that multiplies all of each."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from passes.share_slices import share_slices
from tests.passes.texts import full, lowered, unchanged

HEAD = """
param n: i32
param tiles: i32
tensormap D: f32[64, 16]
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][16x64]
ring ring(A_s, B_s) stages 4 in_flight 1
"""
LEFT = "left: frag<bf16, 64x64> = ldmatrix A_s[0, group * 64, 0]"
PRODUCT = "acc1: frag<f32, 64x16> = mma.tile acc, left, B_s[0, 0, 0], 64, 0 < k"
BEFORE = f"""{HEAD}
section compute groups 1 as group registers 232 {{
  zero: frag<f32, 64x16> = frag.fill 0.0
  for tile in 0 .. tiles carry (before: frag<f32, 64x16> = zero -> last) {{
    let row: i32 = tile * 64
    for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {{
      consume ring, tile * n + k
      {LEFT}
      {PRODUCT}
      yield acc1
    }}
    store.tile D[row + group * 64, 0], total
    yield total
  }}
}}
"""
AFTER = """
param n: i32
param tiles: i32
tensormap D: f32[64, 16]
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][16x64]
shared sums: f32[1][64x16] swizzle 64
named_barrier sums_sync[1] threads 256
ring ring(A_s, B_s) stages 4 in_flight 1
section compute groups 2 as share registers 152 {
  zero: frag<f32, 64x16> = frag.fill 0.0
  for tile in 0 .. tiles carry (before: frag<f32, 64x16> = zero -> last) {
    let row: i32 = tile * 64
    for k in 0 .. n carry (acc: frag<f32, 64x16> = before -> total) {
      consume ring, tile * n + k
      left2: frag<bf16, 64x32> = ldmatrix A_s[0, 0, share * 32]
      acc1: frag<f32, 64x16> = mma.tile acc, left2, B_s[0, 0, share * 32], 32, 0 < k
      yield acc1
    }
    if 0 < share {
      st.shared sums[share - 1, 0, 0], total
    }
    bar.sync sums_sync[0]
    part: frag<f32, 64x16> = ld.shared sums[0, 0, 0]
    whole: frag<f32, 64x16> = frag.pointwise add, total, part
    bar.sync sums_sync[0]
    if share == 0 {
      store.tile D[row, 0], whole
    }
    yield total
  }
}
"""


def shared(text: str, groups: int = 2) -> str:
    return lowered(share_slices, text, 128, slice_groups=groups, slice_registers=(40, 152))


def edited(*edits: tuple[str, str]) -> str:
    text = BEFORE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def test_two_warpgroups_share_slices() -> None:
    """All wait for them; the first one adds up what they have, and stores it."""
    assert shared(BEFORE).splitlines() == full(AFTER, 256).splitlines()


def test_more_of_them_add_in_one_order() -> None:
    lines = [line.strip() for line in shared(BEFORE, 4).splitlines()]
    at = lines.index("part2: frag<f32, 64x16> = ld.shared sums[1, 0, 0]")
    assert lines[at - 1 : at + 4] == [
        "whole: frag<f32, 64x16> = frag.pointwise add, total, part",
        "part2: frag<f32, 64x16> = ld.shared sums[1, 0, 0]",
        "whole2: frag<f32, 64x16> = frag.pointwise add, whole, part2",
        "part3: frag<f32, 64x16> = ld.shared sums[2, 0, 0]",
        "whole3: frag<f32, 64x16> = frag.pointwise add, whole2, part3",
    ]
    assert "named_barrier sums_sync[1] threads 512" in lines
    assert "store.tile D[row, 0], whole3" in lines


def test_both_operands_in_shared_memory() -> None:
    """Along the rows of one that has K as its rows."""
    text = edited(("bf16[1][16x64]", "bf16[1][64x16]"), (LEFT, ""),
                  ("acc, left, B_s[0, 0, 0], 64, 0 < k",
                   "acc, A_s[0, 0, 0], B_s[0, 0, 0], 64, 0 < k, trans_b=true"))  # fmt: skip
    product = next(line.strip() for line in shared(text).splitlines() if "mma.tile" in line)
    assert product == (
        "acc1: frag<f32, 64x16> = mma.tile acc, A_s[0, 0, share * 32], B_s[0, share * 32, 0], "
        "32, 0 < k, trans_b=true"
    )


def test_what_is_computed_of_a_part() -> None:
    """Columns that all columns share are loaded whole; what is zero behind K's end moves along."""
    more = f"""{LEFT.replace("left:", "raw:")}
      v: frag<f32, 64x1> = frag.fill 2.0
      wide: frag<f32, 64x64> = frag.pointwise mul, raw, v
      inside: frag<pred, 1x64> = frag.below n - k * 64
      kept: frag<f32, 64x64> = frag.pointwise where, inside, wide, 0.0
      left: frag<bf16, 64x64> = frag.cast kept"""
    lines = [line.strip() for line in shared(edited((LEFT, more))).splitlines()]
    assert "wide2: frag<f32, 64x32> = frag.pointwise mul, raw2, v" in lines
    assert "inside2: frag<pred, 1x32> = frag.below n - k * 64 - share * 32" in lines
    assert "left2: frag<bf16, 64x32> = frag.cast kept2" in lines


def test_one_warpgroup_is_left_alone() -> None:
    assert unchanged(share_slices, BEFORE, slice_groups=1)


LEGAL = "supported: one accumulator of fp32 or int32, of one warpgroup's products of whole slices"


OTHER = "shared C_s: f32[1][64x16]\nring other(C_s) stages 2 in_flight 0"
"""What an epilogue could read."""


@pytest.mark.parametrize(
    ("edits", "what"),
    [
        ([("groups 1", "groups 2")], "1 sections of [2] warpgroups"),
        ([(PRODUCT, f"{PRODUCT}\n{PRODUCT.replace('acc1', 'acc2').replace('acc,', 'acc1,')}"),
          ("yield acc1", "yield acc2")], "2 products of a slice"),
        ([("bf16", "f16"), ("f32", "f16")], "sums of f16"),
        ([("for k in", "other: frag<bf16, 64x64> = frag.fill 1.0\nfor k in"),
          (LEFT, "left: frag<bf16, 64x64> = frag.columns other, 0")],
         "left, which is not made of the slice alone"),
        ([("ring ring", f"{OTHER}\nring ring"), ("store.tile", "consume other, tile\nstore.tile")],
         "a step of other behind the products"),
    ],
)  # fmt: skip
def test_refused(edits: list[tuple[str, str]], what: str) -> None:
    with pytest.raises(UnsupportedError) as e:
        shared(edited(*edits))
    said = f"warpgroups that share slices of K, with {what} is not supported; {LEGAL}"
    assert str(e.value) == said


def test_a_part_of_what_stands_in_front_of_the_slices() -> None:
    text = edited(
        ("for k in", "other: frag<f32, 64x64> = frag.fill 1.0\nfor k in"),
        (LEFT, f"{LEFT.replace('left:', 'raw:')}\n"
               "wide: frag<f32, 64x64> = frag.pointwise mul, raw, other\n"
               "left: frag<bf16, 64x64> = frag.cast wide"),
    )  # fmt: skip
    with pytest.raises(UnsupportedError) as e:
        shared(text)
    assert str(e.value) == (
        "a part of other, which is made in front of the slices is not supported; supported: what "
        "is made of each slice"
    )


def test_slices_that_do_not_come_out_even() -> None:
    with pytest.raises(UnsupportedError) as e:
        shared(BEFORE, 3)
    assert str(e.value).endswith(f"slices of 64 of K for 3 warpgroups is not supported; {LEGAL}")


SCALED = edited(
    (LEFT, f"""first: frag<f32, 64x1> = frag.load_global s[k * 2, 0], trans=true
      second: frag<f32, 64x1> = frag.load_global s[k * 2 + 1, 0], trans=true
      {LEFT}"""),
    ("64, 0 < k", "64, 0 < k, by_row=first, second"),
    ("param tiles: i32\n", "param tiles: i32\nglobal s: f32[n * 2, 64] align 4\n"),
)  # fmt: skip
"""Each 32 of K counts times numbers of its rows."""


@pytest.mark.parametrize(("groups", "block"), [(2, "k * 2 + share"), (4, "k * 2 + share // 2")])
def test_each_has_the_numbers_of_its_part(groups: int, block: str) -> None:
    """Two warpgroups one each; of four both halves of a block."""
    lines = [line.strip() for line in shared(SCALED, groups).splitlines()]
    loads = [line for line in lines if "frag.load_global" in line]
    assert loads == [f"first: frag<f32, 64x1> = frag.load_global s[{block}, 0], trans=true"]
    (product,) = (line for line in lines if "mma.tile" in line)
    assert product.endswith("0 < k, by_row=first")


SECOND = "second: frag<f32, 64x1> = frag.load_global s[k * 2 + 1, 0], trans=true"


def test_each_has_the_zero_points_of_its_part() -> None:
    """Beside its scales."""
    zeros = (f"zero{n}: frag<f32, 64x1> = frag.load_global z[k * 2 + {n}, 0], trans=true"
             for n in range(2))  # fmt: skip
    text = SCALED.replace(SECOND, "\n".join((SECOND, *zeros)).replace("2 + 0", "2"))
    text = text.replace("by_row=first, second", "by_row=first, second, zeros=zero0, zero1")
    text = text.replace("\nglobal s", "\nglobal z: f32[n * 2, 64] align 4\nglobal s")
    lines = [line.strip() for line in shared(text).splitlines()]
    assert [line for line in lines if "frag.load_global" in line] == [
        f"{name}: frag<f32, 64x1> = frag.load_global {x}[k * 2 + share, 0], trans=true"
        for name, x in (("first", "s"), ("zero0", "z"))
    ]
    (product,) = (line for line in lines if "mma.tile" in line)
    assert product.endswith("0 < k, by_row=first, zeros=zero0")


def test_blocks_that_are_no_parts() -> None:
    with pytest.raises(UnsupportedError) as error:
        shared(SCALED.replace("64x64]", "64x96]").replace("16x64]", "16x96]")
               .replace("left: frag<bf16, 64x64>", "left: frag<bf16, 64x96>")
               .replace("B_s[0, 0, 0], 64", "B_s[0, 0, 0], 96"), 3)  # fmt: skip
    assert error.value.what == (
        "warpgroups that share slices of K, with 2 scales of a slice for 3 warpgroups"
    )


def test_numbers_that_another_step_has() -> None:
    """What is loaded in front of the loop would be left out of the product."""
    load = "second: frag<f32, 64x1> = frag.load_global s[k * 2 + 1, 0], trans=true\n"
    assert SCALED.count(load) == 1
    text = SCALED.replace(load, "")
    at = text.index("for k in")
    text = text[:at] + load.replace("k * 2 + 1", "1") + "    " + text[at:]
    with pytest.raises(UnsupportedError) as error:
        shared(text, 2)
    assert error.value.what == (
        "warpgroups that share slices of K, with 1 of 2 scales loaded with the slice"
    )
