"""Kernels whose CTAs multiply in pairs, called: types, layouts, epilogues, schedules as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError
from lowering.target.blackwell import BLACKWELL_PAIRS
from tests.epilogues import GELU, RESIDUAL, SILU, TWO_OUTPUTS, WHERE
from tests.grouped import FORMS, given, grouped, product
from tests.pairs import CLUSTERS, PAIRS, paired
from tests.schedules import LAYOUTS, definition
from wsched.front.known import import_fusion
from wsched.schedule.matmul.params import (
    ClusterDims,
    MatmulParams,
    SupportedVectorization,
    TilingStrategy,
)

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 264, 72, 48
TILE = paired(128, 64, 32, 3, epilogue_stages=1)
EIGHT_BITS = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.LEFT)
    w = fd.define_tensor(
        shape=[-1, -1], contiguity=[True, True], dtype=DataType.RIGHT, stride_order=[0, 1]
    )
    p = fd.define_tensor(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Float)
    q = fd.define_tensor(shape=[1, -1], contiguity=[None, True], dtype=DataType.Float)
    d, _, _ = fd.ops.scaled_mm(x, w, p, q, dtype=DataType.Half)
    fd.add_output(d)
"""
BATCHED = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, -1], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1, -1], contiguity=True, dtype=DataType.BFloat16)
    fd.add_output(fd.ops.matmul(x, w))
"""
EPILOGUES = {"gelu": GELU, "residual": RESIDUAL, "silu": SILU, "two": TWO_OUTPUTS, "where": WHERE}


def drawn(dtype: Any, rows: int, cols: int, by_columns: bool = False) -> Any:
    """Small integers, exact in every type."""
    generator = torch.Generator().manual_seed(rows)
    shape = (cols, rows) if by_columns else (rows, cols)
    found = torch.randint(-2, 3, shape, generator=generator).to(dtype)
    return found.t() if by_columns else found


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "params", [TILE, paired(256, 96, 32, 2, epilogue_stages=1)], ids=["block", "blocks"]
)
def test_layouts(layout: str, params: MatmulParams) -> None:
    a = drawn(torch.bfloat16, M, K, layout[0] == "n")
    b = drawn(torch.bfloat16, N, K, layout[1] == "t")
    text = definition(layout=layout)
    (d,) = wsched.compile(text, [a, b], params=params)(a, b)
    assert torch.equal(d, (a.float() @ b.float().T).to(torch.bfloat16))


def test_halves() -> None:
    a, b = (drawn(torch.float16, rows, K) for rows in (M, N))
    (d,) = wsched.compile(definition("f16", "f16"), [a, b], params=TILE)(a, b)
    assert torch.equal(d, (a.float() @ b.float().T).to(torch.float16))


@pytest.mark.parametrize("types", [("e4m3fn", "e4m3fn"), ("e4m3fn", "e5m2")], ids="-".join)
def test_floats_of_eight_bits(types: tuple[str, str]) -> None:
    a, b = (
        drawn(getattr(torch, f"float8_{t}"), rows, K) for t, rows in zip(types, (M, N), strict=True)
    )
    p, q = drawn(torch.float32, M, 1), drawn(torch.float32, 1, N)
    text = EIGHT_BITS.replace("LEFT", f"Float8_{types[0]}").replace("RIGHT", f"Float8_{types[1]}")
    params = paired(128, 64, 64, 3, epilogue_stages=1)
    given = [a, b.t(), p, q]
    (d,) = wsched.compile(text, given, params=params)(*given)
    assert torch.equal(d, (a.float() @ b.float().T * p * q).to(torch.float16))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name: str) -> None:
    """Each CTA stores its own rows as a CTA alone does: the same bits as on Hopper."""
    sizes = {"M": M, "N": N, "K": K, "1": 1}
    fusion = import_fusion(EPILOGUES[name])
    given = [drawn(torch.bfloat16, *([1] + [sizes[a] for a in b.axes])[-2:]).reshape(
        [sizes[a] for a in b.axes]) for b in fusion.inputs]  # fmt: skip
    params = replace(TILE, epilogue_input_stages=2, epilogue_stages=1)
    pair = wsched.compile(EPILOGUES[name], given, params=params)(*given)
    for hopper, blackwell in zip(wsched.compile(EPILOGUES[name], given)(*given), pair, strict=True):
        assert torch.equal(hopper, blackwell)


@pytest.mark.parametrize("name", ["tma", "queue", "2x2-pairs"])
def test_batches(name: str) -> None:
    a = torch.stack([drawn(torch.bfloat16, M, K), -drawn(torch.bfloat16, M, K)])
    b = torch.stack([drawn(torch.bfloat16, K, N), drawn(torch.bfloat16, K, N)])
    (d,) = wsched.compile(BATCHED, [a, b], params=(PAIRS | CLUSTERS)[name])(a, b)
    assert torch.equal(d, (a.float() @ b.float()).to(torch.bfloat16))


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("sizes", [(0, 8, 64, 136, 0), (304, 8, 264)], ids=str)
def test_groups(form: str, sizes: tuple[int, ...]) -> None:
    """A pair's tile may be of two groups, or behind the last row: each CTA stores its own."""
    inputs = given(sizes, N, K, ranks=FORMS[form])
    dealt = TilingStrategy.DistributeTilesDynamically
    by_one = SupportedVectorization(1)
    params = replace(
        TILE, tiling_strategy=dealt, use_smem_epilogue=False, supported_vec_size=by_one
    )
    (d,) = wsched.compile(grouped(ranks=FORMS[form]), list(inputs), params=params)(*inputs)
    assert torch.equal(d, product(*inputs).to(torch.bfloat16))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["v9", "two-blocks", "v10", "2x2-pairs"])
def test_a_schedule_says_it_in_a_line(name: str) -> None:
    """And is read back: the same kernel from its calls alone."""
    schedule = wsched.Schedule.of(definition(), (PAIRS | CLUSTERS)[name])
    text = str(schedule)
    assert text.startswith("# wsched schedule 1 for sm_100a.cta_group::2\n")
    again = wsched.Schedule.parse(text)
    assert again.target is BLACKWELL_PAIRS and str(again) == text
    a, b = drawn(torch.bfloat16, 136, 72), drawn(torch.bfloat16, 40, 72)
    (d,) = wsched.execute(again, [a, b])
    assert torch.equal(d, (a.float() @ b.float().T).to(torch.bfloat16))


def test_the_target_of_the_call_is_the_gpu() -> None:
    """Pairs are no other GPU."""
    a, b = drawn(torch.bfloat16, 8, 8), drawn(torch.bfloat16, 8, 8)
    kernel = wsched.compile(definition(), [a, b], params=TILE, target="sm_100a")
    assert kernel.kernel.target is BLACKWELL_PAIRS


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 2), (3, 1)])
def test_a_pair_lies_along_m(m: int, n: int) -> None:
    a, b = drawn(torch.bfloat16, 8, 8), drawn(torch.bfloat16, 8, 8)
    alone = replace(TILE, cluster_dims=ClusterDims(m, n))
    why = f"a cluster of {m} x {n} CTAs, Blackwell2CTA_256_64_16 is of 2 along M"
    with pytest.raises(ScheduleError, match=why):
        wsched.compile(definition(), [a, b], params=alone)
