"""Executes the functions that a module has beside its kernel, for one thread.

Integers are Python's, not negative and below 2 to the number of bits; floats are numpy's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["call"]

_INTEGERS: Mapping[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << b,
    "shrui": lambda a, b: a >> b,
    "shrsi": lambda a, b: a >> b,  # of numbers that are not negative
}
_FLOATS = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply}
_PREDICATES: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b,
    "olt": lambda a, b: bool(a < b), "oeq": lambda a, b: bool(a == b),
}  # fmt: skip
_KINDS = {"f32": np.float32, "f64": np.float64}


def call(functions: Mapping[str, str], name: str, *given: Any) -> Any:
    """The result of a function, by its text and those of the functions that it calls."""
    head, *lines = functions[name].splitlines()
    names = re.findall(r"(%\w+):", head)
    values = dict(zip(names, given, strict=True))
    return _block([line.strip() for line in lines], values, functions)


def _block(lines: list[str], values: dict[str, Any], functions: Mapping[str, str]) -> Any:
    """Operations up to what gives results."""
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("llvm.return", "scf.yield")):
            found = [values[n] for n in re.findall(r"%[\w#]+", line)]
            return found[0] if len(found) == 1 else tuple(found)
        name, _, text = line.partition(" = ")
        if text.startswith("scf.if"):
            then, other, at = _regions(lines, at)
            chosen = then if values[text.split()[1]] else other
            found = _block(chosen, dict(values), functions)
            base, _, several = name.partition(":")
            values |= {f"{base}#{i}": v for i, v in enumerate(found)} if several else {base: found}
            continue
        values[name] = _operation(text, values, functions)
        at += 1
    raise AssertionError("a block without an end")


def _regions(lines: list[str], at: int) -> tuple[list[str], list[str], int]:
    """Both regions of the branch at a line, and the line behind it."""
    depth, middle = 0, 0
    for i in range(at, len(lines)):
        if lines[i] == "} else {" and depth == 1:
            middle = i
        elif lines[i] == "}":
            depth -= 1
        elif lines[i].endswith("{") and lines[i] != "} else {":
            depth += 1
        if depth == 0:
            return lines[at + 1 : middle], lines[middle + 1 : i], i + 1
    raise AssertionError("a branch without an end")


def _operation(text: str, values: dict[str, Any], functions: Mapping[str, str]) -> Any:
    word, _, rest = text.partition(" ")
    v = [values[n] for n in re.findall(r"%[\w#]+", rest)]
    to = rest.rpartition(" ")[2]
    kind = word.removeprefix("arith.")
    if kind == "constant":
        return _constant(*rest.split(" : "))
    if kind in _INTEGERS:
        return _INTEGERS[kind](*v) % (1 << int(to[1:]))
    if kind in _FLOATS:
        with np.errstate(invalid="ignore", over="ignore"):
            return _FLOATS[kind](*v)
    if kind in ("cmpi", "cmpf"):
        return _PREDICATES[rest.split(",")[0]](*v)
    if word.startswith("llvm.intr."):
        return _intrinsic(word, [values[n] for n in re.findall(r"%[\w#]+", text)])
    match kind:
        case "select":
            return v[1] if v[0] else v[2]
        case "extui":
            return v[0]
        case "trunci":
            return v[0] % (1 << int(to[1:]))
        case "uitofp":
            return _KINDS[to](v[0])
        case "sitofp":
            return _KINDS[to](v[0] - (v[0] >> 63 << 64))
        case "truncf":
            return _KINDS[to](v[0])
        case "negf":
            return -v[0]
        case "bitcast":
            if to == "i32":
                return int(np.float32(v[0]).view(np.uint32))
            return np.uint32(v[0]).view(np.float32)
        case "llvm.call":
            return call(functions, re.findall(r"@(\w+)", rest)[0], *v)
        case "llvm.mlir.undef":
            return ()
        case "llvm.insertvalue":
            return (*v[1], v[0])
        case "llvm.extractvalue":
            return v[0][int(re.findall(r"\[(\d)\]", rest)[0])]
    raise NotImplementedError(text)


def _intrinsic(word: str, v: list[Any]) -> Any:
    match word.partition("(")[0]:
        case "llvm.intr.fabs":
            return abs(v[0])
        case "llvm.intr.fma":
            return _fused(*map(np.float32, v))
        case "llvm.intr.fshl":
            return (v[0] << 32 | v[1]) << v[2] >> 32 & 0xFFFFFFFF
    raise NotImplementedError(word)


def _fused(a: Any, b: Any, c: Any) -> Any:
    """``a b + c``, rounded once."""
    if not all(map(np.isfinite, (a, b, c))):
        return np.float32(a * b + c)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = np.float32(float(exact))
    both = (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf)))
    least = min(abs(Fraction(float(x)) - exact) for x in both)
    closest = [x for x in both if abs(Fraction(float(x)) - exact) == least]
    return next((x for x in closest if int(x.view(np.uint32)) % 2 == 0), closest[0])


def _constant(value: str, kind: str) -> Any:
    if kind.startswith("i"):
        return int(value) % (1 << int(kind[1:]))
    if value.startswith("0x"):
        return np.uint32(int(value, 16)).view(np.float32)
    return _KINDS[kind](value)
