"""The primitive ``circular_buffer``."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from lowering.ground.expr import Const
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import (
    CircularBuffer,
    CircularBufferType,
    Fusion,
    IterDomain,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    MmaOp,
    ParallelType,
    Pipelined,
    PrimitiveCall,
    Split,
    TensorView,
    WarpSpecialized,
)
from wsched.schedule.primitives.checks import Reasons, find, refuse
from wsched.schedule.warpgroups import ROLES

__all__ = [
    "check_circular_buffer", "circular_buffer", "is_stored", "is_summed", "stepping_loops",
]  # fmt: skip

_WARPS = (ParallelType.TIDx, *ROLES)
_LOADED = (ParallelType.Bulk, ParallelType.Serial, ParallelType.Unroll)
_STORED = (ParallelType.Mma, ParallelType.Serial, *ROLES)
"""What runs the loops inside a stage that is loaded, and inside one that threads store."""

_SUMMED = (ParallelType.Mma, ParallelType.Serial)
"""The same inside one that an mma sums up, which one thread issues."""

_LOADED_BY_THREADS = (*_LOADED, *ROLES)
"""The same where threads load: warpgroups have a part of the stage each."""

_STORES = (LoadStoreOpType.StMatrix, LoadStoreOpType.Set)


def circular_buffer(
    fusion: Fusion,
    tv: str,
    stages: int,
    prefetch: int,
    type: CircularBufferType,
    target: Target = DEFAULT,
) -> Fusion:
    """Put a tensor into a ring of stages, ahead of its use by other warps.

    Args:
        fusion: the fusion.
        tv: name of a tensor in shared memory: a copy of one in global memory, by TMA or by threads
            (``Set``), or a copy of registers (``StMatrix`` of 16 bits, ``Set`` of 32); or of an
            accumulator in tensor memory. What computes these is then a part of its own, with warps
            of its own.
        stages: number of stages; one for steps that are waited for, with nothing ahead.
        prefetch: how many steps it is filled ahead, less than ``stages``; ``stages - prefetch -
            1`` wgmma groups may be in flight before a stage is released.
        type: ``WarpSpecialized(on, num_registers, stage_slice_position)`` or ``Pipelined()``.
        target: the GPU that the kernel is for.

    Legal if loops left of the slice position are serial or on CTAs, all loops right of it lie in
    one stage, and, with warp specialization, the tensor is not inlined into its consumer. The
    serial ones step through the stages: exactly one of a load, whose warps do nothing else; any
    number of what is computed, in the loops of its part. Whether the side that reads can follow
    them is decided when the schedule is complete
    (:func:`wsched.schedule.proof.legality.load_relations`).

    before: ``for tile·k [Serial]: T5 = CpAsyncBulkTensorTile(T2)``
    after ``circular_buffer(fusion, "T5", 4, 2, WarpSpecialized(ParallelType.TIDy))``:
    ``for tile·k [Serial, circular buffer 4 stages]: T5 = CpAsyncBulkTensorTile(T2)``
    """
    call = PrimitiveCall("circular_buffer", (tv, stages, prefetch, type))
    t = find(fusion, tv, call)
    new = replace(t, circular_buffer=CircularBuffer(stages, prefetch, type))
    reasons = check_circular_buffer(fusion, t, new, target)
    refuse("circular_buffer", call, reasons, t, _legal(new))
    return fusion.updated((new,), call=call)


def stepping_loops(t: TensorView) -> tuple[IterDomain, ...]:
    """The serial loops left of the slice position, which step through stages."""
    return tuple(d for d in t.loop[: t.slice_position] if d.parallel is ParallelType.Serial)


def check_circular_buffer(
    fusion: Fusion, t: TensorView, new: TensorView, target: Target = DEFAULT
) -> Reasons:
    """All reasons why ``circular_buffer`` would be illegal; ``new`` is ``t`` with the buffer."""
    b = new.circular_buffer
    loaded, made = t.name in [x.name for x in fusion.loads], is_made(fusion, t)
    if b is None or not (made or (loaded and t.memory is MemoryType.Shared)):
        return [
            f"{t.name} is no copy in shared memory: neither a TMA load or Set of global memory, "
            "nor StMatrix or Set of registers"
        ]
    reasons: Reasons = []
    if t.circular_buffer is not None:
        reasons.append(f"{t.name} is circular-buffered already")
    least = 1 if isinstance(b.type, Pipelined) else 0
    if b.stages <= least:
        reasons.append(f"{b.stages} stages make no ring here, at least {least + 1} do")
    elif not least <= b.prefetch < b.stages:
        reasons.append(f"prefetch {b.prefetch} is not in {least} .. {b.stages - 1}")
    threads = t.name in fusion.loaded_by_threads
    stored = _SUMMED if is_summed(fusion, t) else _STORED
    allowed = stored if made else _LOADED_BY_THREADS if threads else _LOADED
    reasons += _type_reasons(t, b.type, target, made, threads)
    return [*reasons, *_slice_reasons(new, made, allowed)]


def is_made(fusion: Fusion, t: TensorView) -> bool:
    """Whether a tensor fills its stages with what is computed, not loaded."""
    return is_stored(fusion, t) or is_summed(fusion, t)


def is_summed(fusion: Fusion, t: TensorView) -> bool:
    """Whether an mma sums a tensor up in tensor memory."""
    return t.memory is MemoryType.Tensor and isinstance(fusion.definition(t.name), MmaOp)


def is_stored(fusion: Fusion, t: TensorView) -> bool:
    """Whether threads put a tensor into shared memory, from registers."""
    e = fusion.definition(t.name)
    if not isinstance(e, LoadStoreOp) or e.op not in _STORES:
        return False
    return t.memory is MemoryType.Shared and fusion.tensor(e.input).memory is MemoryType.Local


def _type_reasons(
    t: TensorView, type: CircularBufferType, target: Target, stored: bool, threads: bool
) -> Reasons:
    if isinstance(type, Pipelined):
        why = f"{t.name} is computed: who reads it does not run ahead of itself to compute it"
        return [why] if stored else []
    reasons: Reasons = []
    if type.on not in _WARPS:
        reasons.append(f"warps cannot be specialized on {type.on}, only on TIDx, TIDy or TIDz")
    if t.compute_at:
        reasons.append(
            f"{t.name} is inlined at {t.compute_at}: a load warpgroup shares no loop with the "
            "compute warpgroups"
            if not stored
            else f"{t.name} is inlined at {t.compute_at}: warps that compute it share no loop with "
            "those that read it"
        )
    for n in type.num_registers or ():
        if (problem := target.count_problem(n)) is not None:
            reasons.append(f"{problem}, not {n}")
    pair = type.num_registers
    if not (stored or threads) and pair is not None and pair[0] > pair[1]:
        load, compute = pair
        reasons.append(f"the load warpgroup has {load} registers, more than {compute} to compute")
    return reasons


def _slice_reasons(new: TensorView, stored: bool, inside: tuple[ParallelType, ...]) -> Reasons:
    position = new.slice_position
    if not 0 < position <= len(new.loop):
        return [f"the slice position {position} is not in 1 .. {len(new.loop)}"]
    box = ParallelType.Mma if stored else ParallelType.Bulk
    turns = () if inside is _LOADED else _WARPS
    reasons = [
        f"loop {d.label} [{d.parallel}] lies in a stage"
        for d in new.loop[position:]
        if d.parallel not in inside
    ]
    reasons += [
        f"loop {d.label} [{d.parallel}] is left of the slice position {position}"
        for d in new.loop[:position]
        if d.parallel is box or d.parallel in turns
    ]
    serial = stepping_loops(new)
    if not serial or (len(serial) > 1 and not stored):
        names = ", ".join(d.label for d in serial) or "none"
        loops = "at least one" if stored else "one"
        reasons.append(
            f"{new.name} has {len(serial)} serial loops left of position {position} ({names}), "
            f"a ring of stages is stepped through by {loops}"
        )
    return reasons


def _legal(new: TensorView) -> tuple[str, ...]:
    """The calls that leave one serial loop: the box to TMA, and merges of what is left."""
    if ParallelType.Mma in {d.parallel for d in new.loop}:
        return ()
    stepping = stepping_loops(new) if 0 < new.slice_position <= len(new.loop) else ()
    serial = tuple(new.loop.index(d) for d in stepping)
    box = _box(new, serial)
    calls: tuple[str, ...] = ()
    if box and len(box) < len(serial):
        calls = (str(PrimitiveCall("parallelize", (new.name, list(box), ParallelType.Bulk))),)
        serial = serial[: -len(box)]
    adjacent = all(b == a + 1 for a, b in pairwise(serial))
    if len(serial) < 2 or not adjacent:
        return calls
    call = f"merge({new.name!r}, {serial[0]}, {serial[0] + 1})"
    return calls + (call,) * (len(serial) - 1)


def _box(new: TensorView, serial: tuple[int, ...]) -> tuple[int, ...]:
    """The innermost serial loops that look like a box, where nobody said where a stage begins.

    Each has an extent that is known and is the innermost part of a dimension of its own.
    """
    b = new.circular_buffer
    if b is None or (
        isinstance(b.type, WarpSpecialized) and b.type.stage_slice_position is not None
    ):
        return ()
    taken = {_dimension(new, d) for d in new.loop[new.slice_position :]}
    found: list[int] = []
    for p, right in zip(reversed(serial), range(new.slice_position - 1, -1, -1), strict=False):
        d = new.loop[p]
        of = _dimension(new, d)
        if p != right or of is None or of in taken or not isinstance(d.extent, Const):
            break
        taken.add(of)
        found.insert(0, p)
    return tuple(found)


def _dimension(t: TensorView, d: IterDomain) -> IterDomain | None:
    """The dimension that a loop is a part of; None for a loop over several."""
    made = {x.id: s for s in t.transforms for x in s.outputs}
    while (step := made.get(d.id)) is not None:
        if not isinstance(step, Split):
            return None
        d = step.input
    return next((x for x in t.logical if x.id == d.id), None)
