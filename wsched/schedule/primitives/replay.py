"""A history applied again: the same calls give the same schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lowering.ground.errors import InternalError
from wsched.fusion import Fusion, PrimitiveCall
from wsched.schedule.primitives.accumulate_in import accumulate_in
from wsched.schedule.primitives.assume import assume
from wsched.schedule.primitives.cache_after import cache_after
from wsched.schedule.primitives.cache_before import cache_before
from wsched.schedule.primitives.circular_buffer import circular_buffer
from wsched.schedule.primitives.delay_groups import delay_groups
from wsched.schedule.primitives.inline_at import inline_at
from wsched.schedule.primitives.merge import merge
from wsched.schedule.primitives.parallelize import parallelize
from wsched.schedule.primitives.reorder import reorder
from wsched.schedule.primitives.rfactor import rfactor
from wsched.schedule.primitives.set_allocation_domain import set_allocation_domain
from wsched.schedule.primitives.set_memory_type import set_memory_type
from wsched.schedule.primitives.share_groups import share_groups
from wsched.schedule.primitives.split import split

__all__ = ["PRIMITIVES", "replay"]

PRIMITIVES: dict[str, Callable[..., Any]] = {
    p.__name__: p
    for p in (
        accumulate_in,
        assume,
        cache_after,
        cache_before,
        circular_buffer,
        delay_groups,
        inline_at,
        merge,
        parallelize,
        reorder,
        rfactor,
        set_allocation_domain,
        set_memory_type,
        share_groups,
        split,
    )
}


def replay(fusion: Fusion, history: Iterable[PrimitiveCall]) -> Fusion:
    """Apply the calls of a history to an unscheduled fusion.

    Raises:
        ScheduleError: a call is illegal on this fusion.
        InternalError: a call of an unknown primitive.
    """
    for call in history:
        if call.op not in PRIMITIVES:
            raise InternalError("replay", f"no primitive {call.op}")
        result = PRIMITIVES[call.op](fusion, *call.args, **dict(call.kwargs))
        fusion = result[0] if isinstance(result, tuple) else result
    return fusion
