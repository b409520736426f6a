"""``fd.ops.scaled_mm`` as what it computes: a matmul, its scales, a bias and a cast.

nvFuser hands it to torch, which computes ``scale1 * scale2 * (mat1 · mat2) + bias`` in fp32 and
rounds once. As single operations it is a matmul with an epilogue, like any other; only numbers for
blocks along K stand inside the sum, and stay with the matmul.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.products import UNROUNDED
from wsched.importer.signatures import parameters

__all__ = ["without_scaled"]

_OP = "scaled_mm"
_FAST = "use_fast_accum"
"""An argument of wsched's own: sums stay in the tensor core, which keeps fewer bits."""

SCALES, BLOCKS = ("scale_a", "scale_b"), "scale_blocks"
"""Another one, ``scale_blocks=[1, 128]``: how many rows of ``mat1`` and columns of ``mat2`` each of
their scales is for, of as many of K as sums are promoted after. Of a matmul that has been taken
apart the arguments with such scales.
"""


def without_scaled(definition: Definition) -> Definition:
    """The definition with each ``scaled_mm`` taken apart.

    Its scales are Float: single numbers, or [M, 1] of ``mat1`` and [1, N] of ``mat2``; with blocks
    of 128 [M, K / 128] or [M / 128, K / 128] of ``mat1``, likewise [K / 128, ...] of ``mat2``.

    Raises:
        UnsupportedError: one is scaled or quantized in another way.
    """
    if all(node.op != _OP for node in definition.nodes):
        return definition
    nodes: list[Node] = []
    for node in definition.nodes:
        nodes += _apart(definition, node) if node.op == _OP else [node]
    return replace(definition, nodes=tuple(nodes))


def _apart(definition: Definition, node: Node) -> Iterator[Node]:
    given = _arguments(node)
    used = {r for n in definition.nodes for r in n.refs} | {*definition.outputs}
    more = [r for r in node.results[1:] if r in used]
    asked = [n for n in ("alpha", "beta", "output_gamma") if given.get(n)]
    asked += [n for n in ("output_block_scale_size",) if given.get(n)]
    if more or asked:
        what = ", ".join((*(f"{n}={text_of(given[n])}" for n in asked), *more))
        raise UnsupportedError(f"fd.ops.{_OP} with {what}", "scales of its operands, and a bias")
    scales = {n: given.get(n) for n in ("scale1", "scale2")}
    if None in scales.values():
        raise UnsupportedError(f"fd.ops.{_OP} with one scale or none", "scale1 and scale2")
    name = node.results[0]
    dtype = given.get("dtype") or DataType.BFloat16

    def step(op: str, suffix: str, *operands: Value, **named: Value) -> Node:
        result = f"{name}.{suffix}" if suffix else name
        return Node(op, (result,), operands, tuple(named.items()), node.line)

    if given.get(BLOCKS) is None:
        for scale in scales.values():
            _check_declared(definition, node, scale)
    fast = {_FAST: True} if given.get(_FAST) else {}
    inside: dict[str, Value] = {}
    if given.get(BLOCKS) is not None:
        inside = dict(zip(SCALES, scales.values(), strict=True)) | {BLOCKS: given[BLOCKS]}
        scales = {}
    yield step("matmul", "sum", given["mat1"], given["mat2"], **fast, **inside, **UNROUNDED)
    at = f"{name}.sum"
    for n, scale in scales.items():
        yield step("mul", n, Ref(at), scale)
        at = f"{name}.{n}"
    if given.get("bias") is not None:
        yield step("add", "biased", Ref(at), given["bias"])
        at = f"{name}.biased"
    yield step("cast", "", Ref(at), dtype=dtype)


def _check_declared(definition: Definition, node: Node, scale: Value) -> None:
    """Refuse a scale that is declared as a matrix of any size: of rows, of columns, of blocks, only
    a call tells.
    """
    declared = definition.node(scale.name) if isinstance(scale, Ref) else None
    if declared is not None and declared.get("shape") == (-1, -1):
        what = f"line {node.line}: fd.ops.{_OP} with {scale} of shape [-1, -1]"
        raise UnsupportedError(what, "scales of shape [-1, 1], [1, -1] or of one number")


def _arguments(node: Node) -> dict[str, Value]:
    """By name; None of those that are not given."""
    names = parameters(_OP) or ()
    return dict(zip(names, node.operands, strict=False)) | dict(node.kwargs)
