"""Let the kernel start before the grid in front of it in the stream has ended.

Requires: roles, and every access to global memory inside them.
Guarantees: the kernel is launched dependently (programmatic dependent launch); every role that
touches global memory waits for earlier grids in front of the first statement that does, on its
outermost level; right behind that it lets the next grid start. Operands that the options call early
are loaded without a wait.

*What overlaps.* The launch itself, the prefetch of the descriptors, the init of the mbarriers, the
sync of the CTA or cluster, ``setmaxnreg`` and the first arrivals all run while the grid in front
drains. What the wait guards are reads of what that grid writes, and writes to what it still reads
or writes; so it stands before the first load *and* before the first store.

*Every CTA waits*, one without a tile too, because the wait is not inside any loop or branch. Waits
only reach as far as the grid directly in front: if a grid could end before its predecessor, the
next one would take its wait for passed while the predecessor is still writing. So no grid ends
before the one in front of it. The machine checks both rules.

*Early operands.* A grid starts when all CTAs of the one in front have waited: whatever is further
in front has ended by then. So what the grid in front does not write is there, and its tensor map
says that it is early. The role that loads operands then has nothing to wait for, and the main loop
neither: where one stands in front of the first access that has to wait, the wait moves behind it,
into the loop over tiles, and once more behind that loop, for CTAs without a tile.

*When the next grid may start.* Its CTAs need as much shared memory and as many registers as ours,
so an SM takes one when our CTA leaves it; letting them come early costs us nothing, and the launch
is off the critical path. It happens behind our own wait, so that never more than two grids of a
stream wait for each other. That our results are not written yet does not matter: the next grid's
wait is for our end, not for this statement.

After ``reallocate_registers`` and ``chunk_epilogue``: the prologue of each role and its copies are
final.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

from lowering.ground.errors import InternalError
from lowering.kernel.early import loads_early, waits_for_grids
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    For,
    GridDepLaunchDependents,
    GridDepWait,
    Roles,
    Stmt,
)
from lowering.kernel.visit import map_roles, walk
from passes.options import LoweringOptions

__all__ = ["wait_for_earlier_grids"]


def wait_for_earlier_grids(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """The kernel as a dependent one, with its waits; as it is without the option.

    before::

        kernel k threads 384 cluster 1 grid 1 {
          role load warps 8 .. 12 {
            setmaxnreg dec, 40
            on %warpgroup.warp 0 { for t in ... { elect { tma.load ... } } }
          }

    after::

        kernel k threads 384 cluster 1 dependent grid 1 {
          role load warps 8 .. 12 {
            setmaxnreg dec, 40
            griddepcontrol.wait
            griddepcontrol.launch_dependents
            on %warpgroup.warp 0 { for t in ... { elect { tma.load ... } } }
          }

    with early operands A and B::

        role compute warps 0 .. 8 as group {
          for tile in 0 .. tiles {
            for k in 0 .. n_k carry (...) { ... }
            griddepcontrol.wait
            griddepcontrol.launch_dependents
            elect { tma.store ... }
          }
          griddepcontrol.wait
        }
        role load warps 8 .. 12 {
          on %warpgroup.warp 0 { for t in ... { elect { tma.load ... } } }
        }

    Raises:
        InternalError: an access to global memory outside the roles.
    """
    if not options.programmatic_dependent_launch:
        return kernel
    early = set(options.early_operands)
    kernel = kernel.redeclare(*(replace(m, early=m.name in early) for m in kernel.tensor_maps))
    waits = _Waits(kernel)
    if any(waits.inside(s) for s in kernel.body if not isinstance(s, Roles)):
        raise InternalError("wait_for_earlier_grids", "global memory is used outside the roles")
    found = map_roles(kernel, lambda r: replace(r, body=waits.put(r.body)))
    return replace(found, dependent=True)


@dataclass(frozen=True, slots=True)
class _Waits:
    """Where waits stand in a kernel whose maps say what is early."""

    kernel: Kernel

    def put(self, body: Body) -> Body:
        """A list with a wait in front of its first statement that needs one; if operands are early
        and that is a loop with a main loop in front of what needs it, in there and behind it.
        """
        first = next((i for i, s in enumerate(body) if self.inside(s)), None)
        if first is None:
            return body
        front, stmt, behind = body[:first], body[first], body[first + 1 :]
        if isinstance(stmt, For) and not stmt.unroll and self._works_first(stmt.body):
            return (*front, replace(stmt, body=self.put(stmt.body)), GridDepWait(), *behind)
        return (*front, GridDepWait(), GridDepLaunchDependents(), stmt, *behind)

    def _works_first(self, body: Body) -> bool:
        """Whether early operands are used in a loop in front of what needs a wait."""
        if not loads_early(self.kernel):
            return False
        before = takewhile(lambda s: not self.inside(s), body)
        return any(isinstance(s, For) for s in before)

    def inside(self, stmt: Stmt) -> bool:
        """Whether a statement needs a wait, or one inside it."""
        return any(waits_for_grids(self.kernel, s) for s in walk((stmt,)))
