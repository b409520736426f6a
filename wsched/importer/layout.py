"""How the tensors of a definition lie in memory: stride orders and permutations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lowering.ground.errors import UnsupportedError
from wsched.fusion.names import COLS, ROWS
from wsched.importer.definition import Node, Value, text_of

__all__ = [
    "Axes", "Result", "broadcast_flags", "in_memory", "input_axes", "moves_no_data",
    "operand_axes", "result_layout", "shape_of",
]  # fmt: skip

Axes = tuple[str, ...]
"""Names of extents, in the order of a shape or of memory, there the contiguous one last."""

T = TypeVar("T")

_MOVES = ("permute", "stride_order")


@dataclass(frozen=True, slots=True)
class Result:
    """A result: its axes in the caller's order, and in the order of memory, contiguous one last."""

    axes: Axes
    memory: Axes


def input_axes(dims: Axes, shape: Sequence[Value], ones: frozenset[str]) -> Axes:
    """The axes of an input of an epilogue: "1" where it repeats along a dimension of the result.

    A matrix of a batch of one is all of the batch, and is loaded as one.

    Args:
        dims: of the result that its own are.
        shape: of the input.
        ones: dimensions that are 1 in the result.
    """
    repeated = {d for d, size in zip(dims, shape, strict=True) if size == 1}
    return dims if repeated <= ones else tuple("1" if d in repeated else d for d in dims)


def moves_no_data(node: Node) -> bool:
    """Whether an operation only says how its operand is looked at or how it lies in memory."""
    return node.op in _MOVES


def in_memory(node: Node, axes: Axes, call: str) -> Axes:
    """The axes of an input in the order of memory, contiguous one last.

    ``stride_order`` gives each dimension's rank by stride, 0 the smallest. Batches lie where they
    lie: a kernel has their strides. The faster one of the matrix's dimensions is what it reads side
    by side, and where that is not so a copy of it: the tensors of a call decide
    (:mod:`wsched.run.layout`).

    Raises:
        UnsupportedError: another number of dimensions, or a tensor on the CPU.
    """
    name, shape = node.results[0], node.get("shape")
    if not isinstance(shape, tuple) or len(shape) != len(axes):
        most = ", batches in at most two dimensions" * (len(axes) == 4)
        raise UnsupportedError(
            f"{call} of {name} with shape {text_of(shape)}", shape_of(axes) + most
        )
    if node.get("is_cpu", False):
        raise UnsupportedError(f"{name} with is_cpu=True", "tensors on the GPU")
    order = node.get("stride_order") or _row_major(axes)
    ranks = [int(str(rank)) for rank in order] if isinstance(order, tuple) else []
    if sorted(ranks) != list(range(len(axes))):
        what = f"{name} with stride_order={text_of(order)}"
        raise UnsupportedError(what, f"the numbers {text_of(_row_major(axes)[::-1])} in some order")
    return axes if ranks[-1] < ranks[-2] else _exchanged(axes)


def shape_of(axes: Axes) -> str:
    """The names of axes as a shape: ``[M, K]``."""
    return f"[{', '.join(axes)}]"


def operand_axes(node: Node, axes: Axes) -> Axes:
    """Axes of what an operation that moves no data was applied to, given those of its result."""
    if node.op == "broadcast":
        new = broadcast_flags(node)
        if len(new) != len(axes) or any(new[-2:]):
            name, flags = node.results[0], text_of(new)
            what = f"{name}, which fd.ops.broadcast makes with is_broadcast_dim={flags},"
            raise UnsupportedError(what, "new dimensions outside of matrices")
        return tuple(axis for axis, flag in zip(axes, new, strict=True) if not flag)
    order = _argument(node)
    exchanged = _exchanged(tuple(range(len(axes))))
    if node.op == "permute" and order != exchanged:
        raise UnsupportedError(
            f"fd.ops.permute with dims={text_of(order)}", f"dims={text_of(exchanged)}"
        )
    return _exchanged(axes) if node.op == "permute" else axes


def broadcast_flags(node: Node) -> tuple[bool, ...]:
    """Which dimensions a broadcast makes."""
    new = node.get("is_broadcast_dim")
    return tuple(flag is True for flag in new) if isinstance(new, tuple) else ()


def result_layout(moves: Sequence[Node], axes: Axes = (ROWS, COLS)) -> Result:
    """The result of a matmul, of dimensions ``axes``, after operations that move no data.

    A permutation's result is stored row by row of its own. To nvFuser it is a view: where that is
    asked for, a kernel stores what it is of (``front/instead.py``).

    Raises:
        UnsupportedError: a permutation or stride order of other than the last two dimensions.
    """
    found = Result(axes, axes)
    for node in moves:
        axes = operand_axes(node, found.axes)
        order = _argument(node) if node.op == "stride_order" else _row_major(axes)
        what = f"fd.ops.stride_order with stride_order={text_of(order)}"
        found = Result(axes, _ordered(axes, order, what))
    return found


def _argument(node: Node) -> Value:
    """The permutation or stride order of an operation."""
    return node.get("dims" if node.op == "permute" else "stride_order")


def _ordered(axes: Axes, order: Value, what: str) -> Axes:
    rows = _row_major(axes)
    columns = _exchanged(rows)
    if order not in (rows, columns):
        raise UnsupportedError(what, f"{text_of(rows)}, {text_of(columns)}")
    return axes if order == rows else _exchanged(axes)


def _row_major(axes: Axes) -> tuple[int, ...]:
    """The stride order of a tensor whose last dimension is contiguous, and so on."""
    return tuple(reversed(range(len(axes))))


def _exchanged(axes: tuple[T, ...]) -> tuple[T, ...]:
    """With the last two exchanged: a matrix transposed, whatever is outside of it."""
    return (*axes[:-2], *axes[:-3:-1])
