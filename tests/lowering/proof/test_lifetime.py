"""When mbarriers may be used: programs of warps, right and wrong.

Words: ``init``, ``fence``, ``inval``; ``cta`` and ``cluster`` are the syncs, ``wait``, ``arrive``,
``expect``, ``load``, ``copied`` and ``commit`` uses, ``far`` and what ends so one of another CTA.
"""

from __future__ import annotations

import pytest

from lowering.ground.expr import ONE, ZERO, as_expr
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    ClusterSync,
    CpAsyncArrive,
    CtaSync,
    FenceMBarrierInit,
    GmemRef,
    LdShared,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierRef,
    MBarrierWait,
    SmemRef,
    Stmt,
    StShared,
    StWord,
    TmaLoad,
)
from lowering.kernel.storage import MBarrierArray
from lowering.kernel.tensor_memory import Tcgen05Commit
from lowering.proof.lifetime import lifetimes
from tests.lowering.proof.by_words import V, agent, said

BAR, TO, FROM = MBarrierRef("b", ZERO), SmemRef("s", ZERO, (ZERO, ZERO)), GmemRef("T", (ZERO, ZERO))
USES: dict[str, Stmt] = {
    "wait": MBarrierWait(BAR, ZERO),
    "arrive": MBarrierArrive(BAR),
    "expect": MBarrierExpectTx(BAR, as_expr(128)),
    "load": TmaLoad(TO, FROM, BAR),
    "copied": CpAsyncArrive(BAR),
    "commit": Tcgen05Commit(BAR),
}
FAR: dict[str, Stmt] = {
    "far": MBarrierArrive(BAR, ONE),
    "word_far": StWord(TO, ZERO, ONE),
    "read_far": LdShared(V, TO, ONE),
    "store_far": StShared(TO, V, ONE),
    "load_far": TmaLoad(TO, FROM, BAR, multicast=as_expr(3)),
    "load_of_pairs": TmaLoad(TO, FROM, BAR, cta_group=2),
    "commit_far": Tcgen05Commit(BAR, as_expr(3)),
}
MEANS = {
    "init": MBarrierInit(BAR, 1),
    "fence": FenceMBarrierInit(),
    "inval": MBarrierInval(BAR),
    "cta": CtaSync(),
    "cluster": ClusterSync(),
    "word": StWord(TO, ZERO, None),
    **USES,
    **FAR,
}
KERNEL = Kernel("k", 64, ONE, (), (MBarrierArray("b", 1, 1),), ())


def claim(*programs: str, kernel: Kernel = KERNEL) -> str:
    warps = tuple(agent(words, MEANS, n) for n, words in enumerate(programs))
    (found,) = lifetimes(kernel, warps)
    assert found.name == "lifetime of mbarriers"
    return said(found)


EARLY = "mbarrier.wait stands outside of the syncs around the roles"
INNER = "a sync of the CTA stands in a loop or a condition"
ONE_CTA = "a CTA of the cluster is reached, but the syncs are those of one CTA"
NO_FENCE = "no fence.mbarrier_init between the inits and the sync"
LATE_INIT = "an init stands behind the first sync"
EARLY_INVAL = "an inval stands in front of the last sync"
PROGRAMS = {
    "init fence cta wait cta inval": "",
    "one init fence ] cta one wait ] cta one inval ]": "",
    "cta cta": "",
    "cta wait cta wait cta": "",
    "init fence cta wait cta wait cta inval": "",
    "init init fence init fence cta cta": "",
    "init cta cta": NO_FENCE,
    "init fence init cta cta": NO_FENCE,
    "fence init cta cta": NO_FENCE,
    "init ( fence ) cta cta": "",
    "init [ fence ] cta cta": NO_FENCE,
    "init ? fence ] cta cta": NO_FENCE,
    "init ( fence ! ) cta cta": NO_FENCE,
    "( fence init ) cta cta": NO_FENCE,
    "( init fence ) cta cta": "",
    "? init fence ] cta cta": NO_FENCE,
    "one ? wait ] ( fence ) ] cta cta": EARLY,
    "cta init fence cta": LATE_INIT,
    "init fence cta cta init fence": LATE_INIT,
    "cta inval cta": EARLY_INVAL,
    "inval cta cta": EARLY_INVAL,
    "cta cta inval cta": EARLY_INVAL,
    "wait cta cta": EARLY,
    "cta cta wait": EARLY,
    "cta cta [ wait ]": EARLY,
    "cta [ cta ]": INNER,
    "cta cta ? cta ]": INNER,
    "": "0 syncs of the CTA; one has to follow the inits, one precede the invals",
    "cta": "1 syncs of the CTA; one has to follow the inits, one precede the invals",
    "cta far cta": ONE_CTA,
    "cluster far cta": ONE_CTA,
    "cta far cluster": ONE_CTA,
    "cluster far cluster": "",
    "cluster [ far ] cluster": "",
    "cluster cta far cluster": "",
    "cluster far cta cluster": "",
    "cluster far cluster cta": "",
    "cluster cluster far cta": ONE_CTA,
    "cluster cluster far cta cluster": "",
    "cta cta word": "",
}


@pytest.mark.parametrize("words", PROGRAMS)
def test_one_warp(words: str) -> None:
    assert claim(words) == PROGRAMS[words]


@pytest.mark.parametrize("use", USES)
def test_every_use_is_between_the_syncs(use: str) -> None:
    outside = f"{MEANS[use].OP} stands outside of the syncs around the roles"
    assert claim(f"cta {use} cta") == ""
    assert claim(f"{use} cta cta") == claim(f"cta cta {use}") == outside


@pytest.mark.parametrize("use", FAR)
def test_another_cta_is_reached_between_syncs_of_the_cluster(use: str) -> None:
    assert claim(f"cluster {use} cluster") == ""
    assert claim(f"cta {use} cta") == ONE_CTA
    assert claim(f"cluster {use} cluster cta", "cluster cluster cta") == ""
    assert claim(f"{use} cta cta") == ONE_CTA
    if use not in ("word_far", "read_far", "store_far"):  # which are no uses of an mbarrier
        assert claim(f"{use} cluster cluster").endswith("outside of the syncs around the roles")


def test_what_one_warp_reaches_all_wait_for() -> None:
    """The last cluster sync is behind the last warp that reaches into another CTA."""
    assert claim("cluster cta far cluster", "cluster cta cluster") == ""
    assert claim("cluster cluster cta", "cluster cluster far cta") == ONE_CTA
    assert claim("cluster far cluster far cta", "cluster cluster cta") == ONE_CTA


def test_warps_meet_in_the_same_syncs() -> None:
    assert claim("cta cta", "cta cta") == ""
    assert claim("cta cta", "cta cta cta") == "warps meet in different syncs"
    assert claim("cta cta", "cta cluster") == "warps meet in different syncs"
    assert claim("cta cta", "cta wait cta wait") == EARLY


def test_without_mbarriers_nothing_is_claimed() -> None:
    bare = Kernel("k", 64, ONE, (), (), ())
    assert [*lifetimes(bare, (agent("cta", MEANS),))] == []
