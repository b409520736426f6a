"""What the schedule that is taken counts as, and what that decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.schedules import SCHEDULES, definition
from wsched.bench.fused.epilogue import EPILOGUES
from wsched.choose.cost_model import cost
from wsched.choose.gpus import GPUS
from wsched.choose.heuristics import candidates, choose_params, modelled
from wsched.choose.learned.order import predicted
from wsched.choose.nvfuser_cost import CUBLAS, cublas_us
from wsched.choose.price import price
from wsched.choose.problem import Problem
from wsched.choose.tuned.entry import Entry
from wsched.choose.tuned.lookup import VARIABLE, forget, lookup, shipped_tables
from wsched.choose.tuned.table import add_entries, read_table
from wsched.front.explain import explain_definition, planned_cut
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.importer import build_fusion, record_text

ANCHOR = Extents(4096, 4096, 4096)
RARE = Extents(1160, 2040, 1096)
"""Of no table."""
OTHER = Extents(1024, 5120, 14336)
"""Where the fastest that was measured is not what the model puts first."""
GELU = EPILOGUES["gelu"].definition("bf16")


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The shipped ones, and a user's that is empty."""
    own = tmp_path / "own" / "tuned.json"
    add_entries(own, [])
    monkeypatch.setenv(VARIABLE, str(own))
    forget()
    yield own
    forget()


def problem(text: str, extents: Extents = ANCHOR) -> Problem:
    return extents.problem(build_fusion(record_text(text)), 132)


def best(asked: Problem) -> float:
    """What the laws say of what they put first."""
    return min(c.cost.by_laws for c in candidates(asked))


def test_what_was_measured_counts_as_it_was() -> None:
    asked = problem(definition(), OTHER)
    found, hit = price(asked), lookup(asked)
    assert hit is not None and found.us == hit.entry.us and found.by == "measured"
    assert found.params == choose_params(asked) != modelled(asked)
    assert found.cost == cost(asked, found.params)
    assert cublas_us(asked) == CUBLAS * found.us  # the ratio was measured beside that schedule


def test_what_nobody_measured_counts_as_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem(definition(), RARE)
    found = price(asked)
    assert (found.us, found.scale, found.by) == (best(asked), 1.0, "predicted")
    monkeypatch.setenv(VARIABLE, "0")
    for text in (definition(), GELU):
        assert price(problem(text)).us == best(problem(text))


def test_an_epilogue_counts_beside_the_product_that_was_measured() -> None:
    """So that the model's error is in both of what is compared, or in neither."""
    bare, asked = problem(definition()), problem(GELU)
    found, measured = price(asked), price(bare)
    assert lookup(asked) is None and found.by == "predicted beside what was measured"
    assert found.us == pytest.approx(best(asked) * measured.us / best(bare))
    assert cublas_us(asked) == cublas_us(bare) == CUBLAS * measured.us


def test_a_product_counts_beside_its_epilogue_that_was_measured(tables: Path) -> None:
    asked, bare = problem(GELU, RARE), problem(definition(), RARE)
    date = "2026-11-21T09:00:00+00:00"
    slow = 2 * best(asked)
    add_entries(tables, [Entry(asked, SCHEDULES["coop_128x64"], slow, slow, "0.1.0", date)])
    forget()
    assert price(asked).us == round(slow, 3)  # a table has nanoseconds
    assert price(bare).us == pytest.approx(2 * best(bare), rel=1e-4)
    assert cublas_us(asked) == CUBLAS * price(bare).us
    both = [Entry(bare, SCHEDULES["coop_128x64"], 3 * best(bare), None, "0.1.0", date)]
    add_entries(tables, both)
    forget()
    other = problem(EPILOGUES["residual"].definition("bf16"), RARE)
    assert price(other).scale == pytest.approx(3, rel=1e-4)  # the bare one knows best


def test_what_a_sister_measured_says_nothing_of_times(tables: Path) -> None:
    asked = problem(definition(), RARE)
    of = replace(asked, gpu=GPUS["H100"].name, l2_bytes=GPUS["H100"].l2_bytes)
    date = "2026-11-21T09:00:00+00:00"
    add_entries(tables, [Entry(of, SCHEDULES["coop_128x64"], 1.0, 1.0, "0.1.0", date)])
    forget()
    found = price(asked)
    assert found.params == SCHEDULES["coop_128x64"] == choose_params(asked)
    assert (found.us, found.by) == (cost(asked, found.params).us, "predicted")
    assert price(problem(GELU, RARE)).scale == 1


@pytest.mark.parametrize("table", shipped_tables(), ids=lambda t: t.stem)
def test_no_table_changes_which_way_is_faster(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare product beside cuBLAS, with the tables and by the model alone."""
    asked = list(read_table(table).entries)
    assert len(asked) > 60
    measured = [price(p).us / cublas_us(p) for p in asked]
    monkeypatch.setenv(VARIABLE, "0")
    assert measured == pytest.approx([price(p).us / cublas_us(p) for p in asked])
    assert min(measured) == pytest.approx(1 / CUBLAS)


def explained(text: str, extents: Extents = ANCHOR) -> str:
    made = explain_definition(text, "H200", lambda fusion: extents.problem(fusion, 132))
    assert made.kernel is not None
    problem = extents.problem(import_fusion(text), 132)
    assert made.kernel.counts_us == price(problem).us
    assert made.kernel.predicted_us == predicted(problem, price(problem).params).us
    return str(made)


def test_what_is_explained_is_what_is_taken() -> None:
    """One price for one schedule, and the anchor goes to wsched."""
    us = price(problem(definition())).us
    text = explained(definition())
    assert f"\n  counts as {us:.1f} us, measured\n" in text
    told = f"under wsched.install(): 1 kernel of wsched's, {us:.1f} us (GPU {us:.1f}, host 8.0), "
    assert f"{told}nvFuser alone {CUBLAS * us:.1f} us\n" in text
    assert f"nvFuser's route: predicted {CUBLAS * us:.1f} us: matmul by cuBLAS" in text


def test_what_an_epilogue_counts_as_is_told() -> None:
    text, us = explained(GELU), price(problem(GELU)).us
    assert f"\n  counts as {us:.1f} us, predicted beside what was measured\n" in text
    assert f"1 kernel of wsched's, {us:.1f} us (GPU {us:.1f}, " in text
    assert "counts as" not in explained(GELU, RARE)


TWO = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[4096, 4096], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[4096, 4096], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[2040, 4096], contiguity=[True, True], dtype=DataType.BFloat16)
    y = fd.ops.linear(x, w)
    z = fd.ops.linear(y, v)
    fd.add_output(z)
"""


def test_parts_say_where_their_times_are_from() -> None:
    cut = planned_cut(TWO, 132)
    us = price(problem(definition())).us
    text = str(cut.explain("H200"))
    assert f"4096x4096x4096, measured {us:.1f} us\n" in text
    assert "4096x2040x4096, predicted " in text
    assert cut.chosen.cost.gpu_us == pytest.approx(
        us + price(problem(definition(), Extents(4096, 2040, 4096))).us
    )
