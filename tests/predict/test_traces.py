"""Predicted time lines beside those that an H200 recorded: where the model is wrong, and that
design/0013-trace.md says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.epilogues import GELU
from tests.schedules import SCHEDULES, definition
from wsched.choose.presets import PRESETS, read_params
from wsched.front.sizes import Extents, kernel_for
from wsched.ladder.climb import climb
from wsched.predict.line import beside
from wsched.run.compiled import CompiledFusion
from wsched.trace.overlay import Overlay
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace

ROOT = Path(__file__).parents[2]
TRACES: Mapping[str, Any] = json.loads((ROOT / "tests/data/h200_traces.json").read_text())["traces"]
NOTE = ROOT / "design" / "0013-trace.md"
TRACED, ALONE = Extents(2048, 2048, 1024), Extents(128, 128, 1024)
NEAR = 0.03
"""By which a quotient that the note tells may be off."""

Key = tuple[str, str]


def kernel_of(name: str) -> tuple[CompiledFusion, Extents]:
    """What a trace is of."""
    if rung := re.fullmatch(r"v(\d+)", name):
        return climb()[int(rung[1]) - 1].kernel, ALONE if int(rung[1]) < 3 else TRACED
    schedule, _, shape = name.rpartition("_")
    extents, plain = Extents.parse(shape), schedule.removesuffix("_gelu")
    params = read_params(plain) if plain in PRESETS else SCHEDULES[plain]
    text = definition() if plain == schedule else GELU
    return kernel_for(text, extents, 132, params), extents


def measured(name: str) -> Trace:
    """What was recorded."""
    spans = []
    for who, rows in TRACES[name]["warps"].items():
        cta, role, group, warp = who.split()
        for event, tile, begin, end in rows:
            place = int(cta), int(cta) % 132, role, int(group), int(warp)
            spans.append(Span(event, *place, tile, float(begin), float(end)))
    return Trace(TRACES[name]["kernel"], "ns", tuple(spans), ghz=TRACES[name]["ghz"])


def both(name: str) -> Overlay:
    """What is predicted of a trace's kernel beside it."""
    kernel, extents = kernel_of(name)
    problem = extents.problem(kernel.fusion, 132)
    return beside(kernel, extents, problem, measured(name))


@lru_cache
def told() -> Mapping[str, Mapping[Key, float]]:
    """Of each trace the phases of which the note says that the model is wrong there, with what is
    predicted over what was measured.
    """
    found: dict[str, dict[Key, float]] = {name: {} for name in TRACES}
    for role, phase, kernels in _rows(NOTE.read_text(encoding="utf-8")):
        for kernel in kernels.split(", "):
            name, quotient = kernel.rsplit(" ", 1)
            assert (role, phase) not in found[name], f"twice: {name} {role} {phase}"
            found[name][role, phase] = float(quotient)
    return found


def _rows(page: str) -> Iterator[tuple[str, str, str]]:
    """Role, phase and kernels of each row of the table."""
    table = page.partition("<!-- wrong -->\n")[2].partition("<!-- end -->")[0]
    for line in table.splitlines()[2:]:
        phase, kernels = (cell.strip() for cell in line.split("|")[1:3])
        role, _, name = phase.partition(" ")
        yield role, name, kernels


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if "4096x4096" in n else n for n in TRACES],
)
def test_where_the_model_is_wrong(name: str) -> None:
    """Each phase that is wrong stands in the note, and no other."""
    wrong = {(p.role, p.name): p for p in both(name).phases if p.wrong}
    assert wrong.keys() == told()[name].keys()
    for key, quotient in told()[name].items():
        assert wrong[key].predicted / wrong[key].measured == pytest.approx(quotient, abs=NEAR)
