"""The kernel that copies rows of any alignment into rows that TMA reads.

Threads load one element at a time, which any address allows; what a warp asks for at once lies in
the same lines, so that memory is read once. ``stmatrix`` and TMA write whole lines. A CTA copies a
tile of two boxes; many CTAs to an SM hide the latency, so there is no pipeline.
"""

from __future__ import annotations

from functools import cache
from string import Template

from lowering.ground.dtypes import DType
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel

__all__ = ["TYPES", "copied_columns", "row_kernel"]

TYPES = (DType.BF16, DType.F16, DType.F32)
"""What it copies."""

_LINE, _BOXES = 128, 2

_STORES = {2: "stmatrix", 4: "st.shared"}
"""Into shared memory, by the bytes of an element."""

_TEXT = Template("""\
kernel copy_rows_$name threads 128 cluster 1 dependent grid B * ceildiv(R, 64) * ceildiv(C, $cols) {
  param B: i32
  param R: i32
  param C: i32
  tensormap target: $dtype[B, R, C] box 1x64x$box swizzle 128
  global source: $dtype[B, R, C]
  shared tile: $dtype[2][64x$box] swizzle 128 at 0
  let right: i32 = ceildiv(C, $cols)
  let down: i32 = ceildiv(R, 64)
  let b: i32 = %ctaid.x // (down * right)
  let row: i32 = %ctaid.x // right % down * 64
  let col: i32 = %ctaid.x % right * $cols
  griddepcontrol.wait
  griddepcontrol.launch_dependents
  left: frag<$dtype, 64x$box> = frag.load_global source[b, row, col]
  more: frag<$dtype, 64x$box> = frag.load_global source[b, row, col + $box]
  $store tile[0, 0, 0], left
  $store tile[1, 0, 0], more
  fence.proxy.async
  cta.sync
  on %warp 0 {
    elect {
      tma.store target[b, row, col], tile[0, 0, 0]
      tma.store target[b, row, col + $box], tile[1, 0, 0]
      bulk.commit
      bulk.wait 0, read=true
    }
  }
}
""")


def copied_columns(dtype: DType) -> int:
    """Columns of a CTA's tile."""
    return _BOXES * _LINE // dtype.bytes


@cache
def row_kernel(dtype: DType) -> Kernel:
    """The kernel for elements of one of :data:`TYPES`.

    Its tensors are ``source`` and ``target``, both of B matrices of R rows and C columns, which are
    contiguous; rows and matrices of the target begin at multiples of 16 bytes, those of the source
    anywhere, also where others do. It is launched dependently, on as many CTAs as its grid says.
    """
    words = {
        "name": dtype.value, "dtype": dtype.value, "box": _LINE // dtype.bytes,
        "cols": copied_columns(dtype), "store": _STORES[dtype.bytes],
    }  # fmt: skip
    return parse_kernel(_TEXT.substitute(words))
