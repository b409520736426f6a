"""Without warp specialization: let the compute warpgroups issue loads, some steps ahead.

Requires: one section with threads; sections that only copy, each a loop over the steps of a ring
with ``prefetch`` > 0.
Guarantees: one role, of the section with threads. Its warp 0 fills the first ``prefetch`` steps of
each ring before the loops, and before consuming step m of a ring, fills its step ``m + prefetch``
if there is one. A load section's loop body serves both places, with its loop index replaced: that
the two sides have loop nests of their own is what makes this a substitution.

A step is filled only after its stage was released ``stages`` steps before; warp 0 waits for that
between its own k steps. Steps up to ``m + prefetch - 1`` are under way by then, so nobody it waits
for waits for it; nor does another ring make one, because all warps consume in one order, and what
precedes ``m`` in it has been filled.

Right after ``warp_specialize``, which leaves such kernels alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.errors import InternalError
from lowering.ground.expr import Const, Expr, Special, Var, minimum
from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import (
    Body,
    Consume,
    Elect,
    For,
    If,
    Let,
    Produce,
    Role,
    Roles,
    Section,
    Stmt,
)
from lowering.kernel.visit import Names, map_bodies, rename, walk
from lowering.target import ptx
from passes.options import LoweringOptions
from passes.warp_specialize import only_copies

__all__ = ["interleave_loads"]


def interleave_loads(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Sections become one role.

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

    Raises:
        InternalError: sections or loads of another form.
    """
    if not any(ring.prefetch for ring in kernel.rings):
        return kernel
    sections = [s for s in kernel.body if isinstance(s, Section)]
    working = [s for s in sections if not only_copies(s)]
    if len(working) != 1 or len(sections) == 1:
        raise InternalError("interleave_loads", f"sections are {sorted(s.name for s in sections)}")
    names = Names(kernel)
    (compute,) = working
    body, lets, heads = compute.body, list[Stmt](), list[Stmt]()
    for section in sections:
        if section is not compute:
            load = _Load.of(kernel, section)
            body = load.ahead(body, names)
            lets += load.lets
            heads.append(load.head)
    role = Role(
        compute.name, 0, 4 * compute.groups,
        (*lets, If(_warp_0(), tuple(heads)), *body), compute.group,
    )  # fmt: skip
    kept = [s for s in kernel.body if not isinstance(s, Section)]
    threads = compute.groups * ptx.WARPGROUP
    return replace(kernel, threads=threads, body=(*kept, Roles((role,))))


def _warp_0() -> Expr:
    return Special("warp").eq(0)


@dataclass(frozen=True, slots=True)
class _Load:
    """A section that fills a ring: a loop over its steps, behind bindings."""

    lets: Body
    loop: For
    ring: Ring

    @staticmethod
    def of(kernel: Kernel, section: Section) -> _Load:
        """Refuses other forms, and rings that nobody is to load ahead."""
        *lets, loop = section.body or (None,)
        if not isinstance(loop, For) or not all(isinstance(s, Let) for s in lets):
            raise InternalError("interleave_loads", "the load section is not one loop")
        steps = [s for s in walk(loop.body) if isinstance(s, Produce)]
        if len(steps) != 1 or any(isinstance(s, For) for s in loop.body):
            raise InternalError("interleave_loads", "a load loop's trips are not steps of one ring")
        ring = kernel.ring(steps[0].ring)
        if steps[0].step != loop.var or not ring.prefetch:
            why = f"{ring.name} has prefetch {ring.prefetch}, its loop's trip is {steps[0].step}"
            raise InternalError("interleave_loads", why)
        return _Load(tuple(s for s in lets if s is not None), loop, ring)

    @property
    def head(self) -> For:
        """The first steps."""
        stop = minimum(self.ring.prefetch, self.loop.stop)
        return replace(self.loop, stop=stop, body=_elected(self.loop.body))

    def ahead(self, body: Body, names: Names) -> Body:
        """``body`` with the fill of step ``m + prefetch`` before each ``consume`` of step ``m``."""
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Consume) and stmt.ring == self.ring.name:
                step = stmt.step + Const(self.ring.prefetch)
                fill = _elected(_copy(self.loop, step, names))
                out.append(If(_warp_0().logical_and(step < self.loop.stop), fill))
                out.append(stmt)
            else:
                out.append(map_bodies(stmt, lambda inner: self.ahead(inner, names)))
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
