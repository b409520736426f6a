"""Who looks on at a run: called behind each step and each effect, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.machine import RunResult, run_kernel
from lowering.machine.adversary import Adversary
from lowering.machine.scheduler import Effect, Runnable, span
from lowering.machine.state import Cluster
from tests.lowering.machine.kernels import matmul_text

EXTENTS = {"M": 256, "N": 128, "K": 192}


class Notes:
    """Counts what happens, and notes who waits for what."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.steps = self.effects = 0
        self.waits: set[str] = set()

    def begin(self, clusters: Sequence[Cluster]) -> Notes:
        self.begun.append([cta.ctaid for c in clusters for cta in c.ctas])
        return self

    def stepped(self, warp: Runnable) -> None:
        self.steps += 1
        if warp.blocked is not None:
            self.waits.add(warp.blocked.text())

    def happened(self, effect: Effect) -> None:
        self.effects += 1


def run(
    notes: Notes | None, adversary: Adversary = "random", first_only: bool = False
) -> tuple[np.ndarray, RunResult]:
    kernel, rng = parse_kernel(matmul_text()), np.random.default_rng(0)
    m, n, k = EXTENTS.values()
    a, b = (rng.integers(-2, 3, (rows, k)).astype(np.float16) for rows in (m, n))
    d = np.full((m, n), np.nan, np.float16)
    tensors = {"a": a.view(np.uint16), "b": b.view(np.uint16), "d": d.view(np.uint16)}
    watch = None if notes is None else notes.begin
    result = run_kernel(
        kernel, tensors, EXTENTS, 2, adversary=adversary, watch=watch, first_only=first_only
    )
    return d, result


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["random", "fair", "lazy", "eager"])
def test_all_is_seen_and_nothing_changed(adversary: Adversary) -> None:
    notes = Notes()
    seen, counted = run(notes, adversary)
    unseen, expected = run(None, adversary)
    assert counted == expected and seen.tobytes() == unseen.tobytes()
    assert notes.steps == counted.counts["steps"]
    asked = counted.counts["tma.load"] + counted.counts["tma.store"]
    assert notes.effects > asked  # a store reads and writes, wgmmas come on top
    assert notes.begun == [[0], [1]]


def test_what_a_warp_waits_for_is_known() -> None:
    notes = Notes()
    run(notes, "lazy")
    assert any(text.startswith("full[0] parity 0: phase 0 lacks") for text in notes.waits)


def test_only_the_first_cta() -> None:
    """Of the two the first one has the upper half of the rows, the other half is not written."""
    notes = Notes()
    whole, _ = run(None)
    part, _ = run(notes, first_only=True)
    assert notes.begun == [[0]]
    written = ~np.isnan(part)
    assert written.any() and not written.all()
    assert (part[written] == whole[written]).all()


@pytest.mark.parametrize(
    ("warps", "told"),
    [
        ([3], "warp 3"), ([3, 3], "warp 3"), ([4, 5], "warps 4, 5"), ([6, 4, 5], "warps 4..6"),
        ([4, 5, 7], "warps 4, 5, 7"), ([7, 4, 6, 5], "warps 4..7"),
    ],
)  # fmt: skip
def test_warps_by_number(warps: list[int], told: str) -> None:
    assert span(warps) == told
