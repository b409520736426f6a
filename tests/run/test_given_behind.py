"""Calls with ``out`` of a kernel with others behind it or copies in front: on the machine, with
launches kept together as on a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import wsched
from lowering.ground.dtypes import DType
from lowering.ground.expr import Var
from tests.program import host_scratch
from tests.reductions import Reduced
from tests.reductions import definition as reduced
from tests.schedules import cooperative, definition, parallel_split
from wsched.front import kernels
from wsched.importer.input_error import InputError
from wsched.program import prepare
from wsched.program.given import into_given
from wsched.program.program import Buffer, CallStep, CopyStep, Program, WorkspaceStep
from wsched.program.text import print_program
from wsched.run import compiled
from wsched.run.compiled import CompiledFusion
from wsched.run.kept import Kept
from wsched.run.unscheduled import Unscheduled

torch = pytest.importorskip("torch")

SMALL = cooperative(64, 16, 16, stages=3, groups=1, registers=None)


@pytest.fixture(autouse=True)
def on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """With kernels that no other test has called."""
    monkeypatch.setattr(kernels, "_kernels", Kept())
    monkeypatch.setattr(prepare, "_CHAINED", ("cpu",))
    host_scratch.installed(monkeypatch)


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results of each launch that is packed for a chain."""
    seen = list[Any]()
    for kind in (CompiledFusion, Unscheduled):

        def noted(self: Any, inputs: Any, outputs: Any, real: Any = kind.packed) -> Any:
            seen.append(outputs)
            return real(self, inputs, outputs)

        monkeypatch.setattr(kind, "packed", noted)
    return seen


def matrices(m: int, n: int, k: int) -> tuple[Any, Any]:
    torch.manual_seed(0)
    a, b = (torch.randint(-2, 3, s).bfloat16() for s in ((m, k), (n, k)))
    return a, b


def wanted(a: Any, b: Any) -> Any:
    return (a.float() @ b.float().T).bfloat16()


def in_parts(a: Any, b: Any) -> CompiledFusion:
    return wsched.compile(definition(), [a, b], params=parallel_split(SMALL, 3))


def empty(rows: int, columns: int, **how: Any) -> Any:
    return torch.zeros(rows, columns, **{"dtype": torch.bfloat16, **how})


def calls(run: Callable[[], object]) -> int:
    """Functions that Python calls, those in C among them."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def test_a_class_is_prepared_once(packed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on addresses is asked anew of other ones, and nothing else."""
    a, b = matrices(72, 40, 104)
    kernel, (d, e) = in_parts(a, b), (empty(72, 40) for _ in range(2))
    kernel(a, b, out=d)
    for name in ("bind_program", "prepare"):
        monkeypatch.setattr(compiled, name, None)
    assert not packed
    for out in (d, e, [d]):
        (made,) = kernel(a, b, out=out)
        assert made is (out[0] if isinstance(out, list) else out)
        assert torch.equal(made, wanted(a, b))
        made.zero_()
    assert {t.data_ptr() for (t, *_) in packed} >= {d.data_ptr(), e.data_ptr()}


def test_costs_the_host_what_a_call_without_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """In functions called, with launches that do nothing and memory that is the same each time."""
    a, b = matrices(72, 40, 104)
    kernel, d = in_parts(a, b), empty(72, 40)
    nothing = lambda: None  # noqa: E731
    for kind in (CompiledFusion, Unscheduled):
        monkeypatch.setattr(kind, "packed", lambda self, inputs, outputs: nothing)
    ways = (lambda: kernel(a, b)), (lambda: kernel(a, b, out=d))
    for way in ways:
        for _ in range(3):
            way()
    without, given = (min(calls(way) for _ in range(9)) for way in ways)
    assert given <= 1.5 * without


def test_results_lie_where_they_may() -> None:
    """Whatever calls of the class there were."""
    a, b = matrices(72, 40, 104)
    kernel = in_parts(a, b)
    both = torch.zeros(72 * 104).bfloat16()
    within = both[: 72 * 40].view(72, 40)
    kernel(a, b, out=within)
    for _ in range(2):
        with pytest.raises(InputError, match="shares memory with input 0"):
            kernel(both.view(72, 104), b, out=within)
    kernel(a, b, out=within)
    assert torch.equal(within, wanted(a, b))


def test_results_that_a_launch_would_hold(packed: list[Any]) -> None:
    """Rows that lie apart are copied from what the last kernel writes; no launch is kept."""
    a, b = matrices(72, 40, 104)
    kernel, d = in_parts(a, b), empty(72, 80)[:, :40]
    for _ in range(3):
        kernel(a, b, out=d)
        assert torch.equal(d, wanted(a, b))
        d.zero_()
    summary = kernel._front([a, b]).steps[-1]
    last = kernel._kernels(kernel._front([a, b]))[summary.kernel]
    parts = torch.zeros(3, 72, 40)
    assert last.packed([parts], [d]) is None
    assert last.packed([parts], [empty(72, 40)]) is not None


def test_copies_in_front(packed: list[Any]) -> None:
    """TMA cannot read rows of 101 elements: they are copied anew by each call."""
    a, b = matrices(72, 40, 101)
    kernel, d = wsched.compile(definition(), [a, b], params=SMALL), empty(72, 40)
    for step in range(3):
        a += step
        kernel(a, b, out=d)
        assert torch.equal(d, wanted(a, b))


def test_a_result_and_its_reductions() -> None:
    """The kernel stores the first one, which may lie at what its epilogue reads; it has parts of
    the others.
    """
    a, b = matrices(72, 40, 104)
    bias = torch.zeros(40).bfloat16()
    text = reduced((Reduced("sum", (0,)), Reduced("max", (1,), "abs")))
    kernel = wsched.compile(text, [a, b, bias])
    outs = empty(72, 40), empty(1, 40, dtype=torch.float32)[0], torch.zeros(72)
    fresh = kernel(a, b, bias)
    for _ in range(3):
        made = kernel(a, b, bias, out=outs)
        assert all(x is y for x, y in zip(made, outs, strict=True))
        assert all(map(torch.equal, made, fresh))
        for t in outs:
            t.zero_()


def test_of_a_program() -> None:
    """Results are at inputs of their shapes, and who reads one reads it there."""
    x, y, z = (Buffer(name, DType.F32, (Var("M"), Var("N"))) for name in "xyz")
    room = Buffer("room", DType.F32, (Var("M"),))
    steps = WorkspaceStep(room), CopyStep(x, y), CallStep("f", (y,), (z,))
    assert print_program(into_given(Program((x,), steps, (z, y)))) == (
        """\
program (x, z_given, y_given) -> (z, y) {
  x: f32[M, N]
  z_given: f32[M, N]
  y_given: f32[M, N]
  room: f32[M]
  y: f32[M, N] at y_given
  z: f32[M, N] at z_given
  workspace room
  copy x -> y
  call f(y) -> z
}
"""
    )
