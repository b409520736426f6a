"""Who issues and who is told, for every CTA of a cluster."""

from __future__ import annotations

import pytest

from lowering.ground.expr import TRUE, evaluate
from lowering.kernel.cta_group import CtaGroup, Shares


def _loaders(group: CtaGroup, shares: Shares, leader: int) -> set[int]:
    """CTAs that load a part of what a group reads."""
    found = set[int]()
    for reader in range(leader, leader + group.size):
        for count, stride in shares:
            place = reader // stride % count
            found |= {reader + (n - place) * stride for n in range(count)}
    return found


@pytest.mark.parametrize(
    ("group", "shares"),
    [
        (CtaGroup(1, 1), ((1, 1), (1, 1))),
        (CtaGroup(1, 2), ((1, 1), (2, 1))),
        (CtaGroup(1, 4), ((2, 1), (2, 2))),
        (CtaGroup(1, 8), ((2, 1), (4, 2))),
        (CtaGroup(2, 2), ((1, 1), (1, 1))),
        (CtaGroup(2, 4), ((2, 2), (1, 1))),
        (CtaGroup(2, 4), ((1, 1), (2, 2))),
        (CtaGroup(2, 8), ((2, 4), (2, 2))),
        (CtaGroup(2, 8), ((1, 1), (2, 4))),
    ],
    ids=str,
)
def test_who_is_told(group: CtaGroup, shares: Shares) -> None:
    """By the mask; and each CTA by as many leaders as is said."""
    mask, leaders = group.told(shares)
    times = dict.fromkeys(range(group.cluster), 0)
    for leader in range(0, group.cluster, group.size):
        wanted = set(range(leader, leader + group.size)) | _loaders(group, shares, leader)
        ranks = {"%cluster.ctarank": leader}
        found = 1 << leader if mask is None else evaluate(mask, ranks)
        assert {r for r in range(found.bit_length()) if found >> r & 1} == wanted
        for rank in wanted:
            times[rank] += 1
    assert set(times.values()) == {leaders}


def test_alone_a_cta_leads_itself() -> None:
    group = CtaGroup(1, 4)
    assert group.leads is TRUE and group.led(()) == ()
    assert [evaluate(group.leader, {"%cluster.ctarank": r}) for r in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_a_pair_is_led_by_its_even_cta(cluster: int) -> None:
    group = CtaGroup(2, cluster)
    for rank in range(cluster):
        at = {"%cluster.ctarank": rank}
        assert evaluate(group.leader, at) == group.leader_of(rank) == rank & ~1
        assert evaluate(group.place, at) == rank & 1
        assert bool(evaluate(group.leads, at)) is (rank % 2 == 0)
