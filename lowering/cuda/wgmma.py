"""Device functions for ``wgmma.mma_async``: one for each form that a kernel calls."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.target.hopper import WGMMA

__all__ = ["A_REGISTERS", "PIN_WORDS", "WgmmaForm", "wgmma_function"]

A_REGISTERS = 4
"""32-bit registers of A of one instruction: 64 rows of 32 bytes over 128 threads."""

PIN_WORDS = """\
// The compiler keeps the registers `d`, which a wgmma reads, up to this point.
template <int count>
__device__ __forceinline__ void pin_words(unsigned (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(d[i])::"memory");
}"""


@dataclass(frozen=True, slots=True)
class WgmmaForm:
    """A form of ``wgmma.mma_async`` with fp32 accumulators.

    Args:
        cols: N.
        dtype: of both operands.
        trans_a: A is MN-major in shared memory.
        trans_b: B likewise.
        registers: A comes from registers.
    """

    cols: int
    dtype: DType
    trans_a: bool = False
    trans_b: bool = False
    registers: bool = False

    @property
    def name(self) -> str:
        """What its device function is called."""
        tail = "_trans_a" * self.trans_a + "_trans_b" * self.trans_b + "_reg_a" * self.registers
        return f"wgmma_m64n{self.cols}k{WGMMA.k(self.dtype)}_f32_{self.dtype.value}{tail}"

    @property
    def order(self) -> str:
        """What a kernel's functions are sorted by."""
        return str((self.cols, self.dtype, self.trans_a, self.trans_b, self.registers))


def wgmma_function(form: WgmmaForm) -> str:
    """The device function that wraps one form of ``wgmma.mma_async``."""
    count, k, kind = form.cols // 2, WGMMA.k(form.dtype), form.dtype.ptx
    accumulators = [f"%{i}" for i in range(count)]
    outputs = [f'"+f"(d[{i}])' for i in range(count)]
    if form.registers:
        a_type, words = "const unsigned* a", [f"%{count + i}" for i in range(A_REGISTERS)]
        a, inputs = f"{{{', '.join(words)}}}", [f'"r"(a[{i}])' for i in range(A_REGISTERS)]
        immediates = f"1, 1, {int(form.trans_b)}"
    else:
        a_type, a, inputs = "u64 a", f"%{count}", ['"l"(a)']
        immediates = f"1, 1, {int(form.trans_a)}, {int(form.trans_b)}"
    b = count + len(inputs)
    instruction = f"wgmma.mma_async.sync.aligned.m64n{form.cols}k{k}.f32.{kind}.{kind}"
    lines = [
        f"__device__ __forceinline__ void {form.name}(",
        f"    float* d, {a_type}, u64 b, int scale_d) {{",
        "  asm volatile(",
        f'      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %{b + 1}, 0;\\n"',
        f'      " {instruction}"',
        *(f'      " {text}"' for text in _wrap("{", accumulators, "},")),
        f'      " {a}, %{b}, p, {immediates};\\n}}"',
        *(f"      {text}" for text in _wrap(": ", outputs, "")),
        f'      : {", ".join(inputs)}, "l"(b), "r"(scale_d)',
        '      : "memory");',
        "}",
    ]
    return "\n".join(lines)


def _wrap(head: str, items: list[str], tail: str) -> list[str]:
    """``items`` with commas, eight to a line."""
    rows = [", ".join(items[i : i + 8]) for i in range(0, len(items), 8)]
    rows = [row + "," for row in rows[:-1]] + [rows[-1] + tail]
    return [head + rows[0], *rows[1:]]
