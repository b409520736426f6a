"""Operands that the threads of a product compute: right on the machine, and clean machine code."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.ground.errors import UnsupportedError
from passes import scale_unpacked
from tests.computed import by_rows, cast, drawn, fusion, tile, weights, words
from tests.lowering.cuda.opcodes import count_opcodes
from tests.sass_loops import innermost_loops
from tests.tiers import in_tiers
from wsched.front.kernels import compile as compile_text
from wsched.front.legal_tiles import legal_tiles
from wsched.front.linear import linear_call
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import (
    ClusterDims,
    GemmTile,
    MatmulParams,
    TilingStrategy,
)
from wsched.schedule.matmul.tiles import tile_choice

torch = pytest.importorskip("torch", reason="torch is not installed")

TYPES = {"Int8": "int8", "UInt8": "uint8", "Float8_e4m3fn": "float8_e4m3fn",
         "Float8_e5m2": "float8_e5m2", "BFloat16": "bfloat16", "Float": "float32"}  # fmt: skip
M, N, K = 40, 200, 208
"""No multiples of a tile."""


def error(kernel: CompiledFusion, wide: Any, *inputs: Any) -> float:
    """Relative error of a call, to products of ``wide`` weights in fp64."""
    (found,) = kernel(*inputs)
    wanted = inputs[0].double() @ wide.double().T
    return float((found.double() - wanted).norm() / wanted.norm())


def require_clean(kernel: CompiledFusion) -> None:
    """Neither spills nor wgmmas that wait for each other."""
    compiled = compile_cubin(emit_cuda(kernel.kernel))
    assert read_resources(compiled, kernel.kernel.name).clean


@pytest.mark.sampled(1)
@pytest.mark.parametrize("given", TYPES)
@pytest.mark.parametrize("scaled", [False, True])
def test_every_type(given: str, scaled: bool) -> None:
    if given == "BFloat16" and not scaled:
        pytest.skip("nothing is computed")
    f = fusion(by_rows(given) if scaled else cast(given))
    kernel = compile_fusion(f, tile(f, 128, 40).params)
    x, q, v = drawn("bfloat16", M, K), drawn(TYPES[given], N, K, 1), torch.rand(N) + 0.5
    wide = (q.float() * v[:, None]).bfloat16() if scaled else q.bfloat16()
    assert error(kernel, wide, x, q, *([v] if scaled else [])) < 3e-3
    require_clean(kernel)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("m", "n", "k", "groups", "more"),
    [
        (64, 16, 128, 1, {}), (128, 16, 128, 2, {}), (192, 40, 64, 3, {}), (256, 64, 64, 2, {}),
        (128, 128, 64, 2, {}), (128, 40, 32, 2, {}), (64, 40, 64, 1, {"splitk_factor": 2}),
        (128, 48, 64, 2, {"splitk_factor": 3, "cluster_dims": ClusterDims(2, 1)}),
        (128, 48, 64, 2, {"cluster_dims": ClusterDims(1, 2)}),
        (128, 48, 64, 2, {"cluster_dims": ClusterDims(2, 2)}),
        (128, 40, 64, 2, {"tiling_strategy": TilingStrategy.DistributeTilesDynamically}),
        (128, 40, 64, 2, {"tiling_strategy": TilingStrategy.OneTilePerCTA}),
        (128, 40, 64, 2, {"use_smem_epilogue": False}),
    ],
)  # fmt: skip
def test_every_way(m: int, n: int, k: int, groups: int, more: dict[str, Any]) -> None:
    f = fusion(cast("Int8"))
    kernel = compile_fusion(f, tile(f, m, n, k, groups, **more).params)
    x, q = drawn("bfloat16", M, K), drawn("int8", N, K, 1)
    assert error(kernel, q.bfloat16(), x, q) < 3e-3
    require_clean(kernel)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", in_tiers([cast("Int8"), by_rows("Float8_e4m3fn"), cast("Float")], [cast("Int8")])
)
def test_the_largest_legal_tile(text: str) -> None:
    """What limits leave for an operand's registers is enough."""
    legal = [c for c in legal_tiles(text) if c.legal and c.tile.k > 32]
    largest = max(legal, key=lambda c: (c.tile.m * c.tile.n, c.tile.k))
    require_clean(compile_fusion(fusion(text), largest.params))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("given", "k", "most"), [
    ("Int8", 128, 4.0), ("Int8", 64, 4.8), ("Float8_e4m3fn", 128, 4.0), ("Float8_e4m3fn", 64, 4.8),
])  # fmt: skip
def test_instructions_of_an_element(given: str, k: int, most: float) -> None:
    """Of a step, with its barriers: constants stay in registers, neighbours where they were loaded,
    and an address takes an instruction for each 16 bytes of a row.
    """
    f = fusion(cast(given))
    kernel = compile_fusion(f, tile(f, 128, 16, k, splitk_factor=2).params)
    sass = disassemble(compile_cubin(emit_cuda(kernel.kernel)).cubin)
    (loop,) = innermost_loops(sass, "HGMMA")
    counts = count_opcodes("\n".join(loop))
    elements = 64 * k // 128
    assert counts["LDS"] == elements // 2 and counts["HGMMA"] == k // 16
    assert sum(counts.values()) <= most * elements


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("groups", "most"), [(None, 10), (128, 24)])
def test_zero_points_take_nothing_for_each_element(groups: int | None, most: int) -> None:
    """One instruction widens two of them and takes away; of groups two are loaded for each step."""
    x = torch.empty(16, 8192, dtype=torch.bfloat16)
    q = torch.empty(8192, 1024, dtype=torch.int32)
    shape = (8192,) if groups is None else (8192, 8192 // groups)
    scale, zero = torch.empty(shape), torch.empty(shape, dtype=torch.bfloat16)
    counts: list[int] = []
    params: MatmulParams | None = None
    for shift in (None, zero):
        text, inputs = linear_call(x, q, scale, shift, group=groups)
        kernel = compile_text(text, inputs, params=params)
        require_clean(kernel)
        assert kernel.params.tile_sizes.warp_tile.k == 128
        params = kernel.made_from
        sass = disassemble(compile_cubin(emit_cuda(kernel.kernel)).cubin)
        (loop,) = innermost_loops(sass, "HGMMA")
        counts.append(sum(count_opcodes("\n".join(loop)).values()))
    assert counts[1] - counts[0] <= most


def test_rows_that_are_computed() -> None:
    """As A, without exchanged operands, beside a matrix that the epilogue reads."""
    lines = weights("Float", "w = fd.ops.cast(q, dtype=DataType.BFloat16)").splitlines()
    text = "\n".join(lines).replace("linear(x, w)", "linear(w, x)")
    f = fusion(f"{text}\n")
    params = tile_choice(f, MatmulParams(), GemmTile(128, 64, 64), 2, False).params
    kernel = compile_fusion(f, params)
    x, q = drawn("bfloat16", N, K), drawn("float32", M, K, 1)
    (found,) = kernel(x, q)
    wanted = q.bfloat16().double() @ x.double().T
    assert float((found.double() - wanted).norm() / wanted.norm()) < 3e-3
    require_clean(kernel)


def test_what_is_not_finite_behind_the_end_of_k() -> None:
    """The logarithm of TMA's zeros would make every sum NaN."""
    logs = ("p = fd.ops.log(q)", "w = fd.ops.cast(p, dtype=DataType.BFloat16)")
    f = fusion(weights("Float", *logs))
    kernel = compile_fusion(f, tile(f, 128, 40).params)
    x, q = drawn("bfloat16", M, K), drawn("float32", N, K, 1).abs() + 0.5
    assert error(kernel, q.log().bfloat16(), x, q) < 3e-3
    require_clean(kernel)


def test_an_operand_that_is_not_contiguous_along_k_is_copied() -> None:
    f = fusion(cast("Float"))
    kernel = compile_fusion(f, tile(f, 128, 40).params)
    x, q = drawn("bfloat16", M, K), drawn("float32", K, N, 1).t()
    assert error(kernel, q.bfloat16(), x, q) < 3e-3


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("k", "scaled"), [(64, False), (128, False), (128, True)])
def test_integers_of_4_bits(k: int, scaled: bool) -> None:
    """Eight of a word, of which each of four threads takes two."""
    f = fusion(by_rows("UInt4") if scaled else cast("UInt4"))
    kernel = compile_fusion(f, tile(f, 128, 40, k).params)
    w = torch.randint(0, 16, (N, 224), generator=torch.Generator().manual_seed(1))
    x, v = drawn("bfloat16", M, 224), torch.rand(N) + 0.5
    wide = (w.float() * v[:, None]).bfloat16() if scaled else w.bfloat16()
    assert error(kernel, wide, x, words(w), *([v] if scaled else [])) < 3e-3
    assert kernel.proof().proved
    require_clean(kernel)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("group", [None, 128])
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("given", ["int4", "int8", "uint8"])
def test_small_integers_have_the_bits_of_plain_ones(
    group: int | None, shift: bool, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 64th of them, and sums times 64: powers of two."""
    draw = torch.Generator().manual_seed(1)
    halves = words(torch.randint(0, 16, (N, 256), generator=draw))
    x, w = drawn("bfloat16", 16, 256), halves if given == "int4" else drawn(given, N, 256)
    shape = (N,) if group is None else (N, 2)
    scale = torch.rand(shape, generator=draw) + 0.5
    zero = (16 * torch.rand(shape, generator=draw)).bfloat16() if shift else None
    text, inputs = linear_call(x, w, scale, zero, group=group)
    params = compile_text(text, inputs).params
    f = laid_out(build_fusion(record_text(text)), inputs)
    small = compile_fusion(f, params)
    monkeypatch.setattr(scale_unpacked, "SMALLER", {})
    plain = compile_fusion(f, params)
    assert "exponent=-6" in small.dump("kernel") and "exponent=" not in plain.dump("kernel")
    assert torch.equal(*(kernel(*inputs)[0] for kernel in (small, plain)))


def test_words_whose_rows_are_apart_otherwise() -> None:
    f = fusion(cast("UInt4"))
    kernel = compile_fusion(f, tile(f, 128, 40).params)
    w = torch.zeros(N, 25, dtype=torch.int32)
    with pytest.raises(UnsupportedError) as e:
        kernel(drawn("bfloat16", M, 200), w)
    assert str(e.value) == (
        "T1 of UInt4, whose rows TMA cannot read where they lie, is not supported; supported: rows "
        "of K contiguous, multiples of 16 bytes apart"
    )
