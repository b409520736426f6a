"""Rule for stamps, and the parameters of the buffers that they write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.ground.expr import ONE, ZERO, Expr, Special, children
from lowering.kernel.kernel import Kernel, TraceBuffer
from lowering.kernel.nodes import Stamp, Stmt

__all__ = ["RULES", "frame", "parameters"]


def parameters(e: Emitter, t: TraceBuffer) -> list[str]:
    """The kernel's parameter for a trace buffer: its address."""
    return [f"u64* __restrict__ {e.names.of('trace', t.name)}"]


def frame(e: Emitter) -> list[str]:
    """Definitions of what a warp keeps for a trace buffer: its part and how many stamps it made."""
    lines = []
    for t in e.kernel.traces:
        words = 2 * (1 + t.slots)
        warp = _cta(e.kernel) * (e.kernel.threads // 32) + Special("warp")
        part = e.sum(e.names.of("trace", t.name), warp * words)
        lines.append(f"u64* const {e.names.of('part', t.name)} = {part};")
        lines.append(f"int {e.names.of('made', t.name)} = 0;")
    return lines


def _cta(kernel: Kernel) -> Expr:
    """The number of the CTA in the grid, x fastest."""
    rows: Expr = ZERO
    if kernel.splits > 1:
        rows = Special("ctaid.z") * (ONE if kernel.grid_y == ONE else Special("nctaid.y"))
    if kernel.grid_y != ONE:
        rows = rows + Special("ctaid.y")
    return rows * Special("nctaid.x") + Special("ctaid.x")


def _registers(e: Expr) -> Iterator[str]:
    """The special registers in an expression."""
    if isinstance(e, Special):
        yield e.name
    for child in children(e):
        yield from _registers(child)


def _stamp(e: Emitter, s: Stamp) -> None:
    t = e.kernel.trace(s.buffer)
    for register in (*_registers(_cta(e.kernel)), "warp"):
        e.special(register)
    part, made = (e.names.of(what, t.name) for what in ("part", "made"))
    code = t.code(s.event, s.phase, s.clock)
    call = f"ptx::stamp_{s.clock}<{t.slots}>({part}, {made}, {code}, {e.arg(s.value)});"
    e.out.line(f"{call}  // {s.event} {s.phase}")


RULES: Mapping[type[Stmt], Rule] = {Stamp: _stamp}
