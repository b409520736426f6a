"""Which matrices of an epilogue TMA loads: decided by their layout, class by class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.epilogues import RESIDUAL, WHERE, epilogue
from wsched.choose.heuristics import choose_params, ranked
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.fusion import DataType
from wsched.run.arguments import bind, tma_inputs
from wsched.schedule.matmul.limits import shared_bytes

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 72, 64, 24
BF16 = torch.bfloat16
X, W = (torch.randn(rows, K, generator=torch.Generator().manual_seed(0)).to(BF16)
        for rows in (M, N))  # fmt: skip
R = torch.randn(M, N + 8, generator=torch.Generator().manual_seed(1)).to(BF16)

LAYOUTS: dict[str, tuple[Any, bool]] = {
    "contiguous": (R[:, :N].contiguous(), True),
    "strided rows": (R[:, :N], True),
    "past the alignment": (R[:, 1 : N + 1], False),
    "odd row stride": (torch.zeros(M, N + 1, dtype=BF16)[:, :N], False),
    "transposed": (torch.zeros(N, M, dtype=BF16).T, False),
    "expanded": (torch.ones(1, N, dtype=BF16).expand(M, N), False),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", LAYOUTS)
def test_kernel_for_each_layout(name: str) -> None:
    """What TMA cannot address is read by the threads; the result is the same."""
    r, loaded = LAYOUTS[name]
    k = wsched.compile(RESIDUAL, [X, W, r])
    assert k.params.epilogue_input_stages == (2 if loaded else 0)
    assert bool(k.kernel.globals) is not loaded
    (d,) = wsched.execute(RESIDUAL, [X, W, r])
    wanted = X.double() @ W.double().T + r.double()
    assert (d.double() - wanted).norm() / wanted.norm() < 4e-3


@pytest.mark.parametrize("name", [n for n, (_, loaded) in LAYOUTS.items() if not loaded])
def test_a_kernel_that_loads_it_by_tma_takes_a_copy(name: str) -> None:
    k = wsched.compile(RESIDUAL, [X, W, LAYOUTS["contiguous"][0]])
    r = LAYOUTS[name][0]
    found = bind(k.fusion, [X, W, r]).matrices["T2"]
    assert found.is_contiguous() and torch.equal(found, r)
    assert found.data_ptr() != r.data_ptr()


def test_columns_that_no_copy_aligns() -> None:
    """A row of 36 bf16 elements is 72 bytes: TMA takes no such rows, threads do."""
    text = epilogue("r: [-1, -1]", "f = fd.ops.cast(y, dtype=DataType.Float)",
                    "d = fd.ops.add(f, r)")  # fmt: skip
    w, r = W[:36], torch.ones(M, 36, dtype=BF16)
    assert wsched.compile(text, [X, w, r]).params.epilogue_input_stages == 0
    (d,) = wsched.execute(text, [X, w, r])
    wanted = (X.float() @ w.float().T).bfloat16().float() + 1
    assert torch.allclose(d, wanted, rtol=2**-8, atol=1e-3)
    k = wsched.compile(text, [X, W, LAYOUTS["contiguous"][0]])
    with pytest.raises(UnsupportedError) as error:
        bind(k.fusion, [X, w, r])
    assert str(error.value) == (
        "input 2 with 72 bytes from row to row is not supported; "
        "supported: positive multiples of 16 bytes"
    )


def test_all_or_none() -> None:
    text = epilogue("r: [-1, -1]", "q: [-1, -1]", "s = fd.ops.add(y, r)", "d = fd.ops.mul(s, q)")
    fusion, r = import_fusion(text), LAYOUTS["contiguous"][0]
    assert tma_inputs(fusion, [X, W, r, r]) == (DataType.BFloat16,) * 2
    assert tma_inputs(fusion, [X, W, r, LAYOUTS["transposed"][0]]) is None
    assert tma_inputs(import_fusion(WHERE), [X, W, r]) == (DataType.BFloat16,)


def test_the_heuristic_makes_room() -> None:
    """Stages of the operands give way to those of the input; without room threads read it."""
    bf16 = DataType.BFloat16
    plain = Problem(4096, 4096, 4096, bf16, (bf16,), 132)
    loading = replace(plain, inputs=(bf16,))
    assert choose_params(plain).epilogue_input_stages == 2
    assert choose_params(replace(plain, inputs=None)).epilogue_input_stages == 0
    for problem in (plain, loading):
        for _, params in ranked(problem):
            inputs = (problem.inputs or ()) if params.loads_epilogue_inputs else ()
            stage, epilogue_bytes = shared_bytes(params, bf16, bf16, inputs=inputs)
            stages = params.circular_buffer_options.smem_circular_buffer_stage
            assert stages >= 3 and stages * stage + epilogue_bytes <= 226 * 1024
    wide = replace(plain, results=(DataType.Float,) * 6, inputs=(DataType.Float,) * 3)

    def stages_at(problem: Problem, m: int, n: int) -> set[int]:
        tiles = ((p.output_tile, p.epilogue_input_stages) for _, p in ranked(problem))
        return {stages for tile, stages in tiles if (tile.m, tile.n) == (m, n)}

    assert stages_at(loading, 128, 128) == stages_at(wide, 64, 32) == {2}
    assert stages_at(wide, 128, 128) == {0}
