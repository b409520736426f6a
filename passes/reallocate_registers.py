"""Move registers from the load role to the compute role with ``setmaxnreg``.

Requires: roles of whole warpgroups.
Guarantees: each role begins with its ``setmaxnreg``, and the counts fit the CTA's pool. ptxas
accepts an impossible pair silently and the kernel then waits for ever for registers that nobody
gives back, so the sum is checked here: over all roles, threads x registers must not exceed
threads x floor8(65536 / threads).

After ``warp_specialize``, before ``wait_for_earlier_grids``, which stands behind a role's head.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError, ScheduleError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Role, Roles, SetMaxNReg
from lowering.kernel.visit import map_roles
from lowering.target import hopper
from passes.options import LoweringOptions

__all__ = ["reallocate_registers"]


def reallocate_registers(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Turn the roles' registers into ``setmaxnreg``.

    before::

        role compute warps 0 .. 8 as wg registers 232 { ... }
        role load warps 8 .. 12 registers 40 { ... }

    after::

        role compute warps 0 .. 8 as wg { setmaxnreg inc, 232  ... }
        role load warps 8 .. 12 { setmaxnreg dec, 40  ... }

    Raises:
        ScheduleError: a count that setmaxnreg cannot take, or a pair beyond the pool.
        InternalError: only some roles have a count.
    """
    counts = {r.name: r.registers for s in kernel.body if isinstance(s, Roles) for r in s.roles}
    if not any(count is not None for count in counts.values()):
        return kernel
    load, compute = counts.get("load"), counts.get("compute")
    if load is None or compute is None:
        raise InternalError("reallocate_registers", f"registers of roles: {counts}")
    problem = hopper.register_pair_problem(kernel.threads, load, compute)
    if problem:
        legal = tuple(f"num_registers={pair}" for pair in hopper.register_pairs(kernel.threads))
        wrote = f"WarpSpecialized(num_registers=({load}, {compute}))"
        raise ScheduleError("registers", wrote, problem, legal or ("num_registers=None",))
    entry = hopper.registers_at_entry(kernel.threads)

    def role(r: Role) -> Role:
        count = compute if r.name == "compute" else load
        head = SetMaxNReg("dec" if count <= entry else "inc", count)
        return replace(r, body=(head, *r.body), registers=None)

    return map_roles(kernel, role)
