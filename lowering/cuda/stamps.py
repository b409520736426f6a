"""Rule for stamps, and the parameters of the buffers that they write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.parameters import Parameter
from lowering.ground.expr import Expr, Special, parts_of
from lowering.kernel.kernel import TraceBuffer
from lowering.kernel.nodes import Stamp, Stmt
from lowering.kernel.places import cta_number

__all__ = ["RULES", "frame", "parameters"]


def parameters(e: Emitter, t: TraceBuffer) -> list[Parameter]:
    """The kernel's parameter for a trace buffer: its address."""
    return [Parameter("u64* __restrict__", e.names.of("trace", t.name))]


def frame(e: Emitter) -> list[str]:
    """Definitions of what a warp keeps for a trace buffer: its part and how many stamps it made."""
    lines = []
    for t in e.kernel.traces:
        words = 2 * (1 + t.slots)
        warp = cta_number(e.kernel) * (e.kernel.threads // 32) + Special("warp")
        part = e.sum(e.names.of("trace", t.name), warp * words)
        lines.append(f"u64* const {e.names.of('part', t.name)} = {part};")
        lines.append(f"int {e.names.of('made', t.name)} = 0;")
    return lines


def _registers(e: Expr) -> Iterator[str]:
    """The special registers in an expression."""
    return (x.name for x in parts_of(e) if isinstance(x, Special))


def _stamp(e: Emitter, s: Stamp) -> None:
    t = e.kernel.trace(s.buffer)
    for register in (*_registers(cta_number(e.kernel)), "warp"):
        e.special(register)
    part, made = (e.names.of(what, t.name) for what in ("part", "made"))
    code = t.code(s.event, s.phase, s.clock)
    call = f"ptx::stamp_{s.clock}<{t.slots}>({part}, {made}, {code}, {e.arg(s.value)});"
    e.out.line(f"{call}  // {s.event} {s.phase}")


RULES: Mapping[type[Stmt], Rule] = {Stamp: _stamp}
