"""Rows in groups: matrices of one tensor, one below the other, whose ends only the device knows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Groups"]


@dataclass(frozen=True, slots=True)
class Groups:
    """What says which rows of a caller's matrix are which matrix of a batch of the fusion.

    The fusion is that of a batch of products; a matrix that is passed in groups has the batch and
    the rows of the fusion's tensor in one dimension. Group ``g`` are the rows from the end of group
    ``g - 1`` (0 of the first) to the g-th end. Rows behind the last end are of no group. Ends that
    fall are those in front of them, ends behind the matrix are its number of rows.

    Args:
        ends: name of the tensor of the ends, one for each group, 32-bit integers.
        axis: name of the extent that counts groups.
        rows: name of the extent of all rows, which is also the most that a group can have.
    """

    ends: str
    axis: str
    rows: str
