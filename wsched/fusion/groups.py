"""Groups: matrices side by side in one tensor, whose ends only the device knows."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.sharing import WHOLE, Sharing

__all__ = ["Groups"]


@dataclass(frozen=True, slots=True)
class Groups:
    """What says which part of a caller's matrix is which matrix of a batch of the fusion.

    The fusion is that of a batch of products; a matrix that is passed in groups has the batch and
    the dimension ``along`` of the fusion's tensor in one dimension. Group ``g`` is what lies there
    from the end of group ``g - 1`` (0 of the first) to the g-th end. What is behind the last end is
    of no group. Ends that fall are those in front of them, ends behind the matrix are its extent.

    Args:
        ends: name of the tensor of the ends, one for each group, 32-bit integers.
        axis: name of the extent that counts groups.
        along: name of the extent of what all groups have, which is also the most that one can
            have: rows or columns of the result, or what the products sum over.
        sharing: which part of each group the kernel takes.
        delayed: groups that have less than this come behind all others; 0 where none does.
    """

    ends: str
    axis: str
    along: str
    sharing: Sharing = WHOLE
    delayed: int = 0

    @property
    def wrong(self) -> str:
        """What a kernel calls the word that it writes where an end falls or lies behind."""
        return f"{self.ends}_wrong"
