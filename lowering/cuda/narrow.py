"""Elements of 8 bits in registers: how they get there, what they become, and what becomes them.

A register has four of them: two neighbours of a row, and those of the row 8 below. They are loaded
apart and never packed: ``ushort2`` leaves each half where its load has put it. Two neighbours
become two elements of 16 bits at once. Each type has one that is had in few instructions; all
others are made from that by way of fp32. Both ways are exact.

What is rounded to 8 bits is packed: two conversions fill the halves of a register, and each half is
stored by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.dtypes import FLOATS_OF_8_BITS, DType

__all__ = [
    "HALVES_OF", "LOAD_PAIRS", "PAIRS", "STORE_BYTE", "STORE_PAIR", "STORE_PAIRS", "Pairs",
    "rounded",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pairs:
    """How two neighbours are widened.

    Args:
        dtype: the type of 16 bits that they become.
        source: C++ of ``template <int half> unsigned NAME(ushort2 four)``, without its head.
    """

    dtype: DType
    source: str

    def function(self, narrow: DType) -> tuple[str, str]:
        """Name and text of the device function."""
        name = f"cvt_{self.dtype.ptx}x2_{narrow.ptx}x2"
        head = f"template <int half>\n__device__ __forceinline__ unsigned {name}(ushort2 four) {{"
        return name, f"{head}\n{self.source}}}"


_OF_INTEGERS = """\
  // tid.y is 0, which the compiler does not know: it keeps the sum in a register. Of two constants
  // of a prmt it would move one there each time.
  unsigned exponents;
  asm("{ .reg .u32 zero; mov.u32 zero, %%tid.y; add.u32 %0, zero, 0x43434343; }" : "=r"(exponents));
  // 0x43 in front of a byte: 128 + its lower 7 bits, and 128 or 256 for its highest one.
  const unsigned w = __byte_perm(half ? four.y : four.x, exponents, 0x4140);
  const unsigned low = w & 0xff7fff7fu;
  unsigned high = w & 0xff80ff80u, pair;
"""

_OF_FLOATS = """\
  unsigned pair;
  asm("cvt.rn.f16x2.KINDx2 %0, %1;" : "=r"(pair) : "h"(half ? four.y : four.x));
  return pair;
"""

PAIRS = {
    DType.S8: Pairs(DType.BF16, _OF_INTEGERS + """\
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(low), "r"(high));
  return pair;
"""),
    DType.U8: Pairs(DType.BF16, _OF_INTEGERS + """\
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(high) : "r"(high), "r"(0x43804380u));
  asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(low), "r"(high));
  return pair;
"""),
    DType.E4M3: Pairs(DType.F16, _OF_FLOATS.replace("KIND", DType.E4M3.ptx)),
    DType.E5M2: Pairs(DType.F16, _OF_FLOATS.replace("KIND", DType.E5M2.ptx)),
}  # fmt: skip
"""The types that are widened. Integers are at most 256 away from a power of two whose neighbours in
bf16 are 1 apart; ``cvt`` makes fp16 alone of floats (PTX ISA, ``cvt``)."""

HALVES_OF = """\
__device__ __forceinline__ ushort2 halves_of(unsigned word) {
  return make_ushort2(word & 0xffffu, word >> 16);
}"""
"""A register of four elements as its halves."""

LOAD_PAIRS = """\
__device__ __forceinline__ ushort2 ld_shared_u16x2(unsigned upper, unsigned lower) {
  ushort2 four;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(four.x) : "r"(upper) : "memory");
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(four.y) : "r"(lower) : "memory");
  return four;
}"""
"""Two neighbours of a row, and those of the row 8 below."""

_ROUNDED = """\
// Two neighbours of a row in the lower half, those of the row 8 below in the upper one.
__device__ __forceinline__ unsigned NAME(float a, float b, float c, float d) {
  unsigned packed;
  asm("{\\n .reg .b16 upper, lower;\\n cvt.rn.satfinite.KINDx2.f32 upper, %2, %1;\\n"
      " cvt.rn.satfinite.KINDx2.f32 lower, %4, %3;\\n mov.b32 %0, {upper, lower};\\n}"
      : "=r"(packed)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return packed;
}"""


def rounded(dtype: DType) -> tuple[str, str] | None:
    """Name and text of the function that rounds four elements of fp32 to a register; None for a
    type that nothing is rounded to.
    """
    if dtype not in FLOATS_OF_8_BITS:
        return None
    name = f"cvt_{dtype.ptx}x4"
    return name, _ROUNDED.replace("NAME", name).replace("KIND", dtype.ptx)


STORE_PAIRS = """\
__device__ __forceinline__ void st_shared_u16x2(unsigned upper, unsigned lower, unsigned four) {
  asm volatile(
      "{\\n .reg .b16 a, b;\\n mov.b32 {a, b}, %2;\\n"
      " st.shared.b16 [%0], a;\\n st.shared.b16 [%1], b;\\n}" ::"r"(upper),
      "r"(lower), "r"(four)
      : "memory");
}"""
"""What :data:`LOAD_PAIRS` loads, of packed elements."""

STORE_PAIR = """\
__device__ __forceinline__ void st_global_pair(unsigned char* at, unsigned two, bool inside) {
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n"
      " @p st.global.b16 [%0], %1;\\n}" ::"l"(at),
      "h"((unsigned short)two), "r"(int(inside))
      : "memory");
}"""
"""Two neighbours of a row; the lower half of a register."""

STORE_BYTE = """\
__device__ __forceinline__ void st_global_b8(unsigned char* at, unsigned value, bool inside) {
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n"
      " @p st.global.u8 [%0], %1;\\n}" ::"l"(at),
      "r"(value), "r"(int(inside))
      : "memory");
}"""
"""One element; the lowest byte of a register."""
