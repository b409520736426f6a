"""What nvFuser's own route is predicted to take."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.schedules import definition
from wsched.bench.fused.epilogue import EPILOGUES
from wsched.choose.copy_cost import Copy, direct_us
from wsched.choose.heuristics import candidates, ranked
from wsched.choose.nvfuser_cost import (
    CUBLAS,
    CUBLAS_START_US,
    GROUP_US,
    GROUPED_FLOPS_PER_US,
    READ_BYTES_PER_US,
    NvfuserCost,
    cublas_us,
    grouped_us,
    nvfuser_cost,
    pointwise_us,
    roofline_us,
)
from wsched.choose.problem import Problem
from wsched.cli.app import app
from wsched.front.sizes import Extents
from wsched.importer import build_fusion, record_text

LARGE = Extents(4096, 4096, 4096)


def problem(text: str, extents: Extents = LARGE) -> Problem:
    return extents.problem(build_fusion(record_text(text)), 132)


def cost(text: str, extents: Extents = LARGE) -> NvfuserCost:
    found = record_text(text)
    return nvfuser_cost(found, build_fusion(found), problem(text, extents))


def test_cublas_is_a_ratio_of_the_bare_matmul() -> None:
    bare = problem(definition())
    assert cublas_us(bare) == CUBLAS * min(c.cost.by_laws for c in candidates(bare))
    assert cublas_us(problem(EPILOGUES["gelu"].definition("bf16"))) == cublas_us(bare)
    assert cublas_us(replace(bare, work=20)) == cublas_us(bare)


@pytest.mark.parametrize("count", [2, 3])
def test_products_are_computed_one_by_one(count: int) -> None:
    bare = problem(definition())
    assert cublas_us(replace(bare, a_count=count)) == count * cublas_us(bare)
    assert cublas_us(replace(bare, b_count=count)) == count * cublas_us(bare)


def test_the_product_alone_is_that_without_an_epilogue() -> None:
    """Whoever has measured the one has measured the other, whatever is made of it."""
    plain, others = problem(definition()), [e.definition("bf16") for e in EPILOGUES.values()]
    made = [problem(text) for text in others]
    made += [replace(p, pairs=False, smem_epilogue=False, inputs=None) for p in made]
    made += [replace(p, batch_invariant=True, over_rows=1, over_columns=2) for p in made]
    assert len({*made}) > len(others)
    assert {p.bare for p in made} == {plain}


def test_it_splits_k_where_memory_is_the_limit() -> None:
    small = problem(definition(), Extents(100, 4096, 4096))
    moved = 2 * (100 * 4096 * 2 + 4096 * 4096)
    assert cublas_us(small) == CUBLAS_START_US + moved / READ_BYTES_PER_US
    assert cublas_us(small) < ranked(small)[0][0]


def test_operands_that_tma_cannot_read() -> None:
    bare = problem(definition(), Extents(4096, 4096, 4095))
    assert cublas_us(bare, (Copy("input 0", "odd", 1),)) == direct_us(4096, 4096, 4095)


def test_roofline_has_two_limits() -> None:
    assert roofline_us(670e6, 0) == CUBLAS_START_US + 1
    assert roofline_us(0, READ_BYTES_PER_US) == CUBLAS_START_US + 1


def test_groups_one_after_the_other_have_three_limits() -> None:
    """What is computed, what is read, and what each group takes that has little of both."""
    assert grouped_us(1, 300 * GROUPED_FLOPS_PER_US, READ_BYTES_PER_US) == CUBLAS_START_US + 300
    assert grouped_us(1, GROUPED_FLOPS_PER_US, 300 * READ_BYTES_PER_US) == CUBLAS_START_US + 300
    assert grouped_us(1000, 0, 0) == 1000 * GROUP_US


def test_an_epilogue_is_a_kernel_of_its_own() -> None:
    bare, gelu = cost(definition()), cost(EPILOGUES["gelu"].definition("bf16"))
    assert bare.kernels_us == 0 and bare.host_us == 19.5
    row = 4096 * 2  # the bias, which nvFuser gives to cuBLAS, is as good as nothing
    work = gelu.kernels_us - pointwise_us(2 * 2 * 4096**2 + row)
    assert 0.2 < work / pointwise_us(2 * 2 * 4096**2) < 0.4  # erf costs, an addition does not
    assert gelu.matmul_us == bare.matmul_us and gelu.host_us == 25.0
    residual = cost(EPILOGUES["residual"].definition("bf16"))
    assert residual.kernels_us == pointwise_us(3 * 2 * 4096**2, 4096**2)


def test_the_host_is_the_limit_of_short_ones() -> None:
    found = cost(definition(), Extents(16, 64, 64))
    assert found.us == found.host_us == 19.5 > found.gpu_us
    assert str(found) == (
        "19.5 us: matmul by cuBLAS 2.6, other kernels 0.0, on the host 19.5"
    )  # fmt: skip
    assert cost(definition()).us == cost(definition()).gpu_us


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gelu.py"
    path.write_text(EPILOGUES["gelu"].definition("bf16"))
    return path


def test_explain_tells_it(file: Path) -> None:
    wide = {"COLUMNS": "1000"}
    text = CliRunner(env=wide).invoke(app, ["explain", str(file), "--shape", str(LARGE)]).output
    (line,) = (x for x in text.splitlines() if x.startswith("nvFuser's route: "))
    wanted = cost(EPILOGUES["gelu"].definition("bf16"))
    assert line == f"nvFuser's route: predicted {wanted}"
    data = json.loads(
        CliRunner().invoke(app, ["explain", str(file), "--shape", str(LARGE), "--json"]).output
    )
    assert data["nvfuser"] == {
        "matmul_us": wanted.matmul_us,
        "kernels_us": wanted.kernels_us,
        "host_us": wanted.host_us,
        "us": wanted.us,
    }
    assert data["predicted_us"] < data["nvfuser"]["us"]


def test_of_a_schedule_of_ones_own_nothing_is_told(file: Path) -> None:
    output = CliRunner().invoke(app, ["explain", str(file), "--params", "cooperative"]).output
    assert "nvFuser's route" not in output
