"""Fences between the proxies of shared memory: without any one of them nothing is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from passes.options import LoweringOptions
from passes.pipeline import run_passes

PASSES = Path(__file__).parents[2] / "passes"
FENCE = "fence.proxy.async"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "claims"),
    [
        pytest.param("rings/registers", ["fill", "staging of stores"], id="threads fill"),
        pytest.param("rings/gathered", ["read", "staging of stores"], id="cp.async fills"),
        pytest.param("rings/two_readers", ["staging of stores", "release"], id="threads read"),
    ],
)
def test_each_fence_is_needed(name: str, claims: list[str]) -> None:
    """What is refuted first where the fence that comes so many-th in the text is missing."""
    kernel = parse_kernel((PASSES / f"{name}.ir").read_text())
    lines = print_kernel(run_passes(kernel, LoweringOptions())).splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if line.strip() == FENCE]
    found = [prove(parse_kernel("".join(lines[:i] + lines[i + 1 :]))) for i in at]
    refuted = [[o.name for o in f.open if o.verdict is Verdict.REFUTED] for f in found]
    assert [names[0] for names in refuted] == claims
