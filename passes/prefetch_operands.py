"""Ask the L2 for the operands of a CTA's first steps before the grid in front has ended.

Requires: roles whose loads are final, each load step in one loop; the tiles of a CTA follow from
its place in the grid, whatever memory says.
Guarantees: with ``prefetched_steps`` a role that loads operands has, in front of its first load, a
``tma.prefetch`` of each box that it loads for so many steps of its first tile. They name no shared
memory and no barrier, and what they fetch nobody sees, so ``wait_for_earlier_grids`` lets them
stand in front of the wait: memory works while the grid in front drains, and while its writes are
flushed.

*Of which operands.* Of all, or, where threads make A, of what they make it of: that streams from
memory, each CTA's own, while all CTAs ask for the same boxes of the other one, at once.

*What it costs.* A box that the copy engine asks for twice, line by line; what is asked for before
the wait is over is in front of the first loads.

After every pass that adds copies of operands, before ``wait_for_earlier_grids`` (the hints stand in
front of the wait).
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.expr import Expr, Var, minimum
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Elect,
    For,
    If,
    LdMatrix,
    LdShared,
    Let,
    OnWarp,
    Role,
    SmemRef,
    Stmt,
    Tcgen05Mma,
    TmaLoad,
    TmaPrefetch,
    Wgmma,
)
from lowering.kernel.traits import Memory
from lowering.kernel.visit import Names, defined_in, map_bodies, map_roles, used_in, walk
from passes.options import LoweringOptions

__all__ = ["prefetch_operands"]


def prefetch_operands(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """The kernel with hints in front of its loads; as it is where none are asked for.

    before::

        role load warps 4 .. 8 {
          on %warpgroup.warp 0 {
            for tile in 0 .. tiles {
              for k in 0 .. n_k carry (...) {
                elect { mbarrier.wait ...  tma.load A_s[...], A[tile * 64, k * 64], bar=... }
                ...

    after, with two steps::

        role load warps 4 .. 8 {
          on %warpgroup.warp 0 {
            if 0 < tiles {
              for k in 0 .. min(n_k, 2) { elect { tma.prefetch A[0 * 64, k * 64] } }
            }
          }
          on %warpgroup.warp 0 {
            for tile in 0 .. tiles {
              ...

    Raises:
        ScheduleError: the kernel does not start before the grid in front has ended.
        UnsupportedError: no load of an operand stands where its first boxes are known.
    """
    if not options.prefetched_steps:
        return kernel
    if not options.programmatic_dependent_launch:
        raise ScheduleError(
            "prefetch",
            f"prefetched_steps={options.prefetched_steps}",
            "a kernel that starts when the grid in front has ended has nothing to wait for",
            ("programmatic_dependent_launch=True", "prefetched_steps=0"),
        )
    hints = _Hints(Names(kernel), _operands(kernel), options.prefetched_steps)
    made = map_roles(kernel, hints.before)
    if made == kernel:
        raise UnsupportedError(
            f"prefetched_steps={options.prefetched_steps} of operands whose first boxes memory "
            "tells, or that TMA does not load",
            "prefetched_steps=0",
        )
    return made


def _operands(kernel: Kernel) -> frozenset[str]:
    """The buffers that products read; where threads make A, those from which they do alone."""
    read, made = set[str](), set[str]()
    for stmt in walk(kernel.body):
        if isinstance(stmt, Wgmma | Tcgen05Mma):
            read |= {r.buffer for r in (stmt.a, stmt.b) if isinstance(r, SmemRef)}
        elif isinstance(stmt, For) and any(isinstance(s, Wgmma) for s in stmt.body):
            loads = (s for s in stmt.body if isinstance(s, LdMatrix | LdShared))
            made |= {s.src.buffer for s in loads}
    return frozenset(made or read)


class _Hints:
    """What makes hints of loads.

    Args:
        names: to bind scalars with.
        buffers: of the operands.
        steps: of the first tile.
    """

    def __init__(self, names: Names, buffers: frozenset[str], steps: int) -> None:
        self._names, self._buffers, self._steps = names, buffers, steps

    def before(self, role: Role) -> Role:
        """The role with hints in front of its first statement that touches global memory, where the
        wait will stand, of that and of others, each on the warp that loads.
        """
        at = next((i for i, s in enumerate(role.body) if _touches_global((s,))), None)
        if at is None:
            return role
        known = defined_in(role.body[:at])
        hints = _needed(self._first(role.body[at:]))
        unknown = used_in(hints) & (defined_in(role.body[at:]) - defined_in(hints) - known)
        if unknown or any(s.TRAITS.touches is not Memory.NONE for s in walk(hints)):
            return role
        first = self._names.once_more(hints)
        return replace(role, body=(*role.body[:at], *first, *role.body[at:]))

    def _loads(self, body: Body) -> bool:
        """Whether a list has loads of operands."""
        return any(isinstance(s, TmaLoad) and s.dst.buffer in self._buffers for s in walk(body))

    def _first(self, body: Body) -> Body:
        """Of a list what is left if only the first trip of each loop runs, of the innermost one
        with loads so many, and loads are hints.
        """
        return tuple(made for s in body for made in self._hint(s))

    def _hint(self, stmt: Stmt) -> Body:
        match stmt:
            case Let():
                return (stmt,)
            case TmaLoad(dst=dst, src=src):
                return (TmaPrefetch(src),) if dst.buffer in self._buffers else ()
            case For() if self._loads((stmt,)):
                if not any(isinstance(s, For) and self._loads((s,)) for s in walk(stmt.body)):
                    stop = minimum(stmt.stop, stmt.start + stmt.step * self._steps)
                    return (For(stmt.var, stmt.start, stop, self._first(stmt.body), stmt.step),)
                began = [(c.var, c.init) for c in stmt.carries]
                lets = [Let(v, x) for v, x in began if isinstance(v, Var) and isinstance(x, Expr)]
                first = (Let(stmt.var, stmt.start), *lets, *self._first(stmt.body))
                return (If(stmt.start < stmt.stop, first),)
            case Elect() | OnWarp() | If() if self._loads((stmt,)):
                return (map_bodies(stmt, self._first),)
        return ()


def _touches_global(body: Body) -> bool:
    return any(Memory.GLOBAL in s.TRAITS.touches for s in walk(body))


def _needed(body: Body) -> Body:
    """A list without scalars that nothing behind them reads, those inside it likewise."""
    kept: list[Stmt] = []
    for stmt in reversed(body):
        made = map_bodies(stmt, _needed)
        if isinstance(made, Let) and made.var.name not in used_in(kept):
            continue
        kept.append(made)
    return tuple(reversed(kept))
