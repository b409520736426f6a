from __future__ import annotations

from dataclasses import replace

import pytest

import passes.pipeline as pipeline
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Var
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Elect, If, Let
from lowering.kernel.text import print_kernel
from lowering.target.hopper import HOPPER
from passes.options import LoweringOptions
from passes.pipeline import PASSES, run_passes
from tests.lowering.nest.kernels import SMALL, final, lowered, tile_level


def test_order(golden: object) -> None:
    """The whole lowering on one screen."""
    assert "".join(run.__name__ + "\n" for run in PASSES) == golden


def test_a_pass_has_the_name_of_its_file() -> None:
    assert all(run.__module__ == f"passes.{run.__name__}" for run in PASSES)


@pytest.mark.parametrize("name", SMALL)
def test_steps_are_named_in_order(name: str) -> None:
    assert [s.name for s in lowered(name)] == ["lower", *(run.__name__ for run in PASSES)]
    assert run_passes(tile_level(name), LoweringOptions()) == final(name)


@pytest.mark.parametrize("name", SMALL)
def test_the_last_pass_leaves_nothing_to_do(name: str) -> None:
    assert PASSES[-1](final(name), LoweringOptions()) == final(name)


def break_it(kernel: Kernel, _: LoweringOptions) -> Kernel:
    """A pass with a defect: it reads an undefined name."""
    return replace(kernel, body=(If(Var("nowhere").eq(0), (Elect(()),)), *kernel.body))


def test_a_broken_pass_is_named_with_the_kernel_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = {HOPPER.arch: (*PASSES[:2], break_it, *PASSES[2:])}
    monkeypatch.setattr(pipeline, "PIPELINES", broken)
    left = break_it(lowered("cooperative")[2].kernel, LoweringOptions())
    with pytest.raises(InternalError) as error:
        run_passes(tile_level("cooperative"), LoweringOptions())
    assert (error.value.where, error.value.ir) == ("break_it", print_kernel(left))
    assert str(error.value) == (
        "break_it: nowhere is used before it is defined, in: if nowhere == 0 {\n"
        "This is a defect of wsched, please report it with the dump.\n" + print_kernel(left)
    )


def test_all_problems_are_told() -> None:
    """Also those of the kernel that the passes are given."""
    twice = replace(tile_level("cooperative"), body=(Let(Var("M"), Var("y") + ZERO),))
    with pytest.raises(InternalError) as error:
        run_passes(twice, LoweringOptions())
    assert (error.value.where, error.value.why) == (
        "lower",
        "y is used before it is defined, in: let M: i32 = y; "
        "M is defined twice, in: let M: i32 = y",
    )
