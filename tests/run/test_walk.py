"""Walks: dimensions that run on are one, rows and columns by how tensors lie."""

from __future__ import annotations

import pytest

from tests.lowering.sweep.sweeps import BF16
from wsched.fusion.sweep import Place, Sweep, Term
from wsched.run.walk import Lies, Walk, walk_of


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
        ((3, 5), (5, 1), (5, 1), (1, 15), [(2, False), (2, False)]),
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
