"""Definitions whose cut is one kernel, and what is found out before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.front.cut.program import make
from wsched.front.cut.route import chosen_cut, cutter_of
from wsched.importer import record_text

torch: Any = pytest.importorskip("torch")


def test_a_kernel_that_would_be_refused_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that whoever asked can go another way."""
    inputs = [torch.zeros(64, 64, dtype=torch.bfloat16) for _ in range(2)]
    cutter = cutter_of(record_text(definition()))
    segments = chosen_cut(cutter, inputs).cut.segments
    assert segments[0].is_plain(("x", "w")) and len(segments) == 1

    nobody: Any = None  # runs the rest: there is none

    def made() -> Any:
        return make(cutter.definition, cutter.graph.types, segments, inputs, nobody)

    assert len(made().kernels) == 1
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.0001")
    with pytest.raises(UnsupportedError, match="on the machine that takes about"):
        made()
