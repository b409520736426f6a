"""The schedules that there is a lowering for: a legal one that it would not follow is refused.

The legality proof ties the two sides together; it leaves open how a tile is computed and stored.
The lowering builds one form of each, and here the fusion is asked for exactly that form, so that
the nests that are dumped are the nests that run.
"""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const
from lowering.nest.domains import origins
from lowering.target.hopper import HOPPER
from wsched.fusion import (
    Fusion,
    IterDomain,
    IterType,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    TensorView,
    nest_text,
)
from wsched.schedule.plan import Plan
from wsched.schedule.primitives.circular_buffer import serial_left_of_slice
from wsched.schedule.proof.digits import load_digits
from wsched.schedule.proof.relation import LoadRelation

__all__ = ["LOAD_WARPS", "require_lowerable"]

LOAD_WARPS = 4
"""Warps of the load warpgroup; each fills one circular buffer."""

_BOX_DIMS = 2
_MAIN_LOOP = (
    f"one loop over k slices, then [K / 16, M / {HOPPER.mma.m} | Mma: {HOPPER.mma.m}, N, 16]"
)
_READ = "CpAsyncBulkTensorTile -> shared -> LdMatrix (16 bits) or Set (32 bits) -> registers"
_STORE = (
    "registers -> StMatrix (16 bits) or Set (32 bits) -> shared -> CpAsyncBulkTensorTile, or "
    "registers -> Set"
)


def require_lowerable(plan: Plan) -> None:
    """Refuse a schedule whose main loop or epilogue has another form than the one that is built.

    Args:
        plan: the schedule, proved.

    Raises:
        UnsupportedError: what the schedule has, what is built, and the nest in the hint.
    """
    fusion = plan.fusion
    relation, *others = plan.relations
    acc = fusion.tensor(relation.compute)
    _require_parts(acc, relation)
    if relation.combines and others:
        what = f"{others[0].loads[0]} circular-buffered where CTAs add up parts of a tile"
        supported = "matrices of the epilogue read from global memory there"
        raise _refused(what, supported, fusion.tensor(others[0].compute))
    _require_main_loop(fusion, acc, relation)
    for r in plan.relations:
        _require_bounds(fusion.tensor(r.compute), r)
        _require_one_load_loop(plan, r)
    for binding in fusion.outputs:
        _require_store(fusion, fusion.tensor(binding.tensor))
    if relation.dynamic and not relation.warp_specialized:
        what = "tiles that are dealt out at run time with Pipelined loads"
        raise _refused(what, "WarpSpecialized: a warp of the load warpgroup fetches tiles", acc)
    most = LOAD_WARPS - 1 - int(relation.dynamic)
    if len(others) > most:
        what = f"{len(others)} circular buffers for the epilogue"
        why = ", and one fetches tiles" if relation.dynamic else ""
        raise UnsupportedError(what, f"{most}: each has a warp of the load warpgroup{why}")
    for other in others:
        _require_read(fusion, other, relation)


def _require_parts(acc: TensorView, relation: LoadRelation) -> None:
    """Loops on other CTAs than those along x are parts of K, as many as the kernel is built for."""
    for d in acc.loop:
        if d.parallel is ParallelType.BIDy or (
            d.parallel is ParallelType.BIDz and (_axis(acc, d), _size(d)) != ("K", relation.splits)
        ):
            what = f"loop {d.label} {d.extent} [{d.parallel}] of {acc.name}"
            raise _refused(what, "BIDx for tiles, BIDz for a constant number of parts of K", acc)


def _require_bounds(t: TensorView, relation: LoadRelation) -> None:
    """One predicate ends all loops, and warpgroups on TIDy either share or take turns."""
    trimmed = [s.domain.label for s in relation.digits if s.trimmed]
    if relation.tail is None and (trimmed or relation.entry is not None):
        what = (
            f"{t.name}, where {', '.join(trimmed) or 'a warpgroup with nothing to do'} ends early"
        )
        raise _refused(what, "one predicate that ends the outermost loop over tiles", t)
    roles = [d for d in t.loop if d.parallel in (ParallelType.TIDy, ParallelType.TIDz)]
    if len(roles) > 1 or any(d.parallel is ParallelType.TIDz for d in roles):
        what = " and ".join(f"loop {d.label} [{d.parallel}]" for d in roles)
        raise _refused(f"{what} of {t.name}", "one loop over warpgroups, on TIDy", t)
    tiles = [s for s in relation.digits[: relation.outside] if not s.role]
    if relation.splits > 1 and tiles and relation.tail is None:
        what = f"{relation.splits} parts of K with tiles in turn that nothing ends"
        raise _refused(what, "tiles of all CTAs, merged and split by their number", t)


def _require_one_load_loop(plan: Plan, relation: LoadRelation) -> None:
    """A load loop that is one for all tensors, and passes over nothing but at its end."""
    graph, fusion = plan.graph, plan.fusion
    first = fusion.tensor(relation.loads[0])
    known = graph.known(fusion.tensor(relation.compute))
    _, cut = load_digits(graph, graph.group(relation.loop), known)
    for t in map(fusion.tensor, relation.loads):
        if graph.group(t.loop[serial_left_of_slice(t)[0]]) != graph.group(relation.loop):
            raise _refused(f"other load loops of {t.name} than of {first.name}", "one for both", t)
        inside = t.loop[t.slice_position :]
        if len([d for d in inside if d.iter_type is not IterType.Broadcast]) != _BOX_DIMS:
            names = ", ".join(d.label for d in inside)
            raise _refused(f"a stage of {t.name} of {names}", "one box of rows and columns", t)
    for group in cut:
        if group != relation.nest[0].group and relation.interval is None:
            what = f"a load loop that passes over indices of {group.label}"
            raise _refused(what, "the same splits on both sides", first)


def _require_main_loop(fusion: Fusion, acc: TensorView, relation: LoadRelation) -> None:
    steps = {s.domain.id for s in relation.steps}
    slices = [p for p, d in enumerate(acc.loop) if d.id in steps and _axis(acc, d) == "K"]
    if len(slices) != 1:
        raise _refused(f"{len(slices)} serial loops over K slices", _MAIN_LOOP, acc)
    inner = acc.loop[slices[0] + 1 :]
    k = HOPPER.mma.k_bytes // fusion.tensor(fusion.mma.a).dtype.bytes
    found = [(_axis(acc, d), d.parallel, _size(d)) for d in inner]
    wanted = [("K", ParallelType.Serial), ("M", ParallelType.Serial)]
    wanted += [(axis, ParallelType.Mma) for axis in "MNK"]
    shape = [(axis, parallel) for axis, parallel, _ in found]
    if shape != wanted or (found[2][2], found[4][2]) != (HOPPER.mma.m, k):
        text = ", ".join(f"{d.label} {d.extent} [{d.parallel}]" for d in inner) or "no loop"
        raise _refused(f"{text} inside a k slice", _MAIN_LOOP, acc)
    outside = slices[0]
    if outside and acc.loop[outside - 1].parallel is ParallelType.BIDz:
        outside -= 1  # parts of K on other CTAs, which are added up
    if acc.compute_at != outside:
        what = f"{acc.name} inlined at {acc.compute_at}"
        raise _refused(what, f"{outside}: accumulated over the k slices of a tile", acc)


def _require_store(fusion: Fusion, out: TensorView) -> None:
    copy = fusion.definition(out.name)
    if isinstance(copy, LoadStoreOp) and copy.op is LoadStoreOpType.Set:
        _require_direct_store(fusion, out, fusion.tensor(copy.input))
        return
    staged = fusion.tensor(copy.input) if isinstance(copy, LoadStoreOp) else None
    write = fusion.definition(staged.name) if staged is not None else None
    kind = LoadStoreOpType.StMatrix if out.dtype.bytes == 2 else LoadStoreOpType.Set
    if (
        not isinstance(copy, LoadStoreOp)
        or copy.op is not LoadStoreOpType.CpAsyncBulkTensorTile
        or staged is None
        or staged.memory is not MemoryType.Shared
        or not isinstance(write, LoadStoreOp)
        or write.op is not kind
    ):
        raise _refused(f"{out.name} = {copy}", _STORE, out)
    chunks = _chunks(out)
    box = [d.parallel for d in out.loop[-2:]]
    if box != [ParallelType.Bulk] * 2 or chunks != [len(out.loop) - 3]:
        raise _refused(f"the loops of {out.name}", "[..., chunk | Bulk: rows, columns]", out)
    for t in (staged, fusion.tensor(write.input)):
        _require_chunks(fusion, t, chunks[0])


def _require_direct_store(fusion: Fusion, out: TensorView, value: TensorView) -> None:
    """A result whose threads write what they hold of it: the fragments are its loops."""
    if value.memory is not MemoryType.Local:
        raise _refused(f"{out.name} = Set({value.name}) from {value.memory}", _STORE, out)
    chunks, loops = _chunks(out), out.loop[-4:]
    fragment = [d.parallel for d in loops[1:]] == [ParallelType.Serial, *[ParallelType.Mma] * 2]
    if chunks != [len(out.loop) - 4] or not fragment or _size(loops[2]) != HOPPER.mma.m:
        wanted = f"[..., chunk, M / {HOPPER.mma.m} | Mma: {HOPPER.mma.m}, columns]"
        raise _refused(f"the loops of {out.name}", wanted, out)
    _require_chunks(fusion, value, chunks[0])


def _chunks(out: TensorView) -> list[int]:
    """Where the serial loops over columns of a result stand."""
    columns = out.logical[1].id
    return [
        p
        for p, d in enumerate(out.loop)
        if d.parallel is ParallelType.Serial and origins(out, d) == {columns}
    ]


def _require_chunks(fusion: Fusion, t: TensorView, chunk: int) -> None:
    # An fp32 result may be the accumulator itself, which is complete before the first chunk.
    if t.name != fusion.mma.output and t.compute_at <= chunk:
        what = f"{t.name} inlined at {t.compute_at}"
        raise _refused(what, f"at least {chunk + 1}: stored chunk by chunk", t)


def _require_read(fusion: Fusion, relation: LoadRelation, operands: LoadRelation) -> None:
    """A matrix of the epilogue: loaded beside the operands, read chunk by chunk into registers."""
    staged, t = fusion.tensor(relation.loads[0]), fusion.tensor(relation.compute)
    if not relation.warp_specialized or relation.buffer.type != operands.buffer.type:
        what = f"{staged.name} loaded by {relation.buffer.type} and the operands by "
        raise _refused(f"{what}{operands.buffer.type}", "WarpSpecialized alike", staged)
    read = fusion.definition(t.name)
    kind = LoadStoreOpType.LdMatrix if t.dtype.bytes == 2 else LoadStoreOpType.Set
    if not isinstance(read, LoadStoreOp) or read.op is not kind or t.memory is not MemoryType.Local:
        raise _refused(f"{t.name} = {read}", _READ, t)
    innermost = max((t.loop.index(s.domain) for s in relation.steps), default=0)
    if t.compute_at <= innermost:
        what = f"{t.name} inlined at {t.compute_at}"
        raise _refused(what, f"at least {innermost + 1}: read chunk by chunk", t)


def _refused(what: str, supported: str, t: TensorView) -> UnsupportedError:
    return UnsupportedError(what, supported, f"The nest is:\n{nest_text(t)}")


def _axis(acc: TensorView, d: IterDomain) -> str:
    """Which of M, N and K a loop of the accumulator was made from; empty if from several."""
    names = {r.id: axis for r, axis in zip(acc.logical, "MNK", strict=True)}
    found = {names[i] for i in origins(acc, d)}
    return found.pop() if len(found) == 1 else ""


def _size(d: IterDomain) -> int:
    return d.extent.value if isinstance(d.extent, Const) else 0
