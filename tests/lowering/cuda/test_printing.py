"""What kernels print as CUDA C++: the text, and what ptxas says of it."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify

KERNEL = """
kernel prints threads 128 cluster 1 grid 1 {
  param n: i32
  roles {
    role compute warps 0 .. 4 as group {
      value: frag<f32, 128x16> = frag.fill 2.5
      half: frag<bf16, 128x16> = frag.cast value
      on %warpgroup.warp 2 { elect { print compute, T3, n, n * 2, when=1 <= n } }
      on %warpgroup.warp 0 { elect { print compute, T3, m, n } }
      on %warpgroup.warp 1 { frag.print compute, T4, e, value, 81, 9, when=%ctaid.x == 1 }
      on %warpgroup.warp 0 { frag.print compute, T5, f, half, 8, 3 }
    }
  }
}
"""


def test_text(golden: object) -> None:
    assert emit_kernel(parse_kernel(KERNEL)) == golden


def test_it_compiles() -> None:
    assert "vprintf" in compile_cubin(emit_cuda(parse_kernel(KERNEL))).cubin.decode("latin-1")


def test_text_form() -> None:
    kernel = parse_kernel(KERNEL)
    assert parse_kernel(print_kernel(kernel)) == kernel
    assert "print compute, T3, n, n * 2, when=1 <= n" in print_kernel(kernel)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("value, 81, 9", "value, 128, 9", "frag.print of element 128, 9 of frag<f32, 128x16>"),
        ("value, 81, 9", "value, 81, 16", "frag.print of element 81, 16 of frag<f32, 128x16>"),
        ("elect { print compute, T3, m, n }", "print compute, T3, m, n", "print outside elect"),
    ],
)
def test_refused(old: str, new: str, why: str) -> None:
    found = verify(parse_kernel(KERNEL.replace(old, new)))
    assert any(why in problem for problem in found), found
