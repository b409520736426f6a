"""The parts that compute, as they are lowered: what each reads, fills and adds up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE
from lowering.nest.accumulator import Accumulator
from lowering.nest.refusal import refused
from wsched.fusion import MemoryType, TensorView, inputs_of
from wsched.schedule.plan import Plan
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.sides import ROLES
from wsched.schedule.proof.tile_steps import dealt_tiles

__all__ = ["Computing", "computing_parts"]


@dataclass(frozen=True, slots=True)
class Computing:
    """A part that computes.

    Args:
        name: of its section, that of no other.
        tensors: their names, in topological order.
        main: the relation that says which loops it runs.
        rings: name and relation of each ring that it reads or fills, by the tensors in it.
        accumulators: what it adds up, all in the same loops.
        event: what its loops within a tile are to the tile (``lowering.kernel.control.EVENTS``).
        registers: of a thread, None where they stay as the kernel starts with them.
        issued: whether one thread issues all of it.
    """

    name: str
    tensors: tuple[str, ...]
    main: LoadRelation
    rings: Mapping[str, tuple[str, LoadRelation]]
    accumulators: tuple[Accumulator, ...]
    event: str
    registers: int | None
    issued: bool = False

    @property
    def held(self) -> tuple[Accumulator, ...]:
        """What it adds up in registers."""
        return tuple(a for a in self.accumulators if a.tensor.memory is not MemoryType.Tensor)


def computing_parts(plan: Plan) -> tuple[Computing, ...]:
    """Those of a plan, in its order.

    Raises:
        UnsupportedError: one reads no ring, or sums over the steps of another ring than its main
            one, or deals out steps of a tile in turns that wait for each other; or the whole has
            several, and CTAs share tiles, or sums are over groups.
    """
    found = tuple(_named(plan))
    _require_turns(plan)
    if len(found) > 1:
        _require_whole_tiles(plan)
    return found


def _named(plan: Plan) -> Iterator[Computing]:
    taken: list[str] = []
    for at in plan.computing:
        part, main = plan.parts[at], plan.main(at)
        if main is None:
            raise UnsupportedError(
                f"{part.tensors[-1]}, which is computed of nothing that a ring brings",
                "parts that read what TMA loads into a circular buffer",
            )
        _require_numbered_alike(plan, at, main)
        reads, fills = plan.into(at), [e for e in plan.rings if e.producer == at]
        rings = {t: (e.name, e.relation) for e in (*reads, *fills) for t in e.relation.loads}
        name = f"{part.name}{taken.count(part.name) or ''}"
        taken.append(part.name)
        sums = _accumulators(plan, at, main)
        event = "main_loop" if sums else part.name
        numbers = plan.registers(at)
        yield Computing(name, part.tensors, main, rings, sums, event, numbers, part.issued)


def _require_numbered_alike(plan: Plan, at: int, main: LoadRelation) -> None:
    """Warpgroups are numbered once, those that share a tile beside each other in the order in which
    they deal out its steps.

    Raises:
        UnsupportedError: two rings want different numbers.
    """
    for e in plan.into(at):
        mine, given = e.relation.warpgroups, main.warpgroups
        if mine.dealing > 1 and mine.extents != given.extents:
            what, (on, _), (there, _) = (
                " and ".join(e.relation.loads),
                mine.extents[0],
                given.extents[0],
            )
            raise refused(
                plan.fusion.tensor(e.relation.compute),
                f"{what} dealt out to warpgroups that are neighbours on {on}",
                f"neighbours on {there}: they are numbered as {' and '.join(main.loads)} are read",
            )


def _require_turns(plan: Plan) -> None:
    """A turn with a ring is all that a warpgroup does to it in a tile (``order_pingpong``).

    Raises:
        UnsupportedError: turns of whole tiles would stop, where those of single steps would not.
    """
    for tile in dealt_tiles(plan.fusion, plan.graph, plan.parts, plan.edges):
        found = tile.stops(turns=True)
        if found is not None:
            raise refused(
                plan.fusion.tensor(found.dealt.compute),
                f"{found.loops}, which deals out the steps of a tile, where a warpgroup waits for "
                f"steps of {found.others} within its turn, and the next one holds those",
                " or ".join(found.legal) or "rings that are dealt out alike",
            )


def _accumulators(plan: Plan, at: int, main: LoadRelation) -> tuple[Accumulator, ...]:
    """What a part adds up over the steps of its main ring.

    Raises:
        UnsupportedError: there are several where CTAs add up parts of a tile; or one of another
            ring; or of what fills none.
    """
    fusion, edges = plan.fusion, plan.into(at)
    sums = [t for t in map(fusion.tensor, main.readers) if t.sums]
    if plan.work.slots is not None and len(sums) > 1:
        raise refused(
            sums[1],
            f"{' and '.join(t.name for t in sums)} of which CTAs add up parts",
            "one accumulator where they do",
        )
    for e in edges:
        for t in (t for t in map(fusion.tensor, e.relation.readers) if t.sums):
            if t not in sums or not _steps_alike(e.relation, main, t):
                raise refused(
                    t,
                    f"{t.name} = {fusion.definition(t.name)} over the steps of another ring than "
                    f"{', '.join(main.loads)}",
                    "sums over the steps of one ring",
                )
    brought = {name for e in edges for name in e.relation.loads}
    for t in sums:
        _require_told(plan, t)
        _require_rings(plan, t, brought)
    return tuple(Accumulator.of(t, main, plan.graph) for t in sums)


def _require_told(plan: Plan, t: TensorView) -> None:
    """Sums in tensor memory fill a ring. Who reads them and issues their products is one
    warpgroup, and has whole tiles, of no groups.

    Raises:
        UnsupportedError: they fill none; or several warpgroups have sums of their own; or tiles
            are those of groups, or dealt out in parts.
    """
    if t.memory is not MemoryType.Tensor or t.circular_buffer is not None:
        return
    if not t.in_place:
        what = f"{t.name} in tensor memory, of which nobody says when it is whole"
        raise refused(t, what, f"{t.name} inlined in the loops over tiles, or circular-buffered")
    for d in (d for d in t.loop if d.parallel in ROLES and d.extent != ONE):
        what = f"loop {d.label} {d.extent} [{d.parallel}] of {t.name} in tensor memory, in no ring,"
        raise refused(t, what, f"one warpgroup, or circular_buffer of {t.name}: others read it")
    work = plan.work
    if plan.fusion.groups is not None or work.slots is not None or work.ends_within_tiles:
        what = f"{t.name} in tensor memory, in no ring, of groups or of tiles that CTAs share"
        raise refused(t, what, "whole tiles of one matmul")


def _steps_alike(one: LoadRelation, main: LoadRelation, t: TensorView) -> bool:
    """Whether a tensor takes the steps of two rings together."""
    steps = [
        [(s.domain.id, s.stop) for s in r.digits if s.stop != ONE]
        for r in (one, main) if t.name == r.compute
    ]  # fmt: skip
    return one is main or (len(steps) == 2 and steps[0] == steps[1])


def _require_rings(plan: Plan, t: TensorView, brought: set[str]) -> None:
    """What a sum reads comes through rings, or one operand through registers."""
    e = plan.fusion.definition(t.name)
    read = () if e is None else inputs_of(e)
    in_registers = [n for n in read if plan.fusion.tensor(n).memory is MemoryType.Local]
    for name in (n for n in read if n not in {*brought, *in_registers[:1]}):
        raise refused(
            t,
            f"{t.name} = {e} of {name}, which fills no ring",
            "products of what TMA loads into a circular buffer",
        )


def _require_whole_tiles(plan: Plan) -> None:
    """Several parts run whole tiles, and load for nobody.

    Raises:
        UnsupportedError: CTAs share tiles, or sums are over groups; or those who compute load.
    """
    t = plan.fusion.tensor(plan.operands.compute)
    what = f"{len(plan.computing)} parts that compute"
    for r in plan.relations:
        if r.work.slots is not None or r.work.ends_within_tiles:
            raise refused(t, f"{what}, of tiles that CTAs share", "whole tiles")
        if not r.warp_specialized:
            raise refused(t, f"{what}, with Pipelined loads", "loads by a load warpgroup")
    if plan.fusion.sums_of_groups:
        raise refused(t, f"{what}, of sums over groups", "groups of rows or columns")
    for ring in plan.rings:
        edges = [e.relation.warpgroups for e in plan.edges if e.name == ring.name]
        teams = {w.teams * w.dealing for w in edges}
        if len(teams) > 1:
            what = f"{', '.join(ring.relation.loads)} read by parts of {sorted(teams)} turns"
            raise refused(t, what, "as many turns in all parts that read a ring")
