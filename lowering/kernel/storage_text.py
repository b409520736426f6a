"""Declarations as text; ``lowering.kernel.declarations`` takes them back."""

from __future__ import annotations

from lowering.ground.expr import Expr
from lowering.kernel.storage import (
    CounterArray,
    MBarrierArray,
    NamedBarrierArray,
    Ring,
    Storage,
    TensorBuffer,
    TraceBuffer,
    Watch,
    Workspace,
)
from lowering.kernel.tensors import PROMOTIONS, GlobalTensor, SharedBuffer, TensorMap

__all__ = ["print_entry", "print_indices", "print_storage"]


def print_storage(declared: Storage) -> str:
    """One declaration, a line without its end."""
    match declared:
        case TensorMap():
            return _tensor_map(declared)
        case GlobalTensor(name, dtype, sizes, align, count):
            aligned = f" align {align}" if align != 1 else ""
            array = "" if count is None else f"[{count}]"
            return f"global {name}{array}: {dtype.value}{print_indices(sizes)}{aligned}"
        case SharedBuffer(name, dtype, stages, shape):
            tile = f"{dtype.value}[{stages}][{_shape(shape)}]{_swizzle(declared)}"
            over = f" over {', '.join(declared.over)}" if declared.over else ""
            return f"shared {name}: {tile}{over}{_at(declared.offset)}"
        case TensorBuffer(name, dtype, stages, shape, column):
            at = "" if column is None else f" column {column}"
            return f"tensor {name}: {dtype.value}[{stages}][{_shape(shape)}]{at}"
        case MBarrierArray(name, stages, arrivals, offset):
            return f"mbarrier {name}[{stages}] arrivals {arrivals}{_at(offset)}"
        case NamedBarrierArray(name, count, threads, base):
            first = "" if base is None else f" id {base}"
            return f"named_barrier {name}[{count}]{first} threads {threads}"
        case Ring():
            return _ring(declared)
        case TraceBuffer(name, slots, events):
            return f"trace {name}[{slots}]({', '.join(events)})"
        case Watch(name, nanoseconds):
            return f"watch {name} nanoseconds {nanoseconds}"
        case CounterArray(name, count):
            return f"counter {name}[{count}]"
        case Workspace(name, rows, cols, count, dtype):
            return f"workspace {name}: {dtype.value}[{count}][{rows}x{cols}]"


def print_indices(indices: tuple[Expr, ...]) -> str:
    """``[INDEX, ...]``."""
    return f"[{', '.join(map(str, indices))}]"


def print_entry(index: Expr | None) -> str:
    """``[INDEX]`` of an array of tensor maps; nothing of a single one."""
    return "" if index is None else f"[{index}]"


def _tensor_map(t: TensorMap) -> str:
    box = f" box {_shape(t.box)}" if t.box else ""
    clipped = " clipped" if t.clipped else ""
    name = t.name + print_entry(t.count) + " device" * t.device
    name += f" {t.ragged.value}" * bool(t.ragged)
    kind = f"{t.dtype.value}{print_indices(t.sizes)}"
    promoted = "" if t.promotion == PROMOTIONS[-1] else f" promotion {t.promotion}"
    early = " early" * t.early
    return f"tensormap {name}: {kind}{box}{clipped}{_swizzle(t)}{promoted}{early}"


def _ring(r: Ring) -> str:
    text = f"ring {r.name}({', '.join(r.buffers)}) stages {r.stages}"
    text += f" teams {r.teams}" if r.teams != 1 else ""
    text += f" dealing {r.dealing}" if r.dealing != 1 else ""
    text += f" in_flight {r.in_flight}" if r.in_flight else ""
    text += " shares" if r.shares else ""
    text += "".join(f" {count}x{stride}" for count, stride in r.shares)
    text += f" prefetch {r.prefetch}" if r.prefetch else ""
    return text + " remote" * r.remote


def _swizzle(t: TensorMap | SharedBuffer) -> str:
    return f" swizzle {t.swizzle.value}" if t.swizzle.value else ""


def _shape(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))


def _at(offset: int | None) -> str:
    return "" if offset is None else f" at {offset}"
