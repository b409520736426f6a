"""Walks: dimensions that run on are one, rows and columns by how tensors lie."""

from __future__ import annotations

import math

import pytest

from lowering.sweep.tile import tile_of
from tests.lowering.sweep.sweeps import BF16, BOOL
from wsched.fusion.sweep import Place, Sweep, Term
from wsched.run.walk import Lies, Walk, _lower_words, by_rows, walk_of


def copy(rank: int, order: tuple[int, ...]) -> Sweep:
    whole = tuple(range(rank))
    term = Term("x", "input", BF16, (), frozenset(whole))
    return Sweep(rank, (term,), (Place("x", whole, whole),), (Place("x", whole, order),))


def walked(sizes: tuple[int, ...], *strides: tuple[int, ...], address: int = 256) -> Walk | None:
    """A copy from a tensor of these strides to one of those."""
    order = tuple(sorted(range(len(sizes)), key=lambda d: -strides[1][d]))
    lies = [Lies(dict(enumerate(s)), 2, address) for s in strides]
    return walk_of(copy(len(sizes), order), sizes, lies)


@pytest.mark.parametrize(
    ("sizes", "source", "target", "wanted", "accesses"),
    [
        # all of it is one run: as many columns as a thread has
        ((6, 4, 8), (32, 8, 1), (32, 8, 1), (24, 8), [(16, False), (16, False)]),
        ((3, 5), (5, 1), (5, 1), (15, 1), [(2, False), (2, False)]),
        ((3, 4), (4, 1), (4, 1), (3, 4), [(8, False), (8, False)]),
        # odd rows that fill a warp, and as many as fill a CTA
        ((9, 33), (33, 1), (33, 1), (9, 33), [(2, False), (2, False)]),
        ((3, 33), (33, 1), (33, 1), (99, 1), [(2, False), (2, False)]),
        ((4097,), (1,), (1,), (4097, 1), [(2, False), (2, False)]),
        # rows with room between them
        ((6, 4, 8), (64, 16, 1), (32, 8, 1), (24, 8), [(16, False), (16, False)]),
        ((6, 4, 8), (48, 9, 1), (32, 8, 1), (4, 6, 8), [(2, False), (16, False)]),
        # heads back to rows: the longest of the other dimensions are the rows
        ((4, 64, 2, 16), (2048, 16, 1024, 1), (2048, 32, 16, 1), (4, 2, 64, 16),
         [(16, False), (16, False)]),
        # transposed: the source is read turned
        ((40, 24), (1, 40), (24, 1), (40, 24), [(2, True), (16, False)]),
        ((3, 40, 24), (960, 1, 40), (960, 24, 1), (3, 40, 24), [(2, True), (16, False)]),
        # what lies alike in another order is one run, too
        ((40, 24), (1, 40), (1, 40), (120, 8), [(16, False), (16, False)]),
        # sizes of 1 do not count
        ((1, 1), (7, 5), (1, 1), (1, 1), [(2, False), (2, False)]),
        ((1, 24, 1), (9, 1, 9), (24, 1, 1), (3, 8), [(16, False), (16, False)]),
    ],
)  # fmt: skip
def test_how_it_goes(
    sizes: tuple[int, ...],
    source: tuple[int, ...],
    target: tuple[int, ...],
    wanted: tuple[int, ...],
    accesses: list[tuple[int, bool]],
) -> None:
    walk = walked(sizes, source, target)
    assert walk is not None
    assert walk.sizes == wanted
    assert [(a.align, a.turned) for a in walk.accesses] == accesses


def test_addresses_count() -> None:
    walk = walked((6, 4, 8), (64, 16, 1), (32, 8, 1), address=24)
    assert walk is not None and [a.align for a in walk.accesses] == [8, 8]


def test_nothing_is_contiguous() -> None:
    assert walked((6, 8), (16, 2), (8, 1)) is None
    assert walked((8,), (2,), (1,)) is None


@pytest.mark.parametrize(
    ("sizes", "address", "span"),
    [
        ((24, 8), 256, 8), ((3, 4), 256, 4), ((3, 5), 256, 1), ((63, 33), 256, 1),
        ((4097, 1), 256, 1), ((64, 64), 250, 1), ((64, 64), 248, 4),
    ],
)  # fmt: skip
def test_a_thread_has_what_it_accesses_at_once(
    sizes: tuple[int, ...], address: int, span: int
) -> None:
    """So that the accesses of a warp lie side by side."""
    walk = walked(sizes, (sizes[1], 1), (sizes[1], 1), address=address)
    assert walk is not None and walk.span == span
    tile = tile_of(walk.sizes, False, walk.span)
    held = tile.layout.held(tile.rows, tile.columns)
    assert tile.span == span and math.prod(held) <= 32
    assert tile.blocks <= 4  # each with addresses of its own
    assert tile.lanes * span >= min(walk.sizes[1], 32)


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [((8, 32), (8, 32)), ((7, 32), (56, 4)), ((8, 31), (62, 4)), ((8, 33), (8, 33)),
     ((7, 33), (231, 1))],
)  # fmt: skip
def test_rows_that_fill_a_warp_and_as_many_as_fill_a_cta(
    sizes: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """Each from the first number that is enough; at this address threads access four at once."""
    walk = walked(sizes, (sizes[1], 1), (sizes[1], 1), address=24)
    assert walk is not None and walk.sizes == wanted


def test_a_row_decides_nothing() -> None:
    """A bias is in the L1, whatever its address; rows of matrices as they lie do decide."""
    terms = (
        Term("x", "input", BF16, (), frozenset((0, 1))),
        Term("r", "input", BF16, (), frozenset((1,))),
        Term("y", "add", BF16, ("x", "r"), frozenset((0, 1))),
    )
    reads = (Place("x", (0, 1)), Place("r", (1,)))
    sweep = Sweep(2, terms, reads, (Place("y", (0, 1), (0, 1)),))
    for pitch, span in ((64, 8), (66, 2), (65, 1)):
        matrix, row = {0: 64, 1: 1}, Lies({1: 1}, 2, 34)
        walk = walk_of(sweep, (9, 64), [Lies({0: pitch, 1: 1}, 2, 0), row, Lies(matrix, 2, 0)])
        assert walk is not None and walk.span == span


def test_accesses_of_warps() -> None:
    """Bytes of each tensor, those of an access by 32 lanes, and whether these lie apart."""
    walk = walked((40, 24), (1, 40), (24, 1))
    assert walk is not None
    assert list(walk.accessed()) == [(1920, 64, True), (1920, 512, False)]
    odd = walked((63, 33), (33, 1), (33, 1))
    assert odd is not None and list(odd.accessed()) == [(4158, 64, False)] * 2


def test_tensors_that_are_not_made_yet() -> None:
    """Lie row by row, results in their order."""
    assert by_rows(copy(2, (0, 1)), (6, 8)) == walked((6, 8), (8, 1), (8, 1), address=0)
    assert by_rows(copy(2, (1, 0)), (9, 7)) == walked((9, 7), (7, 1), (1, 9), address=0)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_index_of_64_bits_is_read_by_its_lower_words(device: str) -> None:
    """Where it is: nothing is copied, and a word is half as far as an element."""
    torch = pytest.importorskip("torch")
    whole = torch.tensor([5, -1, 7, 2**31 - 1, -2, 0], device=device)
    given = whole[1::2]
    found = _lower_words(given, [3], [4])
    assert (found.device, found.dtype, found.storage_offset()) == (whole.device, torch.int32, 2)
    assert found.data_ptr() == given.data_ptr()
    if device == "cpu":
        assert found.tolist() == [-1, 2**31 - 1, 0]


def test_what_depends_on_the_place_is_a_dimension_of_its_own() -> None:
    """Though all tensors have it and its neighbours, or none of them."""
    none = frozenset[int]()
    terms = (
        Term("x", "input", BF16, (), none),
        Term("y", "input", BF16, (), none),
        Term("is_first", "first", BOOL, (), frozenset((1,))),
        Term("made", "where", BF16, ("is_first", "x", "y"), frozenset((1,))),
    )
    reads = Place("x", ()), Place("y", ())
    sweep = Sweep(3, terms, reads, (Place("made", (None, 1, None), (0, 1, 2)),))
    sweep = sweep.repeating({0: 3, 2: 8})
    assert sweep.sizes([(), ()]) == (3, 2, 8)
    walk = by_rows(sweep, (3, 2, 8))
    assert walk is not None and sorted(walk.sizes) == [2, 3, 8]
    (along,) = walk.sweep.term("is_first").dims
    assert walk.sizes[along] == 2 and walk.sweep.results[0].dims == (0, 1, 2)


@pytest.mark.parametrize(("heads", "rows"), [(32, 32), (31, 64)])
def test_rows_share_what_they_lack(heads: int, rows: int) -> None:
    """Heads of queries by a table of positions: where a tile is full of them they are its rows."""
    every, table = frozenset(range(3)), frozenset((1, 2))
    terms = (
        Term("x", "input", BF16, (), every),
        Term("y", "input", BF16, (), table),
        Term("made", "mul", BF16, ("x", "y"), every),
    )
    whole = tuple(range(3))
    reads = Place("x", whole), Place("y", (None, 1, 2))
    sweep = Sweep(3, terms, reads, (Place("made", whole, whole),))
    sizes = heads, 64, 16
    lies = [
        Lies({0: 16, 1: heads * 16, 2: 1}, 2, 0), Lies({1: 16, 2: 1}, 2, 0),
        Lies({0: 64 * 16, 1: 16, 2: 1}, 2, 0),
    ]  # fmt: skip
    found = walk_of(sweep, sizes, lies)
    assert found is not None and found.sizes[-2:] == (rows, 16)
