"""Texts that nvFuser would not have taken: refused by their line, whoever reads them."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.front.known import recorded

A = "[-1, -1], contiguity=[True, True]"


def refused(old: str, new: str) -> str:
    text = definition()
    assert old in text
    with pytest.raises(UnsupportedError) as e:
        recorded(text.replace(old, new, 1))
    return str(e.value)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            "[-1, -2], contiguity=[True, True]",
            "with shape=[-1, -2] is not supported; supported: a list of extents, -1 where one is "
            "symbolic",
        ),
        (
            "[-1, 'a'], contiguity=[True, True]",
            "with shape=[-1, 'a'] is not supported; supported: a list of extents, -1 where one is "
            "symbolic",
        ),
        (
            "[-1, True], contiguity=[True, True]",
            "with shape=[-1, True] is not supported; supported: a list of extents, -1 where one is "
            "symbolic",
        ),
        (
            "[-1, -1], contiguity=[True]",
            "of shape [-1, -1] with contiguity=[True] is not supported; supported: a list of 2 of "
            "True, False and None",
        ),
        (
            "[-1, -1], contiguity=[True, 3]",
            "of shape [-1, -1] with contiguity=[True, 3] is not supported; supported: a list of 2 "
            "of True, False and None",
        ),
        (
            "[-1, -1], contiguity=[True, True], stride_order=[1, 1]",
            "of shape [-1, -1] with stride_order=[1, 1] is not supported; supported: the numbers "
            "[0, 1] in some order",
        ),
        (
            "[-1, -1], contiguity=[True, True], stride_order=[2, 1, 0]",
            "of shape [-1, -1] with stride_order=[2, 1, 0] is not supported; supported: the "
            "numbers [0, 1] in some order",
        ),
    ],
)
def test_an_input_that_contradicts_itself(new: str, message: str) -> None:
    text = definition()
    line = next(n for n, x in enumerate(text.splitlines(), 1) if A in x)
    name = text.splitlines()[line - 1].split()[0]
    assert refused(A, new) == f"line {line}: {name} {message}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fd.ops.linear(x)", "of 1 operands is not supported; supported: of two"),
        (
            "fd.ops.linear(x, 3.0)",
            "of 3.0, which is no tensor, is not supported; supported: tensors",
        ),
        ("fd.ops.linear(fd.define_scalar(3.0), w)", "of scalar, which is no tensor,"),
        ("fd.ops.linear(x, fd.ops.size(w, dim=0))", "of size, which is no tensor,"),
        ("fd.ops.linear(x, fd.ops.neg(fd.define_scalar(2.0)))", "of neg, which is no tensor,"),
    ],
)
def test_a_product_of_no_tensors(call: str, message: str) -> None:
    old = next(x for x in definition().splitlines() if "fd.ops.linear" in x).partition(" = ")[2]
    found = refused(old, call)
    assert found.partition(": ")[2].startswith(f"fd.ops.linear {message}"), found


@pytest.mark.parametrize("op", ["sum", "permute", "max"])
def test_what_is_done_to_tensors_alone(op: str) -> None:
    found = refused("    fd.add_output", f"    e = fd.ops.{op}(2.0, dims=[0])\n    fd.add_output")
    assert f"fd.ops.{op} of 2.0, which is no tensor, is not supported; supported: tensors" in found


def test_numbers_beside_tensors_are_no_numbers() -> None:
    text = definition().replace("fd.ops.linear(x, w)", "fd.ops.linear(fd.ops.mul(x, 2.0), w)")
    assert len(recorded(text).nodes) == len(recorded(definition()).nodes) + 1
