"""What a time line calls what a warp does, and the lanes of a CTA."""

from __future__ import annotations

import pytest

from lowering.ground.expr import ZERO
from lowering.kernel import nodes
from lowering.kernel.nodes import Stmt
from lowering.machine.clock import Stretch
from wsched.predict.activity import ACTIVITIES, Lane, Part, lanes

FULL, EMPTY = (nodes.MBarrierRef(f"ring_{x}", ZERO) for x in ("full", "empty"))


def stretch(stmt: Stmt, begin: float, end: float, **place: object) -> Stretch:
    found = {"cta": 0, "role": "compute", "group": 0, "warp": 0, "waits": True, **place}
    return Stretch(stmt=stmt, begin=begin, end=end, **found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stmt", "activity"),
    [
        (nodes.MBarrierWait(FULL, ZERO), "data"),
        (nodes.MBarrierWait(EMPTY, ZERO), "room"),
        (nodes.MBarrierArrive(EMPTY), "room"),
        (nodes.WgmmaCommit(), "multiply"),
        (nodes.MBarrierExpectTx(FULL), "copy"),
        (nodes.FenceProxyAsync(), "convert"),
        (nodes.BulkWait(0), "stored"),
        (nodes.CtaSync(), "others"),
        (nodes.Tcgen05Commit(FULL), "multiply"),
        (nodes.MBarrierWait(nodes.MBarrierRef("acc_full", ZERO), ZERO), "multiply"),
    ],
)
def test_words(stmt: Stmt, activity: str) -> None:
    (lane,) = lanes([stretch(stmt, 1, 4)])
    assert lane == Lane("compute[0]", (Part(activity, 1, 4),))
    assert activity in ACTIVITIES


def test_neighbours_are_joined_and_gaps_kept() -> None:
    wait = nodes.MBarrierWait(FULL, ZERO)
    (lane,) = lanes([stretch(wait, 0, 1), stretch(wait, 1, 3), stretch(wait, 4, 5)])
    assert lane.parts == (Part("data", 0, 3), Part("data", 4, 5))
    assert lane.shares(10) == {"data": 0.4}


def test_a_lane_for_each_warpgroup_of_the_first_cta() -> None:
    sync = nodes.CtaSync()
    found = lanes([
        stretch(sync, 0, 1, warp=1), stretch(sync, 0, 2, warp=4, group=1),
        stretch(sync, 0, 3, cta=1), stretch(sync, 0, 4, role=""), stretch(sync, 0, 5, warp=2),
    ])  # fmt: skip
    assert [x.name for x in found] == ["compute[0]", "compute[1]"]


def test_a_lane_for_a_warp_that_does_something_else() -> None:
    """As warps of the load warpgroup do, each of which fills a ring."""
    first, second = nodes.CtaSync(), nodes.CtaSync()
    found = lanes([
        stretch(first, 0, 1, role="load"), stretch(second, 0, 2, role="load", warp=5),
        stretch(second, 0, 3, role="load", warp=6),
    ])  # fmt: skip
    assert [(x.name, x.parts[-1].end) for x in found] == [("load[0]", 1), ("load[0] warp 1", 2)]


def test_its_first_warp_stands_for_a_warpgroup() -> None:
    sync = nodes.CtaSync()
    found = lanes([
        stretch(sync, 0, 1, warp=1), stretch(sync, 0, 2, warp=4, group=1),
        stretch(sync, 0, 5, warp=2),
    ])  # fmt: skip
    assert [(x.name, x.parts[-1].end) for x in found] == [("compute[0]", 1), ("compute[1]", 2)]
