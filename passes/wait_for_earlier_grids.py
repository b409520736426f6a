"""Let the kernel start before the grid in front of it in the stream has ended.

Requires: roles, and every access to global memory inside them.
Guarantees: the kernel is launched dependently (programmatic dependent launch); every role that
touches global memory waits for earlier grids in front of the first statement that does, on its
outermost level; right behind that it lets the next grid start.

*What overlaps.* The launch itself, the prefetch of the descriptors, the init of the mbarriers, the
sync of the CTA or cluster, ``setmaxnreg`` and the first arrivals all run while the grid in front
drains. What the wait guards are reads of what that grid writes, and writes to what it still reads
or writes; so it stands before the first load *and* before the first store.

*Every CTA waits*, one without a tile too, because the wait is not inside any loop or branch. Waits
only reach as far as the grid directly in front: if a grid could end before its predecessor, the
next one would take its wait for passed while the predecessor is still writing. So no grid ends
before the one in front of it. The machine checks both rules.

*When the next grid may start.* Its CTAs need as much shared memory and as many registers as ours,
so an SM takes one when our CTA leaves it; letting them come early costs us nothing, and the launch
is off the critical path. It happens behind our own wait, so that never more than two grids of a
stream wait for each other. That our results are not written yet does not matter: the next grid's
wait is for our end, not for this statement.

*Beside the grid in front.* With ``waits_last`` each of these roles lets the next grid start where
it would wait, and waits as the last thing that it does: kernels that share out the groups of a
matmul write rows of their own and read what was there before the first of them (note 0031). That
one waits before it lets the second start, so what they read is complete; and no grid ends before
the one in front of it, as everywhere.

After ``reallocate_registers`` and ``chunk_epilogue``: the prologue of each role and its copies are
final.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    GridDepLaunchDependents,
    GridDepWait,
    Role,
    Roles,
    Stmt,
)
from lowering.kernel.traits import Memory
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

    Raises:
        InternalError: an access to global memory outside the roles.
    """
    if not options.programmatic_dependent_launch:
        return kernel
    outside = tuple(s for s in kernel.body if not isinstance(s, Roles))
    if any(map(_touches_global, outside)):
        raise InternalError("wait_for_earlier_grids", "global memory is used outside the roles")
    last = options.waits_last
    return replace(map_roles(kernel, partial(_waiting, last=last)), dependent=True, beside=last)


def _waiting(role: Role, last: bool) -> Role:
    """The role with a wait in front of its first statement that touches global memory, or as its
    last one.
    """
    first = next((i for i, s in enumerate(role.body) if _touches_global(s)), None)
    if first is None:
        return role
    wait, launch = GridDepWait(), GridDepLaunchDependents()
    begin: Body = (launch,) if last else (wait, launch)
    end: Body = (wait,) if last else ()
    return replace(role, body=(*role.body[:first], *begin, *role.body[first:], *end))


def _touches_global(stmt: Stmt) -> bool:
    return any(Memory.GLOBAL in s.TRAITS.touches for s in walk((stmt,)))
