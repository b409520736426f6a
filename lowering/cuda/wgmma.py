"""Device functions for ``wgmma.mma_async``: one for each form that a kernel calls."""

from __future__ import annotations

from lowering.cuda.elements import register_type
from lowering.ground.dtypes import DType
from lowering.target.wgmma import A_REGISTERS, WgmmaForm

__all__ = ["PIN_WORDS", "wgmma_function"]

PIN_WORDS = """\
// The compiler keeps the registers `d`, which a wgmma reads or writes, up to this point.
template <typename word, int count>
__device__ __forceinline__ void pin_words(word (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(d[i])::"memory");
}"""


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
