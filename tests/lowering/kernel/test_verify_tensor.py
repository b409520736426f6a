"""What the verifier says of tensor memory."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from tests.blackwell import Tile, final
from tests.pairs import final as final_of_a_pair

KERNEL = """\
kernel k threads 128 cluster 1 target sm_100a grid 1 {
  shared A: bf16[1][128x64] swizzle 128 at 0
  shared word: s32[1][1x1] at 16384
  tensor acc: f32[2][128x64] column 0
  mbarrier full[1] arrivals 1 at 16392
  on %warp 0 { tcgen05.alloc word[0, 0, 0], 128 }
  mma.tensor acc[0, 0, 0], A[0, 0, 0], A[0, 0, 0], 128, 64, 64, false
  x: frag<f32, 128x32, span 2, below 2> = ld.tensor acc[0, 0, 32]
  tcgen05.mma acc[0, 0, 0], A[0, 0, 0], A[0, 0, 0], 64
  y: frag<f32, 128x32, span 2, below 2, async> = tcgen05.ld acc[0, 0, 32]
  z: frag<f32, 128x32, span 2, below 2> = tcgen05.wait.ld y
  tcgen05.fence after
}
"""


def test_well_formed() -> None:
    assert verify(parse_kernel(KERNEL)) == []
    assert verify(final(Tile(by_tma=False))) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (" target sm_100a", "", "sm_90a has no tensor memory, in: tensor acc"),
        ("target sm_100a", "target sm_100a cta_group 2",
         "clusters of 1 CTAs are no groups of 2"),
        ("tcgen05.fence after", "tcgen05.commit full[0], multicast=2",
         "a mask of 0b10 in a cluster of 1"),
        ("f32[2][128x64]", "f32[2][64x64]",
         "f32 of 64x64: a tile is of 32 bits and 128 rows, in: tensor acc"),
        ("f32[2][128x64]", "bf16[2][128x64]",
         "bf16 of 128x64: a tile is of 32 bits and 128 rows, in: tensor acc"),
        ("tensor acc: f32[2][128x64] column 0",
         "tensor acc: f32[2][128x64] column 0\n  tensor more: f32[1][128x32] column 96",
         "acc and more share columns 96 .. 128 of tensor memory"),
        ("column 0", "column 448", "576 columns of tensor memory, of 512"),
        ("word[0, 0, 0], 128", "word[0, 0, 0], 96",
         "an allocation has a power of two of columns from 32 to 512, not 96"),
        ("alloc word", "alloc A", "A is no word"),
        ("tcgen05.mma acc[0, 0, 0]", "tcgen05.mma acc[0, 64, 0]",
         "rows 64 .. 192 of acc are no whole lanes of it"),
        ("tcgen05.mma acc[0, 0, 0]", "tcgen05.mma acc[0, 0, 16]",
         "columns 16 .. 80 of acc, which has 64"),
        ("tcgen05.mma acc[0, 0, 0]", "tcgen05.mma acc[0, 0]",
         "acc has rows and columns, not 1 dimensions"),
        ("A[0, 0, 0], 64\n", "A[0, 0, 0], 24\n",
         "N of a tcgen05.mma of bf16 by bf16 is a multiple of 16 from 16 to 256, not 24"),
        ("128, 64, 64, false", "128, 64, 128, false",
         "a tile of 128x128 does not fit into A of 128x64"),
        ("x: frag<f32, 128x32, span 2, below 2>", "x: frag<f32, 128x32>",
         "x is frag<f32, 128x32>, which is not whole lanes as a warp reads them"),
        ("below 2> = ld", "below 2, async> = ld", "ld.tensor leaves it settled"),
        ("fence after", "fence meanwhile", "a fence meanwhile, not before or after"),
        ("ld.tensor acc", "ld.tensor other", "no storage named other"),
    ],
)  # fmt: skip
def test_broken(old: str, new: str, problem: str) -> None:
    assert KERNEL.count(old) >= 1
    found = verify(parse_kernel(KERNEL.replace(old, new, 1)))
    assert any(problem in p for p in found), found


def test_what_is_in_flight() -> None:
    """A load is waited for before anything else reads it."""
    cast = "w: frag<bf16, 128x32, span 2, below 2> = frag.cast y"
    text = KERNEL.replace("tcgen05.fence after", cast)
    assert any("y is in flight" in p for p in verify(parse_kernel(text)))
    text = KERNEL.replace("2, async> = tcgen05.ld", "2> = tcgen05.ld")
    assert any("tcgen05.ld leaves it in flight" in p for p in verify(parse_kernel(text)))


def test_each_cta_of_a_pair_has_a_half_of_the_columns() -> None:
    """And an instruction has a multiple of 32 of them."""
    pair = print_kernel(final_of_a_pair())
    assert verify(parse_kernel(pair)) == []
    for old, new, why in (
        ("T7[stage_k, 0, 0], 32", "T7[stage_k, 0, 0], 48",
         "a multiple of 32 from 32 to 256, not 48"),
        ("T7[stage_k, 0, 0], 32", "T7[stage_k, 0, 0], 64",
         "a tile of 32x16 does not fit into T7 of 16x32"),
    ):  # fmt: skip
        problems = verify(parse_kernel(pair.replace(old, new)))
        assert any(why in p for p in problems), problems


def test_a_copy_is_of_no_other_group() -> None:
    text = print_kernel(final_of_a_pair())
    alone = parse_kernel(text.replace(" cta_group 2 grid", " grid"))
    problems = {p.partition(", in: ")[0] for p in verify(alone)}
    assert "cta_group 2 of a kernel with cta_group 1" in problems
