"""Rules for ``cp.async``.

A thread's rows are those that it has of a fragment; the four threads of a row copy 16 bytes each
side by side, 64 bytes a step. Rows are multiples of 8 apart, so one mask swizzles them all.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.global_elements import Elements, Rows
from lowering.cuda.movement import frame
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO
from lowering.ground.layouts import RegisterLayout
from lowering.ground.types import FragmentType
from lowering.kernel.cp_async import CP_ASYNC_BYTES, CP_ASYNC_LINE
from lowering.kernel.nodes import CpAsync, CpAsyncArrive, Stmt

__all__ = ["RULES"]

_COPY = """\
__device__ __forceinline__ void cp_async_16(unsigned dst, const void* at, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(dst), "l"(at), "r"(max(0, min(16, bytes)))
               : "memory");
}"""
"""What is not read of the 16 bytes becomes zero."""

_ARRIVE = """\
__device__ __forceinline__ void cp_async_mbarrier_arrive_noinc(unsigned bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(bar) : "memory");
}"""


def _cp_async(e: Emitter, s: CpAsync) -> None:
    tensor, buffer = e.global_tensor(s.src.map), e.buffer(s.dst.buffer)
    size = buffer.dtype.bytes
    if e.box_column(s.dst)[1] != ZERO or buffer.box_cols * size % CP_ASYNC_LINE:
        raise InternalError("emit_cuda", f"{s.OP} to {s.dst.buffer} starts within a box")
    e.functions["cp_async_16"] = _COPY
    steps = s.cols * size // CP_ASYNC_LINE
    span = buffer.box_cols * size
    per_box = span // CP_ASYNC_LINE
    with e.out.block(""):
        layout = RegisterLayout(CP_ASYNC_BYTES // size)
        kind = FragmentType(buffer.dtype, s.rows, s.cols, layout=layout)
        elements = Elements(e, kind, s.src, tensor, Rows(s.limit, s.index))
        lane = e.special("lane")
        line, byte = frame(e, s.dst, f"({lane} >> 2)", f"({lane} & 3) * {CP_ASYNC_BYTES}")
        box = f" + r / {per_box} * {buffer.lines * span}" if steps > per_box else ""
        inner = f"r % {per_box}" if steps > per_box else "r"
        right = elements.right(0)
        for block in range(s.rows // 64):
            for row in (0, 1):
                below = f" + {(64 * block + 8 * row) * span}" if block or row else ""
                at, tests = elements.in_row(block, row)
                bytes_ = f"({e.expr(tensor.cols)} - ({elements.col}{right})) * {size}"
                inside = " && ".join(tests)
                with e.groups(steps):
                    e.out.call(
                        "cp_async_16",
                        f"{line}{below}{box} + ({byte} ^ ({inner} * {CP_ASYNC_LINE}))",
                        at + right,
                        f"{inside} ? {bytes_} : 0" if inside else bytes_,
                    )


def _arrive(e: Emitter, s: CpAsyncArrive) -> None:
    e.functions["cp_async_mbarrier_arrive_noinc"] = _ARRIVE
    e.out.line(f"cp_async_mbarrier_arrive_noinc({e.mbarrier(s.bar)});")


RULES: Mapping[type[Stmt], Rule] = {CpAsync: _cp_async, CpAsyncArrive: _arrive}
