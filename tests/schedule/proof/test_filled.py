"""What a part fills ends with what it reads; its warpgroups fill a stage together."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.legality.builder import CTAS, ON_TIDY, P, matmul
from tests.legality.by_hand.parts import apart, epilogue_apart, fragments
from wsched.fusion import Fusion, WarpSpecialized
from wsched.schedule import make_plan
from wsched.schedule.cursor import Cursor


def refused(f: Fusion) -> ScheduleError:
    with pytest.raises(ScheduleError) as error:
        make_plan(f)
    return error.value


def test_the_chain_of_relations() -> None:
    """Load to compute to epilogue, each edge with its steps; both end with the CTA's tiles."""
    found = make_plan(epilogue_apart())
    assert [(e.name, e.producer, e.consumer) for e in found.edges] == [
        ("ring", 0, 1),
        ("aux", 1, 2),
    ]
    first, second = found.relations
    assert [n.stop for n in first.nest][:1] == [n.stop for n in second.nest][:1]
    assert [n.group.label for n in second.nest] == ["tile", "chunk"]
    assert found.main(1) is first and found.main(2) is second
    assert found.main(0) is None


def with_epilogue(tiles: str, loops: str, runs: bool = False) -> Fusion:
    """A part of its own that stores; what is made for it has other tiles than its sums."""
    m = matmul(by_tma=False)
    made, after = apart(m)
    m.tile(64, 32, 32)
    sums, rest = (*m.loads, m.acc), (*made, *after)
    for tensors, labels in ((sums, "tile cta"), (rest, tiles)):
        m.merge(tensors, "Mo No", "tiles")
        m.split(tensors, "tiles", CTAS, labels, outer=labels == "cta tile")
        m.order(tensors, "cta tile")
        m.run(tensors, "cta", P.BIDx)
    m.steps("tile k")
    m.stage(3, 1)
    m.wgmma()
    fragments(m, made, loops)
    fragments(m, after, loops)
    m.s.circular_buffer(made[-1], 2, 1, WarpSpecialized(P.TIDy, None, 2))
    return m.s.fusion


def test_other_tiles_than_its_sums() -> None:
    """Runs of neighbours are stored, and tiles in turn are summed."""
    error = refused(with_epilogue("cta tile", "cta tile"))
    assert (error.rule, error.wrote, error.legal) == (
        "load-bound", "T8 = StMatrix(T9)", ("split T8 as T4",),
    )  # fmt: skip
    tiles = "ceildiv(M, 64) * ceildiv(N, 32)"
    share = f"ceildiv({tiles}, %nctaid.x)"
    assert error.why == (
        f"T8 is stored in steps tile < min(max({tiles} - %ctaid.x * {share}, 0), {share}), and its "
        f"part reads T6, T7 in steps tile < ceildiv(max({tiles} - %ctaid.x, 0), %nctaid.x) and "
        "k < ceildiv(K, 32): what is stored does not end with what is read"
    )


def test_in_turns() -> None:
    """Two warpgroups take turns with tiles: none has the other one's part of a stage."""
    m = matmul(by_tma=False)
    made, after = apart(m)
    m.tile(64, 32, 32)
    m.deal()
    every = (*m.loads, m.acc)
    m.split(every, "tile", 2, "tile turn")
    m.run((m.acc,), "turn", P.TIDy)
    m.steps("tile turn k")
    m.stage(4, 2, ON_TIDY)
    m.wgmma()
    fragments(m, made, "cta tile")
    fragments(m, after, "cta tile")
    m.s.circular_buffer(made[-1], 2, 1, WarpSpecialized(P.TIDy, None, 2))
    error = refused(m.s.fusion)
    assert (error.rule, error.why) == (
        "role",
        "T8 is filled by warpgroups that take turns with the steps of T6, T7: all warpgroups of a "
        "part fill a stage together",
    )


def test_a_turn_left_of_a_stage() -> None:
    """A loop on warpgroups does not step through stages."""
    m = matmul(by_tma=False)
    made, _ = apart(m)
    m.tile(128, 32, 32)
    m.deal()
    for tv in made:
        Cursor(m.s, tv).split("Mi", 64, labels=("row", "Mi")).parallelize("row", P.TIDy)
    fragments(m, made, "cta tile row")
    with pytest.raises(ScheduleError) as error:
        m.s.circular_buffer(made[-1], 2, 1, WarpSpecialized(P.TIDy, None, 3))
    assert (error.value.rule, error.value.why) == (
        "circular_buffer", "loop row [TIDy] is left of the slice position 3",
    )  # fmt: skip
