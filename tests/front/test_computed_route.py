"""One kernel that computes an operand, or one in front: what is predicted to take less."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wsched
from tests.computed import cast, drawn
from wsched.front import routes
from wsched.front.cut.predict import SegmentsCost

torch = pytest.importorskip("torch", reason="torch is not installed")

INPUTS = [drawn("bfloat16", 16, 512), drawn("float8_e4m3fn", 512, 512, 1)]


def test_few_rows_are_one_kernel() -> None:
    """The weights are read once."""
    found = wsched.explain(cast("Float8_e4m3fn"), INPUTS)
    assert found.route == "wsched" and "exchange_operands = True" in str(found)


def test_a_kernel_in_front_that_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = routes.chosen_cut

    def cheap(*args: object, **more: object) -> object:
        return replace(chosen(*args, **more), cost=SegmentsCost(0.5, 0.5))  # type: ignore[arg-type]

    monkeypatch.setattr(routes, "chosen_cut", cheap)
    found = wsched.explain(cast("Float8_e4m3fn"), INPUTS)
    (reason,) = (r.reason for r in found.refusals if r.what == "wsched")
    assert found.route == "cut"
    assert reason.startswith("an operand computed in the kernel takes ")
    assert reason.endswith(" us, in front of it 0.5 us")


def test_what_stays_is_told_to_the_ways_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel in front of constants alone would run once."""
    told, chosen = list[object](), routes.chosen_cut

    def noted(*args: object, **more: object) -> object:
        told.append(more["constants"])
        return chosen(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(routes, "chosen_cut", noted)
    for constants in ((1,), ()):
        wsched.explain(cast("Float8_e4m3fn"), INPUTS, constants=constants)
    assert told == [(1,), ()]
