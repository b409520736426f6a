"""Each rule for scalars from memory, limits of rows and rows by index, broken on its own."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """\
kernel good threads 128 cluster 1 grid 1 {
  param M: i32
  param W: i64
  tensormap T: bf16[M, M]
  global sizes: s32[M]
  global starts: s64[M, 2]
  global flags: bool[M]
  global order: s32[M, 1]
  global x: f32[M, M]
  global y: f32[M, M] align 8
  n: i32 = ld.global.scalar sizes[0], order=acquire.gpu
  start: i64 = ld.global.scalar starts[n, 1]
  on: pred = ld.global.scalar flags[n], uniform=cta
  elect { st.global.scalar sizes[n], n + 1 }
  near: frag<s32, 64x1> = frag.load_global order[n, 0], limit=n
  t: frag<f32, 64x64> = frag.load_global x[0, 0], limit=n, index=near
  frag.store_global x[0, 0], t, limit=n - 1, index=near
}
"""


def problems(before: str, after: str) -> list[str]:
    assert KERNEL.count(before) == 1
    return verify(parse_kernel(KERNEL.replace(before, after)))


def test_good() -> None:
    assert verify(parse_kernel(KERNEL)) == []


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("sizes[0], order=acquire.gpu", "sizes[0], order=acquire.sys",
         "no order of ld.global.scalar named acquire.sys, but weak, volatile, relaxed.gpu, "
         "acquire.gpu, in: n: i32 = ld.global.scalar sizes[0], order=acquire.sys"),
        ("flags[n], uniform=cta", "flags[n], uniform=grid",
         "no uniformity of ld.global.scalar named grid, but warp, cta, "
         "in: on: pred = ld.global.scalar flags[n], uniform=grid"),
        ("flags[n], uniform=cta", "flags[n], order=volatile, uniform=cta",
         "volatile reads what others write, so not all warps of a CTA get the same, "
         "in: on: pred = ld.global.scalar flags[n], order=volatile, uniform=cta"),
        ("start: i64", "start: i32",
         "start is i32, of starts it is i64, in: start: i32 = ld.global.scalar starts[n, 1]"),
        ("ld.global.scalar flags[n], uniform=cta", "ld.global.scalar x[n, n]",
         "x holds f32, scalars are loaded of s32, s64, bool, "
         "in: on: pred = ld.global.scalar x[n, n]"),
        ("ld.global.scalar flags[n], uniform=cta", "ld.global.scalar T[n, n]",
         "T is a tensor map, ld.global.scalar takes a global, "
         "in: on: pred = ld.global.scalar T[n, n]"),
        ("starts[n, 1]", "starts[n]",
         "starts has 2 dimensions, not 1, in: start: i64 = ld.global.scalar starts[n]"),
        ("st.global.scalar sizes[n], n", "st.global.scalar starts[n, 0], n",
         "starts holds s64, scalars are stored of s32, "
         "in: st.global.scalar starts[n, 0], n + 1"),
        ("sizes[n], n + 1", "sizes[n], W", "W is i64, s32 is stored from i32, "
         "in: st.global.scalar sizes[n], W"),
        ("limit=n - 1, index", "limit=W, index",
         "limit W is i64, rows are counted in i32, "
         "in: frag.store_global x[0, 0], t, limit=W, index=near"),
        ("frag.store_global x[0, 0], t, limit=n - 1, index=near",
         "frag.store_global x[0, 0], t, index=near, trans=true",
         "frag.store_global, transposed, of rows by index, "
         "in: frag.store_global x[0, 0], t, index=near, trans=true"),
        ("t: frag<f32, 64x64> = frag.load_global x[0, 0], limit=n, index=near",
         "t: frag<f32, 64x64> = frag.load_global x[0, 0], limit=n, trans=true",
         "frag.load_global, transposed, of rows up to a limit or by index, "
         "in: t: frag<f32, 64x64> = frag.load_global x[0, 0], limit=n, trans=true"),
        ("frag.store_global x[0, 0], t, limit=n - 1, index=near",
         "frag.store_global x[0, 0], t, limit_cols=W",
         "limit W is i64, columns are counted in i32, "
         "in: frag.store_global x[0, 0], t, limit_cols=W"),
        ("frag.store_global x[0, 0], t, limit=n - 1, index=near",
         "frag.store_global y[0, 0], t, limit_cols=n",
         "columns up to a limit of y, which is stored by pairs of them, "
         "in: frag.store_global y[0, 0], t, limit_cols=n"),
        ("near: frag<s32, 64x1>", "near: frag<s32, 128x1>",
         "near is frag<s32, 128x1>, an index of 64 rows is frag<s32, 64x1>"),
    ],
)  # fmt: skip
def test_broken(before: str, after: str, problem: str) -> None:
    found = problems(before, after)
    if "128x1" in problem:
        assert [p.partition(", in: ")[0] for p in found] == [problem] * 2  # loaded by, stored by
    else:
        assert found == [problem]
