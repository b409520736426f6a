"""Targets: what a kernel is made for, and who asks it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.lexer import IRSyntaxError
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from lowering.target import targets
from lowering.target.hopper import HOPPER
from lowering.target.target import Target
from lowering.target.targets import target_of_device
from passes.options import LoweringOptions
from passes.pipeline import PASSES, passes_of, run_passes
from tests.lowering.nest.kernels import tile_level

SMALL = replace(
    HOPPER, arch="sm_99x", capability=(9, 9), gpus=("X1",), named_barriers=4,
    shared_bytes=64 * 1024, max_threads=256, setmaxnreg=(32, 96),
)  # fmt: skip
TEXT = """\
kernel k threads 128 cluster 1 target sm_99x grid 1 {
  named_barrier n[2] id 3 threads 128
}
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Target:
    """A second target, with less of everything."""
    for module in ("targets", "text", "parse"):
        where = "target" if module == "targets" else "kernel"
        monkeypatch.setattr(f"lowering.{where}.{module}.TARGETS", (HOPPER, SMALL))
    return SMALL


def test_a_kernel_says_what_it_is_made_for_unless_that_is_the_first(small: Target) -> None:
    kernel = parse_kernel(TEXT)
    assert kernel.target is small
    assert print_kernel(kernel) == TEXT
    plain = TEXT.replace(" target sm_99x", "")
    assert print_kernel(replace(kernel, target=HOPPER)) == plain
    assert parse_kernel(plain).target is HOPPER


def test_an_unknown_target() -> None:
    with pytest.raises(IRSyntaxError) as error:
        parse_kernel(TEXT)
    assert str(error.value) == "line 1: found 'sm_99x', expected a target: sm_90a, sm_100a"


def test_the_verifier_and_the_machine_ask_the_target(small: Target) -> None:
    kernel = parse_kernel(TEXT.replace("}", "bar.sync n[1] }"))
    assert verify(kernel) == ["no named barrier has id 4, in: named_barrier n"]
    with pytest.raises(MachineError, match=r"n\[1\] has hardware id 4 of 4"):
        run_kernel(kernel, {}, {}, 1)
    kernel = parse_kernel(TEXT.replace("}", "setmaxnreg inc, 104 }"))
    with pytest.raises(MachineError, match="setmaxnreg takes multiples of 8 from 32 to 96"):
        run_kernel(kernel, {}, {}, 1)


def lowered(kernel: Kernel, **changes: object) -> ScheduleError:
    """What the passes refuse of a kernel for Hopper with other limits."""
    target = replace(HOPPER, **changes)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError) as error:
        run_passes(replace(kernel, target=target), LoweringOptions())
    return error.value


def test_the_passes_ask_the_target() -> None:
    kernel = tile_level("cooperative")
    assert "limit 64 KiB" in lowered(kernel, shared_bytes=64 * 1024).why
    assert "limit 256" in lowered(kernel, max_threads=256).why
    assert "multiples of 8 from 24 to 96" in lowered(kernel, setmaxnreg=(24, 96)).why
    few = replace(kernel, target=replace(HOPPER, named_barriers=2))
    with pytest.raises(UnsupportedError, match="at most 1 beside the CTA's own"):
        run_passes(few, LoweringOptions())


def test_a_target_without_passes() -> None:
    kernel = replace(tile_level("cooperative"), target=SMALL)
    with pytest.raises(UnsupportedError) as error:
        run_passes(kernel, LoweringOptions())
    assert (
        str(error.value)
        == "lowering a kernel for sm_99x is not supported; supported: sm_90a, sm_100a"
    )
    assert passes_of(replace(kernel, target=HOPPER)) is PASSES


def test_the_target_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    capability = {None: (9, 0), 0: (9, 0), 1: (8, 0)}

    def fake(available: bool) -> object:
        cuda = SimpleNamespace(
            is_available=lambda: available,
            get_device_capability=lambda d: capability[getattr(d, "index", d)],
        )
        return SimpleNamespace(cuda=cuda)

    assert target_of_device(fake(True)) is target_of_device(fake(True), 0) is HOPPER
    assert target_of_device(fake(True), SimpleNamespace(type="cuda", index=0)) is HOPPER
    assert target_of_device(fake(True), 1) is None
    assert target_of_device(fake(True), SimpleNamespace(type="cpu")) is None
    assert target_of_device(fake(False)) is None
    monkeypatch.setattr(targets, "TARGETS", ())
    assert target_of_device(fake(True), 0) is None


def test_hopper_in_words() -> None:
    assert HOPPER.gpu == "a GPU of compute capability 9.0"
    assert HOPPER.capabilities == "compute capability 9.0 (H100, H200)"
    assert [HOPPER.mma.k(d) for d in (DType.BF16, DType.E4M3, DType.TF32)] == [16, 32, 8]
