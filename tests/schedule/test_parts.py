"""The cut: what is connected between the rings."""

from __future__ import annotations

from dataclasses import replace

from tests.schedule.fusions import COOPERATIVE, PING_PONG, cached, linear
from tests.schedule.proof.test_legality_inputs import scheduled
from wsched.fusion import Fusion, MmaOp
from wsched.schedule import make_plan, schedule_matmul
from wsched.schedule.loops import side_by_side
from wsched.schedule.parts import Filled, Part, find_parts, titles


def test_two_parts() -> None:
    assert find_parts(schedule_matmul(linear(), COOPERATIVE)) == (
        Part("load", ("T0", "T1", "T2", "T3", "T6", "T7"), (Filled("ring", ("T6", "T7")),), True),
        Part("compute", ("T4", "T9", "T8", "T5")),
    )


def test_a_ring_of_its_own_is_a_part_of_its_own() -> None:
    fusion = scheduled(PING_PONG)
    found = find_parts(fusion)
    assert [(p.name, p.rings) for p in found] == [
        ("load", (Filled("ring", ("T9", "T10")),)),
        ("load", (Filled("aux", ("T11",)),)),
        ("compute", ()),
    ]
    assert found == make_plan(fusion).parts


def test_every_tensor_is_in_one_part() -> None:
    """Also one that two parts read: here the residual is an operand, too."""
    fusion = scheduled(PING_PONG)
    (first,) = (e for e in fusion.exprs if e.output == "T3")
    exprs = tuple(replace(first, input="T2") if e is first else e for e in fusion.exprs)
    found = find_parts(replace(fusion, exprs=exprs))
    assert sorted(n for p in found for n in p.tensors) == sorted({*fusion.names} - {"T0"})
    assert "T2" in found[0].tensors


def test_before_anything_is_loaded() -> None:
    assert find_parts(linear()) == (Part("compute", ("T0", "T1", "T2", "T3", "T4", "T5")),)


def test_loads_without_a_ring() -> None:
    """Loops that were not circular-buffered yet are shown all the same."""
    fusion = cached().fusion
    parts = find_parts(fusion)
    assert titles(fusion, parts) == ["load T6, T7 (ring)", "compute"]


def test_titles_where_buffers_differ() -> None:
    """What the proof refuses is said as it is."""
    fusion = schedule_matmul(linear(), COOPERATIVE)
    t = fusion.tensor("T7")
    assert t.circular_buffer is not None
    uneven = fusion.updated((replace(t, circular_buffer=replace(t.circular_buffer, stages=9)),))
    title, _ = titles(uneven, find_parts(uneven), who=True)
    assert title == "load T6, T7 (ring, 4 and 9 stages, WarpSpecialized on TIDy registers 40/232)"


def twice(fusion: Fusion) -> Fusion:
    """The same fusion with a second mma of the same operands, whose result goes nowhere."""
    (mma,) = (e for e in fusion.exprs if isinstance(e, MmaOp))
    second = replace(fusion.tensor(mma.output), name=f"T{len(fusion.tensors)}")
    at = fusion.exprs.index(mma)
    exprs = (*fusion.exprs[:at], replace(mma, output=second.name), *fusion.exprs[at:])
    return fusion.updated((second,), exprs)


def test_what_reads_one_ring_may_be_two_parts() -> None:
    fusion = twice(schedule_matmul(linear(), COOPERATIVE))
    found = find_parts(fusion)
    assert [p.fills for p in found] == [("T6", "T7"), (), ()]
    assert [p.tensors for p in found[1:]] == [("T10",), ("T4", "T9", "T8", "T5")]


def test_three_parts_fit_a_page() -> None:
    """Loads one below the other beside what computes; one column where that is too wide."""
    fusion = scheduled(PING_PONG)
    wide = side_by_side(fusion).splitlines()
    assert wide[0].split("   ")[0] == "load T9, T10 (ring, 4 stages)"
    assert wide[0].endswith("compute") and "load T11 (aux, 2 stages)" in wide[7]
    assert max(map(len, wide)) <= 100
    narrow = side_by_side(fusion, 80).splitlines()
    assert [s for s in narrow if s.startswith(("load", "compute"))] == [
        "load T9, T10 (ring, 4 stages)",
        "load T11 (aux, 2 stages)",
        "compute",
    ]
    assert narrow[narrow.index("extents") :] == wide[wide.index("extents") :]
