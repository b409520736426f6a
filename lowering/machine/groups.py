"""The CTAs of a cluster that a statement of one of them concerns."""

from __future__ import annotations

from lowering.machine.errors import FaultError
from lowering.machine.state import Cluster, Cta

__all__ = ["group_of", "masked"]


def group_of(cta: Cta) -> list[Cta]:
    """The CTAs that have a part of its matrix instructions, the one that issues them first."""
    group = cta.cluster.kernel.cta_group
    first = group.leader_of(cta.rank)
    return cta.cluster.ctas[first : first + group.size]


def masked(cluster: Cluster, mask: int) -> list[Cta]:
    """The CTAs of a mask of ranks; raises FaultError if there is one that is not there."""
    if mask < 1 or mask >> len(cluster.ctas):
        raise FaultError(f"multicast mask {mask:#b} for a cluster of {len(cluster.ctas)}")
    return [cta for cta in cluster.ctas if mask >> cta.rank & 1]
