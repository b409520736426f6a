"""Without warp specialization: let the compute warpgroups issue loads, some steps ahead.

Requires: one ``load`` and one ``compute`` section; a circular buffer with ``prefetch`` > 0.
Guarantees: one role, of the compute warpgroups. Its warp 0 fills the first ``prefetch`` steps
before the loops, and in each k step, before consuming step m, fills step ``m + prefetch`` if there
is one. The load section's loop body serves both places, with its loop index replaced: that the two
sides have loop nests of their own is what makes this a substitution.

A step is filled only after its stage was released ``stages`` steps before; warp 0 waits for that
between its own k steps. Steps up to ``m + prefetch - 1`` are under way by then, so nobody it waits
for waits for it.

Right after ``warp_specialize``, which leaves such kernels alone.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError
from lowering.ground.expr import Const, Expr, Special, Var, minimum
from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import Body, Consume, Elect, For, If, Let, Role, Roles, Section, Stmt
from lowering.kernel.visit import Names, map_bodies, rename
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["interleave_loads"]


def interleave_loads(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Two sections become one role.

    before::

        ring ring(A_s) stages 4 in_flight 1 prefetch 2
        section load groups 1 { for m in 0 .. n { produce ring, m  load.tile A_s[0, 0, 0], ... } }
        section compute groups 2 as wg { for k in 0 .. n { consume ring, k  ... } }

    after::

        role compute warps 0 .. 8 as wg {
          if %warp == 0 { for m in 0 .. min(2, n) { elect { produce ring, m  ... } } }
          for k in 0 .. n {
            if %warp == 0 and k + 2 < n { elect { produce ring, k + 2  ... } }
            consume ring, k
            ...
          }
        }
    """
    rings = [r for r in kernel.rings if r.prefetch]
    if not rings:
        return kernel
    sections = {s.name: s for s in kernel.body if isinstance(s, Section)}
    if sorted(sections) != ["compute", "load"] or len(rings) > 1:
        raise InternalError("interleave_loads", f"sections are {sorted(sections)}")
    *lets, loop = sections["load"].body
    if not all(isinstance(s, Let) for s in lets) or not isinstance(loop, For):
        raise InternalError("interleave_loads", "the load section is not one loop")
    compute, ring = sections["compute"], rings[0]
    names = Names(kernel)
    head = replace(loop, stop=minimum(ring.prefetch, loop.stop), body=_elected(loop.body))
    body = _ahead(compute.body, loop, ring, names)
    role = Role(
        "compute", 0, 4 * compute.groups, (*lets, If(_warp_0(), (head,)), *body), compute.group
    )  # fmt: skip
    kept = [s for s in kernel.body if not isinstance(s, Section)]
    threads = compute.groups * ptx.WARPGROUP
    return replace(kernel, threads=threads, body=(*kept, Roles((role,))))


def _warp_0() -> Expr:
    return Special("warp").eq(0)


def _ahead(body: Body, load: For, ring: Ring, names: Names) -> Body:
    """``body`` with the fill of step ``m + prefetch`` before each ``consume`` of step ``m``."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Consume) and stmt.ring == ring.name:
            step = stmt.step + Const(ring.prefetch)
            fill = _elected(_copy(load, step, names))
            out.append(If(_warp_0().logical_and(step < load.stop), fill))
            out.append(stmt)
        else:
            out.append(map_bodies(stmt, lambda inner: _ahead(inner, load, ring, names)))
    return tuple(out)


def _copy(load: For, step: Expr, names: Names) -> Body:
    """The load loop's body for ``step``, with local bindings under new names."""
    table: dict[Var, Expr] = {load.var: step}
    out: list[Stmt] = []
    for stmt in load.body:
        (new,) = rename((stmt,), table)
        if isinstance(new, Let):
            fresh = Var(names.new(new.var.name), new.var.type)
            table[new.var] = fresh
            new = Let(fresh, new.value)
        out.append(new)
    return tuple(out)


def _elected(body: Body) -> Body:
    """The bindings, then everything else under one ``elect``."""
    lets = tuple(s for s in body if isinstance(s, Let))
    return (*lets, Elect(tuple(s for s in body if not isinstance(s, Let))))
