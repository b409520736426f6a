"""Each rule for arrays of tensor maps and those in device memory, broken on its own."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Const, Var
from lowering.kernel.lexer import IRSyntaxError
from lowering.kernel.tensors import Ragged
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  param L: i64
  tensormap A: bf16[M, M] box 64x64 swizzle 128 early
  tensormap W[3]: bf16[select(entry < 1, M, 64), M] box 64x64 swizzle 128
  tensormap E[M] device: f32[M, M] box 64x32
  tensormap G ragged: bf16[M + 1, M, 64] box 1x64x64 swizzle 128
  tensormap H ragged begin: bf16[M + 1, M, 64] box 1x64x64 swizzle 128
  global x: f32[M, M]
  global y: bf16[M]
  global z[2]: bf16[M, select(entry < 1, M, 64)] align 4
  shared S: bf16[1][64x64] swizzle 128
  shared F: f32[1][64x32]
  elect {
    prefetch.tensormap W[2]
    tensormap.replace.global_address E[M - 1], x[M, 0]
    tensormap.replace.global_dim E[M - 1], 0, M
    fence.proxy.tensormap.release
    fence.proxy.tensormap.acquire E[M - 1]
    tma.load S[0, 0, 0], W[M % 3][0, 64]
    tma.load S[0, 0, 0], H[M, 0 - M, 0]
    tma.store E[M - 1][0, 0], F[0, 0, 0]
  }
  a: frag<bf16, 64x64> = frag.load_global z[M % 2][0, 0]
}
"""


def test_good() -> None:
    k = parse_kernel(KERNEL)
    assert verify(k) == []
    assert parse_kernel(print_kernel(k)) == k
    one, three, many, ragged, begun = k.tensor_maps
    assert (ragged.ragged, begun.ragged, one.ragged) == (Ragged.END, Ragged.BEGIN, Ragged.NONE)
    assert (one.early, three.early) == (True, False)
    assert (one.count, three.count, many.count) == (None, Const(3), Var("M"))
    assert (three.device, many.device) == (False, True)
    assert [(n, str(s[0])) for n, s in three.arguments(2)] == [("W[0]", "M"), ("W[1]", "64")]
    assert list(one.arguments(1)) == [("A", (Var("M"), Var("M")))]
    assert list(ragged.arguments(1)) == [("G", (Var("M"), Const(64)))]
    first, second = k.global_tensor("z").entries
    assert (first.name, first.sizes, first.align) == ("z[0]", (Var("M"), Var("M")), 4)
    assert (second.strides, second.cols) == (("z[1]_stride",), Const(64))


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("z[M % 2][0, 0]", "z[0, 0]", "z is 2 tensors, z[i] is one of them, "
         "in: a: frag<bf16, 64x64> = frag.load_global z[0, 0]"),
        ("z[2]: bf16[M, select(entry < 1, M, 64)]", "z: bf16[M, 64]", "z is no array of tensors, "
         "in: a: frag<bf16, 64x64> = frag.load_global z[M % 2][0, 0]"),
        ("z[2]:", "z[0]:", "0 tensors, in: global z"),
        ("G ragged: bf16[M + 1, M, 64] box 1x64x64", "G ragged: bf16[M, 64] box 64x64",
         "a ragged map is of one matrix, known at the launch, in three dimensions, "
         "in: tensormap G"),
        ("G ragged: bf16[M + 1,", "G ragged: bf16[M,",
         "ends of a ragged map are 0 to M, not below M, in: tensormap G"),
        ("H ragged begin: bf16[M + 1,", "H ragged begin: bf16[M,",
         "begins of a ragged map are 0 to M, not below M, in: tensormap H"),
        ("tma.load S[0, 0, 0], H[M, 0 - M, 0]", "tma.store H[M, 0, 0], S[0, 0, 0]",
         "H is ragged by begins, what lies behind its tensor is not stored to, "
         "in: tma.store H[M, 0, 0], S[0, 0, 0]"),
        ("M] box 64x32", "M] box 64x32 early",
         "a descriptor that a grid in front may write is read early, in: tensormap E"),
        ("tma.load S[0, 0, 0], H[M, 0 - M, 0]", "tma.store A[0, 0], S[0, 0, 0]",
         "A is read early, but an earlier grid may still read what is stored, "
         "in: tma.store A[0, 0], S[0, 0, 0]"),
        ("W[M % 3][0, 64]", "G[M, 0, 0]",
         "G is ragged, what begins in front of its tensor is not loaded through, "
         "in: tma.load S[0, 0, 0], G[M, 0, 0]"),
        ("W[3]:", "W[M]:",
         "M maps as a parameter, whose number is a constant from 1 on, in: tensormap W"),
        ("W[3]:", "W[0]:",
         "0 maps as a parameter, whose number is a constant from 1 on, in: tensormap W"),
        ("M] box 64x32", "M] box 64x32 clipped",
         "a clipped box is that of one tensor, known at the launch, in: tensormap E"),
        ("W[M % 3][0, 64]", "W[0, 64]",
         "W is 3 tensor maps, W[i] is one of them, in: tma.load S[0, 0, 0], W[0, 64]"),
        ("prefetch.tensormap W[2]", "prefetch.tensormap A[2]",
         "A is no array of tensor maps, in: prefetch.tensormap A[2]"),
        ("prefetch.tensormap W[2]", "prefetch.tensormap W",
         "W is 3 tensor maps, W[i] is one of them, in: prefetch.tensormap W"),
        ("acquire E[M - 1]", "acquire E[L]",
         "entry L is i64, not i32, in: fence.proxy.tensormap.acquire E[L]"),
        ("acquire E[M - 1]", "acquire A",
         "A is a parameter, which nobody changes, in: fence.proxy.tensormap.acquire A"),
        ("acquire E[M - 1]", "acquire V",
         "no storage named V, in: fence.proxy.tensormap.acquire V"),
        ("E[M - 1], 0, M", "E[M - 1], 2, M",
         "E has dimensions 0 to 1, not 2, in: tensormap.replace.global_dim E[M - 1], 2, M"),
        ("E[M - 1], 0, M", "E[M - 1], 0, L",
         "size L is i64, not i32, in: tensormap.replace.global_dim E[M - 1], 0, L"),
        ("x[M, 0]", "y[M]",
         "y is 1-D of bf16, E is 2-D of f32, "
         "in: tensormap.replace.global_address E[M - 1], y[M]"),
        ("x[M, 0]", "A[M, 0]",
         "A is a tensor map, tensormap.replace.global_address takes a global, "
         "in: tensormap.replace.global_address E[M - 1], A[M, 0]"),
    ],
)  # fmt: skip
def test_broken(before: str, after: str, problem: str) -> None:
    assert KERNEL.count(before) == 1
    assert verify(parse_kernel(KERNEL.replace(before, after))) == [problem]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("bf16[M, M]", "bf16[entry, M]", "line 4: found 'entry', expected a defined scalar"),
        ("W[M % 3][0, 64]", "W[0, 0][0, 64]",
         "line 20: found '[', expected one entry of an array of tensor maps in front of it"),
    ],
)  # fmt: skip
def test_no_text(before: str, after: str, message: str) -> None:
    with pytest.raises(IRSyntaxError) as e:
        parse_kernel(KERNEL.replace(before, after, 1))
    assert str(e.value) == message
