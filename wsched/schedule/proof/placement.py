"""The rest of the nest: what stands around the edges keeps to the loops that were proved.

The relations tie each ring to the tensor that reads it. What is computed from there on must be
computed where its inputs are: between the memories that a copy is made for, in the loops that both
share where one is inlined into the other, by the same CTA and the same warpgroup, a tile at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import ONE, Const
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import (
    Fusion,
    FusionExpr,
    IterDomain,
    IterType,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    MmaOp,
    ParallelType,
    PrimitiveCall,
    ReductionOp,
    TensorView,
    inputs_of,
    nest_text,
)
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.parts import Part
from wsched.schedule.primitives.inline_at import check_inline_at, deepest_inlining
from wsched.schedule.proof.nest import waits
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.sides import CTA_INDEX, ROLES
from wsched.schedule.words import runs, words

__all__ = [
    "check_inlining", "check_main_loops", "check_memory", "check_order", "check_places",
    "check_reductions", "check_storage",
]  # fmt: skip

_SHARED, _LOCAL, _TENSOR = MemoryType.Shared, MemoryType.Local, MemoryType.Tensor
_TMA = LoadStoreOpType.CpAsyncBulkTensorTile


def check_memory(fusion: Fusion, target: Target = DEFAULT) -> None:
    """Copies and sums run between the memories that they are made for.

    Args:
        fusion: the complete schedule.
        target: the GPU, which has accumulators in registers or in tensor memory.

    Raises:
        ScheduleError: ``memory``.
    """
    for e in fusion.exprs:
        for name, memory in _memories(fusion, e, target):
            t = fusion.tensor(name)
            if t.memory is not memory:
                does = "writes" if name == e.output else "reads"
                what = "mma" if isinstance(e, MmaOp) else str(getattr(e, "op", e))
                raise ScheduleError(
                    "memory",
                    _wrote(fusion, "set_memory_type", name) or f"{e.output} = {e}",
                    f"{what} {does} {memory} memory, {name} is in {t.memory} memory",
                    (str(PrimitiveCall("set_memory_type", (name, memory))),),
                    nest_text(t),
                )


def _memories(fusion: Fusion, e: FusionExpr, target: Target) -> Iterator[tuple[str, MemoryType]]:
    """The tensors of an expression that have to be in a certain memory, and in which."""
    match e:
        case MmaOp():
            yield e.output, _LOCAL if target.tensor_memory is None else _TENSOR
        case LoadStoreOp(op=LoadStoreOpType.LdTMem):
            yield from ((e.input, _TENSOR), (e.output, _LOCAL))
            return
        case ReductionOp():
            yield from ((e.input, _LOCAL), (e.output, _LOCAL))
        case LoadStoreOp(op=LoadStoreOpType.LdMatrix):
            yield from ((e.input, _SHARED), (e.output, _LOCAL))
        case LoadStoreOp(op=LoadStoreOpType.StMatrix):
            yield from ((e.input, _LOCAL), (e.output, _SHARED))
        case LoadStoreOp(op=LoadStoreOpType.CpAsyncBulkTensorTile):
            loads = fusion.tensor(e.input).memory is MemoryType.Global
            yield (e.output if loads else e.input), _SHARED
    yield from ((n, _LOCAL) for n in inputs_of(e) if fusion.tensor(n).memory is _TENSOR)


def _wrote(fusion: Fusion, op: str, name: str) -> str:
    """The last call of a primitive on a tensor; empty if there was none."""
    return next((str(r) for r in reversed(fusion.history) if (r.op, r.args[0]) == (op, name)), "")


def check_inlining(fusion: Fusion, graph: TransformGraph) -> None:
    """Inlined tensors still share the loops of what reads them, whatever was done since.

    Raises:
        ScheduleError: ``inline``.
    """
    for t in fusion.tensors:
        reasons = check_inline_at(fusion, t, t.compute_at, graph) if t.compute_at else []
        if reasons:
            wrote = _wrote(fusion, "inline_at", t.name)
            deepest = deepest_inlining(fusion, t, graph)
            legal = _inlinings(fusion, t, [] if deepest is None else [deepest], graph)
            raise ScheduleError("inline", wrote, "; ".join(reasons), legal, nest_text(t))


def check_order(fusion: Fusion, graph: TransformGraph, parts: Iterable[Part]) -> None:
    """Loops that tensors share can be run: nothing in them waits for what comes after them.

    Raises:
        ScheduleError: ``inline``.
    """
    for part in parts:
        circle = waits(fusion, graph, part.tensors)
        if circle:
            reads = ", ".join(f"{w.reader} reads {w.read}" for w in circle)
            shares = ", ".join(
                f"{w.reader} shares loop {w.loop} with {before.read}"
                for before, w in zip((circle[-1], *circle), circle, strict=False)
                if before.read != w.reader
            )
            raise ScheduleError(
                "inline",
                f"{circle[0].reader} = {fusion.definition(circle[0].reader)}",
                f"{reads}, but {shares}: none of them can be computed first",
                (),
                "\n".join(nest_text(fusion.tensor(w.reader)) for w in circle),
            )


def _held(fusion: Fusion) -> Iterator[TensorView]:
    """Tensors that are made and read by the same warps: all but inputs, results and rings."""
    for e in fusion.exprs:
        t = fusion.tensor(e.output)
        if t.memory is not MemoryType.Global and t.circular_buffer is None:
            yield t


def check_places(fusion: Fusion, graph: TransformGraph) -> None:
    """What a tensor is computed from is held by the CTA and the warpgroup that compute it.

    A loop on CTAs or warpgroups must be one of both; only a sum that CTAs add up (BIDz) ends.

    Raises:
        ScheduleError: ``place``.
    """
    for t, reader in _apart(fusion, graph):
        places = _places(graph, t, IterType.Reduction), _places(graph, reader)
        on = [runs(graph, p.values()) for p in places]
        here, there = (", ".join(w) or "no such loop" for w in words(graph, *on))
        raise ScheduleError(
            "place",
            f"{reader.name} = {fusion.definition(reader.name)}",
            f"{t.name} is computed on {here}, {reader.name}, which reads it, on {there}: what a "
            "CTA or a warpgroup holds no other one can read",
            (f"split and parallelize {reader.name} as {t.name}",),
            f"{nest_text(t)}\n{nest_text(reader)}",
        )


def _apart(fusion: Fusion, graph: TransformGraph) -> Iterator[tuple[TensorView, TensorView]]:
    """Tensors that are computed on other CTAs or warpgroups than what reads them, with that. What
    is loaded in place all warpgroups of the part wait for, whoever of them brought it.
    """
    loads = {t.name for t in fusion.loads}
    for t in (t for t in _held(fusion) if t.name not in loads):
        mine = _places(graph, t, IterType.Reduction)
        for reader in fusion.consumers(t.name):
            if mine.keys() != _places(graph, reader).keys():
                yield t, reader


Places = dict[tuple[Group, ParallelType], IterDomain]


def _places(graph: TransformGraph, t: TensorView, without: IterType | None = None) -> Places:
    """The loops on CTAs and warpgroups, of more than one iteration."""
    return {
        (graph.group(d), d.parallel): d
        for d in t.loop
        if (d.parallel in CTA_INDEX or d.parallel in ROLES)
        and d.iter_type is not without
        and d.extent != ONE
    }


def check_reductions(fusion: Fusion) -> None:
    """What is reduced over is in one CTA and one warpgroup: nobody puts together what several have.

    Raises:
        ScheduleError: ``reduction``.
    """
    for e in fusion.exprs:
        t = fusion.tensor(e.output)
        if not isinstance(e, ReductionOp):
            continue
        for d in t.loop:
            if d.iter_type is IterType.Reduction and (
                d.parallel in CTA_INDEX or d.parallel in ROLES
            ):
                raise ScheduleError(
                    "reduction",
                    f"{t.name} = {e}",
                    f"loop {d.label}, which {t.name} is reduced over, runs on {d.parallel}: each "
                    "would be left with a part of the result",
                    (f"rfactor of {t.name}: the parts are results, one for each of {d.label}",),
                    nest_text(t),
                )


def check_storage(fusion: Fusion, graph: TransformGraph) -> None:
    """What a tensor holds at a time has a size that is known when the kernel is made.

    Raises:
        ScheduleError: ``storage``.
    """
    for t, d in _unknown(fusion):
        why = (
            f"{t.name} would hold all of loop {d.label}, whose extent {d.extent} is not known when "
            "the kernel is made: what it holds"
        )
        raise _too_far_out("storage", why, fusion, graph, t, d)


def check_main_loops(
    fusion: Fusion, graph: TransformGraph, relations: Iterable[LoadRelation]
) -> None:
    """Warpgroups that take turns sum one tile in a turn: its sums are read before the next begins.

    Raises:
        ScheduleError: ``role``.
    """
    for r in (r for r in relations if r.roles):
        loops = [s.domain for s in r.digits[: r.outside] if not s.role]
        tiles = {graph.group(d) for d in loops if d.extent != ONE}
        for t in (fusion.tensor(e.output) for e in fusion.mmas if e.output in r.readers):
            places = [p for p, d in enumerate(t.loop) if graph.group(d) in tiles]
            last = max(places, default=-1)
            if last < t.compute_at:
                continue
            turns = ", ".join(s.domain.label for s in r.roles)
            why = (
                f"a turn of {turns} would take the tiles of all iterations of loop "
                f"{t.loop[last].label}, those of other warpgroups between them: what {t.name} holds"
            )
            raise _too_far_out("role", why, fusion, graph, t, t.loop[last])


def _too_far_out(
    rule: str, why: str, fusion: Fusion, graph: TransformGraph, t: TensorView, d: IterDomain
) -> ScheduleError:
    """A tensor has to be computed inside of its loop ``d``; ``why`` ends with what it holds."""
    return ScheduleError(
        rule,
        _wrote(fusion, "inline_at", t.name) or f"{t.name} = {fusion.definition(t.name)}",
        f"{why} is computed inside of {t.compute_at} of its loops",
        _inlinings(fusion, t, range(t.loop.index(d) + 1, len(t.loop) + 1), graph),
        nest_text(t),
    )


def _unknown(fusion: Fusion) -> Iterator[tuple[TensorView, IterDomain]]:
    """Tensors that would hold all of a loop whose extent is not known, with that loop."""
    for t in _held(fusion):
        for d in t.loop[t.compute_at :]:
            runs = d.parallel in CTA_INDEX or d.parallel in ROLES
            known = d.iter_type is IterType.Reduction or isinstance(d.extent, Const)
            if not runs and not known:
                yield t, d


def _inlinings(
    fusion: Fusion, t: TensorView, positions: Iterable[int], graph: TransformGraph
) -> tuple[str, ...]:
    """The calls with the smallest position that nothing here is against, and with the largest."""
    legal = [p for p in positions if _fits(fusion, t, p, graph)]
    ends = dict.fromkeys((*legal[:1], *legal[-1:]))
    return tuple(str(PrimitiveCall("inline_at", (t.name, p))) for p in ends)


def _fits(fusion: Fusion, t: TensorView, position: int, graph: TransformGraph) -> bool:
    """Whether a tensor may be inlined there, and everything is where it is read and has a size."""
    inlined = fusion.updated((replace(t, compute_at=position),))
    wrong = (*check_inline_at(fusion, t, position, graph), *_apart(inlined, graph))
    return not wrong and not any(_unknown(inlined))
