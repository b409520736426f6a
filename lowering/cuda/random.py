"""Rule for random numbers, and the functions that make them: two neighbours at a time."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.ground.expr import ZERO, Expr, Special
from lowering.ground.layouts import RegisterLayout
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import FragRandom, Stmt
from lowering.kernel.random import PHILOX_KEYS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS

__all__ = ["RULES"]

_PHILOX = f"""\
// Philox4x32-{PHILOX_ROUNDS}: four words for the key `seed` and the counter (offset, high).
__device__ __forceinline__ void philox(u64 seed, u64 offset, u64 high, unsigned (&words)[4]) {{
  unsigned k0 = unsigned(seed), k1 = unsigned(seed >> 32);
  unsigned a = unsigned(offset), b = unsigned(offset >> 32);
  unsigned c = unsigned(high), d = unsigned(high >> 32);
#pragma unroll
  for (int i = 0; i < {PHILOX_ROUNDS}; ++i) {{
    const u64 p = u64({PHILOX_MULTIPLIERS[0]:#x}u) * a, q = u64({PHILOX_MULTIPLIERS[1]:#x}u) * c;
    a = unsigned(q >> 32) ^ b ^ k0;
    b = unsigned(q);
    c = unsigned(p >> 32) ^ d ^ k1;
    d = unsigned(p);
    k0 += {PHILOX_KEYS[0]:#x}u;
    k1 += {PHILOX_KEYS[1]:#x}u;
  }}
  words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}}

__device__ __forceinline__ float uniform_word(const unsigned (&words)[4], int i) {{
  const unsigned word = i < 2 ? i == 0 ? words[0] : words[1] : i == 2 ? words[2] : words[3];
  const float value = float(word) * 0x1p-32f + 0x1p-33f;
  return value == 1.0f ? 0.0f : value;
}}"""

_ONE = """\
__device__ __forceinline__ void random_1(u64 seed, u64 offset, long long number, float& a) {
  unsigned words[4];
  philox(seed, offset, u64(number) >> 2, words);
  a = uniform_word(words, int(number) & 3);
}"""

_TWO = """\
// The numbers of two elements side by side; only from an odd place on they come of two counters.
__device__ __forceinline__ void random_2(
    u64 seed, u64 offset, long long number, float& a, float& b) {
  unsigned words[4];
  const int i = int(number) & 3;
  philox(seed, offset, u64(number) >> 2, words);
  a = uniform_word(words, i);
  if (i == 3) philox(seed, offset, (u64(number) >> 2) + 1, words);
  b = uniform_word(words, (i + 1) & 3);
}"""


def _random(e: Emitter, s: FragRandom) -> None:
    e.declare(s.out)
    kind = s.out.type
    rows, cols = kind.group
    together = 2 if cols > 1 and cols % 2 == 0 else 1
    e.functions["philox"] = _PHILOX
    e.functions[f"random_{together}"] = _TWO if together == 2 else _ONE
    with e.out.block(""):
        seed, offset, stride, first = map(e.names.fresh, ("seed", "offset", "stride", "first"))
        e.out.line(f"const u64 {seed} = {e.arg(s.seed)}, {offset} = {e.arg(s.offset)};")
        e.out.line(f"const long long {stride} = {e.arg(s.stride)};")
        row, col = _thread(kind)
        down = f"({e.arg(row)}) * {stride}" if kind.rows > 1 else "0"
        where = e.sum(down, s.first + (col if kind.cols > 1 else ZERO))
        e.out.line(f"const long long {first} = {where};")
        for block in range(kind.blocks):
            with e.groups(kind.groups):
                for half in range(rows):
                    for inner in range(0, cols, together):
                        number = _number(kind.layout, first, stride, (block, half, inner))
                        out = [e.element(s.out, block, half, inner + i)[0] for i in range(together)]
                        e.out.call(f"random_{together}", seed, offset, number, *out)


def _thread(kind: FragmentType) -> tuple[Expr, Expr]:
    """The executing thread's first row and column."""
    lane = Special("lane")
    row: Expr = kind.layout.row(Special("warpgroup.warp"), lane, 0, 0)
    col: Expr = kind.layout.column(lane, 0, 0)
    return row, col


def _number(layout: RegisterLayout, first: str, stride: str, at: tuple[int, int, int]) -> str:
    """The number of an element of group ``r``."""
    block, half, inner = at
    down = layout.down(block, half)
    text = first + (f" + {down} * {stride}" if down else "")
    return text + f" + {layout.columns} * r" + (f" + {inner}" if inner else "")


RULES: Mapping[type[Stmt], Rule] = {FragRandom: _random}
