"""References of one to five dimensions: their text, what NVRTC says, and how tensors are passed."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lowering.cuda import launch
from lowering.cuda.copies import CopyForm, copy_function
from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.launch import LoadedKernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.pointers import pointer_of
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.cuda.tensormap import Layout, layout_of
from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const
from lowering.kernel.kernel import Kernel, TensorMap
from lowering.kernel.tensors import Ragged
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine.run import run_kernel
from tests.lowering.cuda.fake_driver import LAUNCH, Driver, Tensor
from tests.lowering.cuda.kernels import batched_kernel
from tests.lowering.cuda.opcodes import count_opcodes

BF16 = ml_dtypes.bfloat16


def test_text(golden: object) -> None:
    assert verify(batched_kernel()) == []
    assert emit_kernel(batched_kernel()) == golden


@pytest.mark.parametrize(("b", "m", "n"), [(3, 100, 72), (1, 64, 64), (2, 1, 8)])
@pytest.mark.parametrize("strided", [False, True])
def test_batched_on_the_machine(b: int, m: int, n: int, strided: bool) -> None:
    """Clipped in each matrix: the rows behind one's last are not those of the next."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (m, b, n) if strided else (b, m, n)).astype(BF16)
    x = x.transpose(1, 0, 2) if strided else x
    bias = rng.integers(-9, 9, (b, 1, n)).astype(np.float32)
    total = rng.integers(-9, 9, n).astype(np.float32)
    whole = np.full((b, m + 2, n), 7, BF16)
    tensors = {"X": x, "D": whole[:, 1:-1], "bias": bias, "total": total}
    grid = b * -(-m // 64)
    run_kernel(batched_kernel(), tensors, {"B": b, "M": m, "N": n}, grid)
    assert np.array_equal(whole[:, 1:-1], (x.astype(np.float32) + bias + total).astype(BF16))
    assert (whole[:, [0, -1]] == 7).all()


@pytest.mark.slow
def test_batched_compiles_clean() -> None:
    compiled = compile_cubin(emit_cuda(batched_kernel()))
    assert read_resources(compiled, "batched").clean
    counts = count_opcodes(disassemble(compiled.cubin))
    assert (counts["UTMALDG"], counts["UTMASTG"]) == (1, 1)


def copies(rank: int) -> Kernel:
    """Each form of a copy with a tensor map of this many dimensions."""
    sizes, zeros = ", ".join("M" * rank), ", ".join("0" * rank)
    box = "x".join(["1"] * (rank - 1) + ["64"])
    return parse_kernel(
        f"""
        kernel copies threads 128 cluster 2 grid 2 {{
          param M: i32
          tensormap T: bf16[{sizes}] box {box}
          shared S: bf16[1][64] at 0
          mbarrier full[1] arrivals 1 at 128
          on %warp 0 {{
            elect {{
              prefetch.tensormap T
              tma.load S[0, 0], T[{zeros}], bar=full[0]
              tma.load S[0, 0], T[{zeros}], bar=full[0], cache=evict_first
              tma.load S[0, 0], T[{zeros}], bar=full[0], multicast=3, ctas=2
              tma.load S[0, 0], T[{zeros}], bar=full[0], multicast=3, ctas=2, cache=evict_last
              tma.store T[{zeros}], S[0, 0]
              tma.store T[{zeros}], S[0, 0], cache=evict_first
              bulk.commit
              bulk.wait 0
            }}
          }}
        }}
        """
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_every_form_of_a_copy_compiles(rank: int) -> None:
    assert verify(copies(rank)) == []
    compiled = compile_cubin(emit_cuda(copies(rank)))
    counts = count_opcodes(disassemble(compiled.cubin))
    assert (counts["UTMALDG"], counts["UTMASTG"]) == (4, 2)


def test_functions_of_copies() -> None:
    load = CopyForm(3, multicast=True, hint=True)
    assert copy_function(load) == (
        "__device__ __forceinline__ void tma_load_3d_multicast_hint(\n"
        "    unsigned dst, const TensorMap* map, int c0, int c1, int c2, unsigned bar, int mask, "
        "u64 policy) {\n"
        "  asm volatile(\n"
        '      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes'
        '.multicast::cluster.L2::cache_hint"\n'
        '      " [%0], [%1, {%2, %3, %4}], [%5], %6, %7;"\n'
        '      :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(bar), '
        '"h"((unsigned short)mask), "l"(policy)\n'
        '      : "memory");\n'
        "}"
    )
    assert copy_function(CopyForm(1, store=True)) == (
        "__device__ __forceinline__ void tma_store_1d(\n"
        "    const TensorMap* map, int c0, unsigned src) {\n"
        "  asm volatile(\n"
        '      "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group"\n'
        '      " [%0, {%1}], [%2];"\n'
        '      :: "l"(map), "r"(c0), "r"(src)\n'
        '      : "memory");\n'
        "}"
    )


def test_indices_of_64_bits() -> None:
    """A row of a tensor of more than 2**31 elements, at a place that 32 bits do not hold."""
    k = parse_kernel(
        """
        kernel far threads 128 cluster 1 grid 1 {
          param N: i64
          param M: i32
          global x: f32[N]
          global d: f32[M, 64]
          row: frag<f32, 1x64> = frag.load_global x[N - 64:i64]
          zero: frag<f32, 64x64> = frag.fill 0.0
          out: frag<f32, 64x64> = frag.pointwise add, row, zero
          frag.store_global d[0, 0], out
        }
        """
    )
    assert verify(k) == []
    text = emit_kernel(k)
    assert "far(const float* __restrict__ x, float* __restrict__ d," in text
    assert "x_stride" not in text
    assert "const long long col = N - 64ll + (lane & 3) * 2;\n" in text
    assert "const float* at = x + col;\n" in text
    assert read_resources(compile_cubin(emit_cuda(k)), "far").clean
    x = np.arange(100, dtype=np.float32)
    d = np.zeros((3, 64), np.float32)
    run_kernel(k, {"x": x, "d": d}, {"N": 100, "M": 3}, 1)
    assert np.array_equal(d, np.tile(x[36:], (3, 1)))


# --- launching -----------------------------------------------------------------------------------


def test_arguments_are_packed(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bytes, bytes, list[int]]] = []

    def read(config: Any, kernel: Any, params: Any, extra: Any) -> int:
        first, second, *values = (ctypes.c_void_p * 9).from_address(params)
        numbers = [ctypes.c_int64.from_address(p or 0).value for p in values[:4]]
        numbers += [ctypes.c_int32.from_address(p or 0).value for p in values[4:]]
        seen.append((ctypes.string_at(first or 0), ctypes.string_at(second or 0), numbers))
        return 0

    monkeypatch.setattr(launch, "launch_function", lambda: LAUNCH(read))
    shape, strides = (3, 100, 128), (25600, 256, 1)
    tensors = {
        "X": Tensor(shape, strides, 4096),
        "D": Tensor(shape, strides, 8192),
        "bias": Tensor((3, 1, 128), (200, 5, 1), 1 << 40, "torch.float32"),
        "total": Tensor((128,), (1,), 64, "torch.float32"),
    }
    params = {"B": 3, "M": 100, "N": 128}
    LoadedKernel(batched_kernel(), b"").launch(tensors, params, 6)  # type: ignore[arg-type]
    assert seen == [(b"map1", b"map2", [1 << 40, 200, 0, 64, 3, 100, 128])]
    assert driver.named("encode")[0][:7] == (
        "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 3, 4096, [128, 100, 3], [512, 51200], [64, 64, 1],
        [1, 1, 1],
    )  # fmt: skip


def test_strides_that_mean_nothing_are_legal_ones() -> None:
    m = batched_kernel().tensor_map("X")

    def strides(shape: tuple[int, ...], given: tuple[int, ...]) -> tuple[int, ...]:
        return layout_of(m, Tensor(shape, given)).strides  # type: ignore[arg-type]

    assert strides((1, 4, 10), (3, 16, 1)) == (128, 32)
    assert strides((4, 1, 10), (16, 7, 1)) == (32, 32)
    assert strides((3, 0, 10), (0, 0, 1)) == (32, 32)
    assert strides((8, 4, 10), (16, 128, 1)) == (32, 256)  # the batch between the rows


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor((4, 8), (8, 1)),
         "X: 2-D torch.bfloat16 on cuda is not supported; "
         "supported: a 3-D CUDA tensor of torch.bfloat16"),
        (Tensor((2, 4, 8), (36, 8, 1)),
         "X: 72 bytes along dimension 0 is not supported; supported: multiples of 16 bytes"),
        (Tensor((2, 4, 8), (32, 4, 1)),
         "X: 8 bytes from row to row is not supported; supported: multiples of 16 bytes"),
        (Tensor((2, 4, 8), (1 << 39, 8, 1)),
         "X: 1099511627776 bytes along dimension 0 is not supported; "
         "supported: multiples of 16 bytes below 2**40"),
        (Tensor((2, 1 << 31, 8), (1 << 34, 8, 1)),
         "X: 2 x 2147483648 x 8 elements is not supported; "
         "supported: at most 2147483647 along each dimension"),
    ],
)  # fmt: skip
def test_tensor_that_tma_does_not_take(tensor: Tensor, text: str) -> None:
    with pytest.raises(UnsupportedError) as e:
        layout_of(batched_kernel().tensor_map("X"), tensor)  # type: ignore[arg-type]
    assert str(e.value) == text


def test_a_ragged_map_begins_so_many_rows_in_front() -> None:
    """Coordinates (end, rows - n + r, c) come to row end - n + r of the matrix."""
    m = TensorMap(
        "X", DType.BF16, (Const(101), Const(100), Const(24)), (1, 64, 64), ragged=Ragged.END
    )
    found = layout_of(m, Tensor((100, 24), (32, 1), 1 << 20))  # type: ignore[arg-type]
    assert found == Layout((1 << 20) - 100 * 64, (101, 100, 24), (64, 64))
    end, n, r = 70, 30, 7
    row, between = found.strides
    assert found.address + end * between + (100 - n + r) * row == (1 << 20) + (end - n + r) * 64
    m = replace(m, ragged=Ragged.BEGIN)
    by_begins = layout_of(m, Tensor((100, 24), (32, 1), 1 << 20))  # type: ignore[arg-type]
    assert by_begins == replace(found, address=1 << 20)
    with pytest.raises(UnsupportedError) as e:
        layout_of(m, Tensor((2, 4, 8), (32, 8, 1)))  # type: ignore[arg-type]
    assert str(e.value) == (
        "X: 3-D torch.bfloat16 on cuda is not supported; "
        "supported: a 2-D CUDA tensor of torch.bfloat16"
    )


def test_tensor_that_threads_do_not_take() -> None:
    bias = batched_kernel().global_tensor("bias")
    with pytest.raises(UnsupportedError) as e:
        pointer_of(bias, Tensor((3, 128), (128, 1), 0, "torch.float32"))  # type: ignore[arg-type]
    assert str(e.value) == (
        "bias: 2-D torch.float32 on cuda is not supported; "
        "supported: a 3-D CUDA tensor of torch.float32"
    )
