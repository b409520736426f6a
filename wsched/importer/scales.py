"""Scales of blocks along K: numbers that stand inside the sum of a product.

``scaled_mm`` has them of both operands, of as much of K as sums are promoted after; ``linear`` of
the second one, ``fd.ops.linear(x, w, scale_b=s, group=128)``: a number for each row of the weights
and each group of K, s[N, K / 128]; with ``zero_b=z`` of as many, of ``w - z``. All of them are
words of wsched's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.target.mma import MmaForm
from wsched.fusion import DataType, Scale, Scales, type_of
from wsched.fusion.names import COLS, ROWS, SUMMED, in_blocks
from wsched.importer.definition import Definition, Node, Ref, Value
from wsched.importer.layout import Axes
from wsched.importer.operands import dtype_of
from wsched.importer.scaled import BLOCKS, SCALES

__all__ = ["GROUP", "GROUPS", "ZERO", "BlockScales", "block_scales"]

GROUP, ZERO, GROUPS = "group", "zero_b", (32, 64, 128)
"""Of a ``linear``: K of a group, and zero points; the sizes that there are of groups, of whole
instructions of every type.
"""


_OF_GROUPS = (DataType.Float, DataType.BFloat16, DataType.Half)
"""Their types, of groups; they are multiplied in fp32."""


@dataclass(frozen=True, slots=True)
class BlockScales:
    """Scales of the operands of a product, by their names in the definition.

    Args:
        pair: of the operand that has the rows, and of the other one.
        axes: of their tensors, as the caller passes them.
        span: K of a block.
    """

    pair: Scales
    axes: Mapping[str, Axes]
    span: int


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
    words = (BLOCKS, GROUP, SCALES[1], ZERO)
    asked = [n for n in matmuls if any(n.get(x) is not None for x in words)]
    if not asked:
        return None
    (node, *others), blocks = asked, asked[0].get(BLOCKS)
    what = f"scales of blocks {list(blocks) if isinstance(blocks, tuple) else blocks}"
    what = f"scales of groups of {node.get(GROUP)}" if blocks is None else what
    if others or len(matmuls) > 1 or dims != (ROWS, COLS):
        raise UnsupportedError(f"{what} of {len(matmuls)} matmuls along {', '.join(dims)}",
                               "those of one matmul of matrices")  # fmt: skip
    found = _of_groups if blocks is None else _of_blocks
    return found(definition, node, form, what)


def _of_groups(definition: Definition, node: Node, form: MmaForm, what: str) -> BlockScales:
    """Those of the weights of a linear."""
    span, zero = node.get(GROUP), node.get(ZERO)
    if type_of(form.accumulators[0]) is not DataType.Float or node.op != "linear":
        raise UnsupportedError(f"{what} of fd.ops.{node.op} of {form.types}",
                               "those of a linear whose sums are fp32")  # fmt: skip
    if (
        not isinstance(span, int)
        or span not in GROUPS
        or (form.promotion and span > form.promotion)
    ):
        most = form.promotion or GROUPS[-1]
        raise UnsupportedError(what, f"groups of {', '.join(str(n) for n in GROUPS if n <= most)}")
    name, axes = _numbers(definition, node.get(SCALES[1]), span, what)
    if zero is None:
        return BlockScales((None, Scale(name, 1)), {name: axes}, span)
    shift, own = _numbers(definition, zero, span, f"zero points of groups of {span}")
    if shift == name:
        raise UnsupportedError(f"{what} and zero points in {name}", "a tensor for each")
    return BlockScales((None, Scale(name, 1, shift)), {name: axes, shift: own}, span)


def _numbers(definition: Definition, source: Value, span: int, what: str) -> tuple[str, Axes]:
    """The input with numbers of groups, and its axes."""
    axes: Axes = (COLS, in_blocks(SUMMED, span))
    made = definition.node(source.name) if isinstance(source, Ref) else None
    while made is not None and _is_looked_at(made):
        source = made.operands[0]
        axes = axes[::-1] if made.op == "permute" else axes
        made = definition.node(source.name) if isinstance(source, Ref) else None
    return _tensor(definition, source, what, _OF_GROUPS), axes


def _is_looked_at(node: Node) -> bool:
    """Whether an operation makes scales of an input that lies or is typed otherwise: turned, and
    as fp32, in which the kernel multiplies.
    """
    if node.op == "permute":
        return node.get("dims") == (1, 0)
    return node.op == "cast" and node.get("dtype") is DataType.Float


def _of_blocks(definition: Definition, node: Node, form: MmaForm, what: str) -> BlockScales:
    """Those of both operands of a ``scaled_mm``."""
    blocks = node.get(BLOCKS)
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
        tensor = _tensor(definition, source, what)
        assert isinstance(rows, int)
        found.append(Scale(tensor, rows))
        own = in_blocks(axis, rows), along
        axes[tensor] = own if axis == ROWS else own[::-1]
    if len(axes) < len(found):
        raise UnsupportedError(f"{what} of both operands in {source}", "a tensor for each")
    return BlockScales((found[0], found[1]), axes, span)


def _tensor(
    definition: Definition, source: Value, what: str,
    types: tuple[DataType, ...] = (DataType.Float,),
) -> str:  # fmt: skip
    """The name of the input that has such scales."""
    tensor = definition.node(source.name) if isinstance(source, Ref) else None
    shape = tensor.get("shape") if tensor is not None and tensor.op == "define_tensor" else None
    matrix = isinstance(shape, tuple) and len(shape) == 2
    if tensor is None or not matrix or dtype_of(tensor) not in types:
        known = f"fp32{' or 16 bits' * (len(types) > 1)}"
        raise UnsupportedError(f"{what} in {source}", f"inputs of {known} with two dimensions")
    return tensor.results[0]
