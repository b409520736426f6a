"""The primitive ``rfactor``, and what is proved of a reduction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from tests.reductions import ALL, Reduced, definition
from tests.schedules import definition as matmul
from tests.schedules import parallel_split
from wsched.front.known import import_fusion
from wsched.fusion import DataType, Fusion, IterType, ParallelType, ReductionOp, fusion_text
from wsched.schedule import Schedule, plan_matmul, replay
from wsched.schedule.matmul.params import GemmTile, MatmulParams
from wsched.schedule.matmul.scheduler import schedule_onto
from wsched.schedule.matmul.tiles import with_tile
from wsched.schedule.plan import make_plan
from wsched.schedule.primitives.rfactor import rfactor
from wsched.schedule.text import calls_text, parse_calls

PARAMS = with_tile(MatmulParams(), GemmTile(128, 128, 64), 2, False)


def fusion() -> Fusion:
    return import_fusion(definition(ALL[:1]))


def split() -> tuple[Schedule, str]:
    """A sum over rows whose rows are split by 128."""
    s = Schedule(fusion())
    made = s.cache_before(s.outputs[1])
    s.split(made, 0, 128, labels=("Mo", "Mi"))
    return s, made


def test_parts_are_dimensions_of_the_result() -> None:
    s, made = split()
    s.rfactor(made, "Mi")
    t, result = s.tensor(made), s.tensor(s.outputs[1])
    assert [d.iter_type for d in t.read] == [IterType.Reduction, IterType.Iteration]
    assert [(d.label, d.iter_type) for d in t.logical] == [
        ("Mo", IterType.Iteration), ("Mi", IterType.Reduction), ("N", IterType.Iteration),
    ]  # fmt: skip
    assert [(d.label, str(d.extent)) for d in result.logical] == [
        ("Mo", "ceildiv(M, 128)"), ("N", "N"),
    ]  # fmt: skip
    assert t.loop == t.logical
    assert s.fusion.outputs[1].axes == ("N",)
    assert "as [N]" in fusion_text(s.fusion)


def test_a_single_part_is_none_of_the_result() -> None:
    """Of one group of rows, in a result that keeps them as a dimension of size 1."""
    s = Schedule(import_fusion(definition((Reduced("sum", (0,), keepdim=True),))))
    made = s.cache_before(s.outputs[1])
    s.split(made, 0, 1, inner_split=False, labels=("group", "Mi"))
    assert s.fusion.together(s.outputs[1]) is None
    s.rfactor(made, "Mi")
    whole = s.fusion.outputs[1]
    stored = s.tensor(whole.tensor).in_memory
    assert tuple(str(d.extent) for d in stored) == whole.axes == ("1", "N")
    assert [d.rfactor_product for d in stored] == [True, False]
    assert s.fusion.in_parts(whole) and s.fusion.together(whole.tensor) == "sum"
    assert not s.fusion.in_parts(replace(whole, of_parts=True))


def test_replayed_and_as_text() -> None:
    """The calls of the matmul scheduler, made again from their text."""
    s = Schedule(fusion())
    schedule_onto(s, PARAMS)
    calls = [r for _, r in parse_calls(calls_text(s.history))]
    assert any(r.op == "rfactor" for r in calls)
    assert replay(fusion(), calls) == s.fusion


def refused(s: Schedule, tv: str, axis: int | tuple[int, ...]) -> str:
    with pytest.raises(ScheduleError) as error:
        rfactor(s.fusion, tv, axis)
    assert error.value.rule == "rfactor"
    return error.value.why


def test_refused() -> None:
    s, made = split()
    acc, result = s.acc, s.outputs[1]
    (added,) = (t.name for t in s.fusion.consumers(acc))
    assert refused(s, acc, 0) == (
        f"loop M is not reduced over; {acc} has no other loop that is reduced over: split it "
        f"first; {added} = {s.fusion.definition(added)} reads it, and a part is not the whole"
    )
    assert refused(s, added, 0) == f"{added} = {s.fusion.definition(added)} is no reduction"
    assert refused(s, made, 3) == f"{made} has axes 0 to 2, not 3"
    assert refused(s, made, 2) == "loop N is not reduced over"
    other = Schedule(fusion())
    whole = other.cache_before(other.outputs[1])
    assert refused(other, whole, 0) == (
        f"{whole} has no other loop that is reduced over: split it first"
    )
    assert refused(other, other.outputs[1], 0).endswith("is no reduction")
    s.split(result, 0, 64)
    assert refused(s, made, 1) == f"{result} has loops of its own: cut the reduction first"
    s, made = split()
    s.rfactor(made, 1)
    assert refused(s, made, 1) == f"{made} is made in parts already"
    s, made = split()
    s.merge(made, 0)
    assert refused(s, made, 0) == (
        f"{made} has no other loop that is reduced over: split it first; loops of {made} are "
        "merged: its parts are no dimensions of a result"
    )


def product(result: str = "bf16") -> tuple[Schedule, str]:
    """A product whose K is split into parts of as many slices."""
    s = Schedule(import_fusion(matmul(result=result)))
    acc = s.acc if result == "bf16" else s.cache_before(s.acc)
    s.split(acc, "K", 64, labels=("k", "Ki"))
    s.split(acc, "k", 3, inner_split=False, labels=("part", "k"))
    s.reorder(acc, ["part"])
    return s, acc


@pytest.mark.parametrize("result", ["bf16", "f32"])
def test_sums_of_a_product(result: str) -> None:
    """The result is of fp32, and rounded by what sums the parts."""
    s, acc = product(result)
    s.rfactor(acc, ("k", "Ki"))
    t, out = s.tensor(acc), s.tensor(s.outputs[0])
    assert [(d.label, d.iter_type is IterType.Reduction) for d in t.logical] == [
        ("part", False), ("M", False), ("N", False), ("k", True), ("Ki", True),
    ]  # fmt: skip
    assert [d.label for d in t.read] == ["M", "N", "K"]
    assert [str(d.extent) for d in out.in_memory] == ["3", "M", "N"] and not out.allocation
    assert (str(s.fusion.definition(out.name)), out.dtype) == (f"Set({acc})", DataType.Float)
    assert (s.fusion.outputs[0].axes, s.fusion.in_parts(s.fusion.outputs[0])) == (("M", "N"), True)
    assert s.fusion.together(out.name) == "sum"


def test_products_replayed_and_as_text() -> None:
    s = Schedule(import_fusion(matmul()))
    schedule_onto(s, parallel_split(PARAMS, 3))
    calls = [r for _, r in parse_calls(calls_text(s.history))]
    assert [r.args[1] for r in calls if r.op == "rfactor"] == [(3, 4)]
    assert replay(import_fusion(matmul()), calls) == s.fusion


def test_products_that_are_refused() -> None:
    s, acc = product()
    assert refused(s, acc, ()) == "no loop is given that is reduced over still"
    assert refused(s, acc, (0, 3, 4)) == (
        f"{acc} has no other loop that is reduced over: split it first"
    )
    whole = Schedule(import_fusion(matmul(result="f32")))
    assert refused(whole, whole.acc, 2) == (
        f"{whole.acc} has no other loop that is reduced over: split it first; {whole.acc} is a "
        "result itself: cache it before"
    )


def both() -> tuple[Schedule, str]:
    """A sum over all whose columns are cut, and a copy of its parts, whose rows are split."""
    s = Schedule(import_fusion(definition((Reduced("sum", (0, 1)),))))
    made = s.cache_before(s.outputs[1])
    s.split(made, 1, 128, labels=("No", "Ni"))
    s.rfactor(made, "Ni")
    copied = s.cache_before(s.outputs[1])
    s.split(copied, 0, 128, labels=("Mo", "Mi"))
    s.split(copied, 1, 64, labels=("group", "Mi"))
    return s, copied


def test_parts_are_reduced_further() -> None:
    s, copied = both()
    made = s.fusion.definition(copied).input
    s.rfactor(copied, "Mi")
    first, second, result = (s.tensor(t) for t in (made, copied, s.outputs[1]))
    assert str(s.fusion.definition(copied)) == f"reduction({made}, op = sum)"
    assert [(d.label, d.iter_type) for d in second.read] == [
        ("M", IterType.Reduction), ("No", IterType.Iteration),
    ]  # fmt: skip
    assert [(d.label, d.iter_type is IterType.Reduction) for d in second.logical] == [
        ("Mo", False), ("group", False), ("Mi", True), ("No", False),
    ]  # fmt: skip
    assert [d.label for d in first.stored] == ["M", "No"]
    assert [str(d.extent) for d in result.in_memory] == [
        "ceildiv(M, 128)", "2", "ceildiv(N, 128)",
    ]  # fmt: skip
    assert s.fusion.outputs[1].axes == ()


def test_what_elements_are_rounded_to() -> None:
    """Both reductions say it, of which none rounds: parts are fp32, and whoever puts them together
    asks the result.
    """
    s = Schedule(import_fusion(definition((Reduced("max", (0, 1), "abs"),))))
    schedule_onto(s, PARAMS)
    found = [e for e in s.fusion.exprs if isinstance(e, ReductionOp)]
    assert [e.rounded for e in found] == [DataType.BFloat16] * 2
    assert [s.tensor(e.output).dtype for e in found] == [DataType.Float] * 2
    (result,) = s.fusion.reduced
    assert s.fusion.reduction(result.tensor) == found[1]
    assert str(found[1]) == f"reduction({found[0].output}, op = max, rounded = BFloat16)"


@pytest.mark.parametrize("label", ["Mo", "group", "Mi"])
def test_one_loop_is_reduced_over_wherever_it_stands(label: str) -> None:
    """Among the loops, the dimensions and what splits give and take."""
    s, copied = both()
    s.rfactor(copied, label)
    t = s.tensor(copied)
    known = {d.id: d for d in t.root}
    for d in (*t.logical, *t.loop, *(d for x in t.transforms for d in (*x.inputs, *x.outputs))):
        assert known.setdefault(d.id, d) == d
    reduced = [d.label for d in t.loop if d.iter_type is IterType.Reduction]
    assert reduced == [label]


def test_parts_that_are_not_reduced_further() -> None:
    s, copied = both()
    made = s.fusion.definition(copied).input
    assert refused(s, copied, 3) == f"{copied} = Set({made}) is no reduction"
    s.rfactor(copied, "Mi")
    assert refused(s, copied, 2) == f"{copied} is made in parts already"
    s, _ = both()
    s.undo(2)
    assert refused(s, copied, 0) == (
        f"{copied} has no other loop that is reduced over: split it first"
    )
    s = Schedule(fusion())
    made = s.cache_before(s.outputs[1])
    s.split(made, 0, 128, labels=("Mo", "Mi"))
    s.rfactor(made, "Mi")
    copied = s.cache_before(s.outputs[1])
    assert refused(s, copied, 0) == f"{copied} = Set({made}) is no reduction"


def test_replayed_and_as_text_of_both() -> None:
    reduced = import_fusion(definition((Reduced("max", (0, 1)),)))
    s = Schedule(reduced)
    schedule_onto(s, PARAMS)
    calls = [r for _, r in parse_calls(calls_text(s.history))]
    assert [r.op for r in calls].count("rfactor") == 2
    assert replay(reduced, calls) == s.fusion


def test_a_reduction_over_what_several_ctas_have() -> None:
    """Nobody adds up what they have; only of an mma the parts meet."""
    s = Schedule(fusion())
    schedule_onto(s, PARAMS)
    made = next(e.output for e in s.fusion.exprs if s.fusion.tensor(e.output).root)
    s.undo(len(s.history) - next(n for n, r in enumerate(s.history) if r.op == "inline_at"))
    legal = (f"rfactor of {made}: the parts are results, one for each of m64",)
    for parallel in (ParallelType.BIDz, ParallelType.TIDx):
        with pytest.raises(ScheduleError) as error:
            s.parallelize(made, "m64", parallel)
        assert (error.value.rule, error.value.legal) == ("parallelize", legal)
        assert error.value.why == (
            f"m64 is reduced over: each of {parallel} would be left with a part of the result"
        )
    t, at = s.tensor(made), s.axis(made, "m64")
    loop = (*t.loop[:at], t.loop[at].on(ParallelType.BIDz), *t.loop[at + 1 :])
    with pytest.raises(ScheduleError) as error:
        make_plan(s.fusion.updated([replace(t, loop=loop)]))
    assert (error.value.rule, error.value.legal) == ("reduction", legal)


def test_the_plan() -> None:
    """A reduction is proved with the rest: its parts are stored by who has them."""
    made = plan_matmul(fusion(), PARAMS)
    assert [str(d.extent) for d in made.fusion.tensor(made.fusion.outputs[1].tensor).stored] == [
        "ceildiv(M, 128)", "2", "N",
    ]  # fmt: skip
