"""Scales of blocks along K: numbers that stand inside the sum of a product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.target.mma import MmaForm
from wsched.fusion import DataType, Scale
from wsched.fusion.names import COLS, ROWS, SUMMED, in_blocks
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.layout import Axes
from wsched.importer.operands import dtype_of
from wsched.importer.scaled import BLOCKS, SCALES

__all__ = ["BlockScales", "block_scales"]


@dataclass(frozen=True, slots=True)
class BlockScales:
    """Scales of the operands of a product, by their names in the definition.

    Args:
        pair: of the operand that has the rows, and of the other one.
        axes: of their tensors, as the caller passes them.
    """

    pair: tuple[Scale, Scale]
    axes: Mapping[str, Axes]


def block_scales(
    definition: Definition, matmuls: tuple[Node, ...], form: MmaForm, dims: Axes
) -> BlockScales | None:
    """The scales of a matmul's blocks; None where none has any.

    Args:
        definition: where they are.
        matmuls: of the fusion.
        form: how the matrix instruction multiplies their operands.
        dims: of the results.

    Raises:
        UnsupportedError: several matmuls, or batches; blocks of another size than sums are promoted
            after, or none are; scales that are no matrices of fp32.
    """
    asked = [n for n in matmuls if n.get(BLOCKS) is not None]
    if not asked:
        return None
    (node, *others), blocks = asked, asked[0].get(BLOCKS)
    what = f"scales of blocks {list(blocks) if isinstance(blocks, tuple) else blocks}"
    if others or len(matmuls) > 1 or dims != (ROWS, COLS):
        raise UnsupportedError(f"{what} of {len(matmuls)} matmuls along {', '.join(dims)}",
                               "those of one matmul of matrices")  # fmt: skip
    span = form.promotion
    if not span or node.get("use_fast_accum"):
        why = "whose sums stay in the tensor core" if span else f"of {form.types}"
        raise UnsupportedError(f"{what} of a product {why}",
                               "those of floats of 8 bits, whose sums are promoted")  # fmt: skip
    if not isinstance(blocks, tuple) or len(blocks) != 2 or not {*blocks} <= {1, span}:
        raise UnsupportedError(what, f"1 or {span} of rows and of columns, {span} of {SUMMED}")
    along, found, axes = in_blocks(SUMMED, span), list[Scale](), dict[str, Axes]()
    for name, axis, rows in zip(SCALES, (ROWS, COLS), blocks, strict=True):
        source = node.get(name)
        tensor = definition.node(source.name) if isinstance(source, Ref) else None
        shape = tensor.get("shape") if tensor is not None else None
        matrix = isinstance(shape, tuple) and len(shape) == 2
        if tensor is None or not matrix or dtype_of(tensor) is not DataType.Float:
            raise UnsupportedError(f"{what} in {source}", "inputs of fp32 with two dimensions")
        assert isinstance(rows, int)
        found.append(Scale(tensor.results[0], rows))
        own = in_blocks(axis, rows), along
        axes[tensor.results[0]] = own if axis == ROWS else own[::-1]
    if len(axes) < len(found):
        raise UnsupportedError(f"{what} of both operands in {source}", "a tensor for each")
    return BlockScales((found[0], found[1]), axes)
