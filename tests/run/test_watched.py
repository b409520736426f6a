"""Kernels with a watchdog: what a hang says, that all of them compile, and who asks for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wsched
from lowering.ground.errors import UnsupportedError, WschedError
from lowering.kernel.nodes import Atom, Body, MBarrierArrive, Stmt
from lowering.kernel.visit import rewrite
from lowering.kernel.waits import row_of, rows_shape
from tests.schedules import SCHEDULES, cooperative, definition, stream_k
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.watched import VARIABLE, HangError, bound_from_environment, watched
from wsched.schedule.matmul.params import MatmulParams

torch = pytest.importorskip("torch", reason="torch is not installed")

SMALL = cooperative(64, 16, 16, stages=3, groups=1, registers=None)


@pytest.fixture(autouse=True)
def _asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")


def made(params: MatmulParams) -> CompiledFusion:
    return compile_fusion(import_fusion(definition()), params)


def without(kernel: CompiledFusion, dropped: Callable[[Stmt], bool]) -> CompiledFusion:
    """The kernel without some of its statements."""

    def drop(s: Stmt) -> Body | None:
        return () if dropped(s) else None

    body = rewrite(kernel.kernel.body, drop)
    assert body != kernel.kernel.body
    return replace(kernel, kernel=replace(kernel.kernel, body=body))


def releases(s: Stmt) -> bool:
    return isinstance(s, MBarrierArrive) and s.bar.array == "ring_empty"


def publishes(s: Stmt) -> bool:
    return isinstance(s, Atom) and s.op == "add"


def inputs() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randint(-2, 3, (n, 64), generator=generator).bfloat16() for n in (64, 16))
    return x, w


def test_a_dropped_arrival() -> None:
    hangs = without(made(SMALL), releases)
    with pytest.raises(HangError) as hung:
        hangs(*inputs())
    name = hangs.kernel.name
    assert name.endswith("_watched")
    assert str(hung.value) == (
        f"watchdog: {name} hangs\n"
        "  CTA 0, role compute, group 0, warps 0..3: ring_full[0] parity 0 lacks 1 of 1 arrivals "
        "(at: mbarrier.wait ring_full[stage_k], parity_k)\n"
        "  CTA 0, role load, group 0, warp 4: ring_empty[0] parity 0 "
        "(at: mbarrier.wait ring_empty[stage_k2], parity_k2)\n"
        "This is a defect of wsched, please report it with the dump."
    )


def test_a_part_that_is_not_published() -> None:
    hangs = without(made(stream_k(SMALL)), publishes)
    with pytest.raises(HangError) as hung:
        hangs(*inputs())
    (line,) = hung.value.waits
    assert ", role compute, group 0, warp 0: ready[0] is 0, not yet 3 (at: counter.wait " in line


def test_what_does_not_hang_is_right() -> None:
    x, w = inputs()
    assert torch.equal(made(SMALL)(x, w)[0], (x.float() @ w.float().T).bfloat16())


FAMILIES = (
    "coop_128x256", "cluster_pingpong", "dynamic_cluster_pingpong", "pipelined", "split_pingpong",
    "stream_k_cluster",
)  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_compiles(name: str) -> None:
    found = made(SCHEDULES[name]).resources
    assert (found.spill_stores, found.spill_loads) == (0, 0)


def test_a_trace_has_no_watch() -> None:
    assert made(SMALL).traced.kernel.watch is None


def test_kernels_with_and_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with_one = wsched.compile(definition(), inputs(), params=SMALL)
    monkeypatch.setenv(VARIABLE, "0")
    without_one = wsched.compile(definition(), inputs(), params=SMALL)
    assert (with_one.kernel.watch is None, without_one.kernel.watch is None) == (False, True)


@pytest.mark.parametrize(
    ("setting", "bound"), [("1", 10**9), ("0.05", 50_000_000), ("", 0), ("0", 0)]
)
def test_the_variable(setting: str, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    assert bound_from_environment() == bound


@pytest.mark.parametrize("setting", ["yes", "-1", "inf", "nan", "1e-9"])
def test_no_number(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(WschedError) as refused:
        bound_from_environment()
    assert str(refused.value) == (
        f"WSCHED_WATCHDOG={setting}: use the seconds that a wait may take, 0.001 to 3600, or 0"
    )


class Driver:
    """A kernel in the driver's hands whose warps write rows, and then the stream fails."""

    def __init__(self, kernel: Any, rows: dict[tuple[int, int], list[int]], fails: bool) -> None:
        self.kernel, self.rows, self.fails = kernel, rows, fails

    def prepare(self, tensors: Any, params: Any, grid: int) -> Any:
        rows = tensors[self.kernel.watch.name]
        assert tuple(rows.shape) == rows_shape(self.kernel, grid, params)

        def launch() -> None:
            for place, row in self.rows.items():
                rows[place] = torch.tensor(row)

        return launch

    def synchronize(self) -> None:
        if self.fails:
            raise RuntimeError("CUDA error: unspecified launch failure")


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], None]]:
    """A launch on a device that is not there."""

    def launch(rows: Any, fails: bool = True, capturing: bool = False) -> Callable[[], None]:
        driver = Driver(made(SMALL).kernel, rows, fails)
        zeros = torch.zeros

        def pinned(*a: Any, pin_memory: bool, **k: Any) -> Any:
            assert pin_memory  # of the host, which reads it when the device has failed
            return zeros(*a, **k)

        monkeypatch.setattr(torch, "zeros", pinned)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: driver)
        tensors = {"A": SimpleNamespace(device="cuda:0")}
        return watched(driver, tensors, {"M": 64, "N": 16, "K": 64}, 1)  # type: ignore[arg-type]

    return launch


def test_rows_of_a_device(on_device: Any) -> None:
    rows = {(0, w): row_of(0, 100 + w, 2, 0, 1 if w == 0 else None) for w in range(4)}
    with pytest.raises(
        HangError, match=r"warps 0\.\.3: ring_full.2. parity 0 lacks 1 of 1"
    ) as hung:
        on_device(rows)()
    assert isinstance(hung.value.__cause__, RuntimeError)
    assert np.shape(hung.value.waits) == (1,)


def test_a_device_that_fails_otherwise(on_device: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^CUDA error"):
        on_device({})()


def test_a_launch_that_ends(on_device: Any) -> None:
    on_device({}, fails=False)()


def test_a_capture(on_device: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"of which the host waits for the end, is not supp"):
        on_device({}, capturing=True)()
