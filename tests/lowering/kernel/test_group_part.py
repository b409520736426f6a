"""A kernel's part of a group: its text, what it may say, and the arithmetic that it stands for."""

from __future__ import annotations

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from lowering.ground.expr import I32_MAX, Var, evaluate
from lowering.ground.sharing import INTEGERS, WHOLE, Sharing, sizes_of_parts, ways
from lowering.kernel.group_part import GroupPart, arithmetic
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel
from lowering.machine.errors import MachineError
from tests.lowering.ground.expressions import budget

KERNEL = """\
kernel k threads 32 cluster 1 share 1 of 40, 32 grid 1 {
  param M: i32
  global found: s32[2]
  group.part begin: i32, size: i32 of M
  elect {
    st.global.scalar found[0], begin
    st.global.scalar found[1], size
  }
}
"""

LENGTHS = st.lists(st.integers(1, 32).map(lambda n: 8 * n), min_size=2, max_size=5, unique=True)
ADMITTED = 0x7F000000
"""Sizes that a launch may have are less."""


def test_text() -> None:
    kernel = parse_kernel(KERNEL)
    assert kernel.share == Sharing((40, 32), 1) and print_kernel(kernel) == KERNEL
    assert not [*verify(kernel)]
    assert parse_kernel(KERNEL.replace("share 1 of 40, 32 ", "")).share is WHOLE


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("share 1 of 40, 32 ", "", "it has no share, so no part of a group"),
        ("40, 32", "40, 80", "share 1 of 40, 80: tiles of 80 never pad a group less than those in "
         "front"),
        ("1 of", "2 of", "share 2 of 40, 32: there are kernels 0 to 1, not 2"),
        ("begin: i32", "begin: i64", "begin is i64, elements of a group are counted by i32"),
        ("of M", "of M < 3", "M < 3 is pred, elements of a group are counted by i32"),
    ],
)  # fmt: skip
def test_refused(before: str, after: str, why: str) -> None:
    assert any(why in said for said in verify(parse_kernel(KERNEL.replace(before, after))))


@pytest.mark.parametrize(("rows", "wanted"), [(172, (80, 92)), (40, (0, 0)), (64, (0, 64))])
def test_on_the_machine(rows: int, wanted: tuple[int, int]) -> None:
    """172 rows are two tiles of 40 and three of 32; 40 are the other kernel's."""
    numpy = pytest.importorskip("numpy")
    found = numpy.full(2, -1, numpy.int32)
    run_kernel(parse_kernel(KERNEL), {"found": found}, {"M": rows}, 1)
    assert (*found.tolist(),) == wanted


def test_a_group_of_less_than_nothing() -> None:
    numpy = pytest.importorskip("numpy")
    arrays = {"found": numpy.zeros(2, numpy.int32)}
    kernel = parse_kernel(KERNEL.replace("of M", "of M - 9"))
    with pytest.raises(MachineError, match="M - 9 is -1, a group has no fewer elements than none"):
        run_kernel(kernel, arrays, {"M": 8}, 1)


@drawn(LENGTHS, st.data())
@budget(300)
def test_the_arithmetic_is_the_rule(lengths: list[int], data: st.DataObject) -> None:
    """Step by step, in 32 bits, of any size that a launch may have; a part lies in its group."""
    share = Sharing((*lengths,), data.draw(st.integers(0, len(lengths) - 1)))
    small = st.integers(0, 16 * max(lengths))
    size = data.draw(small | st.integers(0, ADMITTED) | st.just(ADMITTED))
    lets = arithmetic(GroupPart(Var("begin"), Var("part"), Var("whole")), share)
    env = {"whole": size}
    for let in lets:
        assert let.var.name not in env
        env[let.var.name] = evaluate(let.value, env)
        assert -I32_MAX <= env[let.var.name] <= I32_MAX
    part = share.part(size, INTEGERS)
    assert (env["begin"], env["part"]) == (part.begin, part.size)
    assert 0 <= part.begin <= part.begin + part.size <= size


@drawn(LENGTHS)
@budget(50)
def test_sizes_that_are_divided_up_in_every_way(lengths: list[int]) -> None:
    """What is best anywhere up to some tiles is best at one of these sizes."""

    def best(size: int) -> tuple[int, ...]:
        return (*min(ways((*lengths,), size, INTEGERS), key=lambda w: w.padded).parts,)

    found = {best(size) for size in sizes_of_parts(Sharing((*lengths,)))}
    assert found == {best(size) for size in range(1, 8 * max(lengths) + 1)}


def test_no_sizes_of_a_kernel_without_a_share() -> None:
    assert sizes_of_parts(WHOLE) == ()
