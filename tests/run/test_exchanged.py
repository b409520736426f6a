"""Kernels of the transposed product: layouts, epilogues, results, and who chooses them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import ScheduleError
from lowering.kernel.nodes import For, FragLoadGlobal, FragStoreGlobal, StMatrix
from lowering.kernel.visit import walk
from tests.epilogues import GELU, RESIDUAL, TWO_OUTPUTS, WHERE, epilogue, tensor
from tests.front.test_execute import integers, product
from tests.run.test_layouts import arranged
from tests.schedules import LAYOUTS, cooperative, definition, exchanged, ping_pong
from wsched.front.choices import choices_of
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import CachePolicies, CachePolicy, L2Promotions, MatmulParams
from wsched.schedule.options import TensorMapL2Promotion

torch = pytest.importorskip("torch", reason="torch is not installed")

FEW = exchanged(cooperative(128, 16, stages=6))
BOXES = exchanged(cooperative(256, 48, stages=3, epilogue_stages=2))
KERNELS = {
    "few": FEW,
    "boxes": BOXES,
    "one_group": exchanged(cooperative(64, 80, groups=1, registers=None)),
    "ping_pong": exchanged(ping_pong(64, 32)),
    "cluster": exchanged(cooperative(128, 64, cluster=(2, 1))),
}
M, N, K = 40, 328, 40
X, W = integers(M, K), integers(N, K, seed=1)
Y = product(X, W, "f32")
ROW, COLUMN, FULL = integers(1, N, seed=2)[0], integers(M, 1, seed=3), integers(M, N, seed=4)


def run(text: Any, inputs: Any, params: MatmulParams = BOXES) -> Any:
    return wsched.compile(text, inputs, params=params)(*inputs)


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_layout(name: str, layout: str) -> None:
    (d,) = run(definition(), arranged(layout, X, W), KERNELS[name])
    assert torch.equal(d, product(X, W))


@pytest.mark.parametrize("m", [1, 7, 33])
def test_odd_numbers_of_rows(m: int) -> None:
    x = X[:m].contiguous()
    for params in (FEW, BOXES):
        (d,) = run(definition(), [x, W], params)
        assert torch.equal(d, product(x, W))


@pytest.mark.parametrize("params", [FEW, BOXES], ids=["few", "boxes"])
def test_rows_columns_and_matrices_are_read_transposed(params: MatmulParams) -> None:
    text = epilogue("b: [-1]", "c: [-1, 1]", "r: [-1, -1]", "s = fd.ops.add(y, b)",
                    "t = fd.ops.mul(s, c)", "u = fd.ops.add(t, r)",
                    "d = fd.ops.cast(u, dtype=DataType.BFloat16)")  # fmt: skip
    (d,) = run(text, [X, W, ROW, COLUMN, FULL], params)
    assert torch.equal(d, ((Y + ROW) * COLUMN + FULL).bfloat16())
    kernel = wsched.compile(text, [X, W, ROW, COLUMN, FULL], params=params)
    loads = [s for s in walk(kernel.kernel.body) if isinstance(s, FragLoadGlobal)]
    assert {s.src.map for s in loads} == {"T2", "T3", "T4"} and all(s.trans for s in loads)


@pytest.mark.parametrize(("columns", "inside"), [(144, []), (168, [56])])
def test_a_factor_of_rows_is_read_once(columns: int, inside: list[int]) -> None:
    """It is the tile's columns': all in front of the chunks, or a chunk ahead; without spills."""
    text = epilogue("c: [-1, 1]", "t = fd.ops.mul(y, c)",
                    "d = fd.ops.cast(t, dtype=DataType.BFloat16)")  # fmt: skip
    params = exchanged(ping_pong(128, columns))
    (d,) = run(text, [X, W, COLUMN], params)
    assert torch.equal(d, (Y * COLUMN).bfloat16())
    kernel = wsched.compile(text, [X, W, COLUMN], params=params)
    chunks = [s for s in walk(kernel.kernel.body) if isinstance(s, For) and s.unroll]
    loads = [s for loop in chunks for s in loop.body if isinstance(s, FragLoadGlobal)]
    assert [s.out.type.cols for s in loads] == inside
    assert read_resources(compile_cubin(kernel.source), kernel.kernel.name).clean


def test_other_epilogues() -> None:
    (d,) = run(RESIDUAL, [X, W, FULL])
    assert torch.equal(d, (Y + FULL).bfloat16())
    (g,) = run(GELU, [X, W, ROW])
    wanted = torch.nn.functional.gelu(Y + ROW, approximate="tanh")
    assert (g - wanted).norm() / wanted.norm() < 4e-3
    stored = replace(BOXES, use_smem_epilogue=False)
    y, d = run(TWO_OUTPUTS, [X, W, ROW], stored)
    assert torch.equal(y.float(), Y) and torch.equal(d.float(), torch.relu(Y + ROW))
    (d,) = run(WHERE, [X, W, FULL], stored)
    assert torch.allclose(d.float(), torch.where(Y > FULL, Y * 0.01, FULL.float()), rtol=4e-3)


@pytest.mark.parametrize("n", [N, N - 2, N - 3])
@pytest.mark.parametrize("result", ["bf16", "f32"])
def test_results_from_registers(result: str, n: int) -> None:
    """Also rows that TMA does not store, of any length."""
    w = W[:n].contiguous()
    params = replace(BOXES, use_smem_epilogue=False)
    kernel = wsched.compile(definition(result=result), [X, w], params=params)
    stores = [s for s in walk(kernel.kernel.body) if isinstance(s, FragStoreGlobal)]
    assert stores and all(s.trans for s in stores)
    assert torch.equal(kernel(X, w)[0], product(X, w, result))


def test_a_result_by_columns() -> None:
    """The definition's own exchange undone: tiles have the rows of the result as rows again."""
    permuted = definition().replace(
        "    fd.add_output(d)", "    p = fd.ops.permute(d, dims=[1, 0])\n    fd.add_output(p)"
    )
    (p,) = run(permuted, [X, W])
    assert p.shape == (N, M) and torch.equal(p, product(X, W).T)


def test_batches() -> None:
    x, w = (torch.stack([t, -t.roll(1, 0), t.flip(0)]) for t in (X, W))
    lines = ["def nvfuser_fusion(fd: FusionDefinition):", f"    x = {tensor('[-1, -1, -1]')}",
             f"    w = {tensor('[-1, -1, -1]')}", "    t = fd.ops.permute(w, dims=[0, 2, 1])",
             "    d = fd.ops.matmul(x, t)", "    fd.add_output(d)", ""]  # fmt: skip
    (d,) = run("\n".join(lines), [x, w])
    assert torch.equal(d, torch.stack([product(a, b) for a, b in zip(x, w, strict=True)]))


def test_stores_are_transposed() -> None:
    kernel = wsched.compile(definition(), [X, W], params=BOXES).kernel
    stores = [s for s in walk(kernel.body) if isinstance(s, StMatrix)]
    assert [s.trans for s in stores] == [True]
    assert kernel.tensor_map(stores[0].dst.buffer.removesuffix("_s")).box == (48, 64)
    assert "_exchanged_" in kernel.name


def test_names_of_operands_are_those_of_the_transposed_product() -> None:
    policies = CachePolicies(CachePolicy.EvictFirst, CachePolicy.EvictLast)
    params = replace(
        FEW, cache_policies=policies, l2_promotions=L2Promotions(a=TensorMapL2Promotion.B64)
    )
    options = wsched.compile(definition(), [X, W], params=params).options
    assert dict(options.cache_policies) == {"T0": "evict_last", "T1": "evict_first"}
    assert dict(options.l2_promotions) == {"T1": 64}


def test_stmatrix_transposes_16_bits() -> None:
    with pytest.raises(ScheduleError) as error:
        wsched.compile(definition(result="f32"), [X, W], params=FEW)
    assert error.value.why == (
        "exchange_operands=True with use_smem_epilogue=True: stmatrix transposes 16-bit elements, "
        "a result is Float"
    )


# --- what is said of them -------------------------------------------------------------------------


def test_what_explain_says() -> None:
    """150 rows are three tiles of 64, or one of 152 columns."""
    fusion, params = import_fusion(definition()), exchanged(cooperative(128, 152))
    problem = Extents(150, 4096, 4096).problem(fusion, 132)
    kernel = compile_fusion(fusion, params)
    found = choices_of(kernel, problem, "are given", 32)
    (said,) = (c for c in found if c.name == "exchange_operands")
    assert (said.value, said.reason) == (
        "True", "the 150 rows of the result are columns of tiles, of which there are any 8"
    )  # fmt: skip
    assert "_exchanged_" in kernel.kernel.name
