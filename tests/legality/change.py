"""One change of a schedule: calls dropped, repeated, altered or added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from lowering.ground.expr import Const, Expr, Special
from tests.legality.builder import P
from tests.legality.factors import draw_factor
from tests.legality.parts import Parts
from wsched.fusion import Fusion, MemoryType, Pipelined, PrimitiveCall, WarpSpecialized

__all__ = ["change"]

_CTAS = Special("nctaid.x")
_FACTORS = (Const(1), Const(2), Const(3), Const(4), _CTAS, _CTAS * 2)
_PARALLEL = (P.Serial, P.Serial, P.BIDx, P.BIDz, P.TIDy, P.TIDz, P.Unroll)
_LOOPS = ("split", "merge", "reorder", "parallelize")
History = tuple[PrimitiveCall, ...]


def change(rng: Random, start: Fusion) -> History:
    """The calls of a schedule with one change; a primitive may refuse what comes of it."""
    history = start.history
    kind = rng.choice((_alter, _alter, _alter, _drop, _repeat, _add, _add, _add, _move))
    return kind(rng, start, history)


def _same(history: History, at: int) -> list[int]:
    """Places of the calls that are that at ``at`` on other tensors, and of itself."""
    model = history[at]
    turn = sum(1 for r in history[:at] if r == model)
    found = []
    for tv in dict.fromkeys(str(r.args[0]) for r in history):
        other = replace(model, args=(tv, *model.args[1:]))
        places = [p for p, r in enumerate(history) if r == other]
        if len(places) > turn:
            found.append(places[turn])
    return found


def _scope(rng: Random, start: Fusion, history: History, at: int) -> list[int]:
    """The call on one tensor, on one side, or on all."""
    everywhere = _same(history, at)
    sides = _sides(start)
    side = [
        p for p in everywhere if sides.get(history[p].args[0]) == sides.get(history[at].args[0])
    ]
    return rng.choice(([at], side, side, everywhere, everywhere))


def _sides(start: Fusion) -> dict[str, int]:
    """By which part each tensor is computed; not of loads."""
    return {t.name: n for n, ts in enumerate(Parts(start).sections) for t in ts}


def _pick(rng: Random, history: History, ops: Sequence[str]) -> int:
    found = [p for p, r in enumerate(history) if r.op in ops]
    return rng.choice(found)


def _drop(rng: Random, start: Fusion, history: History) -> History:
    places = _scope(rng, start, history, _pick(rng, history, (*_LOOPS, "inline_at")))
    return tuple(r for p, r in enumerate(history) if p not in places)


def _repeat(rng: Random, start: Fusion, history: History) -> History:
    places = _scope(rng, start, history, _pick(rng, history, ("split", "reorder", "parallelize")))
    return tuple(r for p, x in enumerate(history) for r in ([x, x] if p in places else [x]))


def _move(rng: Random, start: Fusion, history: History) -> History:
    """Two calls on one tensor exchanged."""
    at = _pick(rng, history, _LOOPS)
    other = next(
        (p for p in range(at + 1, len(history)) if history[p].args[0] == history[at].args[0]), at
    )
    swapped = list(history)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    return tuple(swapped)


def _alter(rng: Random, start: Fusion, history: History) -> History:
    op = rng.choice(("split", "split", "split", *_ALTER))
    if all(r.op != op for r in history):
        return history
    at = _pick(rng, history, (op,))
    places = _scope(rng, start, history, at)
    new = _ALTER[op](rng, history[at])
    return tuple(
        replace(new, args=(r.args[0], *new.args[1:])) if p in places else r
        for p, r in enumerate(history)
    )


def _factor(rng: Random) -> Expr:
    """Mostly a plain one; else anything, most of which the primitive refuses."""
    return rng.choice(_FACTORS) if rng.random() < 0.75 else draw_factor(rng)


def _split(rng: Random, r: PrimitiveCall) -> PrimitiveCall:
    options = dict(r.kwargs)
    if rng.random() < 0.4:
        labels = options.pop("labels", None)
        options["inner_split"] = not options.get("inner_split", True)
        if labels is not None and rng.random() < 0.7:
            labels = labels[::-1]
        options["labels"] = labels
        return replace(r, kwargs=tuple(options.items()))
    factor = rng.choice((_factor(rng), r.args[2] * 2))
    return replace(r, args=(*r.args[:2], factor))


def _merge(rng: Random, r: PrimitiveCall) -> PrimitiveCall:
    options = dict(r.kwargs)
    if rng.random() < 0.5:
        return replace(r, args=(r.args[0], r.args[2], r.args[1]))
    options["traversal"] = rng.choice((0, 2, 3))
    return replace(r, kwargs=tuple(options.items()))


def _reorder(rng: Random, r: PrimitiveCall) -> PrimitiveCall:
    a, b = rng.sample(range(6), 2)
    return replace(r, args=(r.args[0], {a: b}))


def _parallelize(rng: Random, r: PrimitiveCall) -> PrimitiveCall:
    if rng.random() < 0.5:
        return replace(r, args=(*r.args[:2], rng.choice(_PARALLEL)))
    return replace(r, args=(r.args[0], max(0, r.args[1] + rng.choice((-1, 1))), r.args[2]))


def _inline_at(rng: Random, r: PrimitiveCall) -> PrimitiveCall:
    return replace(r, args=(r.args[0], max(0, r.args[1] + rng.choice((-2, -1, 1)))))


def _circular_buffer(rng: Random, r: PrimitiveCall) -> PrimitiveCall:
    tv, stages, prefetch, how = r.args
    on = rng.choice((P.TIDx, P.TIDy, P.TIDz))
    other = WarpSpecialized(on)
    if isinstance(how, WarpSpecialized) and how.stage_slice_position is not None:
        other = replace(how, stage_slice_position=how.stage_slice_position + rng.choice((-1, 1)))
    how = rng.choice((how, how, other, Pipelined()))
    stages += rng.choice((-1, 0, 0, 1))
    return replace(r, args=(tv, stages, min(prefetch, stages - 1), how))


def _set_memory_type(rng: Random, r: PrimitiveCall) -> PrimitiveCall:
    return replace(r, args=(r.args[0], MemoryType.Local))


_ALTER: dict[str, Callable[[Random, PrimitiveCall], PrimitiveCall]] = {
    "split": _split,
    "merge": _merge,
    "reorder": _reorder,
    "parallelize": _parallelize,
    "inline_at": _inline_at,
    "circular_buffer": _circular_buffer,
    "set_memory_type": _set_memory_type,
}


def _add(rng: Random, start: Fusion, history: History) -> History:
    """New calls behind one that splits, on all tensors that it is made on or on some."""
    at = _pick(rng, history, ("split", "merge", "reorder"))
    places = _scope(rng, start, history, at)
    calls = _new(rng)
    found: list[PrimitiveCall] = []
    for p, r in enumerate(history):
        found.append(r)
        if p in places:
            found += [replace(c, args=(r.args[0], *c.args[1:])) for c in calls]
    return tuple(found)


def _new(rng: Random) -> tuple[PrimitiveCall, ...]:
    """A split that is taken back or not, a change of order, a merge, a parallel type."""
    axis, factor = rng.randrange(5), _factor(rng)
    options: tuple[tuple[str, Any], ...] = (("inner_split", False),) if rng.random() < 0.3 else ()
    split = PrimitiveCall("split", ("", axis, factor), options)
    order = (axis, axis + 1) if rng.random() < 0.7 else (axis + 1, axis)
    return rng.choice(
        (
            (split, PrimitiveCall("merge", ("", *order))),
            (split, PrimitiveCall("merge", ("", *order))),
            (split,),
            (PrimitiveCall("reorder", ("", {axis: rng.randrange(5)})),),
            (PrimitiveCall("merge", ("", *order)),),
            (PrimitiveCall("parallelize", ("", axis, rng.choice(_PARALLEL))),),
        )
    )
