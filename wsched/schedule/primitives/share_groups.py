"""The primitive ``share_groups``."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import ScheduleError
from lowering.ground.sharing import Sharing
from wsched.fusion import Fusion, PrimitiveCall

__all__ = ["share_groups"]


def share_groups(fusion: Fusion, lengths: tuple[int, ...], own: int) -> Fusion:
    """Have a kernel compute some of the groups, or a part of some, and others the rest.

    Each kernel has tiles of a length of its own along what groups share out, and takes what these
    pad least: whole groups, or the front of one whose rest is the next kernel's. The kernels are
    launched as one grid, or one behind the other, each with the same lengths; what is whose every
    one finds out itself (:class:`~wsched.fusion.Sharing`).

    Args:
        fusion: the fusion.
        lengths: of the tiles of each kernel.
        own: which of them this kernel is.

    Legal if groups share out rows or columns, and are not shared out among kernels yet.

    before: each group ``g`` has ``ceildiv(rows[g], 128)`` rows of tiles
    after ``share_groups(fusion, (128, 144), 0)``:
    it has those of its part: all of them, none, or those of the rows behind the tiles of 144
    """
    call = PrimitiveCall("share_groups", (lengths, own))
    groups, sharing = fusion.groups, Sharing(lengths, own)
    why = sharing.problem
    if groups is None or fusion.sums_of_groups:
        why = "no groups share out rows or columns of the result"
    elif groups.sharing:
        why = f"{len(groups.sharing.lengths)} kernels share the groups out already"
    if why or groups is None:
        raise ScheduleError("share_groups", str(call), why)
    return replace(fusion, groups=replace(groups, sharing=sharing)).after(call)
