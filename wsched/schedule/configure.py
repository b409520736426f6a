"""Options of a kernel, checked one by one."""

from __future__ import annotations

from dataclasses import fields, replace
from types import NoneType
from typing import Any

from lowering.ground.errors import ScheduleError
from lowering.target.ptx import WARPGROUP
from lowering.target.target import Target
from wsched.fusion import Fusion, MemoryType, PrimitiveCall
from wsched.schedule.axes import require, require_all
from wsched.schedule.checked import Choice
from wsched.schedule.options import (
    COPIED_BYTES,
    CachePolicy,
    DebugPrint,
    KernelOptions,
    MmaInputSmemSwizzle,
    TensorMapL2Promotion,
)
from wsched.schedule.parts import find_parts

__all__ = ["configured", "printing"]

_VECTORS = (1, 2)


def configured(
    fusion: Fusion, options: KernelOptions, call: PrimitiveCall, target: Target
) -> KernelOptions:
    """``options`` with those of a call of ``configure``.

    Raises:
        ScheduleError: rule ``configure``: no such option, tensor or value; rule ``argument``:
            a value of another type.
    """
    names = tuple(f.name for f in fields(KernelOptions) if f.name != "prints")
    values = dict(call.kwargs)
    for name, value in values.items():
        match name:
            case "epilogue_stages":
                require(call, name, value, (int, NoneType))
                if value is not None and value < 1:
                    raise _refused(call, f"{value} buffers hold nothing", ("1 and more", "None"))
            case (
                "programmatic_dependent_launch" | "promote_prologue_smem_reuse" | "deferred_stores"
            ):
                require(call, name, value, bool)
            case "vector_registers" | "prefetched_steps":
                require(call, name, value, int)
                if value < 0:
                    what = "registers" if name == "vector_registers" else "steps"
                    raise _refused(call, f"{value} {what}", ("0 and more",))
            case "vector":
                require(call, name, value, int)
                if value not in _VECTORS:
                    why = f"a thread accesses 1 or 2 columns at once, not {value}"
                    raise _refused(call, why, tuple(map(str, _VECTORS)))
            case "slice_groups":
                require(call, name, value, int)
                if value < 1:
                    raise _refused(call, f"{value} warpgroups multiply nothing", ("1 and more",))
            case "slice_registers":
                if value is not None:
                    require_all(call, name, value, int, 2)
                    values[name] = tuple(value)
                    for n in value:
                        if (problem := target.count_problem(n)) is not None:
                            raise _refused(call, f"{problem}, not {n}", ())
            case "cache_policies":
                values[name] = _by_tensor(fusion, call, name, value, CachePolicy)
            case "l2_promotions":
                values[name] = _by_tensor(fusion, call, name, value, TensorMapL2Promotion)
            case "smem_swizzles":
                values[name] = _by_tensor(fusion, call, name, value, MmaInputSmemSwizzle)
            case "copied_bytes":
                values[name] = _by_tensor(fusion, call, name, value, int)
                for tensor, n in values[name]:
                    if n not in COPIED_BYTES:
                        why = f"a thread copies {n} bytes of {tensor} at once"
                        raise _refused(call, why, tuple(map(str, COPIED_BYTES)))
            case _:
                raise _refused(call, f"there is no option {name}", names)
    return replace(options, **values)


def printing(fusion: Fusion, options: KernelOptions, asked: DebugPrint) -> KernelOptions:
    """``options`` with a line to print.

    Raises:
        ScheduleError: rule ``debug_print``: neither a tensor nor a part of that name, or a number
            that nothing has; rule ``argument``: a value of another type.
    """
    call = asked.call
    require(call, "where", asked.where, str)
    require(call, "value", asked.value, str)
    for name in ("cta", "group", "tile", "step", "thread"):
        require(call, name, number := getattr(asked, name), (int, NoneType))
        if number is not None and not 0 <= number < (WARPGROUP if name == "thread" else 1 << 31):
            why = f"there is no {name} {number}"
            raise ScheduleError("debug_print", str(call), why)
    parts = {p.name for p in find_parts(fusion)}
    if fusion.find(asked.where) is None and asked.where not in parts:
        why = f"{asked.where} is neither a tensor nor a part"
        raise ScheduleError("debug_print", str(call), why, (*sorted(parts), *fusion.names))
    return replace(options, prints=(*options.prints, asked))


_WORDS = {
    "cache_policies": "policy", "l2_promotions": "promotion", "smem_swizzles": "swizzle",
    "copied_bytes": "width",
}  # fmt: skip


def _by_tensor(
    fusion: Fusion, call: PrimitiveCall, name: str, value: Any, kind: type[Choice] | type[int]
) -> tuple[tuple[str, Any], ...]:
    """A choice of a kind for each tensor, in the order of the tensors."""
    require(call, name, value, dict)
    there = tuple(
        name
        for name in dict.fromkeys(b.tensor for b in (*fusion.inputs, *fusion.outputs))
        if fusion.tensor(name).memory is MemoryType.Global
    )
    for tensor, chosen in value.items():
        require(call, f"the {_WORDS[name]} of {tensor}", chosen, kind)
        if tensor not in there:
            why = f"{tensor} is no tensor of the caller's: those are copied"
            raise _refused(call, why, there)
    return tuple((n, value[n]) for n in there if n in value)


def _refused(call: PrimitiveCall, why: str, legal: tuple[str, ...]) -> ScheduleError:
    return ScheduleError("configure", str(call), why, legal)
