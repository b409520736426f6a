"""Values of MLIR, and the lines of its text."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from lowering.ground.expr import ScalarType

__all__ = ["F32", "I1", "I8", "I16", "I32", "I64", "SCALARS", "Value", "Writer", "shared_pointer"]

I1, I8, I16, I32, I64, F32 = "i1", "i8", "i16", "i32", "i64", "f32"

SCALARS = {ScalarType.I32: I32, ScalarType.I64: I64, ScalarType.PRED: I1}
"""MLIR's type of a scalar."""

SHARED, SHARED_CLUSTER = 3, 7
"""Address spaces of NVPTX: shared memory of this CTA, of the cluster."""


def shared_pointer(cluster: bool = False) -> str:
    """Type of a pointer into shared memory."""
    return f"!llvm.ptr<{SHARED_CLUSTER if cluster else SHARED}>"


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value: its name with the ``%``, and its type."""

    name: str
    type: str

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class Writer:
    """Operations in order, with names that nothing else has.

    Constants are defined once, in front of the first operation (``constants``); aliases stand for
    long types, in front of the module (``aliases``).
    """

    lines: list[str] = field(default_factory=list)
    constants: dict[str, tuple[str, str]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    depth: int = 2
    taken: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=count)

    def beside(self) -> Writer:
        """Another text with the same names, constants and aliases."""
        return replace(self, lines=[])

    def name(self, wish: str = "") -> str:
        """A new name like ``wish``; a number without one."""
        if not wish:
            return f"%{next(self.numbers)}"
        base = re.sub(r"\W", "_", wish)
        base = base if base[0].isalpha() else f"v{base}"
        found, serial = base, 1
        while found in self.taken:
            serial += 1
            found = f"{base}_{serial}"
        self.taken.add(found)
        return f"%{found}"

    def line(self, text: str) -> None:
        """A line at the current depth."""
        self.lines.append("  " * self.depth + text)

    def op(self, text: str, type_: str, wish: str = "") -> Value:
        """An operation with one result of that type."""
        name = self.name(wish)
        self.line(f"{name} = {text}")
        return Value(name, type_)

    def constant(self, value: int, type_: str = I32) -> Value:
        """An integer; 0 or 1 of ``i1``."""
        if type_ == I1:
            return self.truth(value != 0)
        return self._constant(f"%c{value}_{type_}", f"{value} : {type_}", type_)

    def truth(self, value: bool) -> Value:
        """A constant of ``i1``."""
        word = "true" if value else "false"
        return self._constant(f"%{word}", word, I1)

    def number(self, value: float) -> Value:
        """A number of fp32, the nearest to ``value``, by its bits."""
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return self._constant(f"%f{bits:08x}", f"0x{bits:08X} : f32", F32)

    def _constant(self, name: str, text: str, type_: str) -> Value:
        self.constants[name] = (f"{name} = arith.constant {text}", type_)
        return Value(name, type_)

    def struct(self, member: str, members: int) -> str:
        """The type of so many registers in one value."""
        alias = f"!{member}x{members}"
        self.aliases[alias] = f"!llvm.struct<({', '.join([member] * members)})>"
        return alias

    def results(self, types: Sequence[str]) -> tuple[str, list[Value]]:
        """What stands in front of an operation with so many results, and those results."""
        if not types:
            return "", []
        name = self.name()
        if len(types) == 1:
            return f"{name} = ", [Value(name, types[0])]
        values = [Value(f"{name}#{i}", t) for i, t in enumerate(types)]
        return f"{name}:{len(types)} = ", values
