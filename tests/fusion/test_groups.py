"""Kernels that share groups out: each group is exactly one kernel's."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from lowering.ground.expr import Var, evaluate
from tests.lowering.ground.expressions import budget
from wsched.fusion import Sharing

SIZE = Var("size")
LENGTHS = st.lists(st.integers(1, 40).map(lambda n: 8 * n), min_size=2, max_size=5)


def takers(lengths: tuple[int, ...], size: int) -> list[int]:
    """The kernels that take a group."""
    takes = (Sharing(lengths, own).takes(SIZE) for own in range(len(lengths)))
    return [own for own, e in enumerate(takes) if evaluate(e, {"size": size})]


def padded(size: int, length: int) -> int:
    return -(-size // length) * length


@drawn(LENGTHS.map(tuple), st.integers(0, 5000))
@budget(300)
def test_one_kernel_takes_a_group(lengths: tuple[int, ...], size: int) -> None:
    """The one that pads it least, of equals the first."""
    (own,) = takers(lengths, size)
    least = [padded(size, n) for n in lengths]
    assert own == least.index(min(least))


def test_every_size_of_a_few_lengths() -> None:
    for lengths in ((128, 144, 168), (168, 144, 128), (64, 64), (8, 16)):
        assert all(len(takers(lengths, size)) == 1 for size in range(2100))


@pytest.mark.parametrize("lengths", [(144, 128, 64), (64, 128), (72, 64, 144), (8, 8)])
def test_each_kernel_takes_some_group_or_is_refused(lengths: tuple[int, ...]) -> None:
    taken = {own for size in range(1, 2100) for own in takers(lengths, size)}
    idle = [n for own, n in enumerate(lengths) if own not in taken]
    wanted = f"tiles of {idle[0]} never pad a group less than those in front" if idle else ""
    assert Sharing(lengths).problem == wanted


def test_alone_there_is_nothing_to_share() -> None:
    assert not Sharing()
    assert takers((64,), 17) == [0]
