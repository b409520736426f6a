"""Modules with nvgpu: MLIR verifies them; an operation for each statement; what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.descriptor import tile_byte
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.mlir.nvgpu import emit_nvgpu
from tests import pairs
from tests.computed import by_rows, fusion, tile
from tests.lowering.mlir.interpreter import run
from tests.lowering.mlir.test_bindings import jaxlib
from tests.ways import made
from wsched.front.builder import MatmulBuilder, TmaOptions
from wsched.run.compiled import compile_fusion

__all__ = ["jaxlib"]  # a fixture

PLAIN = MatmulBuilder(b_layout="kn", persistent=False, smem_epilogue=False)
BUILDERS = {
    "warpspecialized": PLAIN,
    "multistage": replace(PLAIN, strategy="multistage"),
    "bf16": replace(PLAIN, input_type="bf16", block_m=64, block_n=256, num_stages=3),
    "two-blocks": replace(PLAIN, block_m=256, block_n=64),
}


def module(name: str) -> str:
    return BUILDERS[name].build().dump("mlir-nvgpu")


@pytest.mark.parametrize("name", BUILDERS)
def test_bindings_read_it_the_same_again(name: str, jaxlib: Any) -> None:
    once = jaxlib(module(name))
    assert jaxlib(once) == once
    assert f"llvm.func @{BUILDERS[name].kernel_name}(" in once


@pytest.mark.parametrize(("name", "blocks"), [("multistage", 1), ("two-blocks", 2)])
def test_each_statement_is_an_operation(name: str, blocks: int) -> None:
    text, kernel = module(name), BUILDERS[name].build().dump("kernel")
    assert text.count('"nvgpu.warpgroup.mma"') == blocks
    assert text.count("nvgpu.warpgroup.mma.store") == blocks
    assert text.count("waitGroup = 1") == blocks
    assert text.count("nvgpu.tma.async.load") == kernel.count(" tma.load ")
    assert text.count("nvgpu.mbarrier.try_wait.parity") == kernel.count(" mbarrier.wait ")
    assert text.count("nvgpu.mbarrier.arrive.expect_tx") == kernel.count(" mbarrier.expect_tx ")
    assert not any(word in text for word in ("nvvm.wgmma.mma", "nvvm.mbarrier", "nvvm.cp.async"))


def test_two_blocks_of_sums(golden: object) -> None:
    """Barriers, loads, products and results that end in a trap where the tensor ends."""
    assert module("two-blocks") == golden


def test_where_tiles_lie() -> None:
    """Views of shared memory begin where the machine and CUDA have the tile."""
    kernel = PLAIN.build().kernel
    text = print_kernel(kernel)
    load = """elect {
      tma.load T6[2, 0, 64], T1[K, 7], bar=ring_full[1]
      tma.load T5[3, 0, 0], T0[K, 7], bar=ring_full[1]
    }"""
    product = """
    zero: frag<f32, 128x128> = frag.fill 0.0
    wgmma.fence
    """ + "".join(f"""
    s{k}: frag<f32, 128x128, async> = wgmma {f"s{k - 16}" if k else "zero"}, T5[1, 0, {k}],
        T6[3, {k}, 0], trans_b=true
    """ for k in range(0, 64, 16))  # fmt: skip
    wait = "t: frag<f32, 128x128, async> = wgmma.wait s48, 0"
    head = text[: text.index("  on %warp")]
    k = parse_kernel(f"{head} {load} {product} wgmma.commit {wait} }}")
    thread = run(emit_nvgpu(k).splitlines(), {"%M": 1, "%N": 1, "%K": 5, "tid.x": 0})
    found = [call.values[-1] for call in thread.of("memref.view")]
    a, b = (kernel.buffer(name) for name in ("T5", "T6"))

    def at(buffer: Any, *place: int) -> int:
        return int(buffer.offset + tile_byte(buffer, *place))

    second = at(b, 3, 0, 0)
    loaded = [at(b, 2, 0, 64), at(a, 3, 0, 0)]
    assert found == [*loaded, at(a, 1, 0, 0), second, at(a, 1, 64, 0), second]
    call, _ = thread.of("nvgpu.tma.async.load")
    assert call.values[1:3] == (7, 5)  # the innermost coordinate first


SWIZZLED = TmaOptions(swizzle=64)


@pytest.mark.parametrize(("changed", "why"), [
    ({"b_layout": "nk"}, "a K-major B in nvgpu"),
    ({"persistent": True}, "sums that begin where another tile's ended in nvgpu"),
    ({"smem_epilogue": True}, "results by TMA in nvgpu"),
    ({"output_type": "f16"}, r"T\d of f16 in nvgpu"),
    ({"input_type": "tf32", "block_k": 32, "b_layout": "nk"}, "a K-major B in nvgpu"),
    ({"tma": SWIZZLED}, "other swizzles than 128 bytes in nvgpu"),
])  # fmt: skip
def test_options_that_are_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        replace(PLAIN, **changed).build().dump("mlir-nvgpu")


def test_the_refusal_of_a_linear_says_what_is_wrong() -> None:
    with pytest.raises(UnsupportedError) as refused:
        replace(PLAIN, b_layout="nk").build().dump("mlir-nvgpu")
    text = str(refused.value)
    assert "B of which N is contiguous" in text
    assert "goes 2048 bytes ahead for 16 of K" in text


def test_kernels_that_are_refused() -> None:
    f = fusion(by_rows("Int8"))
    computed = compile_fusion(f, tile(f, 128, 40).params).kernel
    for kernel, why in (
        (made("cluster_2x1").kernel, "clusters and splits of K in nvgpu"),
        (made("split_2").kernel, "clusters and splits of K in nvgpu"),
        (computed, "A in registers in nvgpu"),
        (pairs.final(), "a kernel of sm_100a in nvgpu"),
    ):
        with pytest.raises(UnsupportedError, match=why):
            emit_nvgpu(kernel)
