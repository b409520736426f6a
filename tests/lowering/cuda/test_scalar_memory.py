"""Scalars from memory, limits of rows and rows by index as CUDA C++: the text and machine code."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.cuda.scalar_memory import load_function
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.scalar_memory import LOAD_ORDERS
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """
kernel rows threads 128 cluster 1 grid 1 {
  param M: i32
  global sizes: s32[M]
  global met: s32[2]
  global starts: s64[M, 2]
  global flags: bool[M]
  global order: s32[M, 1]
  global x: f32[M, M]
  global d: f32[M, 64]
  on %warp 0 {
    elect {
      first: i32 = ld.global.scalar sizes[0], order=volatile
      st.global.scalar met[1], first + 1
    }
  }
  n: i32 = ld.global.scalar sizes[%ctaid.x + 1], order=acquire.gpu
  start: i64 = ld.global.scalar starts[n, 1]
  on: pred = ld.global.scalar flags[n], uniform=cta
  if on {
    for row in 0 .. n step 64 {
      near: frag<s32, 64x1> = frag.load_global order[row, 0], limit=n - row
      t: frag<f32, 64x8> = frag.load_global x[0, start], limit=n - row, index=near
      frag.store_global d[row, 0], t, limit=n - row
      frag.store_global d[0, 8], t, limit=n - row, index=near
    }
  }
}
"""


def test_text(golden: object) -> None:
    assert verify(parse_kernel(KERNEL)) == []
    assert emit_kernel(parse_kernel(KERNEL)) == golden


@pytest.mark.slow
def test_machine_code() -> None:
    compiled = compile_cubin(emit_cuda(parse_kernel(KERNEL)))
    assert read_resources(compiled, "rows").clean
    sass = disassemble(compiled.cubin)
    assert sass.count("LDG.E.STRONG.GPU") == 1, "the acquire"


def test_every_form_compiles() -> None:
    """Each order of each type is a function of its own."""
    kinds = {"i32": "a: s32", "i64": "b: s64", "pred": "c: bool"}
    loads = "\n".join(
        f"x{i}: {kind} = ld.global.scalar {g[0]}[0], order={order} "
        f"if {'x' + str(i) if kind == 'pred' else f'0 < x{i}'} {{ cta.sync }}"
        for i, (kind, g, order) in enumerate(
            (kind, g, order) for kind, g in kinds.items() for order in LOAD_ORDERS
        )
    )
    globals_ = " ".join(f"global {g}[4]" for g in kinds.values())
    k = parse_kernel(f"kernel forms threads 32 cluster 1 grid 1 {{ {globals_} {loads} }}")
    assert verify(k) == []
    source = emit_cuda(k)
    types = (DType.S32, DType.S64, DType.BOOL)
    assert all(load_function(t, order) in source for t in types for order in LOAD_ORDERS)
    assert compile_cubin(source).cubin


@pytest.mark.parametrize("load", ["f[0]", "i[0], order=weak.gpu"])
def test_a_form_that_is_none(load: str) -> None:
    text = f"kernel k threads 32 cluster 1 grid 1 {{ global f: f32[1] global i: s32[1] \
             x: i32 = ld.global.scalar {load} }}"
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(text))
    kind, order = ("f32", "weak") if load[0] == "f" else ("s32", "weak.gpu")
    assert e.value.why == f"no ld.global.scalar of {kind} with order {order}"
