"""What each matmul of a call computes, and whose kernel does: the shares that are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from wsched.front.cut.epilogues import Kernel
from wsched.front.cut.segments import Cut, Cutter
from wsched.front.cut.tensors import Tensors
from wsched.fusion import DataType
from wsched.importer import Definition, Node
from wsched.importer.ops import MATMULS

__all__ = ["Share", "cut_shares", "shares"]


@dataclass(frozen=True, slots=True)
class Share:
    """A matmul of a call.

    Args:
        op: ``linear`` or ``matmul``.
        line: of the definition's text.
        problem: sizes of both operands, ``2x1024x4096 . 512x4096``.
        flops: floating-point operations.
        narrow: whether both operands have 16 bits.
        reason: why it is in no kernel of wsched's; empty if it is in one.
    """

    op: str
    line: int
    problem: str
    flops: int
    narrow: bool
    reason: str

    def __str__(self) -> str:
        done = self.reason or "in a kernel of wsched's"
        return f"line {self.line}: fd.ops.{self.op} {self.problem}: {done}"


def shares(
    definition: Definition, tensors: Tensors, sizes: Mapping[str, int], reason: str
) -> tuple[Share, ...]:
    """The matmuls of a call that wsched takes no part of.

    Args:
        definition: whose.
        tensors: of it.
        sizes: value of each symbol.
        reason: why.
    """
    found = (n for n in definition.nodes if n.op in MATMULS)
    return tuple(_share(n, tensors, sizes, reason) for n in found)


def cut_shares(
    cutter: Cutter, cut: Cut, sizes: Mapping[str, int], reason: str = ""
) -> tuple[Share, ...]:
    """The matmuls of a call that is cut so; ``reason`` why those with kernels are left all the
    same. Other arguments are as of :func:`shares`.
    """
    tensors = cutter.graph.types
    return tuple(
        _share(node, tensors, sizes, reason if isinstance(kernel, Kernel) else str(kernel))
        for node, kernel in zip(cutter.matmuls, cut.kernels, strict=True)
    )


def _share(node: Node, tensors: Tensors, sizes: Mapping[str, int], reason: str) -> Share:
    a, b = (_shape(n, tensors, sizes) for n in node.refs[:2])
    result = _shape(node.results[0], tensors, sizes)
    flops = 2 * prod(result) * (a[-1] if a else 1)
    kinds = [tensors[n].dtype for n in node.refs[:2] if n in tensors]
    narrow = all(k in (DataType.BFloat16, DataType.Half) for k in kinds)
    texts = ("x".join(map(str, s)) for s in (a, b))
    return Share(node.op, node.line, " . ".join(texts), flops, narrow, reason)


def _shape(name: str, tensors: Tensors, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tensors[name].shape(sizes)
