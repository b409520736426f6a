"""Several readers of one ring: what is one relation, what are two, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.gated import chained, gated, scheduled, two_results
from tests.schedule.proof.test_legality_inputs import CLASSES
from tests.schedule.proof.test_legality_inputs import scheduled as with_residual
from wsched.fusion import Fusion, LoadStoreOp, LoadStoreOpType, ParallelType, PointwiseOp
from wsched.schedule import Schedule, load_relations, make_plan
from wsched.schedule.cursor import Cursor


def refused(f: Fusion) -> ScheduleError:
    with pytest.raises(ScheduleError) as error:
        make_plan(f)
    return error.value


def test_two_sums_of_one_part() -> None:
    found = scheduled(gated()).plan()
    assert [p.name for p in found.parts] == ["load", "compute"]
    (edge,) = found.edges
    r = edge.relation
    assert (edge.name, edge.producer, edge.consumer) == ("ring", 0, 1)
    assert (r.loads, r.compute, r.readers) == (("T10", "T11", "T12"), "T4", ("T4", "T8"))
    assert str(r).splitlines()[3:5] == [
        "  each step is read by T4 and T8",
        "  each step is consumed by every compute warpgroup of 2",
    ]


def test_two_parts_are_two_edges_of_one_producer() -> None:
    found = scheduled(two_results()).plan()
    assert [(p.name, p.fills) for p in found.parts] == [
        ("load", ("T10", "T11", "T12")),
        ("compute", ()),
        ("compute", ()),
    ]
    assert [(e.name, e.producer, e.consumer, e.relation.readers) for e in found.edges] == [
        ("ring", 0, 1, ("T4",)),
        ("ring", 0, 2, ("T8",)),
    ]
    first, second = found.relations
    assert first.loads == second.loads and first.load_stop == second.load_stop


def read_twice(joined: bool) -> Fusion:
    """The residual copied to registers twice; both are added, or one goes nowhere."""
    f = with_residual(CLASSES["cooperative"])
    copy = replace(f.tensor("T12"), name="T15")
    again = LoadStoreOp("T15", "T11", LoadStoreOpType.LdMatrix)
    at = next(n for n, e in enumerate(f.exprs) if e.output == "T6")
    exprs = (*f.exprs[:at], again, *f.exprs[at:])
    if joined:
        total = next(e for e in exprs if e.output == "T7")
        assert isinstance(total, PointwiseOp)
        three = replace(total, op="where", inputs=("T15", *total.inputs))
        exprs = tuple(three if e is total else e for e in exprs)
    return f.updated((copy,), exprs)


def test_a_matrix_that_is_read_twice() -> None:
    _, aux = load_relations(read_twice(joined=True))
    assert (aux.loads, aux.readers) == (("T11",), ("T12", "T15"))


def test_a_copy_that_nothing_reads_is_a_part_of_its_own() -> None:
    relations = load_relations(read_twice(joined=False))
    assert [(r.loads, r.readers) for r in relations] == [
        (("T9", "T10"), ("T5",)),
        (("T11",), ("T12",)),
        (("T11",), ("T15",)),
    ]


def changed(*calls: tuple[str, tuple[object, ...]]) -> Fusion:
    """The gated schedule with calls for its second product before that is inlined."""
    made = scheduled(gated())
    s = Schedule(gated())
    for r in made.history:
        if (r.op, r.args[0]) == ("inline_at", "T8"):
            for op, args in calls:
                getattr(Cursor(s, "T8"), op)(*args)
        getattr(s, r.op)(*r.args, **dict(r.kwargs))
    return s.fusion


STEPS = "cta [BIDx], tile [Serial], group [TIDy], Ko [Serial]"


def test_other_loops() -> None:
    """Both are legal alone; together a stage would be wanted in two orders of loops."""
    error = refused(changed(("split", ("Ko", 2))))
    assert (error.rule, error.why, error.legal) == (
        "readers",
        "T4 and T8 read the ring of T10, T11, T12, but step through it in different loops, "
        f"{STEPS} and cta [BIDx], tile [Serial], group [TIDy], Koo [Serial], Koi [Serial]: a stage "
        "is released once",
        ("split, reorder and parallelize T8 as T4",),
    )
    assert error.where.splitlines()[0] == "T10_s___bfloat:" and "T8_l_float:" in error.where


def test_other_warpgroups() -> None:
    """The same loops through the steps, but in one of them half of the columns are another's."""
    error = refused(
        changed(
            ("parallelize", ("Ni", ParallelType.Serial)),
            ("split", ("Ni", 64)),
            ("reorder", ({"Nio": 4},)),
            ("parallelize", ("Nio", ParallelType.TIDz)),
            ("parallelize", ("Nii", ParallelType.Mma)),
        )
    )
    assert (error.rule, error.why) == (
        "readers",
        "T4 and T8 read the ring of T10, T11, T12, but run on 2 and 4 warpgroups, of which 2 and 4 "
        "take a step: a stage is released once",
    )


def test_one_waits_for_the_other() -> None:
    """The second sum needs the first one whole, in the loop in which that is added up."""
    error = refused(scheduled(chained()).fusion)
    assert (error.rule, error.wrote, error.why) == (
        "inline",
        "T7 = mma(T8, T6)",
        "T7 reads T6, T6 reads T4, but T7 shares loop Ko with T4: none of them can be computed "
        "first",
    )
    assert [s.split("_")[0] for s in error.where.splitlines() if s[0] == "T"] == ["T7", "T6"]
