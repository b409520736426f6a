"""The text of a program; :mod:`wsched.program.parse` reads it back.

Example::

    program (x, w, r) -> (y) {
      x: bf16[M, K]
      w: bf16[N, K]
      r: bf16[M, N]
      a: bf16[M, K] strides [ceildiv(K, 8) * 8, 1]
      y: bf16[M, N] at r
      copy x -> a
      kernel matmul_bfloat16_0c1d(a, w, r) -> y
    }
"""

from __future__ import annotations

from wsched.program.program import Buffer, Program

__all__ = ["print_program"]


def print_program(program: Program) -> str:
    """A line for each buffer, then one for each step."""
    inputs, outputs = (", ".join(b.name for b in bs) for bs in (program.inputs, program.outputs))
    lines = (*map(_declared, program.buffers), *map(str, program.steps))
    return "\n".join([f"program ({inputs}) -> ({outputs}) {{", *(f"  {x}" for x in lines), "}\n"])


def _declared(buffer: Buffer) -> str:
    text = f"{buffer.name}: {'any' if buffer.dtype is None else buffer.dtype.value}"
    if buffer.is_known:
        text += f"[{', '.join(map(str, buffer.shape))}]"
    if buffer.strides is not None:
        text += f" strides [{', '.join(map(str, buffer.strides))}]"
    text += "" if buffer.at is None else f" at {buffer.at.name}"
    return text if buffer.past is None else f"{text} from {buffer.past}"
