"""Texts of definitions with an epilogue, for the tests of all layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = [
    "GELU",
    "RESIDUAL",
    "SILU",
    "TWO_OUTPUTS",
    "WHERE",
    "WIDE_RESIDUAL",
    "chain",
    "epilogue",
    "tensor",
]


def tensor(shape: str = "[-1, -1]", dtype: str = "BFloat16") -> str:
    """A ``define_tensor`` of the given shape."""
    contiguity = ["None" if d.strip() == "1" else "True" for d in shape[1:-1].split(",") if d]
    return (
        f"fd.define_tensor(shape={shape}, contiguity=[{', '.join(contiguity)}], "
        f"dtype=DataType.{dtype})"
    )


def epilogue(*lines: str, outputs: str = "", dtype: str = "BFloat16") -> str:
    """``y = linear(x, w)`` and the given lines, ``NAME: SHAPE[ TYPE]`` for further inputs.

    The last line's result is the output unless ``outputs`` names others.
    """
    inputs = [line for line in lines if ": " in line and "=" not in line]
    body = [f"x = {tensor(dtype=dtype)}", f"w = {tensor(dtype=dtype)}"]
    for line in inputs:
        name, _, rest = line.partition(": ")
        shape, _, kind = rest.partition("] ")
        body.append(f"{name} = {tensor(shape.rstrip(']') + ']', kind or dtype)}")
    if not any("fd.ops.linear" in line or "fd.ops.matmul" in line for line in lines):
        body.append("y = fd.ops.linear(x, w)")
    body += [line for line in lines if line not in inputs]
    names = outputs.split() or [body[-1].split(" = ")[0]]
    body += [f"fd.add_output({name})" for name in names]
    return "def nvfuser_fusion(fd: FusionDefinition):\n" + "".join(f"    {s}\n" for s in body)


def chain(calls: Sequence[str], length: int, *inputs: str) -> str:
    """An epilogue of so many operations in fp32, each of what the one in front of it makes.

    Args:
        calls: of operations, in turn, with ``{0}`` for that.
        length: how many there are.
        inputs: further ones that the calls read, as for :func:`epilogue`.
    """
    names = ["f", *(f"v{n}" for n in range(length))]
    lines = [
        f"{name} = fd.ops.{calls[n % len(calls)].format(read)}"
        for n, (read, name) in enumerate(pairwise(names))
    ]
    first = "f = fd.ops.cast(y, dtype=DataType.Float)"
    last = f"d = fd.ops.cast({names[-1]}, dtype=DataType.BFloat16)"
    return epilogue(*inputs, first, *lines, last)


GELU = epilogue(
    "b: [-1]",
    "y = fd.ops.linear(x, w, b)",
    "f = fd.ops.cast(y, dtype=DataType.Float)",
    "f2 = fd.ops.mul(f, f)",
    "f3 = fd.ops.mul(f2, f)",
    "t = fd.ops.mul(f3, 0.044715)",
    "u = fd.ops.add(f, t)",
    "v = fd.ops.mul(u, 0.7978845608028654)",
    "h = fd.ops.tanh(v)",
    "g = fd.ops.add(h, 1.0)",
    "k = fd.ops.mul(f, 0.5)",
    "m = fd.ops.mul(k, g)",
    "d = fd.ops.cast(m, dtype=DataType.BFloat16)",
)
RESIDUAL = epilogue(
    "r: [-1, -1]", "s = fd.ops.add(y, r)", "d = fd.ops.cast(s, dtype=DataType.BFloat16)"
)
WIDE_RESIDUAL = RESIDUAL.replace("linear(x, w)", "linear(x, w, dtype=DataType.Float)")
"""The same of sums that are not rounded: fewer tensors."""
SILU = epilogue("d = fd.ops.silu(y)")
WHERE = epilogue(
    "r: [-1, -1]",
    "c = fd.ops.gt(y, r)",
    "n = fd.ops.mul(y, 0.01)",
    "d = fd.ops.where(c, n, r)",
)
TWO_OUTPUTS = epilogue(
    "b: [-1]",
    "s = fd.ops.add(y, b)",
    "d = fd.ops.relu(s)",
    outputs="y d",
)
