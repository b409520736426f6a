"""Executes a block of inline PTX that only computes, ``{ ... }``, for many threads at once.

Registers are arrays of integers, bits of 16 or 32; ``$0`` is the result, ``$1`` and so on are what
is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["computed"]

_Load = Callable[[Any], Any]


def computed(text: str, given: Sequence[Any], load: _Load) -> Any:
    """What ``$0`` is in the end; ``load`` gives the 16 bits at a shared address.

    Raises:
        NotImplementedError: an instruction that is not known here.
    """
    registers: dict[str, Any] = {f"${i + 1}": value for i, value in enumerate(given)}
    for line in text.strip("{} ").split(";"):
        if not line.strip() or line.strip().startswith(".reg"):
            continue
        name, rest = line.strip().split(" ", 1)
        operands = [x.strip() for x in re.split(r",(?![^{]*\})", rest)]
        _step(name, operands, registers, load)
    return registers["$0"]


def _step(name: str, operands: Sequence[str], registers: dict[str, Any], load: _Load) -> None:
    to, *taken = operands
    if name == "mov.b32" and to.startswith("{"):
        low, high = to.strip("{}").split(", ")
        whole = _value(taken[0], registers)
        registers[low], registers[high] = whole & 0xFFFF, whole >> 16 & 0xFFFF
        return
    if name == "mov.b32" and taken[0].startswith("{"):
        low, high = (registers[part] for part in taken[0].strip("{}").split(", "))
        registers[to] = low | high << 16
        return
    if name == "ld.shared.u16":
        registers[to] = load(registers[taken[0].strip("[]")])
        return
    registers[to] = _computed(name, [_value(x, registers) for x in taken])


def _value(operand: str, registers: dict[str, Any]) -> Any:
    if operand == "%tid.y":
        return np.int64(0)
    return registers[operand] if operand in registers else np.int64(int(operand, 0))


def _computed(name: str, v: list[Any]) -> Any:
    match name:
        case "mov.u32" | "mov.b32":
            return v[0]
        case "add.u32":
            return v[0] + v[1] & 0xFFFFFFFF
        case "and.b32":
            return v[0] & v[1]
        case "prmt.b32":
            whole = (v[0] & 0xFFFFFFFF) | (v[1] & 0xFFFFFFFF) << 32
            chosen = [int(v[2]) >> 4 * i & 7 for i in range(4)]
            return sum((whole >> 8 * c & 0xFF) << 8 * i for i, c in enumerate(chosen))
        case "add.rn.bf16x2" | "sub.rn.bf16x2":
            whole = np.broadcast_arrays(*v)
            a, b = (_floats(x, np.uint16, ml_dtypes.bfloat16).astype(np.float32) for x in whole)
            found = a + b if name.startswith("add") else a - b
            return _word(found.astype(ml_dtypes.bfloat16))
        case "cvt.rn.f16x2.e4m3x2":
            return _word(_floats(v[0], np.uint8, ml_dtypes.float8_e4m3fn).astype(np.float16))
        case "cvt.rn.f16x2.e5m2x2":
            return _word(_floats(v[0], np.uint8, ml_dtypes.float8_e5m2).astype(np.float16))
    raise NotImplementedError(name)


def _floats(value: Any, bits: type[np.unsignedinteger[Any]], dtype: Any) -> Any:
    """The two numbers of a register, the lower one first."""
    size = 8 * np.dtype(bits).itemsize
    parts = [np.asarray(value) >> size * i & (1 << size) - 1 for i in (0, 1)]
    return np.stack(parts).astype(bits).view(dtype)


def _word(pair: Any) -> Any:
    low, high = pair.view(np.uint16).astype(np.int64)
    return low | high << 16
