"""What a schedule asks to be printed, as statements behind the leaf that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import TRUE, Expr, Special, Var, binary
from lowering.ground.layouts import ACCUMULATOR, LANES
from lowering.kernel.nodes import Frag, FragPrint, OnWarp, Print, Stmt, one_thread
from lowering.nest.place import Place
from wsched.fusion import IterDomain
from wsched.schedule.options import ELEMENT, DebugPrint
from wsched.schedule.parts import part_of

__all__ = ["printed"]


def printed(place: Place) -> tuple[Stmt, ...]:
    """The prints of a leaf, behind its statements.

    Raises:
        ScheduleError: rule ``debug_print``: a loop or an element that is not there.
    """
    asked = place.scopes.shared.prints
    return tuple(_statement(place, p) for p in asked if place.tensor.name == _tensor(place, p))


def _tensor(place: Place, asked: DebugPrint) -> str:
    """The tensor behind which it is: the one that is named, or that the part named so begins with:
    of a load what it loads first, else what reads its ring.
    """
    plan = place.plan
    for at, part in enumerate(plan.parts):
        if part.name == asked.where:
            main = plan.main(at)
            return part.fills[0] if part.loads or main is None else main.compute
    return asked.where


def _statement(place: Place, asked: DebugPrint) -> Stmt:
    """One print."""
    t, plan = place.tensor, place.plan
    role = plan.parts[part_of(plan.parts, t.name)].name
    when = _when(place, asked)
    found = ELEMENT.fullmatch(asked.value)
    of_tensor = plan.fusion.find(asked.value) is not None
    if found is None and not of_tensor:
        line = Print(role, t.name, _word(asked.value), _number(place, asked), when)
        if _by_one_thread(place):
            return line
        return one_thread(line, of="warpgroup.warp", index=(asked.thread or 0) // 32)
    warp, lane = divmod(asked.thread or 0, 32)
    name, row, col = asked.value, ACCUMULATOR.row(warp, lane, 0, 0), ACCUMULATOR.column(lane, 0, 0)
    if found is not None:
        name, row, col = found[1], int(found[2]), int(found[3])
    value = _fragment(place, asked, name, row, col)
    line_ = FragPrint(role, t.name, f"{name}_{row}_{col}", value, row, col, when)
    return OnWarp(ACCUMULATOR.owner(row, col)[0], (line_,), "warpgroup.warp")


def _by_one_thread(place: Place) -> bool:
    """Whether the thread prints that starts the copy by TMA, or multiplies into tensor memory,
    rather than one of each warpgroup.
    """
    name = place.tensor.name
    loads = {t.name for t in place.fusion.loads} - {*place.fusion.loaded_by_threads}
    return name in loads or any(p.issued and name in p.tensors for p in place.plan.parts)


def _fragment(place: Place, asked: DebugPrint, name: str, row: int, col: int) -> Frag:
    """What is held of a tensor, which has that element."""
    held = place.registers.held.get(name)
    if held is not None and held.value.type.layout == LANES:
        why = f"{name} has registers as tensor memory has lanes, of which no element is printed"
        raise _refused(asked, why, ())
    if held is None or held.value.type.layout != ACCUMULATOR:
        there = tuple(n for n, h in place.registers.held.items())
        raise _refused(asked, f"{name} is in no registers behind {place.tensor.name}", there)
    kind = held.value.type
    if row >= kind.rows or col >= kind.cols:
        raise _refused(asked, f"{name} has {kind.rows} x {kind.cols} elements there", ())
    return held.value


def _number(place: Place, asked: DebugPrint) -> Expr:
    """The index of a loop of the tensor, or of what its loops are made of; or a size."""
    indices = dict(_indices(place))
    sizes = {p for b in (*place.fusion.inputs, *place.fusion.outputs) for p in b.axes}
    if asked.value in sizes - {"1"}:
        return Var(asked.value)
    if asked.value in indices:
        return indices[asked.value]
    raise _refused(asked, f"{place.tensor.name} has no loop {asked.value}", (*indices, *sizes))


def _indices(place: Place) -> Iterator[tuple[str, Expr]]:
    """Labels of the loops whose index is known at a leaf, and of what they were made of."""
    t = place.tensor
    domains: list[IterDomain] = [
        *t.loop,
        *(d for x in t.transforms for d in (*x.inputs, *x.outputs)),
    ]
    for d in domains:
        index = place.found.get(place.graph.group(d))
        if index is not None:
            yield d.label, index


def _when(place: Place, asked: DebugPrint) -> Expr:
    """The predicates that it has, all of them."""
    known: tuple[tuple[str, int | None, Callable[[], Expr | None]], ...] = (
        ("cta", asked.cta, lambda: Special("ctaid.x")),
        ("group", asked.group, lambda: place.group),
        ("tile", asked.tile, lambda: place.work.earlier(place.found)),
        ("step", asked.step, lambda: _step(place)),
    )
    when: Expr = TRUE
    for word, wanted, number in known:
        if wanted is not None:
            found = number()
            if found is None:
                raise _refused(asked, f"no {word} is known behind {place.tensor.name}", ())
            when = binary("and", when, found.eq(wanted))
    return when


def _step(place: Place) -> Expr | None:
    """Which step of its ring the leaf is in: of the one that it fills, else of the one that its
    part reads.
    """
    plan, name = place.plan, place.tensor.name
    filled = next((e.relation for e in plan.edges if name in e.relation.loads), None)
    relation = filled or plan.main(part_of(plan.parts, name))
    return None if relation is None else place.work.step(relation, place.found)


def _word(value: str) -> str:
    """A name as the kernel's text may have it."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in value)


def _refused(asked: DebugPrint, why: str, legal: tuple[str, ...]) -> ScheduleError:
    return ScheduleError("debug_print", str(asked), why, tuple(dict.fromkeys(legal)))
