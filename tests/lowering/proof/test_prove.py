"""Final kernels of all families, for all sizes: what is proved of each, and what is not yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.lowering.machine.kernels import matmul_text
from tests.schedules import QUICK, SCHEDULES, definition
from tests.tiers import in_tiers
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion

PIPELINED = (
    "across_pipelined", "exchanged_pipelined", "pipelined", "pipelined_1_group", "pipelined_256",
    "pipelined_tile_per_cta",
)  # fmt: skip
OPEN: dict[str, frozenset[str]] = {
    **dict.fromkeys(PIPELINED, frozenset({"same steps"})),
    **dict.fromkeys(
        ("dynamic_pingpong", "dynamic_cluster_pingpong"), frozenset({"named barriers"})
    ),
    **dict.fromkeys(
        ("stream_k_pingpong", "stream_k_pingpong_cluster"), frozenset({"same steps", "arrivals"})
    ),
}
"""Claims that are not decided, by schedule. A schedule that is not here is proved."""


TEXTS = sorted(
    path
    for folder in ("rings", "products")
    for path in (Path(__file__).parents[2] / "passes" / folder).glob("*.ir")
    if path.stem != "typed"  # made with options of its own
)
OPEN_TEXTS = frozenset({"loaded_ahead", "promoted", "step_later"})
"""Of kernels by hand those with steps that are not proved to be the same."""


def kernel_of(name: str) -> Kernel:
    """The final kernel of one of the tests' schedules."""
    return compile_fusion(build_fusion(record_text(definition())), SCHEDULES[name]).kernel


@pytest.mark.parametrize("name", in_tiers(SCHEDULES, QUICK))
def test_every_family(name: str) -> None:
    """No claim about a right kernel is refuted; those that are not proved are listed here."""
    found = prove(kernel_of(name))
    assert not [str(o) for o in found.open if o.verdict is Verdict.REFUTED]
    assert {o.name for o in found.open} == OPEN.get(name, frozenset())


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_kernels_by_hand_through_the_passes(path: Path) -> None:
    """Rings that threads fill, that two roles read, of one stage; several products."""
    found = prove(run_passes(parse_kernel(path.read_text()), LoweringOptions()))
    left = {"same steps"} if path.stem in OPEN_TEXTS else set()
    assert {o.name for o in found.open} == left, str(found)


def test_a_kernel_by_hand() -> None:
    """Loops in steps of the grid, one thread's role, a round less waited for: all proved."""
    found = prove(parse_kernel(matmul_text()))
    assert found.proved, str(found)


def test_what_is_printed() -> None:
    """A refuted claim says who did what, up to the statement that is wrong."""
    text = matmul_text().replace("select(last2, parity2 ^ 1, parity2)", "parity2")
    found = prove(parse_kernel(text))
    assert not found.proved
    refuted = [o for o in found.open if o.verdict is Verdict.REFUTED]
    assert refuted[0].name == "step"
    assert refuted[0].why == "stage and parity are those of no known step"
    assert refuted[0].trace[-1].endswith("mbarrier.wait full[stage2], parity2")
    assert "refuted    step (full, role compute, group 0, warp 4): stage and parity" in str(found)
