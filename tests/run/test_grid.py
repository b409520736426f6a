"""The grids of a call: which kernels share one, what it is made of, and what is compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.cuda.nvrtc import compilations
from lowering.cuda.resources import Resources
from tests.grouped import GATE, given, grouped
from tests.run.test_siblings import KERNELS, kernel, params_of
from tests.schedules import dynamic, exchanged, ping_pong
from wsched.front.known import import_fusion
from wsched.run import grid as grid_module
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.siblings import shared

LENGTHS = (104, 88, 72)


def several() -> MatmulParams:
    tiles = (dynamic(exchanged(ping_pong(128, n, 64, stages=4))) for n in LENGTHS)
    return shared(tuple(replace(p, num_registers="auto") for p in tiles))


@pytest.mark.parametrize(("name", "grids"), [("two", [1, 1]), ("three", [1, 1, 1])])
def test_kernels_that_are_not_alike(name: str, grids: list[int]) -> None:
    """Of other numbers of threads, or in other clusters."""
    assert name in KERNELS
    found = kernel(name).grids
    assert [len(g.kernels) for g in found] == grids
    assert [g.name for g in found] == [k.kernel.name for k in kernel(name).launched]


def test_kernels_that_are() -> None:
    """They are compiled as one text, which says what each takes; none of them is alone."""
    before = compilations()
    made = compile_clean(import_fusion(GATE), several())
    (grid,) = made.grids
    assert grid.kernels == made.launched and len(grid.kernels) == 3
    assert grid.name.startswith(f"{made.kernel.name}_with")
    assert grid.resources.clean and compilations() <= before + 1
    for y, k in enumerate(made.launched):
        assert f"case {y}: return {k.kernel.name}(" in grid.source
        assert k.trials == (f"{k.params.num_registers}: clean",)


def test_one_that_does_not_compile_clean_is_chosen_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    spilled = Resources("k", 168, 8, 4, 4, 0, 1, 128)
    monkeypatch.setattr(grid_module.Grid, "resources", spilled)
    made = compile_clean(import_fusion(grouped()), several())
    assert [k.resources.clean for k in made.launched] == [True] * 3


def test_a_call_of_all() -> None:
    """On the machine each runs behind the one in front."""
    x, w, ends = given((200, 90, 3, 0, 104, 95), 136, 72)
    inputs: list[Any] = [x, w, ends]
    (found,) = wsched.execute(grouped(), inputs, params=several())
    (wanted,) = wsched.execute(grouped(), inputs, params=params_of("two"))
    assert (found - wanted).abs().max() <= 2**-6 * wanted.abs().max()
