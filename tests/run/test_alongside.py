"""Products that run beside the statistics in front of them: schedules, kernels, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE
from lowering.summary.kernel import ALONGSIDE_REGISTERS
from lowering.target.hopper import HOPPER
from tests.epilogues import epilogue
from tests.lowering.cuda.fake_driver import Driver, installed
from tests.lowering.summary.summaries import rms
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.proofs import proved
from tests.schedules import cooperative, deferred, ping_pong
from wsched.front.kernels import compile as compiled
from wsched.program.program import Buffer, CallStep, Step, SummaryStep
from wsched.run.alongside import Front, beside, leaving_registers
from wsched.run.on_device import ALONGSIDE, OnDevice
from wsched.run.summary import compiled_summary
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.params import ClusterDims, MatmulParams

torch = pytest.importorskip("torch")

SMALL = cooperative(128, 64, stages=3)
WAYS = {
    "cooperative": SMALL,
    "ping-pong": ping_pong(64, 64, stages=3),
    "deferred": deferred(cooperative(128, 128, stages=3)),
    "cluster": replace(SMALL, cluster_dims=ClusterDims(2, 1)),
    "exchanged": replace(ping_pong(64, 64, stages=3), exchange_operands=True),
}
FILLS = 5 * HOPPER.sms
"""CTAs that leave no multiprocessor idle."""

SCALED = epilogue(
    "r: [-1, 1] Float", "y = fd.ops.linear(x, w)", "f = fd.ops.cast(y, dtype=DataType.Float)",
    "u = fd.ops.mul(f, r)", "v = fd.ops.cast(u, dtype=DataType.BFloat16)", outputs="v",
)  # fmt: skip


def leaving(params: MatmulParams) -> MatmulParams:
    return next(leaving_registers(params, HOPPER))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return installed(monkeypatch)


@pytest.mark.sampled
@pytest.mark.parametrize("name", WAYS)
def test_right_proved_and_without_spills(name: str) -> None:
    made = kernel(leaving(WAYS[name])).alongside
    assert made.kernel.name.endswith(ALONGSIDE)
    assert [m.early for m in made.kernel.tensor_maps] == [True, True, False]
    problem = Problem(200, 168, 136, 4)
    x, w = operands(problem, "bf16", 0, integer=True)
    assert np.array_equal(run(made, problem, x, w, "bf16", races=True).astype("f4"), exact(x, w))
    proved(made.kernel, made.plan)
    assert made.resources.clean


def test_both_fit_on_a_multiprocessor() -> None:
    """With all warps of a quarter; ptxas takes what the kernel says."""
    made = kernel(leaving(WAYS["ping-pong"])).alongside
    ours, theirs = made.kernel, ALONGSIDE_REGISTERS
    assert ours.registers is not None
    assert ours.threads * ours.registers + 128 * theirs <= HOPPER.registers
    assert ours.threads * (ours.registers + HOPPER.register_step) + 128 * theirs > HOPPER.registers
    assert f"__maxnreg__({ours.registers})" in made.source
    assert made.resources.registers == ours.registers


def test_only_a_program_lets_it_start_early(driver: Driver) -> None:
    """By itself it may stand behind whoever writes its operands."""
    made = kernel(leaving(SMALL)).alongside
    assert [k.loaded.starts_early(FILLS) for k in (made, made.following)] == [False, True]
    waits = kernel(leaving(SMALL))
    assert waits.following is waits and waits.loaded.starts_early(FILLS)


def test_copies_of_operands_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else makes may lie in any way: the grid in front is then the copy's."""
    ran: list[bool] = []

    def alone_on(self: OnDevice, *args: Any) -> Callable[[], None]:
        ran.append(self.follows)
        return launches(self, *args)

    launches = OnDevice.alone_on
    monkeypatch.setattr(OnDevice, "alone_on", alone_on)
    made = kernel(leaving(SMALL)).alongside.following
    x, w = torch.ones(72, 65).bfloat16()[:, 1:], torch.ones(80, 64).bfloat16()
    (d,) = made(x, w)
    assert torch.equal(d, x @ w.t())
    made(x.contiguous(), w)
    assert ran == [False, True]


def test_who_has_nothing_to_give() -> None:
    """One instruction of 256 columns adds to 128 registers, more than are left to start with."""
    assert not list(leaving_registers(cooperative(128, 256), HOPPER))
    assert not list(leaving_registers(cooperative(128, 128, registers=None), HOPPER))


def test_narrower_chunks_need_fewer_registers() -> None:
    found = [p.epilogue_columns for p in leaving_registers(ping_pong(128, 168), HOPPER)]
    assert found == [0, 24, 8]


def test_who_starts_late_is_not_beside_anybody() -> None:
    made = kernel(launched(leaving(SMALL), False))
    assert made.alongside is made


P, Q, R, S, V, W, X, Y, Z = (Buffer(name, DType.F32, (ONE, ONE)) for name in "PQRSVWXYZ")
ROWS = SummaryStep("rows", rms(2, (1,)), (S, X), (R,))
VIEW = CallStep("view", (R,), (V,), True, True, stable=True)
CALL = CallStep("rest", (R,), (V,))
WEIGHT = CallStep("rest", (S,), (W,))
OTHERS = SummaryStep("others", rms(2, (1,)), (S, Y), (Q,))
OF_OTHERS = CallStep("kernel", (Y, Q), (P,))
BEFORE = SummaryStep("columns", rms(2, (0,)), (S, Y), (Z,))


@pytest.mark.parametrize(
    ("steps", "order"),
    [
        ((ROWS,), (ROWS,)),
        ((ROWS, VIEW), (ROWS, VIEW)),
        ((ROWS, WEIGHT, VIEW), (WEIGHT, ROWS, VIEW)),  # what makes an operand comes first
        ((BEFORE, ROWS), (BEFORE, ROWS)),
        ((ROWS, BEFORE), (BEFORE, ROWS)),
        ((ROWS, OTHERS, OF_OTHERS), (OTHERS, OF_OTHERS, ROWS)),  # of another kernel
        ((ROWS, CALL), None),  # somebody else's kernel waits for it
        ((ROWS, SummaryStep("more", rms(2, (0,)), (S, R), (Z,))), None),
        ((BEFORE,), None),
        ((), None),
    ],
)
def test_the_steps_in_front(steps: tuple[Step, ...], order: tuple[Step, ...] | None) -> None:
    found = Front.of(steps, [X, W, R, V], [X, W])
    assert order == (None if found is None else (*found.before, found.summary, *found.behind))


def test_statistics_that_the_kernel_multiplies_or_does_not_read() -> None:
    """Behind the latter another kernel may be, whose place in front it must keep."""
    assert Front.of((ROWS,), [X, W], [X, W]) is None
    assert Front.of((ROWS,), [X, R], [X, R]) is None
    assert Front.of((ROWS, VIEW), [X, V], [X, V]) is None
    made = compiled_summary(rms(2, (1,)), alongside=True)
    front = Front.of((ROWS, WEIGHT), [X, W, R], [X, W])
    assert front is not None
    assert front.alongside(made) == [WEIGHT, replace(ROWS, kernel=made.name)]


def test_when_it_pays() -> None:
    """While the first tiles take as long as the statistics; by a schedule that has room."""
    inputs = [torch.empty(s, dtype=torch.bfloat16) for s in ((512, 512), (1024, 512))]
    inputs.append(torch.empty(512, 1))

    def made(params: MatmulParams) -> object:
        return beside(
            compiled(SCALED, inputs, params=params), inputs, read,
            lambda p: compiled(SCALED, inputs, params=p),
        )  # fmt: skip

    read = 512 * 512 * 2
    assert made(ping_pong(128, 128, stages=3)) is not None
    assert made(cooperative(128, 256, stages=3)) is None
    read *= 8
    assert made(ping_pong(128, 128, stages=3)) is None
