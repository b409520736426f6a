"""Parts of the model bench that need neither nvFuser nor a GPU: weights, errors, ways, pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.schedules import definition
from wsched.bench.models import cases, modules
from wsched.bench.models.cases import DefinitionCase, _module, told_of
from wsched.bench.models.dot import to_dot
from wsched.bench.models.errors import largest_error
from wsched.bench.models.listed import read_listed
from wsched.bench.models.measure import EAGER, NVFUSER, OWN, TOLERANCE
from wsched.bench.models.modules import MODULES, make
from wsched.bench.norms import definition as norm
from wsched.bench.peers.systems import Skip
from wsched.bench.problem import Shape
from wsched.doors.dropin.ledger import Tally
from wsched.doors.dropin.patch import enabled
from wsched.doors.dropin.report import Report
from wsched.front.cut.choose import least
from wsched.front.cut.predict import Call
from wsched.front.cut.segments import Cutter
from wsched.front.cut.shares import Share
from wsched.front.cut.sizes import bind_extents
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("trains", [False, True])
def test_drawn_weights(trains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products have the deviation of their inputs: weights that of one over the root of K."""
    small = replace(
        MODULES["gpt2"], width=64, sizes=(2,), context=8, trains=trains
    )  # fmt: skip
    monkeypatch.setattr(modules, "MODULES", {"gpt2": small})
    found, other = make("gpt2", 24, "cpu"), make("gpt2", 24, "cpu", 1)
    assert found.x.shape == (3, 8, 64) and make("gpt2", 4, "cpu").x.shape == (1, 4, 64)
    assert (found.grad is None) is not trains
    if found.grad is not None:
        assert found.grad.shape == found.x.shape and not torch.equal(found.grad, found.x)
    every = [*found.module.parameters()]
    assert {p.dim() for p in every} == {1, 2}
    for weights in every:
        center, deviation = (1.0, 0.1) if weights.dim() == 1 else (0.0, weights.shape[-1] ** -0.5)
        values = weights.detach().float()
        assert abs(float(values.mean()) - center) < 0.25 * deviation + 0.03 * center
        assert float(values.std()) == pytest.approx(deviation, rel=0.3)
        assert weights.requires_grad is trains and weights.dtype is torch.bfloat16
    assert abs(float(found.x.float().std()) - 1) < 0.1
    again = [*make("gpt2", 24, "cpu").module.parameters()]
    assert all(map(torch.equal, every, again))
    assert not any(map(torch.equal, every, other.module.parameters()))


ONE, NAN = torch.tensor([3.0, 4.0]), float("nan")
MASKED = torch.tensor([-torch.inf, 4.0])


@pytest.mark.parametrize(
    ("results", "wanted", "error"),
    [
        ([ONE], [ONE], 0.0),
        ([ONE + torch.tensor([0.0, 0.5])], [ONE], 0.1),
        ([ONE, 2 * ONE], [ONE, ONE], 1.0),
        ([2 * ONE, ONE], [ONE, ONE], 1.0),
        ([ONE * NAN, ONE], [ONE, ONE], NAN),
        ([ONE, ONE * NAN], [2 * ONE, ONE], NAN),
        ([ONE], [0 * ONE], float("inf")),
        ([0 * ONE], [0 * ONE], 0.0),
        ([torch.tensor([1, 2, 3, 4])], [torch.tensor([1, 2, 3, 5])], 0.25),
        ([torch.tensor([True, False])], [torch.tensor([True, False])], 0.0),
        ([torch.tensor([], dtype=torch.int64)], [torch.tensor([], dtype=torch.int64)], 0.0),
        ([ONE.bfloat16() * 1.5], [ONE.bfloat16()], 0.5),
        ([MASKED], [MASKED], 0.0),
        ([MASKED + 0.5], [MASKED], 0.125),
        ([MASKED.nan_to_num(neginf=-9.0)], [MASKED], NAN),
        ([-MASKED], [MASKED], NAN),
    ],
)
def test_the_error_of_results(results: Any, wanted: Any, error: float) -> None:
    """The largest of all; relative, or the share of those that differ where none is a fraction."""
    assert largest_error(results, wanted) == pytest.approx(error, nan_ok=True)


def test_a_package_that_there_is_not() -> None:
    assert _module("json").loads("1") == 1
    with pytest.raises(Skip) as error:
        _module("no_such_package")
    assert str(error.value) == "not installed: there is no module no_such_package"


def test_whose_execute_runs_a_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NvFuser's own, or the one that wsched is in front of, as the way says."""
    (tmp_path / "one.txt").write_text("# inputs: 16x32:bf16 24x32:bf16\n" + definition())

    class Rebuilt:
        def execute(self, inputs: Any) -> str:
            return f"wsched's of {len(inputs)}"

    monkeypatch.setattr(cases, "rebuild", lambda definition: Rebuilt())
    monkeypatch.setattr(
        cases, "nvfusers_own", lambda kind: lambda fd, inputs: f"nvFuser's of {len(inputs)}"
    )
    found = read_listed(tmp_path / "one.txt")
    case = DefinitionCase(found, inputs := found.inputs("cpu"))
    ways = {name: case.way(name) for name in (EAGER, NVFUSER, OWN)}
    assert {n: way.around is enabled for n, way in ways.items()} == {
        EAGER: False, NVFUSER: False, OWN: True,
    }  # fmt: skip
    assert [ways[name].call() for name in (NVFUSER, OWN)] == ["nvFuser's of 2", "wsched's of 2"]
    (result,) = ways[EAGER].call()
    x, w = inputs
    torch.testing.assert_close(result, x @ w.T)
    assert case.error([result]) == 0.0
    assert case.error([result * 1.5]) == pytest.approx(0.5, rel=0.01)  # of the first one
    assert case.limit() == TOLERANCE


def cut(text: str, *shapes: tuple[int, ...]) -> Any:
    """The segments of the best cut."""
    inputs = [torch.ones(s, dtype=torch.bfloat16) for s in shapes]
    cutter = Cutter(record_text(text))
    cutter = cutter.with_moved(cutter.moves)
    names = (n.results[0] for n in cutter.definition.inputs)
    tensors, given = cutter.graph.types, dict(zip(names, inputs, strict=True))
    sizes = bind_extents(cutter.definition, tensors, inputs)
    call = Call(tensors, sizes, given=given, device=inputs[0].device)
    return least(cutter, call, False).cut.segments


NORM = norm(Shape(40, 24, 64), False) + "    z = fd.ops.cumsum(y, 0)\n    fd.add_output(z)\n"


def test_the_picture_of_a_cut_norm(golden: Golden) -> None:
    """A summary, a matmul, and what neither takes; constants are no nodes."""
    segments = cut(NORM, (40, 64), (24, 64))
    assert [s.summary for s in segments].count(True) == 1
    assert [s.own for s in segments].count(False) == 1
    assert to_dot('a "norm"\\', segments) == golden


def share(flops: int, reason: str = "") -> Share:
    return Share("linear", 3, "40x64 . 24x64", flops, True, reason)


@pytest.mark.parametrize("flops", [None, 0, 900, 1100])
def test_what_is_told_of_calls(flops: int | None) -> None:
    """Of each matmul as often as it is called, and what is not in the report; most lost first."""
    segments = tuple(cut(NORM, (40, 64), (24, 64)))
    one, other = (share(10), share(20, "the rank")), (share(100, "the rank"), share(250, "a type"))
    lines = (
        Tally("a", "", one, calls=10, segments=segments),
        Tally("b", "the rank", other, calls=2),
    )
    left = [("not handed to nvFuser", 100)] if flops == 1100 else []
    told = told_of(Report(lines), flops)
    assert [*told.pop("reasons").items()] == [("a type", 500), ("the rank", 400), *left]
    assert told == {
        "flops": max(1000, flops or 0), "own": 100, "calls": 12, "taken": 10,
        "cuts": [{"name": "a", "dot": to_dot("a", segments)}],
    }  # fmt: skip
