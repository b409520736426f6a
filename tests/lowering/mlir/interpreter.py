"""Executes one thread's straight-line operations of a module: those of ``arith``, no memory.

What reads memory or is inline PTX gives a name of its own; tests look at the operands that such
operations got.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Call", "Thread", "run"]

_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << b,
    "shrui": lambda a, b: a >> b,
    "minsi": min,
    "maxsi": max,
}
_PREDICATES: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
}
_FLOATS = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide,
           "maximumf": np.maximum, "minimumf": np.minimum}  # fmt: skip
_ORDERED = {"olt": np.less, "ole": np.less_equal, "ogt": np.greater, "oge": np.greater_equal,
            "oeq": np.equal, "une": np.not_equal}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """An operation that is not executed: its text, and the values of its operands."""

    text: str
    values: tuple[object, ...]


@dataclass
class Thread:
    """What a thread found: values by name, and the operations that were not executed."""

    values: dict[str, object]
    calls: list[Call] = field(default_factory=list)

    def of(self, word: str) -> list[Call]:
        """The calls whose text contains a word."""
        return [c for c in self.calls if word in c.text]


def run(lines: list[str], given: Mapping[str, object]) -> Thread:
    """Execute operations in order.

    Args:
        lines: of the module; what is no operation with a result or operands is skipped.
        given: values of names, and of ``tid.x`` and other registers without a ``%``.
    """
    thread = Thread(dict(given))
    for line in map(str.strip, lines):
        if line.startswith(("//", "llvm.func", "llvm.mlir.global", "scf", "}", "!", "module")):
            continue
        name, equal, text = line.partition(" = ")
        if not (equal and name.startswith("%")):
            name, text = "", line
        if name in given:
            continue
        found = _operation(thread, text)
        if found is None:
            thread.calls.append(Call(line, tuple(_values(thread, text))))
            found = line
        if name:
            thread.values[name] = found
    return thread


def _values(thread: Thread, text: str) -> list[object]:
    return [thread.values.get(n, n) for n in re.findall(r"%[\w$.#-]+", text)]


def _operation(thread: Thread, text: str) -> object | None:
    word, _, rest = text.partition(" ")
    values = _values(thread, rest)
    if word == "arith.constant":
        return _constant(rest)
    if word == "arith.select":
        return values[1] if values[0] else values[2]
    if word == "arith.cmpi" and not isinstance(values[0], str):
        return _PREDICATES[rest.split(",")[0]](*_numbers(values))
    if word == "arith.cmpf":
        return bool(_ORDERED[rest.split(",")[0]](*values))
    if word == "llvm.getelementptr" and len(values) == 2:
        return values[1]  # elements from the base
    if word in ("arith.extsi", "arith.extui", "arith.index_cast", "llvm.inttoptr", "llvm.ptrtoint"):
        return values[0]
    if word == "arith.trunci":
        return _numbers(values)[0] & ((1 << int(rest.rsplit("i", 1)[1])) - 1)
    if word == "nvvm.shfl.sync":
        return values[1]
    if word.startswith("nvvm.read.ptx.sreg."):
        return thread.values[word.removeprefix("nvvm.read.ptx.sreg.")]
    kind = word.removeprefix("arith.")
    if kind in _OPERATIONS and not any(isinstance(v, str) for v in values):
        return _OPERATIONS[kind](*_numbers(values))
    if kind in _FLOATS:
        return np.float32(_FLOATS[kind](*values))
    return None


def _numbers(values: list[object]) -> list[int]:
    assert all(isinstance(v, int) for v in values), values
    return [v for v in values if isinstance(v, int)]


def _constant(text: str) -> object:
    value, _, kind = text.partition(" : ")
    if value in ("true", "false"):
        return value == "true"
    if kind == "f32":
        return np.array(int(value, 16), np.uint32).view(np.float32)[()]
    return int(value)
