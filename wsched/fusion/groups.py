"""Groups: matrices side by side in one tensor, whose ends only the device knows."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import TRUE, Expr, ceildiv

__all__ = ["Groups", "Sharing"]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which groups are a kernel's, of several that share them out, each with tiles as long as suits
    some of them.

    Every kernel asks the same of every group: whose tiles would pad it least. It takes its own, so
    each group is exactly one kernel's, of equals the first one's.

    Args:
        lengths: of the tiles of each kernel, along what groups share out; empty where all groups
            are one kernel's.
        own: which of them is this kernel's.
    """

    lengths: tuple[int, ...] = ()
    own: int = 0

    def __bool__(self) -> bool:
        """Whether there are others."""
        return bool(self.lengths)

    @property
    def problem(self) -> str:
        """Why these are no kernels that share groups out, or none of them takes this one's; empty
        where they do. A kernel takes no group at all if a length in front is a part of its own.
        """
        lengths = self.lengths
        if len(lengths) < 2 or min(lengths) < 1:
            return f"lengths of tiles {lengths}: of two kernels or more, each at least 1"
        for at, length in enumerate(lengths):
            if any(length % n == 0 for n in lengths[:at]):
                return f"tiles of {length} never pad a group less than those in front"
        last = len(lengths) - 1
        return "" if 0 <= self.own <= last else f"there are kernels 0 to {last}, not {self.own}"

    def takes(self, size: Expr) -> Expr:
        """Whether a group of so many rows, or columns, is this kernel's."""
        padded = [ceildiv(size, length) * length for length in self.lengths]
        found: Expr = TRUE
        for at, other in enumerate(padded):
            if at != self.own:
                mine = padded[self.own]
                found = found.logical_and(mine < other if at < self.own else mine <= other)
        return found


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
        sharing: which of the groups the kernel takes.
    """

    ends: str
    axis: str
    along: str
    sharing: Sharing = Sharing()

    @property
    def wrong(self) -> str:
        """What a kernel calls the word that it writes where an end falls or lies behind."""
        return f"{self.ends}_wrong"
