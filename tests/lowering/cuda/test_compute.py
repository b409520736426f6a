from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda.compute import descriptor_words
from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.wgmma import wgmma_function
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.descriptor import MatrixDescriptor, tile_byte
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel
from lowering.target.hopper import HOPPER, WGMMA
from lowering.target.wgmma import WgmmaForm
from tests.lowering.machine.conversions import LARGEST, arrays, conversions, expected

BASE = 1 << 24 | 1024
"""A shared address as the second CTA of a cluster has it (seen on an H200): its rank above it."""


def kernel(a: str, b: str, rows: int = 64, swizzle: int = 128, k: int = 128) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          shared A: f16[2][128x{k}] swizzle {swizzle} at 0
          shared B: f16[2][96x{k}] swizzle {swizzle} at 131072
          zero: frag<f32, {rows}x96> = frag.fill 0.0
          wgmma.fence
          acc: frag<f32, {rows}x96, async> = wgmma zero, {a}, {b}
        }}
        """
    )


def descriptors(k: Kernel) -> list[int]:
    """Every descriptor of the text, evaluated."""
    text = emit_kernel(k)
    env = {"smem": BASE}
    for name, value in re.findall(r"const unsigned (\w+) = (.*?);", text):
        env.setdefault(name, eval(value, {}, env) if name != "smem" else BASE)
    found = re.findall(r"ptx::descriptor\((\w+), ([^)]*)\)", text)
    return [eval(high) << 32 | eval(low, {}, env) for high, low in found]


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
def test_descriptors_are_the_shared_ones(swizzle: int) -> None:
    k = kernel("A[1, 64, 48]", "B[1, 0, 112]", swizzle=swizzle)
    expected = []
    for name, row, col in (("A", 64, 48), ("B", 0, 112)):
        b = k.buffer(name)
        assert b.offset is not None
        address = BASE + b.offset + tile_byte(b, 1, row, col)
        expected.append(MatrixDescriptor.of(b, False).at(address))
    assert descriptors(k) == expected


def test_two_blocks_of_rows_are_two_instructions() -> None:
    k = kernel("A[0, 0, 0]", "B[0, 0, 0]", rows=128)
    text = emit_kernel(k)
    assert text.count("  wgmma_m64n96k16_f32_f16(") == 2
    assert "zero + 48" in text
    first, b, second, again = descriptors(k)
    assert second - first == 64 * 128 // 16 and b == again


MN_MAJOR = """
kernel k threads 128 cluster 1 grid 1 {
  shared A: f16[2][64x256] swizzle 128 at 0
  shared B: f16[2][64x96] swizzle 64 at 65536
  zero: frag<f32, 128x96> = frag.fill 0.0
  wgmma.fence
  acc: frag<f32, 128x96, async> = wgmma zero, A[1, 16, 128], B[1, 48, 0], trans_a=true, trans_b=true
}
"""


def test_descriptors_of_mn_major_operands() -> None:
    """Blocks of 64 rows of A are boxes; B's lines are spans of 64 bytes."""
    k = parse_kernel(MN_MAJOR)
    expected = []
    for block in (0, 64):
        for name, row, col in (("A", 16, 128 + block), ("B", 48, 0)):
            b = k.buffer(name)
            assert b.offset is not None
            address = BASE + b.offset + tile_byte(b, 1, row, col)
            expected.append(MatrixDescriptor.of(b, True).at(address))
    assert descriptors(k) == expected


def test_functions_of_mn_major_operands() -> None:
    text = emit_kernel(parse_kernel(MN_MAJOR))
    assert text.count("  wgmma_m64n96k16_f32_f16_trans_a_trans_b(") == 2
    assert '" %48, %49, p, 1, 1, 1, 1;' in text
    for a, b in ((True, False), (False, True)):
        function = wgmma_function(WgmmaForm(WGMMA, 16, DType.F16, DType.F16, trans_a=a, trans_b=b))
        assert f'" %8, %9, p, 1, 1, {int(a)}, {int(b)};' in function
        assert f"wgmma_m64n16k16_f32_f16_trans_{'a' if a else 'b'}(" in function


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("A[1, 16, 128]", "A[1, 16, 136]", "MN-major operand starts within a box: 136"),
        ("trans_b=true", "trans_b=true\n  more: frag<f32, 128x96, async> = wgmma acc, A[0, 0, 0], "
         "B[0, 0, 0], trans_b=true", "A is read as K-major and as MN-major"),
    ],
)  # fmt: skip
def test_mn_major_operands_that_are_rejected(old: str, new: str, why: str) -> None:
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(MN_MAJOR.replace(old, new)))
    assert e.value.why == why


def test_wgmma_function() -> None:
    text = wgmma_function(WgmmaForm(WGMMA, 16, DType.BF16, DType.BF16))
    assert "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16" in text
    assert '" {%0, %1, %2, %3, %4, %5, %6, %7},"' in text
    assert '" %8, %9, p, 1, 1, 0, 0;' in text and "setp.ne.b32 p, %10, 0" in text


@pytest.mark.parametrize(
    ("types", "registers", "name", "instruction", "operands"),
    [
        ((DType.F16, DType.F16, DType.F16), False, "k16_f16_f16", "k16.f16.f16.f16",
         "unsigned* d, u64 a, 4, 4, 5, p, 1, 1, 0, 0"),
        ((DType.BF16, DType.BF16, DType.F32), True, "k16_f32_bf16_reg_a", "k16.f32.bf16.bf16",
         "float* d, const unsigned* a, 8, {8, 9, 10, 11}, 12, p, 1, 1, 0"),
        ((DType.TF32, DType.TF32, DType.F32), True, "k8_f32_tf32_reg_a", "k8.f32.tf32.tf32",
         "float* d, const unsigned* a, 8, {8, 9, 10, 11}, 12, p, 1, 1"),
        ((DType.E4M3, DType.E5M2, DType.F32), False, "k32_f32_e4m3_e5m2", "k32.f32.e4m3.e5m2",
         "float* d, u64 a, 8, 8, 9, p, 1, 1"),
        ((DType.U8, DType.S8, DType.S32), False, "k32_s32_u8_s8", "k32.s32.u8.s8",
         "int* d, u64 a, 8, 8, 9, p"),
    ],
)  # fmt: skip
def test_functions_of_other_types(
    types: tuple[DType, DType, DType], registers: bool, name: str, instruction: str, operands: str
) -> None:
    """C++ types, number of accumulators, A, B, scale-d and the immediates that the types have."""
    text = wgmma_function(WgmmaForm(WGMMA, 16, *types, registers=registers))
    assert f"wgmma_m64n16{name}(" in text and f'.m64n16{instruction}"' in text
    d, a, count, *rest = operands.split(", ")
    assert f"{d}, {a}, u64 b, int scale_d)" in text and f"(d[{int(count) - 1}])" in text
    assert (
        f"(d[{count}])" not in text and f'"+{"f" if types[2] is DType.F32 else "r"}"(d[0])' in text
    )
    tail = re.search(r'" ([^"]*), p(.*);\\n}"', text)
    assert tail is not None
    assert f"{tail[1]}, p{tail[2]}".replace("%", "") == ", ".join(rest)


def test_no_such_instruction() -> None:
    with pytest.raises(InternalError) as e:
        wgmma_function(WgmmaForm(WGMMA, 16, DType.BF16, DType.BF16, DType.F16))
    name = "wgmma.mma_async.sync.aligned.m64n16k16.f16.bf16.bf16"
    assert e.value.why == f"no instruction {name}"


def test_the_target_says_what_the_instruction_has() -> None:
    """Of one that takes 16 bytes of K and has no immediates: the kernel's, not the default's."""
    forms = tuple(replace(f, scales=False, transposes=False) for f in WGMMA.forms)
    other = replace(HOPPER, mma=replace(WGMMA, k_bytes=16, forms=forms))
    k = kernel("A[0, 0, 0]", "B[0, 0, 0]")
    assert '" wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16"' in emit_kernel(k)
    text = emit_kernel(replace(k, target=other))
    assert '" wgmma.mma_async.sync.aligned.m64n96k8.f32.f16.f16"' in text
    assert '" %48, %49, p;' in text


INTEGERS = """
kernel k threads 128 cluster 1 grid 1 {
  global out: f32[64, 32]
  shared F: s32[1][64x32] swizzle 128 at 0
  a: frag<s32, 64x32> = frag.fill -7.0
  st.shared F[0, 0, 0], a
  b: frag<s32, 64x32> = ld.shared F[0, 0, 0]
  c: frag<f32, 64x32> = frag.cast b
  d: frag<bf16, 64x32> = frag.cast b
  e: frag<f32, 64x32> = frag.pointwise mul, b, c
  f: frag<f32, 64x32> = frag.pointwise add, d, e
  frag.store_global out[0, 0], f
}
"""


def test_integers_in_registers() -> None:
    k = parse_kernel(INTEGERS)
    assert verify(k) == []
    text = emit_kernel(k)
    for line in (
        "a[r] = -7;", "pin_words(a);", "c[2 * r] = __int2float_rn(b[2 * r]);",
        "d[r] = ptx::cvt_bf16x2(__int2float_rn(b[2 * r]), __int2float_rn(b[2 * r + 1]));",
        "e[4 * r] = __int2float_rn(b[4 * r]) * c[4 * r];",
    ):  # fmt: skip
        assert line in text
    assert text.count("    st_shared_v2_s32(") == text.count("    ld_shared_v2_s32(") == 2
    assert read_resources(compile_cubin(emit_cuda(k)), "k").clean


def test_integers_in_registers_on_the_machine() -> None:
    out = np.zeros((64, 32), np.float32)
    run_kernel(parse_kernel(INTEGERS), {"out": out}, {}, 1)
    assert (out == 42).all()


def test_conversions_between_all_types() -> None:
    k = parse_kernel(
        """
        kernel k threads 128 cluster 1 grid 1 {
          a: frag<f32, 64x16> = frag.fill 1.5
          b: frag<bf16, 64x16> = frag.cast a
          c: frag<f16, 64x16> = frag.cast b
          d: frag<f32, 64x16> = frag.cast c
          e: frag<f32, 64x16> = frag.cast d
        }
        """
    )
    lines = [line.strip() for line in emit_kernel(k).splitlines()]
    assert "b[r] = ptx::cvt_bf16x2(a[2 * r], a[2 * r + 1]);" in lines
    assert "c[r] = ptx::cvt_f16x2(ptx::cvt_f32_bf16<0>(b[r]), ptx::cvt_f32_bf16<1>(b[r]));" in lines
    assert "d[2 * r] = ptx::cvt_f32_f16<0>(c[r]);" in lines
    assert "d[2 * r + 1] = ptx::cvt_f32_f16<1>(c[r]);" in lines
    assert not any(line.startswith(("float e", "e[")) for line in lines)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("span", [1, 2, 4])
def test_conversions_of_rows_and_columns(dtype: str, span: int) -> None:
    """Of a row whose groups are single columns every one: not the first alone."""
    k = parse_kernel(conversions(dtype, span))
    assert verify(k) == []
    lines = [line.strip() for line in emit_kernel(k).splitlines()]
    at, part = ("r", 0) if span == 1 else ("2 * r + 1", 1)
    assert any(line.startswith(f"wide[{at}] = ptx::cvt_f32_{dtype}<{part}>(") for line in lines)
    assert any(line.startswith("rounded[r] = ") for line in lines)
    assert read_resources(compile_cubin(emit_cuda(k)), "k").clean
    given = arrays(dtype, LARGEST * span - 3)
    run_kernel(k, given, {"n": LARGEST * span - 3}, 1)
    for found, right in zip((given["out"], given["half"]), expected(given), strict=True):
        np.testing.assert_array_equal(found, right)


def test_operand_without_swizzle_is_rejected() -> None:
    k = parse_kernel(
        """
        kernel k threads 128 cluster 1 grid 1 {
          shared A: f16[1][64x16] at 0
          acc: frag<f32, 64x16> = frag.fill 0.0
        }
        """
    )
    with pytest.raises(InternalError) as e:
        descriptor_words(k.buffer("A"))
    assert e.value.why == "wgmma cannot read a row-major tile without a swizzle"


def test_columns_out_of_range_are_rejected() -> None:
    k = parse_kernel(
        """
        kernel k threads 128 cluster 1 grid 1 {
          a: frag<f32, 64x32> = frag.fill 0.0
          b: frag<f32, 64x16> = frag.columns a, 24
        }
        """
    )
    with pytest.raises(InternalError) as e:
        emit_kernel(k)
    assert e.value.why == "columns 24 of frag<f32, 64x32> as frag<f32, 64x16>"


def test_operands_of_different_types_are_rejected() -> None:
    k = parse_kernel(
        """
        kernel k threads 128 cluster 1 grid 1 {
          shared A: f16[1][64x64] swizzle 128 at 0
          shared B: bf16[1][64x64] swizzle 128 at 8192
          z: frag<f32, 64x64> = frag.fill 0.0
          acc: frag<f32, 64x64, async> = wgmma z, A[0, 0, 0], B[0, 0, 0]
        }
        """
    )
    with pytest.raises(InternalError) as e:
        emit_kernel(k)
    assert e.value.why == "no wgmma multiplies f16 by bf16 into f32"


REGISTER_A = """
kernel k threads 128 cluster 1 grid 1 {
  param n: i32
  global out: f32[128, 64]
  shared A: bf16[1][128x32] swizzle 64 at 0
  shared B: bf16[1][64x32] swizzle 64 at 8192
  zero: frag<f32, 128x64> = frag.fill 0.0
  for k in 0 .. n carry (acc: frag<f32, 128x64, async> = zero -> last) {
    a: frag<bf16, 128x32> = ldmatrix A[0, 0, 0]
    a0: frag<bf16, 128x16> = frag.columns a, 0
    a1: frag<bf16, 128x16> = frag.columns a, 16
    wgmma.fence
    acc0: frag<f32, 128x64, async> = wgmma acc, a0, B[0, 0, 0]
    acc1: frag<f32, 128x64, async> = wgmma acc0, a1, B[0, 0, 16]
    wgmma.commit
    acc2: frag<f32, 128x64, async> = wgmma.wait acc1, 0
    yield acc2
  }
  sum: frag<f32, 128x64> = wgmma.wait last, 0
  frag.store_global out[0, 0], sum
}
"""


def test_a_in_registers() -> None:
    """Two blocks of 64 rows, 8 registers of A apart; both pieces are parts of one array."""
    k = parse_kernel(REGISTER_A)
    assert verify(k) == []
    lines = [line.strip() for line in emit_kernel(k).splitlines()]
    name = "wgmma_m64n64k16_f32_bf16_reg_a"
    calls = [line.split(", ptx")[0] for line in lines if line.startswith(f"{name}(acc")]
    operands = ("acc, a", "acc + 32, a + 8", "acc, a + 4", "acc + 32, a + 12")
    assert calls == [f"{name}({x}" for x in operands]
    assert '" {%32, %33, %34, %35}, %36, p, 1, 1, 0;\\n}"' in lines
    wait = lines.index("ptx::wgmma_wait_group<0>();")
    assert lines[wait + 1] == "pin_words(a);"
    assert lines.count("pin_words(a);") == 1


def test_a_in_registers_that_are_left_too_early() -> None:
    inside = REGISTER_A.replace(
        "for k in 0 .. n carry (acc: frag<f32, 128x64, async> = zero -> last) {", "if 0 < n {"
    )
    inside = inside.replace("wgmma acc, ", "wgmma zero, ").replace("yield acc2", "")
    inside = inside.replace("wgmma.wait acc1, 0", "wgmma.wait acc1, 1")
    inside = inside[: inside.index("sum:")] + "}"
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(inside))
    assert e.value.why == "a is left while a wgmma may read it"


def test_a_in_registers_that_the_next_trip_writes_too_early() -> None:
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(REGISTER_A.replace("wgmma.wait acc1, 0", "wgmma.wait acc1, 1")))
    assert e.value.why == "a is written while a wgmma may read it"


ROLLING = """
kernel k threads 128 cluster 1 grid 1 {
  param n: i32
  global out: f32[64, 64]
  shared A: bf16[1][64x32] swizzle 64 at 0
  shared B: bf16[1][64x32] swizzle 64 at 8192
  zero: frag<f32, 64x64> = frag.fill 0.0
  for k in 0 .. n carry (acc: frag<f32, 64x64, async> = zero -> last) {
    acc0: frag<f32, 64x64, async> = wgmma.wait acc, 1
    a0: frag<bf16, 64x16> = ldmatrix A[0, 0, 0]
    wgmma.fence
    acc1: frag<f32, 64x64, async> = wgmma acc0, a0, B[0, 0, 0]
    wgmma.commit
    acc2: frag<f32, 64x64, async> = wgmma.wait acc1, 1
    a1: frag<bf16, 64x16> = ldmatrix A[0, 0, 16]
    wgmma.fence
    acc3: frag<f32, 64x64, async> = wgmma acc2, a1, B[0, 0, 16]
    wgmma.commit
    yield acc3
  }
  sum: frag<f32, 64x64> = wgmma.wait last, 0
  frag.store_global out[0, 0], sum
}
"""


def test_a_in_registers_that_are_read_until_the_next_trip() -> None:
    """Their arrays stand in front of the loop, and are kept up to the wait that frees them."""
    k = parse_kernel(ROLLING)
    assert verify(k) == []
    lines = [line.strip() for line in emit_kernel(k).splitlines()]
    loop = lines.index("#pragma unroll 1")
    declared = [f"unsigned a{i}[4];  // frag<bf16, 64x16>" for i in (0, 1)]
    assert lines[loop - 3 : loop - 1] == declared
    waits = [i for i, line in enumerate(lines) if line.startswith("ptx::wgmma_wait_group<")]
    kept = [[x for x in lines[i : i + 4] if x.startswith("pin_words")] for i in waits]
    assert kept == [["pin_words(a0);"], ["pin_words(a1);"], ["pin_words(a0);", "pin_words(a1);"]]
    compiled = compile_cubin(emit_cuda(k))
    assert read_resources(compiled, k.name).clean


def test_a_in_registers_of_another_width() -> None:
    text = REGISTER_A.replace("wgmma acc, a0", "wgmma acc, a")
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(text))
    assert e.value.why == "A in registers is frag<bf16, 128x32>"
