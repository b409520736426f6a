"""Sine and cosine of any fp32 number without local memory, which CUDA's own need for large ones.

The number is reduced to ``q * pi / 2 + r`` with ``|r| <= pi / 4``. Below 2**16 that is three fused
operations with ``pi / 2`` in three pieces of fp32: the first is exact, because the number and the
piece times ``q`` are multiples of 2**-24 and what is left is below 1, and the others round twice.
(In fp64 the conversions there and back were half of the time of a kernel that memory should
limit.) Above, the number is ``m * 2**e`` with an integer ``m`` of 24 bits, and what of
``m * 2**e * 2 / pi`` counts modulo 4 depends on 96 bits of ``2 / pi`` from bit ``e - 1`` on (Payne
and Hanek, 1983): 70 of them are right behind the point, and no fp32 number is closer than 2**-30 or
so to a multiple of ``pi / 2``. Then Taylor's series, which at ``pi / 4`` are right to 2**-28. In
all an error of at most 1.5 ulp below 2**16 (all numbers from 2**-10 on were tried), and 2 above.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.kernel.turns import two_over_pi

__all__ = ["FEW_TURNS", "FUNCTIONS"]


def _word(at: int) -> str:
    """C++ of word ``w + at`` of 2 / pi, behind one of zeros, for ``w`` from 0 to 4."""
    words = (0, *two_over_pi(7))[at : at + 5]
    text = f"{words[4]:#x}u"
    for w in reversed(range(4)):
        text = f"w == {w} ? {words[w]:#x}u : {text}"
    return text


_REDUCE = f"""\
// x as q quarter turns and what is left, in radians; for numbers from 2^16 on.
__device__ __forceinline__ float turns_of_large(float x, int& q) {{
  const unsigned bits = __float_as_uint(x), m = (bits & 0x7fffffu) | 0x800000u;
  const int start = int(bits >> 23 & 0xffu) - 150 + 30, w = start >> 5, shift = start & 31;
  const unsigned a = {_word(0)};
  const unsigned b = {_word(1)};
  const unsigned c = {_word(2)};
  const unsigned d = {_word(3)};
  const unsigned high = __funnelshift_l(b, a, shift), middle = __funnelshift_l(c, b, shift);
  const unsigned low = __funnelshift_l(d, c, shift);
  const unsigned long long p2 = (unsigned long long)m * low;
  const unsigned long long p1 = (unsigned long long)m * middle + (p2 >> 32);
  const unsigned p0 = m * high + unsigned(p1 >> 32);
  const unsigned long long part =
      (unsigned long long)p0 << 34 | (unsigned long long)unsigned(p1) << 2 | unsigned(p2) >> 30;
  const int turns = int(p0 >> 30) + int(part >> 63);
  const double left =
      __ll2double_rn((long long)part) * (1.5707963267948966 / 18446744073709551616.0);
  q = x < 0.0f ? -turns : turns;
  return float(x < 0.0f ? -left : left);
}}

// Sine of r and q quarter turns.
__device__ __forceinline__ float series_of_turns(float r, int q) {{
  const bool odd = q & 1;  // the cosine's series
  const float s = r * r;
  float value = odd ? fmaf(s, -2.7557319e-7f, 2.4801587e-5f) : 2.7557319e-6f;
  value = fmaf(s, value, odd ? -1.3888889e-3f : -1.9841270e-4f);
  value = fmaf(s, value, odd ? 4.1666668e-2f : 8.3333333e-3f);
  value = fmaf(s, value, odd ? -0.5f : -0.16666667f);
  value = fmaf(odd ? s : r * s, value, odd ? 1.0f : r);
  return q & 2 ? 0.0f - value : value;
}}

// Sine of x and more quarter turns, of numbers below 2^16.
__device__ __forceinline__ float sine_of_few_turns(float x, int more) {{
  const float moved = fmaf(x, 0.63661977f, 12582912.0f);  // 1.5 * 2^23: its low bits are q
  const float turns = moved - 12582912.0f;
  const float r = fmaf(turns, 4.371139e-8f, fmaf(turns, -1.5707964f, x));
  return series_of_turns(fmaf(turns, 1.7151245e-15f, r), __float_as_int(moved) + more);
}}

__device__ __forceinline__ float sine_of_turns(float x, int more) {{
  if (fabsf(x) < 65536.0f) return sine_of_few_turns(x, more);
  int q = 0;
  const bool finite = fabsf(x) < __uint_as_float(0x7f800000u);
  const float r = finite ? turns_of_large(x, q) : x - x;
  return series_of_turns(r, q + more);
}}"""

FUNCTIONS: Mapping[str, tuple[str, str]] = dict.fromkeys(("sin", "cos"), ("sine_of_turns", _REDUCE))
"""For each operation the device function that it calls, and its text."""

FEW_TURNS = "fabsf({x}) < 65536.0f"
"""For which numbers ``sine_of_few_turns``, in the same text, is the same function."""
