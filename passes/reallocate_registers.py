"""Move registers from the load role to the compute role with ``setmaxnreg``.

Requires: roles of whole warpgroups.
Guarantees: each role begins with its ``setmaxnreg``, and the counts fit the CTA's pool. ptxas
accepts an impossible pair silently and the kernel then waits for ever for registers that nobody
gives back, so the sum is checked here: over all roles, threads x registers must not exceed
threads x floor8(65536 / threads).

After ``warp_specialize``; nothing later depends on it.
"""

from __future__ import annotations

from dataclasses import replace

from lowering import hopper
from lowering.errors import ScheduleError
from lowering.ir.kernel import Kernel
from lowering.ir.nodes import Role, SetMaxNReg
from lowering.ir.visit import map_roles
from lowering.options import LoweringOptions

__all__ = ["reallocate_registers"]


def reallocate_registers(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Insert ``setmaxnreg`` at the head of each role.

    before::

        role compute warps 0 .. 8 as wg { ... }
        role load warps 8 .. 12 { ... }

    after, for the pair (40, 232)::

        role compute warps 0 .. 8 as wg { setmaxnreg inc, 232  ... }
        role load warps 8 .. 12 { setmaxnreg dec, 40  ... }

    Raises:
        ScheduleError: a count that setmaxnreg cannot take, or a pair beyond the pool.
    """
    if options.num_registers is None:
        return kernel
    load, compute = options.num_registers
    _check(kernel.threads, load, compute)
    entry = hopper.registers_at_entry(kernel.threads)

    def role(r: Role) -> Role:
        count = load if r.name == "load" else compute
        action = "dec" if count <= entry else "inc"
        return replace(r, body=(SetMaxNReg(action, count), *r.body))

    return map_roles(kernel, role)


def _check(threads: int, load: int, compute: int) -> None:
    low, high = hopper.SETMAXNREG_RANGE
    wrote = f"WarpSpecialized(num_registers=({load}, {compute}))"
    entry = hopper.registers_at_entry(threads)
    workers = threads - hopper.WARPGROUP
    legal = tuple(
        f"({a}, {b})"
        for a in (24, 32, 40)
        for b in range(high, entry - 1, -hopper.REGISTER_STEP)
        if _fits(threads, a, b) and not _fits(threads, a, b + hopper.REGISTER_STEP)
    )
    for count in (load, compute):
        if count % hopper.REGISTER_STEP or not low <= count <= high:
            why = f"{count} is not a multiple of {hopper.REGISTER_STEP} from {low} to {high}"
            raise ScheduleError("registers", wrote, why, legal)
    if not load <= entry <= compute:
        why = f"the kernel starts with {entry} registers a thread: load gives, compute takes"
        raise ScheduleError("registers", wrote, why, legal)
    if not _fits(threads, load, compute):
        need = hopper.WARPGROUP * load + workers * compute
        why = (
            f"{hopper.WARPGROUP} x {load} + {workers} x {compute} = {need} registers, "
            f"the CTA has {threads} x {entry} = {threads * entry}"
        )
        raise ScheduleError("registers", wrote, why, legal)


def _fits(threads: int, load: int, compute: int) -> bool:
    per_role = ((hopper.WARPGROUP, load), (threads - hopper.WARPGROUP, compute))
    in_range = compute <= hopper.SETMAXNREG_RANGE[1]
    return in_range and hopper.register_pair_fits(threads, per_role)
