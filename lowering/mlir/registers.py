"""Which register holds an element of a fragment, and which fragments wgmmas read as A."""

from __future__ import annotations

from lowering.ground.types import FragmentType
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Frag, FragCast, FragColumns, FragRows, Wgmma
from lowering.kernel.visit import walk

__all__ = ["element_index", "operands_in_registers"]


def operands_in_registers(kernel: Kernel) -> frozenset[str]:
    """Names of the fragments whose registers some wgmma reads as A: not those of parts of them."""
    whole: dict[str, str] = {}
    found = set[str]()
    for stmt in walk(kernel.body):
        match stmt:
            case FragColumns(out, value) | FragRows(out, value):
                whole[out.name] = value.name
            case FragCast(out, value) if out.type.dtype is value.type.dtype:
                whole[out.name] = value.name
            case Wgmma(a=Frag() as a):
                found.add(a.name)
    while parts := found & whole.keys():
        found = found - parts | {whole[name] for name in parts}
    return frozenset(found)


def element_index(kind: FragmentType, group: int, row: int, col: int) -> tuple[int, int]:
    """Register of an element in its block, and the part of it that a shorter one takes."""
    rows, cols = kind.group
    inside = (row if rows > 1 else 0) * cols + (col if cols > 1 else 0)
    packed = 32 // kind.dtype.register_bits
    first = group * kind.group_registers if kind.cols > 1 else 0
    return first + inside // packed, inside % packed
