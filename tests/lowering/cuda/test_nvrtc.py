"""Compiling with the installed NVRTC: needs no driver and no GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lowering.cuda import nvrtc
from lowering.cuda.emit import device_header, emit_cuda
from lowering.cuda.nvrtc import (
    CompileError,
    compilations,
    compile_cubin,
    compile_ptx,
    nvrtc_version,
)
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.kernels import cooperative_kernel, copy_kernel
from tests.lowering.cuda.opcodes import count_opcodes
from tests.lowering.cuda.test_compute import REGISTER_A

EMPTY = 'extern "C" __global__ void empty() {}'


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "out"), [("bf16", "bf16"), ("f16", "f32")])
def test_cooperative_kernel_compiles_clean(dtype: str, out: str) -> None:
    """40/232 registers and 128 accumulators per thread: no stack, no spills, no C75xx."""
    k = cooperative_kernel(dtype, out)
    compiled = compile_cubin(emit_cuda(k))
    resources = read_resources(compiled, "cooperative")
    assert resources.clean, str(resources)
    assert resources.registers == 168
    assert resources.static_shared == 0

    counts = count_opcodes(disassemble(compiled.cubin))
    assert counts["HGMMA"] == 4  # 64 of K in steps of 16, one instruction of 64 rows each
    assert counts["UTMALDG"] == 2
    assert counts["UTMASTG"] == (8 if out == "f32" else 4)
    assert counts["STSM"] == (0 if out == "f32" else 16)
    assert counts["USETMAXREG"] == 2
    assert not counts["LDL"] and not counts["STL"] and not counts["CALL"]


def test_every_function_of_the_header_compiles() -> None:
    """A kernel with each statement that the others do not have."""
    k = parse_kernel(
        """
        kernel rest threads 128 cluster 2 grid 2 {
          param M: i32
          param W: i64
          tensormap T: f16[M, M] box 64x64 swizzle 128
          shared S: f16[1][64x64] swizzle 128 at 0
          shared F: f32[1][64x32] swizzle 128 at 8192
          mbarrier full[1] arrivals 1 at 16384
          named_barrier turn[1] id 1 threads 128
          let big: i64 = W // 3 + ceildiv(W, 3) + W % 3 + min(M, W)
          a: frag<f32, 64x24> = frag.fill 1.0
          b: frag<bf16, 64x24> = frag.cast a
          c: frag<f16, 64x24> = frag.cast b
          d: frag<f32, 64x24> = frag.cast c
          stmatrix S[0, 0, 0], c
          st.shared F[0, 0, 0], d
          if big == 0 {
            elect {
              tma.load S[0, 0, 0], T[0, 0], bar=full[0], multicast=3, ctas=2
              mbarrier.arrive full[0], cta=%cluster.ctarank ^ 1, order=release.cluster
              bulk.wait 0
            }
          }
          mbarrier.wait full[0], 0, order=acquire.cluster
          bar.arrive turn[0]
          bar.sync turn[0]
          cluster.sync
        }
        """
    )
    compile_cubin(emit_cuda(k))


def test_log_and_version() -> None:
    compiled = compile_cubin(EMPTY)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert "Compiling entry function 'empty' for 'sm_90a'" in compiled.log
    assert compiled.nvrtc_version == nvrtc_version() >= (12, 8)
    assert compiled.seconds > 0


def test_ptx() -> None:
    ptx = compile_ptx(device_header() + EMPTY)
    assert ".target sm_90a" in ptx and ".entry empty" in ptx


def test_compilations_are_counted() -> None:
    before = compilations()
    for source in (EMPTY, emit_cuda(copy_kernel())):
        compile_cubin(source)
    assert compilations() == before + 2


def test_bad_text_is_rejected_with_the_log() -> None:
    with pytest.raises(CompileError) as e:
        compile_cubin("nonsense", "bad.cu")
    assert e.value.why == "bad.cu does not compile (NVRTC_ERROR_COMPILATION)"
    assert "bad.cu(1): error" in e.value.log and e.value.log in str(e.value)


class Refusing:
    """NVRTC that compiles nothing and says why in these bytes."""

    nvrtcResult = SimpleNamespace(NVRTC_SUCCESS="ok")  # noqa: N815

    def __init__(self, said: bytes) -> None:
        self.said = said

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        log = {"nvrtcGetProgramLogSize": (len(self.said),), "nvrtcVersion": (12, 8)}
        return lambda *_: ("ok", *log.get(name, ()))

    def nvrtcCompileProgram(self, *_: Any) -> tuple[Any]:  # noqa: N802
        return (SimpleNamespace(name="NVRTC_ERROR_COMPILATION"),)

    def nvrtcGetProgramLog(self, program: Any, into: bytearray) -> tuple[str]:  # noqa: N802
        into[:] = self.said
        return ("ok",)


def test_a_log_that_is_no_text_of_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be read of it is told: a program may quote names in any encoding."""
    said = b"caf\xe9.cu(1): error\n\0"
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: Refusing(said))
    with pytest.raises(CompileError) as e:
        compile_cubin(EMPTY)
    assert e.value.log == "caf\N{REPLACEMENT CHARACTER}.cu(1): error"


def test_missing_bindings_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(UnsupportedError) as e:
        compile_cubin(EMPTY)
    assert str(e.value).startswith(
        "compiling without cuda-bindings is not supported; supported: cuda-bindings 12.9 or 13.x. "
        "Install cuda-bindings and nvidia-cuda-nvrtc ("
    )


def test_missing_library_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bindings:
        @staticmethod
        def nvrtcVersion() -> None:  # noqa: N802
            raise RuntimeError("Failure finding libnvrtc.so\ndetails")

    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: Bindings)
    with pytest.raises(UnsupportedError) as e:
        nvrtc_version()
    assert str(e.value) == (
        "compiling without the NVRTC library is not supported; supported: NVRTC 12.8 or later. "
        "Install nvidia-cuda-nvrtc (Failure finding libnvrtc.so)"
    )


@pytest.mark.parametrize(("version", "options"), [((12, 8), ()), ((13, 0), ("--no-cache",))])
def test_nvrtc_keeps_no_cache_of_its_own(
    version: tuple[int, int], options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer from its cache has no log of ptxas, so no registers and spills."""
    monkeypatch.setattr(nvrtc, "nvrtc_version", lambda: version)
    assert nvrtc._uncached() == options


def test_roles_that_share_a_warpgroup_keep_its_setmaxnreg() -> None:
    """ptxas follows setmaxnreg through the chain of branches, with another chain inside of it."""
    k = parse_kernel(
        """
        kernel shared threads 384 cluster 1 grid 1 {
          named_barrier meet[1] id 1 threads 64
          roles {
            role compute warps 0 .. 8 { setmaxnreg inc, 232 cta.sync }
            role others warps 8 .. 12 {
              setmaxnreg dec, 40
              roles {
                role left warps 8 .. 9 { bar.sync meet[0] }
                role right warps 9 .. 12 { on %warp 10 { bar.sync meet[0] } }
              }
              cta.sync
            }
          }
        }
        """
    )
    compiled = compile_cubin(emit_cuda(k))
    assert read_resources(compiled, "shared").clean
    assert count_opcodes(disassemble(compiled.cubin))["USETMAXREG"] == 2


def test_a_from_registers_compiles_without_serialization() -> None:
    """C7510 and the like would say that ptxas waits behind each wgmma."""
    text = REGISTER_A.replace("kernel k ", "kernel left ")
    resources = read_resources(compile_cubin(emit_cuda(parse_kernel(text))), "left")
    assert resources.clean, str(resources)
    transposed = text.replace("B[0, 0, 16]", "B[0, 16, 0]").replace(
        "bf16[1][64x32] swizzle 64", "bf16[1][32x64] swizzle 128"
    )
    transposed = transposed.replace("B[0, 0, 0]", "B[0, 0, 0], trans_b=true")
    transposed = transposed.replace("B[0, 16, 0]", "B[0, 16, 0], trans_b=true")
    assert read_resources(compile_cubin(emit_cuda(parse_kernel(transposed))), "left").clean
