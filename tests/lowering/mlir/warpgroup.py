"""Executes the straight-line operations of a module for a warpgroup: 128 threads in lockstep.

A value is an array with an element for each thread. Memory is bytes by the name of what points to
it; ``scf.if`` is a mask. Fragments, pointwise operations, reductions and the memory that threads
access themselves are here; loops, TMA and wgmma are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from lowering.machine.fragment import add_product
from tests.lowering.mlir.ptx_block import computed

__all__ = ["execute"]

_THREADS = 128
_ALL = np.arange(_THREADS)
_INTEGERS: Mapping[str, Any] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "divui": np.floor_divide,
    "remui": np.mod, "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
    "shli": np.left_shift, "shrui": np.right_shift, "minsi": np.minimum, "maxsi": np.maximum,
}  # fmt: skip
_FLOATS: Mapping[str, Any] = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide,
    "maximumf": np.maximum, "minimumf": np.minimum, "negf": np.negative,
}  # fmt: skip
_ORDER: Mapping[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "olt": np.less,
    "ogt": np.greater, "oeq": np.equal, "une": np.not_equal,
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip
_ACCESS = re.compile(r"(@\$(\d) )?(ld|st)\.(global|shared)(\.v(\d))?\.(\w+) ")
_NOTHING = (
    "//",
    "llvm.return",
    "llvm.call_intrinsic",
    "nvvm.bar",
    "nvvm.mbarrier",
    "nvvm.fence",
    "llvm.func",
    "llvm.mlir",
    ")",
)
_SIZES = {"f32": 4, "i32": 4, "i16": 2, "i8": 1}


def execute(text: str, memory: dict[str, np.ndarray], given: Mapping[str, int]) -> None:
    """Run a module; writes into ``memory``.

    Args:
        text: of the module, with a kernel of 128 threads.
        memory: bytes by name: ``%shared`` and the kernel's tensors.
        given: values of its other parameters.
    """
    w = _Warpgroup(memory)
    for name, number in given.items():
        w.values[name] = np.full(_THREADS, number, np.int64)
    w.values |= {name: (name, np.zeros(_THREADS, np.int64)) for name in memory if name != "%shared"}
    started = False
    for line in map(str.strip, text.splitlines()):
        started = started or (line.endswith("{") and "attributes" in line)
        if (started and not line.endswith("{")) or line.startswith("scf.if"):
            w.line(line)


class _Warpgroup:
    def __init__(self, memory: dict[str, np.ndarray]) -> None:
        self.memory = memory
        self.values: dict[str, Any] = {}
        self.masks = [np.ones(_THREADS, bool)]

    def line(self, line: str) -> None:
        if line.startswith("scf.if"):
            condition = self.values[line.split()[1]]
            self.masks.append(self.masks[-1] & condition)
        elif line == "}":
            self.masks.pop() if len(self.masks) > 1 else None
        elif " = " in line and line.startswith("%"):
            name, _, text = line.partition(" = ")
            self.values[name] = self.operation(text)
        elif line.startswith('"nvvm.stmatrix"'):
            self.matrices(line)
        elif line.startswith("llvm.inline_asm"):
            self.operation(line)
        elif line.startswith('"llvm.intr.trap"'):
            assert not self.masks[-1].any()
        elif line and not line.startswith(_NOTHING):
            raise NotImplementedError(line)

    def operation(self, text: str) -> Any:
        if text.startswith('"nvvm.ldmatrix"'):
            return self.matrices(text)
        word, rest = re.split("[ (]", text, maxsplit=1)
        found = re.findall(r"(?<!\w)%[\w$.#-]+", re.sub(r'"[^"]*"', "", rest))
        v = [self.values[n] for n in found]
        kind = word.removeprefix("arith.")
        if kind in _INTEGERS:
            return _INTEGERS[kind](*v)
        if kind in _FLOATS:
            return _FLOATS[kind](*v)
        if kind in ("cmpi", "cmpf"):
            return _ORDER[rest.split(",")[0]](*v)
        match kind:
            case "constant":
                return _constant(rest)
            case "select":
                return np.where(*v)
            case "extsi" | "extui":
                return v[0].astype(np.int64)
            case "trunci":
                kept = v[0] & ((1 << int(rest.rpartition("i")[2])) - 1)
                return kept.astype(bool) if rest.endswith(" i1") else kept
            case "sitofp":
                return v[0].astype(np.float32)
            case "bitcast":
                return _bits(v[0], rest.rpartition(" ")[2])
            case "extf":
                return v[0].astype(np.float32)
            case "llvm.inline_asm":
                return self.ptx(text.split('"')[1], v)
            case "llvm.intr.fma":
                return add_product(v[2], v[0].astype(np.float64) * v[1])
            case "llvm.extractvalue":
                return v[0][int(rest.partition("[")[2].partition("]")[0])]
            case "llvm.getelementptr":
                return v[0][0], v[1] * _SIZES[rest.rpartition(" ")[2]]
            case "llvm.inttoptr" | "llvm.ptrtoint":
                return v[0]
            case "llvm.mlir.addressof":
                return np.zeros(_THREADS, np.int64)
            case "nvvm.shfl.sync":
                lane = _ALL % 32 ^ v[2] if "bfly" in rest else v[2]
                return v[1][_ALL // 32 * 32 + lane]
            case "nvvm.elect.sync":
                return _ALL % 32 == 0
            case "nvvm.read.ptx.sreg.tid.x":
                return _ALL
        raise NotImplementedError(text)

    def ptx(self, text: str, v: list[Any]) -> Any:
        if not text:
            return v[0] if len(v) == 1 else tuple(v)
        if text.startswith("cvt.rn.") and "x2" in text:
            dtype = ml_dtypes.bfloat16 if ".bf16x2" in text else np.float16
            high, low = (x.astype(dtype).view(np.uint16).astype(np.int64) for x in v)
            return high << 16 | low
        if (masked := re.fullmatch(r"and\.b32 \$0, \$1, (\d+);", text)) is not None:
            return v[0] & int(masked[1])
        if text.startswith("prmt"):
            whole = (v[0] & 0xFFFFFFFF) | (v[1] & 0xFFFFFFFF) << 32
            chosen = [v[2] >> 4 * i & 7 for i in range(4)]
            return sum((whole >> 8 * c & 0xFF) << 8 * i for i, c in enumerate(chosen))
        if "red.relaxed.gpu.global." in text:
            return self.red(text, *v)
        if text.startswith("{ .reg .b"):
            return computed(
                text, v, lambda at: self.load(("%shared", at), 1, "u16", self.masks[-1])
            )
        if text.startswith("cp.async.cg"):
            return self.copy(*v)
        if text.startswith("cp.async.mbarrier") or "mbarrier.try_wait" in text:
            return None
        access = _ACCESS.search(text)
        if access is None:
            raise NotImplementedError(text)
        count, kind = int(access[6] or 1), access[7]
        loads = access[3] == "ld"
        predicated = access[1] is not None
        mask = self.masks[-1] & (v[1] if predicated else True)
        at = ("%shared", v[0]) if access[4] == "shared" else v[0]
        if loads:
            return self.load(at, count, kind, mask)
        self.store(at, v[2:] if predicated else v[1:], kind, mask)
        return None

    def matrices(self, text: str) -> Any:
        """``ldmatrix`` or ``stmatrix``: lane ``8 i + r`` has the address of row ``r`` of matrix
        ``i``, lane ``l`` the word of row ``l // 4`` and columns from ``2 (l % 4)`` on.
        """
        at, *words = (self.values[n] for n in re.findall(r"%[\w]+", text.partition(">")[0]))
        count = len(words) or int(re.findall(r"num = (\d)", text)[0])
        found = []
        for i in range(count):
            row = at[_ALL // 32 * 32 + 8 * i + _ALL % 32 // 4] + _ALL % 4 * 4
            places = row[:, None] + np.arange(4)
            if words:
                raw = words[i].astype(np.uint32).reshape(-1, 1).view(np.uint8)
                self.memory["%shared"][places] = raw
            else:
                raw = self.memory["%shared"][places].copy()
                found.append(raw.view(np.uint32)[:, 0].astype(np.int64))
        return tuple(found)

    def red(self, text: str, at: Any, inside: Any, value: Any) -> None:
        """``red`` of fp32: by what follows the sign where it takes integers; of 16 bits one or two
        at once.
        """
        halves = re.findall(r"add\.noftz\.(bf16|f16)(x2)?", text)
        for t in np.flatnonzero(self.masks[-1] & inside):
            if halves:
                _add_halves(self.memory[at[0]][at[1][t] :], int(value[t]), *halves[0])
                continue
            cell = self.memory[at[0]][at[1][t] : at[1][t] + 4]
            if "add.f32" in text:
                cell[:] = np.array([cell.view(np.float32)[0] + value[t]]).view(np.uint8)
                continue
            word = np.int64(value[t]).astype(np.int32)
            kind = np.dtype(np.int32 if word >= 0 else np.uint32)
            found = re.findall(rf"(max|min)\.{kind.kind.replace('i', 's')}32", text)[0]
            pair = cell.view(kind)[0], np.array(word).view(kind)[()]
            cell[:] = np.array([{"max": max, "min": min}[found](pair)], kind).view(np.uint8)

    def copy(self, to: np.ndarray, at: Any, count: np.ndarray) -> None:
        """``cp.async`` of 16 bytes, of which ``count`` are read, at once."""
        for t in np.flatnonzero(self.masks[-1]):
            start = at[1][t]
            read = self.memory[at[0]][start : start + count[t]]
            self.memory["%shared"][to[t] : to[t] + 16] = np.pad(read, (0, 16 - count[t]))

    def load(self, at: Any, count: int, kind: str, mask: np.ndarray) -> Any:
        size, found = int(kind[1:]) // 8, []
        for i in range(count):
            value = np.zeros(_THREADS, np.float32 if kind == "f32" else np.int64)
            for t in np.flatnonzero(mask):
                start = at[1][t] + i * size
                value[t] = self.memory[at[0]][start : start + size].view(_dtype(kind))[0]
            found.append(value)
        return found[0] if count == 1 else tuple(found)

    def store(self, at: Any, values: list[Any], kind: str, mask: np.ndarray) -> None:
        size = int(kind[1:]) // 8
        places = at[1][mask].tolist()
        assert len(places) == len(set(places)), "two threads store to one place at once"
        for i, value in enumerate(values):
            for t in np.flatnonzero(mask):
                start = at[1][t] + i * size
                raw = np.array([value[t]]).astype(_dtype(kind)).view(np.uint8)
                self.memory[at[0]][start : start + size] = raw


def _dtype(kind: str) -> Any:
    names = {"f32": np.float32, "b32": np.uint32, "b16": np.uint16}
    return names.get(kind) or np.dtype(f"uint{kind[1:]}")


def _bits(value: Any, to: str) -> Any:
    if to == "f32":
        return (value & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    if to == "f16":
        return value.astype(np.uint16).view(np.float16)
    return np.ascontiguousarray(value, np.float32).view(np.uint32).astype(np.int64)


def _constant(text: str) -> Any:
    value, _, kind = text.partition(" : ")
    if value in ("true", "false"):
        return np.full(_THREADS, value == "true")
    if kind == "f32":
        return np.full(_THREADS, np.array(int(value, 16), np.uint32).view(np.float32))
    return np.full(_THREADS, int(value), np.int64)


def _add_halves(memory: np.ndarray, value: int, name: str, two: str) -> None:
    kind = np.dtype({"bf16": ml_dtypes.bfloat16, "f16": np.float16}[name])
    many = 2 if two else 1
    given = np.array([value & 0xFFFFFFFF], np.uint32).view(kind)[:many]
    cells = memory[: 2 * many].view(kind)
    cells[:] = (cells.astype(np.float32) + given.astype(np.float32)).astype(kind)
