"""Final kernels of all families, for all sizes: everything that is claimed is proved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.legality.by_hand.loads import a_by_threads
from tests.legality.machine import compiled
from tests.lowering.machine.kernels import matmul_text
from tests.proofs import proved
from tests.schedules import QUICK, SCHEDULES, definition
from tests.tiers import in_tiers
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import CompiledFusion, compile_fusion

TEXTS = sorted(
    path
    for folder in ("rings", "products")
    for path in (Path(__file__).parents[2] / "passes" / folder).glob("*.ir")
    if path.stem != "typed"  # made with options of its own
)


def made(name: str) -> CompiledFusion:
    """What one of the tests' schedules makes of a linear."""
    return compile_fusion(build_fusion(record_text(definition())), SCHEDULES[name])


def kernel_of(name: str) -> Kernel:
    """The final kernel of one of the tests' schedules."""
    return made(name).kernel


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(SCHEDULES, QUICK))
def test_every_family(name: str) -> None:
    """Every claim about every schedule's kernel is proved."""
    made_ = made(name)
    proved(made_.kernel, made_.plan)


@pytest.mark.sampled
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_kernels_by_hand_through_the_passes(path: Path) -> None:
    """Rings that threads fill, that two roles read, of one stage; several products."""
    proved(run_passes(parse_kernel(path.read_text()), LoweringOptions()))


def test_a_kernel_by_hand() -> None:
    """Loops in steps of the grid, one thread's role, a round less waited for: all proved."""
    found = prove(parse_kernel(matmul_text()))
    assert found.proved, str(found)


def test_a_store_behind_its_arrival() -> None:
    """Threads may store behind the announcement of bytes, which is one arrival of several, and not
    once more behind their last.
    """
    text = print_kernel(compiled(a_by_threads(), 1))
    (copy,) = re.findall(r"\n +copy\.tile .*", text)
    arrival = re.search(r"\n +elect \{\n +mbarrier.arrive ring_full\[stage_k2\]\n +\}", text)
    assert prove(parse_kernel(text)).proved and arrival is not None
    late = text[: arrival.end()] + copy + text[arrival.end() :]
    found = [o for o in prove(parse_kernel(late)).open if o.verdict is Verdict.REFUTED]
    assert [o.why for o in found][:1] == ["stores behind the last arrival for them"]


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
