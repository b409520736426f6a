"""Words in shared memory and loops that end early, as CUDA C++."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.ground.errors import InternalError
from lowering.kernel.text import parse_kernel

KERNEL = """
kernel words threads 128 cluster 2 grid 2 {
  param n: i32
  shared tile: s32[2][1] at 0
  elect {
    for rank in 0 .. 2 unroll {
      st.word tile[rank, 0], n
      st.word tile[1, 0], n + rank, cta=rank
    }
  }
  cluster.sync
  for t in 0 .. n carry (x: i32 = 0 -> last) {
    found: i32 = ld.word tile[t % 2, 0]
    break n <= found
    yield x + found
  }
  elect {
    st.word tile[0, 0], last
  }
  cluster.sync
}
"""


def test_text(golden: object) -> None:
    assert emit_kernel(parse_kernel(KERNEL)) == golden


def test_it_compiles() -> None:
    assert compile_cubin(emit_cuda(parse_kernel(KERNEL))).cubin


def test_words_without_a_place() -> None:
    with pytest.raises(InternalError) as error:
        emit_kernel(parse_kernel(KERNEL.replace(" at 0", "")))
    assert error.value.why == "shared buffer tile has no offset"
