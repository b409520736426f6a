"""The CTAs that have a part of one matrix instruction: who issues it, and which CTAs are told.

PTX calls this the issue granularity (``.cta_group::1``, ``.cta_group::2``). It is one for all of a
kernel, so that it follows from the kernel's instruction, and whoever makes or reads a statement of
such CTAs asks here: alone, a CTA leads itself and tells itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import TRUE, ZERO, Const, Expr, Special
from lowering.kernel.control import If
from lowering.kernel.operands import Body
from lowering.target.target import Target

__all__ = ["CtaGroup", "Shares"]

Shares = tuple[tuple[int, int], ...]
"""(count, stride) of CTAs that load a tile together, of each of several tiles (``Ring.shares``)."""

_RANK = Special("cluster.ctarank")


@dataclass(frozen=True, slots=True)
class CtaGroup:
    """CTAs with ranks in a row, from a multiple of their number on; the first one is the leader.

    The leader issues all products. They read the same place in the shared memory of each of the
    group, and write the same columns of the tensor memory of each.

    Args:
        size: CTAs of a group, 1 or 2.
        cluster: CTAs of the cluster, whole groups.
    """

    size: int
    cluster: int

    @staticmethod
    def of(target: Target, cluster: int) -> CtaGroup:
        """The groups of a target's instruction in clusters of so many CTAs."""
        return CtaGroup(target.mma.ctas, cluster)

    @property
    def several(self) -> bool:
        """Whether a product is of more than one CTA."""
        return self.size > 1

    @property
    def place(self) -> Expr:
        """Which of its group the executing CTA is, from 0 on."""
        if not self.several:
            return ZERO
        return _RANK if self.size == self.cluster else _RANK % self.size

    @property
    def leader(self) -> Expr:
        """Rank in the cluster of the executing CTA's leader."""
        if not self.several:
            return _RANK
        return ZERO if self.size == self.cluster else _RANK - self.place

    @property
    def leads(self) -> Expr:
        """Whether the executing CTA is a leader."""
        return self.place.eq(0) if self.several else TRUE

    def led(self, body: Body) -> Body:
        """Statements of leaders alone."""
        return (If(self.leads, body),) if self.several and body else body

    def leader_of(self, rank: int) -> int:
        """The leader of the CTA of a rank."""
        return rank // self.size * self.size

    def told(self, shares: Shares) -> tuple[Expr | None, int]:
        """Whom a leader tells that products have read tiles: its group, and whoever loads a part of
        them into a CTA of the group.

        Args:
            shares: of the tiles.

        Returns:
            A mask of ranks, None where that is the leader alone; and how many leaders tell a CTA.
        """
        masks = {self._mask(rank, shares) for rank in range(0, self.cluster, self.size)}
        (told,) = {mask.bit_count() for mask in masks}
        if told == 1:
            return None, 1
        if len(masks) == 1:
            return Const(masks.pop()), told // self.size
        own, others = Const(1) << _RANK, [s for s in shares if s[0] > 1]
        mask: Expr = ZERO
        for count, stride in others:
            first = _RANK - _RANK // stride % count * stride
            mask = mask + (Const(_pattern(count, stride)) << first)
        mask = mask - own * (len(others) - 1) if others else own
        return mask * ((1 << self.size) - 1), told // self.size

    def _mask(self, leader: int, shares: Shares) -> int:
        mask = 1 << leader
        for count, stride in shares:
            mask |= _pattern(count, stride) << leader - leader // stride % count * stride
        return mask * ((1 << self.size) - 1)


def _pattern(count: int, stride: int) -> int:
    """A mask of the CTAs of one share, from rank 0 on."""
    return sum(1 << stride * n for n in range(count))
