"""Random schedules: of both sides, by primitives, over a small world.

Two kinds: from nothing, by the choices that a person makes; and *changed*: the calls of a schedule
with one or two of them dropped, repeated, altered or added, on one tensor, one side or all. What is
changed is drawn from nothing, built in, or made by hand, or has two products with one A, a batch,
load steps that are dealt out, rings of what the epilogue reads, threads that load, two parts that
compute, or parts of K that are results.
A draw is the calls that made it, so that it can be written down and made again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.batches import batched
from tests.epilogues import RESIDUAL
from tests.legality.builder import matmul, unscheduled
from tests.legality.by_hand.batches import BATCH, BATCHES
from tests.legality.by_hand.loads import LOADS
from tests.legality.by_hand.parts import PARTS, SCHEDULED
from tests.legality.by_hand.results import RESULTS
from tests.legality.by_hand.roles import ROLES
from tests.legality.by_hand.steps import STEPS
from tests.legality.by_hand.tiles import TILES
from tests.legality.change import change
from tests.legality.scratch import Scratch, from_nothing
from tests.legality.scratch_apart import COMPUTED, two_parts
from tests.legality.scratch_batch import batches
from tests.legality.scratch_crossed import TWO_MATRICES, crossed, two_sums
from tests.legality.scratch_loads import loads
from tests.legality.scratch_rings import Rings
from tests.legality.scratch_steps import Steps
from tests.schedule.gated import gated, scheduled
from tests.schedules import (
    cooperative,
    definition,
    dynamic,
    for_result,
    parallel_split,
    ping_pong,
    pipelined,
    split_k,
    stream_k,
)
from wsched.fusion import Fusion, PrimitiveCall
from wsched.schedule.matmul.params import MatmulParams, ThreadLoads, TileRasterizationOrder
from wsched.schedule.matmul.scheduler import schedule_matmul
from wsched.schedule.primitives.replay import replay

__all__ = [
    "draw", "draw_apart", "draw_batch", "draw_by_hand", "draw_crossed", "draw_gated", "draw_loads",
    "draw_parts", "draw_rings", "draw_steps", "draw_stored", "draw_sums", "made",
]  # fmt: skip

_TRIES = 20


def made(history: tuple[PrimitiveCall, ...], of: Fusion | None = None) -> Fusion:
    """The schedule that these calls make.

    Args:
        history: the calls.
        of: what they schedule, :func:`~tests.legality.builder.unscheduled` by default.

    Raises:
        ScheduleError: a primitive refuses its call.
    """
    return replay(unscheduled() if of is None else of, history)


def draw(rng: Random) -> Fusion:
    """A complete schedule, legal or not."""
    if rng.random() < 0.35:
        return _maybe_changed(rng, _built_in(rng, _params))
    return _maybe_changed(rng, from_nothing(lambda: Scratch(rng, matmul())))


def draw_steps(rng: Random) -> Fusion:
    """The same where load steps are dealt out to CTAs."""
    kind = rng.random()
    if kind < 0.25:
        return _maybe_changed(rng, _built_in(rng, _params_of_steps))
    if kind < 0.4:
        return _changed(rng, rng.choice(STEPS)())
    return _maybe_changed(rng, from_nothing(lambda: Steps(rng, matmul())))


def draw_rings(rng: Random) -> Fusion:
    """The same where the epilogue reads one matrix or two that come through rings."""
    text, by_tma = rng.choice((RESIDUAL, RESIDUAL, TWO_MATRICES)), rng.random() < 0.8
    if rng.random() < 0.25:
        return _maybe_changed(rng, _built_in(rng, _params_of_rings, text), unscheduled(text))
    start = from_nothing(lambda: Rings(rng, matmul(text, by_tma=by_tma, ring=True)))
    return _maybe_changed(rng, start, unscheduled(text))


def draw_loads(rng: Random) -> Fusion:
    """The same where threads load operands, or what the epilogue reads."""
    kind = rng.random()
    if kind < 0.2:
        return _maybe_changed(rng, _built_in(rng, _params_of_loads))
    if kind < 0.35:
        return _changed(rng, rng.choice(LOADS)())
    begin, text = loads(rng)
    return _maybe_changed(rng, from_nothing(begin), unscheduled(text))


def draw_crossed(rng: Random) -> Fusion:
    """The same of what the other kinds have one by one: rings of the epilogue, threads that load,
    queues, clusters, turns, column groups, K in parts.
    """
    begin, of = crossed(rng)
    return _maybe_changed(rng, from_nothing(begin), of)


def draw_sums(rng: Random) -> Fusion:
    """The same of two products with one A, from nothing."""
    return _maybe_changed(rng, from_nothing(lambda: two_sums(rng)), gated())


def draw_batch(rng: Random) -> Fusion:
    """The same of a batch whose sums, or load steps, CTAs have parts of."""
    kind = rng.random()
    if kind < 0.1:
        return _changed(rng, rng.choice(BATCHES)(), unscheduled(BATCH))
    begin, text = batches(rng)
    if kind < 0.3:
        built_in = _built_in(rng, rng.choice((_params_of_steps, _params_of_parts)), text)
        return _maybe_changed(rng, built_in, unscheduled(text))
    return _maybe_changed(rng, from_nothing(begin), unscheduled(text))


def draw_apart(rng: Random) -> Fusion:
    """The same where two parts compute: one rounds an operand, or stores what the other makes."""
    text = rng.choice((None, *COMPUTED))
    start = from_nothing(lambda: two_parts(rng, text))
    return _maybe_changed(rng, start, unscheduled(text, by_calls=True))


def draw_stored(rng: Random) -> Fusion:
    """A built-in schedule with parts of K that are results, or what changes make of it; of a batch,
    too, and of sums that nobody rounds.
    """
    result = rng.choice(("bf16", "f32"))
    text = rng.choice((definition(result=result), definition(result=result), batched()))
    built_in = _built_in(rng, lambda rng: for_result(_params_of_stored(rng), result), text)
    return _maybe_changed(rng, built_in, unscheduled(text))


def _maybe_changed(rng: Random, start: Fusion, of: Fusion | None = None) -> Fusion:
    """With up to two changes."""
    changes = rng.choice((0, 0, 1, 1, 2)) if start.history else 0
    for _ in range(changes):
        start = _changed(rng, start, of)
    return start


def draw_by_hand(rng: Random) -> Fusion:
    """A schedule by hand with one or two changes, legal or not."""
    return _altered(rng, *rng.choice(_by_hand()))


def draw_parts(rng: Random) -> Fusion:
    """The same of schedules with several parts that compute."""
    return _altered(rng, *rng.choice(_of_parts()))


def _altered(rng: Random, start: Fusion, of: Fusion) -> Fusion:
    for _ in range(rng.choice((1, 1, 2))):
        start = _changed(rng, start, of)
    return start


def draw_gated(rng: Random) -> Fusion:
    """A schedule of two products with one A, the result ``(A B) * (A C)``, legal or not."""
    of = gated()
    groups = rng.choice((1, 1, 2))
    start = scheduled(
        of,
        m=64 * groups * rng.choice((1, 1, 2)),
        n=rng.choice((32, 64)),
        k=rng.choice((16, 32)),
        groups=groups,
        chunk=rng.choice((16, 32)),
        stages=3,
        prefetch=rng.choice((1, 2)),
    ).fusion
    for _ in range(rng.choice((0, 1, 1, 2))):
        start = _changed(rng, start, of)
    return start


@cache
def _by_hand() -> tuple[tuple[Fusion, Fusion], ...]:
    """Those of the definition that all draws schedule, and those of several parts, each with what
    it schedules.
    """
    plain = unscheduled()
    found = [make() for make in (*TILES, *ROLES, *RESULTS)]
    same = [f for f in found if (f.inputs, f.outputs) == (plain.inputs, plain.outputs)]
    return (*((f, plain) for f in same), *_of_parts())


@cache
def _of_parts() -> tuple[tuple[Fusion, Fusion], ...]:
    """Those with several parts that compute, each with what it schedules."""
    return tuple((make(), unscheduled(SCHEDULED[make], by_calls=True)) for make in PARTS)


def _changed(rng: Random, start: Fusion, of: Fusion | None = None) -> Fusion:
    """One change that no primitive refuses; none if that is not found soon."""
    for _ in range(_TRIES):
        try:
            return made(change(rng, start), of)
        except ScheduleError:
            continue
    return start


def _built_in(
    rng: Random, params: Callable[[Random], MatmulParams], text: str | None = None
) -> Fusion:
    """A schedule of the built-in scheduler, with a small tile."""
    while True:
        try:
            return schedule_matmul(unscheduled(text), params(rng))
        except (ScheduleError, UnsupportedError):
            continue


def _params_of_steps(rng: Random) -> MatmulParams:
    """Of load steps that are dealt out."""
    return stream_k(replace(_params(rng), splitk_factor=1))


def _params_of_parts(rng: Random) -> MatmulParams:
    """Of K in parts."""
    return split_k(_params(rng), rng.choice((2, 3)))


def _params_of_stored(rng: Random) -> MatmulParams:
    """Of parts of K that are results."""
    return parallel_split(replace(_params(rng), splitk_factor=1), rng.choice((2, 3, 5)))


def _params_of_loads(rng: Random) -> MatmulParams:
    """With operands that threads load."""
    a, b = rng.choice(((0, 4), (4, 0), (2, 4)))
    params = _params_of_steps(rng) if rng.random() < 0.25 else _params(rng)
    return replace(params, thread_loads=ThreadLoads(a, b, rng.choice((1, 1, 2, 4))))


def _params_of_rings(rng: Random) -> MatmulParams:
    """With a ring for each matrix of the epilogue."""
    return replace(_params(rng), epilogue_input_stages=rng.choice((1, 2, 2, 3)))


def _params(rng: Random) -> MatmulParams:
    n, k = rng.choice((32, 64, 128)), rng.choice((16, 32, 64))
    traversal = rng.choice(((1, 1), (1, 1), (2, 1), (3, 1)))
    if rng.random() < 0.4:
        found = ping_pong(64, n, k, stages=3, traversal=traversal)
    else:
        found = cooperative(
            rng.choice((64, 128, 192)),
            n,
            k,
            stages=3,
            groups=1,
            registers=None,
            traversal=traversal,
            persistent=rng.random() < 0.8,
            order=rng.choice(tuple(TileRasterizationOrder)),
            cluster=rng.choice(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2))),
        )
        if rng.random() < 0.5:
            found = cooperative(128, n, k, stages=3, groups=2, traversal=traversal)
        if rng.random() < 0.2:
            return pipelined(found)
    if rng.random() < 0.2:
        return split_k(found, rng.choice((2, 3)))
    return dynamic(found) if rng.random() < 0.15 else found
