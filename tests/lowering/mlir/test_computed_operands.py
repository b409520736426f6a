"""Operands that threads compute on their way to wgmma: registers that stay until a wait, 8 bits."""

from __future__ import annotations

import re
from importlib.util import find_spec

import numpy as np
import pytest

from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel
from lowering.mlir.emit import emit_mlir
from tests.computed import by_rows, cast, fusion, tile
from tests.lowering.mlir.warpgroup import execute
from tests.sass_operands import overwritten, registers_of_a
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.mlir import through_mlir

with_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

EIGHTS = {"s8": np.int8, "u8": np.uint8, "e4m3": np.uint8, "e5m2": np.uint8}


def computed(text: str) -> CompiledFusion:
    f = fusion(text)
    return compile_fusion(f, tile(f, 128, 40).params)


# --- machine code --------------------------------------------------------------------------------


def require_untouched(kernel: CompiledFusion) -> None:
    """A cubin without spills whose wgmmas read registers that nothing writes meanwhile."""
    compiled = through_mlir(kernel).alone.compiled
    found = read_resources(compiled, kernel.kernel.name)
    assert found.clean, found
    assert overwritten(disassemble(compiled.cubin)) == []


@pytest.mark.slow
@with_triton
@pytest.mark.parametrize("given", ["Int8", "BFloat16"])
def test_nothing_writes_what_a_wgmma_reads(given: str) -> None:
    require_untouched(computed(by_rows(given)))


@with_triton
@pytest.mark.slow
@pytest.mark.parametrize("given", ["UInt8", "Float8_e4m3fn", "Float8_e5m2", "Float"])
@pytest.mark.parametrize("text", [by_rows, cast], ids=["scaled", "cast"])
def test_nothing_writes_it_of_other_types(given: str, text: object) -> None:
    assert callable(text)
    require_untouched(computed(text(given)))


@pytest.mark.slow
@with_triton
def test_what_is_written_too_early_is_found() -> None:
    """In the machine code, with an instruction more between a wgmma and the wait behind it."""
    lines = disassemble(through_mlir(computed(cast("Int8"))).alone.compiled.cubin).splitlines()
    at, a = next((i, a) for i, line in enumerate(lines) if (a := registers_of_a(line)))
    wrong = f"        /*0000*/                   IMAD.MOV.U32 R{a[1]}, RZ, RZ, R0 ;"
    found = overwritten("\n".join([*lines[: at + 1], wrong, *lines[at + 1 :]]))
    assert [by for _, by in found] == [wrong] * len(found)
    assert found


# --- the module ----------------------------------------------------------------------------------

SHARED_B = "shared B: f16[1][96x64] swizzle 128 at 0"


def lines_of(body: str) -> list[str]:
    text = f"""
    kernel k threads 128 cluster 1 grid 1 {{
      param K: i32
      {SHARED_B}
      {body}
    }}
    """
    return [line.strip() for line in emit_mlir(parse_kernel(text)).splitlines()]


def test_registers_are_made_where_the_value_is() -> None:
    """Behind the wait, by an instruction that LLVM cannot move; parts are not copied again."""
    body = """
    zero: frag<f32, 64x96> = frag.fill 0.0
    before: frag<f32, 64x96, async> = wgmma.wait zero, 1
    whole: frag<f16, 64x32> = frag.fill 1.0
    same: frag<f16, 64x32> = frag.cast whole
    a: frag<f16, 64x16> = frag.columns same, 16
    wgmma.fence
    acc: frag<f32, 64x96, async> = wgmma before, a, B[0, 0, 0], accumulate=0 < K
    """
    lines = lines_of(body)
    copies = [i for i, line in enumerate(lines) if "mov.b32 $0, $8; mov.b32 $1, $9;" in line]
    assert len(copies) == 1
    assert "has_side_effects" in lines[copies[0]]
    assert lines.index("nvvm.wgmma.wait.group.sync.aligned 1") < copies[0]
    assert copies[0] < lines.index("nvvm.wgmma.fence.aligned")
    (call,) = [line for line in lines if "wgmma.mma_async" in line and "asm" in line]
    assert "{$96, $97, $98, $99}, $100, $101, 1, 1, 0;" in call
    made = re.findall(r"(%\d+) = llvm\.inline_asm", lines[copies[0]])[0]
    used = [line for line in lines if f"llvm.extractvalue {made}[" in line]
    assert [re.findall(r"\[(\d+)\]", line)[0] for line in used] == ["4", "5", "6", "7"]


def test_scale_d_that_is_known_is_a_predicate_too() -> None:
    body = """
    a: frag<f16, 64x16> = frag.fill 0.0
    zero: frag<f32, 64x96> = frag.fill 0.0
    acc: frag<f32, 64x96, async> = wgmma zero, a, B[0, 0, 0]
    """
    (call,) = [line for line in lines_of(body) if "wgmma.mma_async" in line and "asm" in line]
    assert call.split(" : (")[0].endswith(", %true")


# --- 8 bits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", ["f32", "natural"])
@pytest.mark.parametrize("dtype", EIGHTS)
def test_eight_bits_are_widened_to_the_bits_of_the_machine(dtype: str, wide: str) -> None:
    """All 256 values, in every place that a register has."""
    natural = "bf16" if dtype in ("s8", "u8") else "f16"
    kind = "f32" if wide == "f32" else natural
    kernel = parse_kernel(f"""
    kernel k threads 128 cluster 1 grid 1 {{
      param M: i32
      global X: {dtype}[M, 64] align 16
      global Y: {kind}[M, 64] align 4
      shared T: {dtype}[1][64x64] swizzle 64 at 0
      named_barrier all[1] id 1 threads 128
      copy.tile T[0, 0, 0], X[0, 0], 64, 64
      bar.sync all[0]
      x: frag<{dtype}, 64x64> = ld.shared T[0, 0, 0]
      w: frag<{kind}, 64x64> = frag.cast x
      frag.store_global Y[0, 0], w
    }}
    """)
    given = np.random.default_rng(0).permutation(np.arange(64 * 64) % 256).reshape(64, 64)
    found = []
    bytes_of = {"f32": np.float32, "bf16": np.uint16, "f16": np.uint16}[kind]
    for way in ("machine", "module"):
        arrays = {"X": given.astype(np.uint8), "Y": np.zeros((64, 64), bytes_of)}
        if way == "machine":
            run_kernel(kernel, arrays, {"M": 64}, 1)
        else:
            memory = {f"%{n}": a.reshape(-1).view(np.uint8) for n, a in arrays.items()}
            memory["%shared"] = np.zeros(1 << 13, np.uint8)
            execute(emit_mlir(kernel), memory, {"%M": 64, "%X_stride": 64, "%Y_stride": 64})
        found.append(arrays["Y"].view(np.uint8))
    assert found[0].any()
    assert np.array_equal(*found)


@pytest.mark.parametrize("share", [0, 1])
def test_a_part_of_a_box(share: int) -> None:
    """From a column on that only the kernel knows, as warpgroups that share slices of K have it."""
    kernel = parse_kernel("""
    kernel k threads 128 cluster 1 grid 1 {
      param share: i32
      global X: s8[64, 128] align 16
      global Y: bf16[64, 64] align 4
      shared T: s8[1][64x128] swizzle 128 at 0
      named_barrier all[1] id 1 threads 128
      copy.tile T[0, 0, 0], X[0, 0], 64, 128
      bar.sync all[0]
      x: frag<s8, 64x64> = ld.shared T[0, 0, share * 64]
      w: frag<bf16, 64x64> = frag.cast x
      frag.store_global Y[0, 0], w
    }
    """)
    given = np.random.default_rng(0).integers(0, 256, (64, 128), np.uint8)
    memory = {"%X": given.reshape(-1), "%Y": np.zeros(2 * 64 * 64, np.uint8),
              "%shared": np.zeros(1 << 13, np.uint8)}  # fmt: skip
    execute(emit_mlir(kernel), memory, {"%share": share, "%X_stride": 128, "%Y_stride": 64})
    found = (memory["%Y"].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    wanted = given.view(np.int8)[:, share * 64 : share * 64 + 64]
    assert np.array_equal(found.reshape(64, 64), wanted)
