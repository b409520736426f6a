"""What a schedule says of arguments of wrong types: each of each primitive, a table."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError
from tests.conftest import Golden
from tests.schedules import definition
from wsched.front.known import import_fusion
from wsched.fusion import DataType, LoadStoreOpType, MemoryType, ParallelType
from wsched.schedule.options import (
    CachePolicy,
    KernelOptions,
    MmaInputSmemSwizzle,
    TensorMapL2Promotion,
)
from wsched.schedule.schedule import Schedule, WarpSpecialized

CALLS: dict[str, dict[str, Any]] = {
    "cache_after": {"tv": "T0", "op": LoadStoreOpType.CpAsyncBulkTensorTile},
    "cache_before": {"tv": "OUT", "op": LoadStoreOpType.Set},
    "accumulate_in": {"tv": "SUM", "dtype": DataType.Float},
    "set_memory_type": {"tv": "OUT", "memory": MemoryType.Global},
    "set_allocation_domain": {"tv": "OUT", "order": (0, 1)},
    "split": {
        "tv": "OUT", "axis": 0, "factor": 64, "inner_split": True, "labels": ("Mo", "Mi"),
        "dynamic": False,
    },
    "merge": {"tv": "OUT", "axis_o": 0, "axis_i": 1, "traversal": 0, "label": "tiles"},
    "reorder": {"tv": "OUT", "order": {0: 1}},
    "rfactor": {"tv": "SUM", "axis": 2},
    "parallelize": {"tv": "OUT", "axis": 0, "parallel": ParallelType.BIDx},
    "inline_at": {"tv": "SUM", "inside": 1},
    "circular_buffer": {
        "tv": "COPY", "stages": 4, "prefetch": 2, "type": WarpSpecialized(ParallelType.TIDy),
    },
    "assume": {"name": "turn", "least": 1, "most": 4, "promise": "the host writes it"},
    "undo": {"calls": 1},
}  # fmt: skip


def _by_tensor(chosen: Any) -> tuple[dict[str, Any], ...]:
    """A choice for tensors of the caller's, and for another one; one of another type."""
    return {"T5": chosen, "T0": chosen}, {"T4": chosen}, {"T99": chosen}, {"T0": "x"}


WRONG = (None, True, 3, "x", 0.5, ("a", "b", "c"), ("a", 2), {"a": "x"})

OPTIONS: dict[str, tuple[Any, ...]] = {
    "epilogue_stages": (),
    "programmatic_dependent_launch": (False,),
    "prefetched_steps": (),
    "cache_policies": _by_tensor(CachePolicy.EvictLast),
    "l2_promotions": _by_tensor(TensorMapL2Promotion.B128),
    "smem_swizzles": _by_tensor(MmaInputSmemSwizzle.B64),
    "promote_prologue_smem_reuse": (False,),
    "deferred_stores": (False,),
    "vector": (1, 2),
    "copied_bytes": (*_by_tensor(16), {"T0": 3}),
    "vector_registers": (),
    "slice_groups": (1,),
    "slice_registers": ((40, 232), [40, 232], (40, 41), (248, 40), (40, "x"), (40,)),
}
"""Fields of the options, and values of the right type, or almost."""

SPECIALIZED: dict[str, tuple[Any, ...]] = {
    "on": ("TIDy", None),
    "num_registers": (40, (40,), (40, "x"), (40.0, 232)),
    "stage_slice_position": ("1", True, 1.0),
}
"""Fields of a circular buffer's type, and what they are not."""


def made() -> tuple[Schedule, dict[str, str]]:
    """A schedule with a copy of an operand, and what its tensors are called in the calls above."""
    s = Schedule(import_fusion(definition()))
    copy = s.cache_after(s.a, LoadStoreOpType.CpAsyncBulkTensorTile)
    s.set_memory_type(copy, MemoryType.Shared)
    return s, {"T0": s.a, "OUT": s.outputs[0], "SUM": s.acc, "COPY": copy}


def said(name: str, arguments: dict[str, Any]) -> str:
    """The first lines of what is refused, without loops; nothing if it is no matter of types."""
    s, names = made()
    given = {n: names.get(v, v) if isinstance(v, str) else v for n, v in arguments.items()}
    before = s.fusion
    try:
        getattr(s, name)(**given)
    except ScheduleError as e:
        assert s.fusion is before or name == "parallelize"  # of several some may be done
        return str(e).partition("\n")[0] if e.rule == "argument" else f"no {e.rule}"
    return "taken"


@pytest.mark.parametrize("name", CALLS)
def test_each_argument(name: str, golden: Golden) -> None:
    """Of other types, one at a time; other rules than that of types may refuse what has the right
    one.
    """
    arguments = CALLS[name]
    assert set(arguments) == set(inspect.signature(getattr(Schedule, name)).parameters) - {"self"}
    lines = [
        f"{argument}={value!r}: {said(name, arguments | {argument: value})}"
        for argument in arguments
        for value in WRONG
    ]
    assert "\n".join(lines) == golden


def test_each_option(golden: Golden) -> None:
    """What it becomes, or why not: of other types, out of range, of tensors that have none."""
    assert {*OPTIONS, "prints"} == {f.name for f in fields(KernelOptions)}
    s, _ = made()
    lines = []
    for name, values in OPTIONS.items():
        for value in (None, True, -1, 0, 3, "x", {}, *values):
            before = s.options
            try:
                s.configure(**{name: value})
                found = repr(getattr(s.options, name))
            except ScheduleError as e:
                assert s.options is before
                found = f"{e.rule}: {e.why}; {', '.join(e.legal)}".removesuffix("; ")
            lines.append(f"{name}={value!r}: {found}")
    assert "\n".join(lines) == golden


def test_fields_of_a_circular_buffers_type(golden: Golden) -> None:
    lines = []
    for field, values in SPECIALIZED.items():
        for value in values:
            kind: Any = WarpSpecialized
            given = kind(**{"on": ParallelType.TIDy, field: value})
            found = said("circular_buffer", CALLS["circular_buffer"] | {"type": given})
            lines.append(f"{field}={value!r}: {found}")
    assert "\n".join(lines) == golden
