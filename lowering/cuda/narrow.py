"""Elements of 8 bits in registers: how they get there, what they become, and what becomes them.

Of 4 bits a thread's two neighbours of a row are a byte, one of the four in a word, which are a
thread's each. So all four load all words, four at once, and each takes its byte as it widens it.

Of 8 bits a register has four of them: two neighbours of a row, and those of the row 8 below. They
are loaded apart and never packed: ``ushort2`` leaves each half where its load has put it. Two
neighbours become two elements of 16 bits at once. Each type has one that is had in few
instructions; all others are made from that by way of fp32. Both ways are exact.

What is rounded to 8 bits is packed: two conversions fill the halves of a register, and each half is
stored by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.dtypes import FLOATS_OF_8_BITS, DType

__all__ = [
    "APART", "HALVES_OF", "LOAD_PAIRS", "LOAD_WORDS", "PAIRS", "SMALLER_PAIRS", "STORE_BYTE",
    "STORE_PAIR", "STORE_PAIRS", "Pairs", "rounded",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pairs:
    """How two neighbours are widened.

    Args:
        dtype: the type of 16 bits that they become.
        source: C++ of ``template <int half> unsigned NAME(ushort2 four)``, without its head; of
            ``uint2`` where they are halves of a byte.
    """

    dtype: DType
    source: str

    def function(self, narrow: DType, exponent: int = 0) -> tuple[str, str]:
        """Name and text of the device function; what it gives is times a power of two."""
        name = f"cvt_{self.dtype.ptx}x2_{narrow.ptx}x2" + f"_{-exponent}" * (exponent < 0)
        head = "template <int half>\n__device__ __forceinline__ unsigned "
        head += f"{name}({APART[narrow.bits]} four) {{"
        return name, f"{head}\n{self.source}}}"


_HELD = """\
  // tid.y is 0, which the compiler does not know: it keeps the sum in a register. Of two constants
  // of an instruction it would move one there each time, or make two instructions of it.
  unsigned exponents;
  asm("{ .reg .u32 zero; mov.u32 zero, %%tid.y; add.u32 %0, zero, NUMBER; }" : "=r"(exponents));
"""

_OF_INTEGERS = (
    _HELD.replace("NUMBER", "0x43434343")
    + """\
  // 0x43 in front of a byte: 128 + its lower 7 bits, and 128 or 256 for its highest one.
  const unsigned w = __byte_perm(half ? four.y : four.x, exponents, 0x4140);
  const unsigned low = w & 0xff7fff7fu;
  unsigned high = w & 0xff80ff80u, pair;
"""
)

_OF_FLOATS = """\
  unsigned pair;
  asm("cvt.rn.f16x2.KINDx2 %0, %1;" : "=r"(pair) : "h"(half ? four.y : four.x));
  return pair;
"""

_OF_HALVES = (
    _HELD.replace("NUMBER", "0x43004300")
    + """\
  // A thread's byte of the word, and what the word moved by half a byte has in its place.
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  const unsigned word = half ? four.y : four.x;
  const unsigned both = __byte_perm(word, word >> 4, (lane & 3) * 0x1111 + 0x4400);
  unsigned pair;
  asm("lop3.b32 %0, %1, 0x000f000f, %2, 0xea;" : "=r"(pair) : "r"(both), "r"(exponents));
  asm("sub.rn.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(exponents));
  return pair;
"""
)

_OF_SMALL_HALVES = (
    _HELD.replace("NUMBER", "0x7d007f00")
    + """\
  // A thread's byte of the word in both halves. As the lowest bits of bf16, below and above, its
  // halves are 2^-133 and 2^-129 of what they are, the largest ones normal numbers: the bits of
  // what is just below the smallest exponent go on there. Times 2^127 and 2^123 both are 2^-6.
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  const unsigned both = __byte_perm(half ? four.y : four.x, 0, (lane & 3) * 0x0101 + 0x4040);
  unsigned pair = both & 0x00f0000fu;
  asm("mul.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(exponents));
  return pair;
"""
)

_OF_SMALL_BYTES = (
    _HELD.replace("NUMBER", "0x7f007f00")
    + """\
  // Bytes as the lowest bits of bf16 are 2^-133 of what they are without a sign: from 128 on normal
  // numbers, whose exponent goes on where the bits of smaller ones end. Times 2^127 that is 2^-6.
  const unsigned both = __byte_perm(half ? four.y : four.x, 0, 0x4140);
  unsigned pair;
"""
)

PAIRS = {
    DType.U4: Pairs(DType.BF16, _OF_HALVES),
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

SMALLER_PAIRS = {
    (DType.U4, -6): Pairs(DType.BF16, _OF_SMALL_HALVES),
    (DType.U8, -6): Pairs(DType.BF16, _OF_SMALL_BYTES + """\
  asm("mul.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(both), "r"(exponents));
  return pair;
"""),
    (DType.S8, -6): Pairs(DType.BF16, _OF_SMALL_BYTES + """\
  // With its highest bit the other way round a byte is 128 more than with a sign: 2 of 2^-6.
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(pair)
      : "r"(both ^ 0x00800080u), "r"(exponents), "r"(0xc000c000u));
  return pair;
"""),
}  # fmt: skip
"""Types that are widened to a part of them, a power of two, in fewer instructions."""

APART = {8: "ushort2", 4: "uint2"}
"""C++ type of a register that is kept as it was loaded, by the bits of an element: of 8 bits two
neighbours of either row, of 4 bits eight, of which a thread takes its two."""

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

LOAD_WORDS = """\
__device__ __forceinline__ void ld_shared_v4_x2(uint2* words, unsigned upper, unsigned lower) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0].x), "=r"(words[1].x), "=r"(words[2].x), "=r"(words[3].x)
               : "r"(upper) : "memory");
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0].y), "=r"(words[1].y), "=r"(words[2].y), "=r"(words[3].y)
               : "r"(lower) : "memory");
}"""
"""Four words of a row, and those of the row 8 below."""

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
