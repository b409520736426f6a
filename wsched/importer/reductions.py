"""Results of a definition that are reductions of what the epilogue computes."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Definition, Ref, Value, text_of
from wsched.importer.dimensions import reduced_dims
from wsched.importer.steps import REDUCED, Dims

__all__ = ["Reduced", "reduced_result"]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A result that is a reduction.

    Args:
        op: as nvFuser calls it, a key of ``REDUCED``.
        value: what is reduced.
        over: dimensions of the matmul's result that are reduced.
        axes: of the result; ``"1"`` where a reduced dimension is kept.
        dtype: of the reduction, None for that of ``value``.
        cast: the type that it is cast to; None where it is not.
    """

    op: str
    value: Value
    over: frozenset[str]
    axes: Dims
    dtype: DataType | None
    cast: DataType | None


def reduced_result(definition: Definition, name: str, dims: Dims) -> Reduced | None:
    """The reduction that an output is, through a cast; None where it is none.

    Args:
        definition: whose output it is.
        name: of the output.
        dims: dimensions of the matmul's result.

    Raises:
        UnsupportedError: a reduction over none of the last two dimensions.
    """
    node, to = definition.node(name), None
    if node is not None and node.op == "cast" and isinstance(node.operands[0], Ref):
        asked = node.get("dtype")
        to = asked if isinstance(asked, DataType) else None
        node = definition.node(node.operands[0].name)
    if node is None or node.op not in REDUCED:
        return None
    over = reduced_dims(node, len(dims))
    call = f"fd.ops.{node.op}"
    if not {len(dims) - 1, len(dims) - 2} & over:
        what = f"{call} with dims={text_of(tuple(sorted(over)))}"
        raise UnsupportedError(what, "reductions over rows or columns of the result, or both")
    kept = node.get("keepdim") is True
    axes = tuple("1" if p in over else d for p, d in enumerate(dims) if kept or p not in over)
    dtype = node.get("dtype")
    made = dtype if isinstance(dtype, DataType) else None
    return Reduced(node.op, node.operands[0], frozenset(dims[p] for p in over), axes, made, to)
