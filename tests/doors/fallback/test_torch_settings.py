"""Definitions as torch computes them: what they make does not depend on torch's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import wsched
from tests.told import Told
from wsched.doors.fallback import interpret
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

HEAD = "def nvfuser_fusion(fd : FusionDefinition) -> None :"
FLOATS = "shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float"
X = f"x = fd.define_tensor({FLOATS})"
N = "n = fd.define_scalar(None, dtype=DataType.Double)"


def text(*lines: str) -> str:
    return "\n    ".join([HEAD, *lines]) + "\n"


LINEAR = text(X, f"w = fd.define_tensor({FLOATS})", "fd.add_output(fd.ops.linear(x, w))")
MADE = text(
    X, N, "s = fd.ops.sqrt(fd.ops.add(n, 2.0))",
    "c = fd.ops.full([4, 4], fill_value=s, dtype=DataType.Float)",
    "i = fd.ops.broadcast(fd.ops.iota(4, dtype=DataType.Int), is_broadcast_dim=[True, False])",
    "h = fd.ops.mul(i, 0.5)",
    "y = fd.ops.cumsum(fd.ops.mul(fd.ops.add(x, h), c), 1)",
    "fd.add_output(y)", "fd.add_output(h)",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_autocast(dtype: str) -> None:
    """A product of Float is one, of all bits."""
    x, w = torch.eye(4) / 3, torch.eye(4)
    with torch.autocast("cpu", getattr(torch, dtype)):
        (found,) = wsched.execute(LINEAR, [x, w])
    torch.testing.assert_close(found, x, rtol=0, atol=0)


@contextmanager
def default_type(dtype: Any) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
        assert torch.get_default_dtype() is dtype
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_the_default_type(dtype: str) -> None:
    inputs = [torch.ones(4, 4), 2.0]
    expected = wsched.execute(MADE, inputs)
    with default_type(getattr(torch, dtype)):
        found = wsched.execute(MADE, inputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_the_default_device() -> None:
    """What is made lies where the inputs do, and a number of numbers is one."""
    inputs = [torch.ones(4, 4), 2.0]
    expected = wsched.execute(MADE, inputs)
    with torch.device("meta"):
        found = wsched.execute(MADE, inputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_numbers_are_filled_in_where_tensors_are() -> None:
    """A captured graph has no copies from the host."""
    lines = "m = fd.ops.gt(x, 0.5)", "y = fd.ops.maximum(fd.ops.where(m, 1.0, 0.0), 0.5)"
    words = "z = fd.ops.logical_right_shift(fd.ops.cast(x, dtype=DataType.Int), 1)"
    definition = record_text(text(X, *lines, words, "fd.add_output(y)", "fd.add_output(z)"))
    with Told() as told:
        interpret(definition, [torch.ones(4, 4)])
    assert not {"tensor", "as_tensor"}.intersection(told.names)


@pytest.mark.parametrize(
    ("x", "y", "dtype"),
    [("1.0", "0.0", "float64"), ("1", "0.0", "float64"), ("1", "0", "int64")],
)
def test_one_of_two_numbers(x: str, y: str, dtype: str) -> None:
    """The types that nvFuser gives."""
    lines = X, "m = fd.ops.gt(x, 0.0)", f"fd.add_output(fd.ops.where(m, {x}, {y}))"
    (found,) = interpret(record_text(text(*lines)), [torch.ones(4, 4)])
    assert found.dtype is getattr(torch, dtype) and bool((found == 1).all())


def test_fractions_of_double() -> None:
    made = "fd.add_output(fd.ops.iota(1000, 0.0, 0.1, dtype=DataType.Double))"
    (found,) = interpret(record_text(text(made)), [])
    assert torch.equal(found, torch.arange(1000, dtype=torch.float64) * 0.1)
