"""Rules for scalars in global memory, and the functions that load and store them."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.expressions import C_TYPES
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import ScalarType
from lowering.kernel.nodes import LdGlobalScalar, StGlobalScalar, Stmt
from lowering.kernel.scalar_memory import LOAD_ORDERS

__all__ = ["RULES", "load_function"]

_FORMS = {DType.S32: ("int", "s32", "r"), DType.S64: ("long long", "s64", "l"),
          DType.BOOL: ("int", "u8", "r")}  # fmt: skip
"""C++ type of the result, PTX type and constraint."""


def load_function(dtype: DType, order: str) -> str:
    """The device function that wraps one form of ``ld.global``."""
    result, kind, letter = _FORMS[dtype]
    prefix = "ld.global" if order == "weak" else f"ld.{order}.global"
    # What is not weak may have been written in front of a release: nothing is read ahead of it.
    clobbers = "" if order == "weak" else ' : "memory"'
    return "\n".join([
        f"__device__ __forceinline__ {result} {_name(dtype, order)}(const {dtype.cuda}* at) {{",
        f"  {result} value;",
        f'  asm volatile("{prefix}.{kind} %0, [%1];" : "={letter}"(value) : "l"(at){clobbers});',
        "  return value;",
        "}",
    ])  # fmt: skip


def _name(dtype: DType, order: str) -> str:
    return f"ld_global_{order.replace('.', '_')}_{_FORMS[dtype][1]}"


def _ld_global_scalar(e: Emitter, s: LdGlobalScalar) -> None:
    g = e.global_tensor(s.src.map)
    if g.dtype not in _FORMS or s.order not in LOAD_ORDERS:
        raise InternalError("emit_cuda", f"no {s.OP} of {g.dtype.value} with order {s.order}")
    name = _name(g.dtype, s.order)
    e.functions[name] = load_function(g.dtype, s.order)
    value = f"{name}({e.address(s.src)})"
    if not e.elected:
        # As with the warp's index: tells the compiler that all lanes have the same value.
        value = f"__shfl_sync(0xffffffffu, {value}, 0)"
    if s.out.type is ScalarType.PRED:
        value += " != 0"
    result = f"const {C_TYPES[s.out.type]} {e.names.define('scalar', s.out.name)} = "
    e.out.line(f"{result if s.out.name in e.read else ''}{value};")


_STORE = """\
__device__ __forceinline__ void st_global_scalar_s32(int* at, int value) {
  asm volatile("st.global.s32 [%0], %1;" :: "l"(at), "r"(value) : "memory");
}"""


def _st_global_scalar(e: Emitter, s: StGlobalScalar) -> None:
    e.functions["st_global_scalar_s32"] = _STORE
    e.out.call("st_global_scalar_s32", e.address(s.dst), e.arg(s.value))


RULES: Mapping[type[Stmt], Rule] = {
    LdGlobalScalar: _ld_global_scalar, StGlobalScalar: _st_global_scalar,
}  # fmt: skip
