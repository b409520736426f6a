"""Following what a refusal says is legal: the calls of a schedule, changed as it says.

What is said in words has a rule here that changes calls and nothing else; ``PROSE`` is what leaves
more than one way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from lowering.ground.expr import Const, Expr, Special
from wsched.fusion import CircularBufferType, Fusion, ParallelType, PrimitiveCall, WarpSpecialized
from wsched.schedule import Schedule
from wsched.schedule.primitives.replay import replay
from wsched.schedule.text import parse_calls

__all__ = ["PROSE", "followed"]

PROSE = (
    "split both sides by the same factors",
    "parallelize the loop over CTAs on both sides, leave it out of the merge",
    "merge tiles and k",
    "the number of tiles",
    r"at most \d+ warpgroups that compute",
    r"parallelize \S+ on BIDz on both sides",
    r"split and parallelize \S+ as \S+",
)
"""What leaves it to the reader which calls to change: patterns."""

Calls = tuple[PrimitiveCall, ...]
_NUMBER = Const(4)


def followed(fusion: Fusion, advice: str, unscheduled: Fusion) -> Fusion:
    """The schedule with its calls changed as ``advice`` says.

    Args:
        fusion: what was refused.
        advice: one of the alternatives that the refusal names.
        unscheduled: the fusion without a call.

    Raises:
        ScheduleError: a call is refused now.
    """
    calls = fusion.history
    for pattern, follow in _WORDS.items():
        found = re.fullmatch(pattern, advice)
        if found:
            return replay(unscheduled, follow(calls, *found.groups()))
    order = re.fullmatch(r"merge the load loops as (.*)", advice)
    if order:
        return _merged_as(calls, unscheduled, order[1].split("·"))
    inside = re.fullmatch(r"reorder (\S+) so that (\S+) is right of (\S+)", advice)
    if inside:
        return _reordered(calls, unscheduled, *inside.groups())
    call = next(call for _, call in parse_calls(f"def schedule(s):\n    s.{advice}\n"))
    return replay(unscheduled, _in_place(calls, call))


def _in_place(calls: Calls, call: PrimitiveCall) -> Calls:
    """In place of the last call of that primitive on that tensor, of ``parallelize`` on that loop;
    or behind all.
    """
    of = 2 if call.op == "parallelize" else 1
    same = [n for n, c in enumerate(calls) if (c.op, c.args[:of]) == (call.op, call.args[:of])]
    if not same:
        return (*calls, call)
    return (*calls[: same[-1]], call, *calls[same[-1] + 1 :])


def _each(calls: Calls, op: str, change: Callable[[PrimitiveCall], PrimitiveCall]) -> Calls:
    return tuple(change(c) if c.op == op else c for c in calls)


def _in_turn(calls: Calls, _: str) -> Calls:
    def change(c: PrimitiveCall) -> PrimitiveCall:
        return replace(c, kwargs=tuple(k for k in c.kwargs if k[0] != "dynamic"))

    return _each(calls, "split", change)


def _rings(calls: Calls, change: Callable[[CircularBufferType], CircularBufferType]) -> Calls:
    def of_ring(c: PrimitiveCall) -> PrimitiveCall:
        *others, kind = c.args
        return replace(c, args=(*others, change(kind)))

    return _each(calls, "circular_buffer", of_ring)


def _on(calls: Calls, axis: str) -> Calls:
    found = ParallelType[axis]
    return _rings(
        calls,
        lambda kind: (
            replace(kind, on=found) if isinstance(kind, WarpSpecialized) else WarpSpecialized(found)
        ),
    )


def _registers(calls: Calls, load: str | None, compute: str | None) -> Calls:
    pair = (int(load), int(compute)) if load and compute else None
    return _rings(
        calls,
        lambda kind: (
            replace(kind, num_registers=pair) if isinstance(kind, WarpSpecialized) else kind
        ),
    )


def _counts_ctas(e: Any) -> bool:
    return isinstance(e, Expr) and "%nctaid.x" in str(e)


def _grid(calls: Calls, factor: Expr) -> Calls:
    """What is split by a number of CTAs is split by ``factor``, whose loop is on BIDx."""

    def split(c: PrimitiveCall) -> PrimitiveCall:
        return replace(c, args=(*c.args[:2], factor)) if _counts_ctas(c.args[2]) else c

    def on_x(c: PrimitiveCall) -> PrimitiveCall:
        on_y = c.args[2] in (ParallelType.BIDy, ParallelType.BIDz)
        return replace(c, args=(*c.args[:2], ParallelType.BIDx)) if on_y else c

    return _each(_each(calls, "split", split), "parallelize", on_x)


def _shares(calls: Calls, ctas: str) -> Calls:
    """The loads' last split makes as many shares as there are CTAs."""
    assert ctas == "%nctaid.x"
    loads = {c.args[0] for c in calls if c.op == "circular_buffer"}
    last = {c.args[0]: c for c in calls if c.op == "split" and c.args[0] in loads}

    def change(c: PrimitiveCall) -> PrimitiveCall:
        if c is not last.get(c.args[0]):
            return c
        named = tuple(k for k in c.kwargs if k[0] != "inner_split")
        args = (*c.args[:2], Special("nctaid.x"))
        return replace(c, args=args, kwargs=(*named, ("inner_split", False)))

    return _each(calls, "split", change)


_WORDS: dict[str, Callable[..., Calls]] = {
    r"split (\S+) with dynamic=False": _in_turn,
    r"WarpSpecialized\(ParallelType\.(\w+)\)": _on,
    r"num_registers=(?:\((\d+), (\d+)\)|None)": _registers,
    r"split by (\S+), inner_split=False": _shares,
    r"%nctaid\.x on BIDx": lambda calls: _grid(calls, Special("nctaid.x")),
    r"a number": lambda calls: _grid(calls, _NUMBER),
}


def _reordered(calls: Calls, unscheduled: Fusion, tv: str, label: str, of: str) -> Fusion:
    """One more reorder behind the tensor's own calls, in front of those that inline."""
    end = max(n for n, c in enumerate(calls, 1) if c.args[0] == tv and c.op != "inline_at")
    s = Schedule(replay(unscheduled, calls[:end]))
    s.reorder(tv, {s.axis(tv, label): s.axis(tv, of)})
    return replay(s.fusion, calls[end:])


def _merged_as(calls: Calls, unscheduled: Fusion, order: Sequence[str]) -> Fusion:
    """The loops that a load's merges made one of, merged in another order where these began."""
    loads = {c.args[0] for c in calls if c.op == "circular_buffer"}
    left = {tv: sum((c.op, c.args[0]) == ("merge", tv) for c in calls) for tv in loads}
    s = Schedule(unscheduled)
    for call in calls:
        tv = call.args[0]
        if call.op != "merge" or tv not in loads:
            s = Schedule(replay(s.fusion, (call,)))
            continue
        if left[tv] == len(order) - 1:
            _merge(s, tv, order)
        elif left[tv] >= len(order):
            s = Schedule(replay(s.fusion, (call,)))
        left[tv] -= 1
    return s.fusion


def _merge(s: Schedule, tv: str, order: Iterable[str]) -> None:
    first, *others = order
    for label in others:
        s.merge(tv, s.axis(tv, first), s.axis(tv, label))
        first = f"{first}·{label}"
