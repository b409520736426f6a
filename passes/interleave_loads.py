"""Without warp specialization: let the compute warpgroups issue loads, some steps ahead.

Requires: one section with threads; sections that only copy, each a nest of loops over the steps of
a ring with ``prefetch`` > 0.
Guarantees: one role, of the section with threads. Its warp 0 fills the first ``prefetch`` steps of
each ring before the loops, and before consuming step m of a ring, fills its step ``m + prefetch``
if there is one. A load section's body serves both places, with its loop indices replaced: that the
two sides have loop nests of their own is what makes this a substitution. A nest of several loops
stays one: the loops that consume carry the indices of the step to be filled (``load_ahead``).
Products in tensor memory are issued by one thread of warp 0, too (``issuer``).

A step is filled only after its stage was released ``stages`` steps before; warp 0 waits for that
between its own k steps. Steps up to ``m + prefetch - 1`` are under way by then, so nobody it waits
for waits for it; nor does another ring make one, because all warps consume in one order, and what
precedes ``m`` in it has been filled.

Right after ``warp_specialize``, which leaves such kernels alone.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, OnWarp, Role, Roles, Section, Stmt
from lowering.kernel.visit import Names
from lowering.target import ptx
from passes.issuer import Issuer
from passes.load_ahead import LoadAhead
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
          on %warp 0 { for m in 0 .. min(2, n) { elect { produce ring, m  ... } } }
          for k in 0 .. n {
            on %warp 0 { if k + 2 < n { elect { produce ring, k + 2  ... } } }
            consume ring, k
            ...
          }
        }

    A load nest ``for t in 0 .. tiles { for k in 0 .. n { ... } }`` is filled at indices that the
    loops around ``consume`` carry::

          for k in 0 .. n carry (t_ahead: i32 = ... -> ..., k_ahead: i32 = ... -> ...) {
            on %warp 0 { if t_ahead < tiles { elect { produce ring, t * n + k + 2 ... } } }
            consume ring, t * n + k
            let next: i32 = k_ahead + 1
            let wraps: pred = n <= next
            ...
            yield t_ahead + select(wraps, 1, 0), select(wraps, 0, next)
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
            load = LoadAhead.of(kernel, section, names)
            lets += load.lets
            head, at = load.head()
            heads += head
            body, _ = load.ahead(body, at)
    body = (*lets, *_joined(heads), *Issuer.of(kernel, compute, 0).issued(body))
    role = Role(compute.name, 0, 4 * compute.groups, body, compute.group)
    kept = [s for s in kernel.body if not isinstance(s, Section)]
    threads = compute.groups * ptx.WARPGROUP
    return replace(kernel, threads=threads, body=(*kept, Roles((role,))))


def _joined(heads: list[Stmt]) -> Body:
    """Neighbours that warp 0 alone executes in one branch."""
    out: list[Stmt] = []
    for stmt in heads:
        last = out[-1] if out else None
        if isinstance(stmt, OnWarp) and isinstance(last, OnWarp):
            out[-1] = replace(last, body=(*last.body, *stmt.body))
        else:
            out.append(stmt)
    return tuple(out)
