"""Device functions for ``wgmma.mma_async``: one for each form that a kernel calls.

Which immediates a form has is in the target's table of types.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.cuda.elements import register_type
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.target.mma import MmaFamily
from lowering.target.ptx import WARPGROUP

__all__ = ["A_REGISTERS", "PIN_WORDS", "WgmmaForm", "wgmma_function"]

A_REGISTERS = 4
"""32-bit registers of A of one instruction: 64 rows of 32 bytes over 128 threads."""

PIN_WORDS = """\
// The compiler keeps the registers `d`, which a wgmma reads or writes, up to this point.
template <typename word, int count>
__device__ __forceinline__ void pin_words(word (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(d[i])::"memory");
}"""


@dataclass(frozen=True, slots=True)
class WgmmaForm:
    """A form of ``wgmma.mma_async``.

    Args:
        family: the target's table of forms.
        cols: N.
        a: type of A.
        b: type of B.
        acc: of the accumulators.
        trans_a: A is MN-major in shared memory.
        trans_b: B likewise.
        registers: A comes from registers.
    """

    family: MmaFamily
    cols: int
    a: DType
    b: DType
    acc: DType = DType.F32
    trans_a: bool = False
    trans_b: bool = False
    registers: bool = False

    @property
    def name(self) -> str:
        """What its device function is called."""
        tail = "_trans_a" * self.trans_a + "_trans_b" * self.trans_b + "_reg_a" * self.registers
        types = self.a.value if self.a is self.b else f"{self.a.value}_{self.b.value}"
        return f"wgmma_{self.shape}_{self.acc.value}_{types}{tail}"

    @property
    def shape(self) -> str:
        """M, N and K of it as PTX says them."""
        return f"m{self.family.m}n{self.cols}k{self.family.k(self.a)}"

    @property
    def instruction(self) -> str:
        """The instruction with its types."""
        types = ".".join(d.ptx for d in (self.acc, self.a, self.b))
        return f"wgmma.mma_async.sync.aligned.{self.shape}.{types}"

    @property
    def words(self) -> int:
        """32-bit registers per thread of the accumulators."""
        return self.family.m * self.cols * self.acc.bits // 32 // WARPGROUP

    @property
    def immediates(self) -> tuple[str, ...]:
        """What follows scale-d: factors of A and B, then which of those in shared memory are
        MN-major, as far as the types have them.
        """
        form = self.family.form(self.a, self.b, self.acc)
        if form is None:
            raise InternalError("emit_cuda", f"no instruction {self.instruction}")
        trans = (self.trans_b,) if self.registers else (self.trans_a, self.trans_b)
        factors = ("1", "1") if form.scales else ()
        return *factors, *(str(int(t)) for t in trans if form.transposes)


def wgmma_function(form: WgmmaForm) -> str:
    """The device function that wraps one form of ``wgmma.mma_async``."""
    count, kind = form.words, register_type(form.acc)
    accumulators = [f"%{i}" for i in range(count)]
    constraint = "+f" if form.acc is DType.F32 else "+r"
    outputs = [f'"{constraint}"(d[{i}])' for i in range(count)]
    if form.registers:
        a_type, words = "const unsigned* a", [f"%{count + i}" for i in range(A_REGISTERS)]
        a, inputs = f"{{{', '.join(words)}}}", [f'"r"(a[{i}])' for i in range(A_REGISTERS)]
    else:
        a_type, a, inputs = "u64 a", f"%{count}", ['"l"(a)']
    b = count + len(inputs)
    tail = ", ".join((a, f"%{b}", "p", *form.immediates))
    lines = [
        f"__device__ __forceinline__ void {form.name}(",
        f"    {kind}* d, {a_type}, u64 b, int scale_d) {{",
        "  asm volatile(",
        f'      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %{b + 1}, 0;\\n"',
        f'      " {form.instruction}"',
        *(f'      " {text}"' for text in _wrap("{", accumulators, "},")),
        f'      " {tail};\\n}}"',
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
