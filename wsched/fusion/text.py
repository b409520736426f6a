"""A fusion as text, in the manner of nvFuser's ``print_math``."""

from __future__ import annotations

from wsched.fusion.domain import IterDomain
from wsched.fusion.fusion import Fusion
from wsched.fusion.tensor import CircularBuffer, CircularBufferType, Pipelined, TensorView

__all__ = ["buffer_text", "fusion_text", "history_text", "loop_text", "nest_text", "type_text"]


def type_text(t: CircularBufferType) -> str:
    """Who loads, in a few words; registers are those of a load and of a compute thread."""
    if isinstance(t, Pipelined):
        return "Pipelined"
    registers = "" if t.num_registers is None else " registers {}/{}".format(*t.num_registers)
    return f"WarpSpecialized on {t.on}{registers}"


def buffer_text(b: CircularBuffer) -> str:
    """A circular buffer in one line."""
    return f"circular_buffer stages {b.stages} prefetch {b.prefetch} {type_text(b.type)}"


def fusion_text(f: Fusion) -> str:
    """Inputs, outputs, one line for each expression, transforms indented below it."""
    lines = ["inputs:"]
    for b in f.inputs:
        t = f.tensor(b.tensor)
        lines.append(f"  {t}  as [{', '.join(b.extents)}]")
        if t.allocation:
            lines.append(f"     allocation: {', '.join(map(str, t.allocation))}")
    lines += ["outputs:"]
    for b in f.outputs:
        t = f.tensor(b.tensor)
        swapped = "" if _axes(t) == b.extents else f"  as [{', '.join(b.extents)}]"
        lines.append(f"  {t}{swapped}")
    lines += ["math:"]
    for e in f.exprs:
        t = f.tensor(e.output)
        lines += [f"  {t}", f"     = {e}"]
        if t.compute_at:
            lines.append(f"     compute_at {t.compute_at}")
        if t.circular_buffer is not None:
            lines.append(f"     {buffer_text(t.circular_buffer)}")
        lines += [f"     {step}" for step in t.transforms]
    return "\n".join(lines) + "\n"


def _axes(t: TensorView) -> tuple[str, ...]:
    return tuple(str(d.extent) for d in t.stored)


def history_text(f: Fusion) -> str:
    """The schedule as Python, one call a line."""
    return "".join(f"{call}\n" for call in f.history)


def loop_text(d: IterDomain, note: str = "") -> str:
    """One loop: ``for i12 = tile [Serial] in 0 .. extent``."""
    return f"for {d.name} = {d.label} [{d.parallel}{note}] in 0 .. {d.extent}"


def nest_text(t: TensorView) -> str:
    """The loop nest of one tensor, outermost first, with the positions of its axes."""
    return "\n".join([f"{t.head}:", *(f"  {p}: {loop_text(d)}" for p, d in enumerate(t.loop))])
