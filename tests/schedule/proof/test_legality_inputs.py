"""The relations of matrices that the epilogue reads: legal schedules, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Special, evaluate
from tests.epilogues import WIDE_RESIDUAL, epilogue
from tests.legality import builder
from tests.schedule.fusions import COOPERATIVE, NON_PERSISTENT, PING_PONG
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion
from wsched.importer import build_fusion, record_text
from wsched.schedule import (
    CircularBufferOptions,
    InTurn,
    MatmulParams,
    Schedule,
    load_relations,
    loops_text,
    make_plan,
    schedule_matmul,
    subdags_text,
)
from wsched.schedule.matmul import scheduler as matmul
from wsched.schedule.matmul import tile_loops

TWO = epilogue("r: [-1, -1]", "q: [-1, -1]", "s = fd.ops.mul(y, q)", "t = fd.ops.add(s, r)",
               "d = fd.ops.cast(t, dtype=DataType.BFloat16)")  # fmt: skip
CLASSES = {
    name: replace(
        params, circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=3)
    )
    for name, params in (
        ("cooperative", COOPERATIVE),
        ("ping_pong", PING_PONG),
        ("non_persistent", NON_PERSISTENT),
    )
}


def scheduled(params: MatmulParams, text: str = WIDE_RESIDUAL) -> Fusion:
    return schedule_matmul(build_fusion(record_text(text)), params)


@pytest.mark.parametrize("name", CLASSES)
def test_both_load_nests(name: str, golden: object) -> None:
    f = scheduled(CLASSES[name])
    assert loops_text(f) + "\n" + "\n".join(map(str, load_relations(f))) == golden


def test_sub_dags(golden: object) -> None:
    assert subdags_text(scheduled(CLASSES["ping_pong"])) == golden


def test_steps() -> None:
    """Chunks fastest, then the group, then the tile; a step of one chunk of one tile."""
    f = scheduled(CLASSES["ping_pong"])
    operands, aux = load_relations(f)
    assert operands == load_relation(f)
    assert (aux.loads, aux.compute, aux.cooperative) == (("T11",), "T12", False)
    assert [(s.domain.label, str(s.coefficient), s.role) for s in aux.steps] == [
        ("tile", "4", False),
        ("group", "2", True),
        ("chunk", "1", False),
    ]
    env = {"M": 128 * 5, "N": 128, "K": 256, "%nctaid.x": 2}
    for cta, tiles in ((0, 3), (1, 2)):
        at = {**env, "%ctaid.x": cta}
        assert evaluate(aux.load_stop, at) == tiles * 2
        assert evaluate(operands.load_stop, at) == tiles * 4


def test_a_circular_buffer_for_each() -> None:
    two = replace(
        CLASSES["cooperative"],
        circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=2),
    )
    _, *relations = load_relations(scheduled(two, TWO))
    assert [r.loads for r in relations] == [("T16",), ("T18",)]
    assert len({r.load_stop for r in relations}) == 1


def refused(f: Fusion) -> ScheduleError:
    with pytest.raises(ScheduleError) as error:
        load_relations(f)
    return error.value


def test_it_is_buffered() -> None:
    f = scheduled(CLASSES["cooperative"])
    t = f.tensor("T11")
    error = refused(f.updated((replace(t, circular_buffer=None),)))
    assert (error.rule, error.wrote, error.why) == (
        "ring", "loads T11", "T11 is not circular-buffered",
    )  # fmt: skip
    assert error.where.startswith("T11_s___bfloat")


def test_its_tiles_are_the_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CTA that has every n-th tile of the mma and every other one of the epilogue."""
    tile = tile_loops.split_into_tiles

    def apart(s: Schedule, tv: str, params: MatmulParams, b: int) -> None:
        with monkeypatch.context() as patch:
            if tv in ("T11", "T12"):
                patch.setattr(tile_loops, "Special", lambda name: Special("nctaid.x") * 2)
            tile(s, tv, params, b)

    monkeypatch.setattr(matmul, "split_into_tiles", apart)
    monkeypatch.setattr(matmul, "_inline", lambda s, names: None)
    with pytest.raises(ScheduleError) as error:
        make_plan(scheduled(CLASSES["cooperative"]))
    assert (error.value.rule, error.value.why, error.value.legal) == (
        "load-bound",
        "the load steps of T11 and of T9, T10 do not end with the same tile",
        ("tile T12 as T5",),
    )


def in_runs() -> Fusion:
    """A residual in boxes of a tile that two warpgroups share, tiles in runs of neighbours."""
    m = builder.matmul(WIDE_RESIDUAL, ring=True)
    m.tile(128, 32, 32)
    m.deal(runs=True)
    m.share("Mi", 64, "row", builder.P.TIDy)
    m.steps("tile k")
    m.stage()
    m.order(m.compute, "cta tile row")
    m.fragments("row", 16)
    m.fill(m.rings, 2, 1, builder.ON_TIDY)
    m.inline("row")
    return m.s.fusion


def test_tiles_in_runs_are_no_share_of_steps() -> None:
    """One step a tile: the load loop is the inner part of a split of merged tiles, and compute has
    the outer one on the same CTAs.
    """
    _, aux = load_relations(in_runs())
    assert [s.domain.label for s in aux.digits] == ["tile"]
    assert isinstance(aux.work, InTurn)
