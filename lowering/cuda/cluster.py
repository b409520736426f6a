"""Access to the shared memory of another CTA of the cluster.

Its address is what ``mapa`` makes of our own address of the same place. The swizzle permutes bits
of the offset only, so a thread computes its offsets as in its own memory and adds them to a mapped
line.
"""

from __future__ import annotations

from lowering.cuda.emitter import Emitter
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import Expr
from lowering.kernel.nodes import BulkCopy

__all__ = ["bulk_copy", "map_line", "mapped", "pair_function"]

_MAPA = """\
__device__ __forceinline__ unsigned map_shared(unsigned address, int cta) {
  unsigned mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(cta));
  return mapped;
}"""

_BULK_COPY = """\
__device__ __forceinline__ void copy_to_cta(unsigned dst, unsigned src, int bytes, unsigned bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(dst), "r"(src), "r"(bytes), "r"(bar)
      : "memory");
}"""

_PAIRS = {
    "st_shared": """\
__device__ __forceinline__ void NAME(unsigned dst, TYPE a, TYPE b) {
  asm volatile("st.shared::cluster.v2.KIND [%0], {%1, %2};"
               :: "r"(dst), "LETTER"(a), "LETTER"(b) : "memory");
}""",
    "ld_shared": """\
__device__ __forceinline__ void NAME(unsigned src, TYPE& a, TYPE& b) {
  asm volatile("ld.shared::cluster.v2.KIND {%0, %1}, [%2];"
               : "=LETTER"(a), "=LETTER"(b) : "r"(src) : "memory");
}""",
    "st_async": """\
__device__ __forceinline__ void NAME(unsigned dst, TYPE a, TYPE b, unsigned bar) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.KIND"
               " [%0], {%1, %2}, [%3];"
               :: "r"(dst), "LETTER"(a), "LETTER"(b), "r"(bar) : "memory");
}""",
}

_KINDS = {DType.F32: ("float", "f"), DType.S32: ("int", "r")}


def mapped(e: Emitter, address: str, cta: Expr) -> str:
    """The address of the same place in CTA ``cta``."""
    e.functions["map_shared"] = _MAPA
    return f"map_shared({address}, {e.arg(cta)})"


def map_line(e: Emitter, address: str, cta: Expr) -> str:
    """Define the address of the same place in CTA ``cta``; its identifier."""
    name = e.names.fresh("remote")
    e.out.line(f"const unsigned {name} = {mapped(e, address, cta)};")
    return name


def pair_function(e: Emitter, name: str, dtype: DType) -> str:
    """The device function for two neighbours of one type in another CTA.

    Raises:
        InternalError: the type is not one of 32 bits.
    """
    if dtype not in _KINDS:
        raise InternalError("emit_cuda", f"{name} of {dtype.value} in another CTA")
    kind, letter = _KINDS[dtype]
    function = f"{name}_cluster_v2_{dtype.value}"
    text = _PAIRS[name].replace("NAME", function).replace("TYPE", kind)
    e.functions[function] = text.replace("KIND", dtype.value).replace("LETTER", letter)
    return function


def bulk_copy(e: Emitter, s: BulkCopy) -> None:
    """Rule of ``bulk.copy``."""
    e.functions["copy_to_cta"] = _BULK_COPY
    with e.out.block(""):
        dst = map_line(e, e.box_address(s.dst), s.cta)
        bar = map_line(e, e.mbarrier(s.bar), s.cta)
        size = str(e.buffer(s.src.buffer).stage_bytes)
        e.out.call("copy_to_cta", dst, e.box_address(s.src), size, bar)
