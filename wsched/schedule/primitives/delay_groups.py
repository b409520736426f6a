"""The primitive ``delay_groups``."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import ScheduleError
from wsched.fusion import Fusion, PrimitiveCall

__all__ = ["MOST", "delay_groups"]

MOST = 2**16
"""Rows that a group has which is small: so that no sum of them leaves 32 bits."""


def delay_groups(fusion: Fusion, below: int) -> Fusion:
    """Have the tiles of small groups behind those of all others.

    A group of less than a tile has all of its weights read for few rows, so its tiles take longer
    than others. In front of those they put the CTAs that have them out of step to the end, and what
    the L2 has read for one it reads again for another; at the end nobody waits for them.

    Args:
        fusion: the fusion.
        below: how much of what groups share out a group has at least that keeps its place.

    Legal if groups share out rows or columns of the result, and none is delayed yet.

    before: the tiles of groups 0, 1, 2, 3, of 300, 7, 500 and 40 rows
    after ``delay_groups(fusion, 64)``: those of groups 0, 2, 1, 3
    """
    call = PrimitiveCall("delay_groups", (below,))
    groups, why = fusion.groups, ""
    if groups is None or fusion.sums_of_groups:
        why = "no groups share out rows or columns of the result"
    elif groups.delayed:
        why = f"groups of less than {groups.delayed} are delayed already"
    elif not 0 < below <= MOST:
        why = f"groups of less than {below}: a number from 1 to {MOST}"
    if why or groups is None:
        raise ScheduleError("delay_groups", str(call), why)
    return replace(fusion, groups=replace(groups, delayed=below)).after(call)
