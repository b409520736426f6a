"""Move registers from the load role to the compute role with ``setmaxnreg``.

Requires: roles that divide the CTA's warps.
Guarantees: each role begins with its ``setmaxnreg``, and the counts fit the CTA's pool. ptxas
accepts an impossible pair silently and the kernel then waits for ever for registers that nobody
gives back, so the sum is checked here: over all roles, threads x registers must not exceed
threads x floor8(65536 / threads).

setmaxnreg is one statement of all four warps of a warpgroup. Roles that share a warpgroup want the
same count, and get a role around them that has it.

After ``warp_specialize``, before ``wait_for_earlier_grids``, which stands behind a role's head.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError, ScheduleError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Role, Roles, SetMaxNReg, Stmt
from lowering.target.target import Target
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

    Roles that share a warpgroup::

        role left warps 8 .. 9 registers 40 { ... }
        role right warps 9 .. 12 registers 40 { ... }

    after::

        role left_right warps 8 .. 12 {
          setmaxnreg dec, 40
          roles { role left warps 8 .. 9 { ... }  role right warps 9 .. 12 { ... } }
        }

    Where registers are left to others, the CTA has what the roles want together::

        kernel k threads 384 registers 152 ... {
          ...
          role compute warps 0 .. 8 as wg { setmaxnreg inc, 216  ... }
          role load warps 8 .. 12 { setmaxnreg dec, 24  ... }

    Raises:
        ScheduleError: a count that setmaxnreg cannot take, or counts beyond the pool.
        InternalError: only some roles have a count, or a warpgroup would have several.
    """
    if options.leaves_registers:
        kernel = replace(kernel, registers=_wanted(kernel))
    return replace(kernel, body=tuple(_reallocated(s, kernel) for s in kernel.body))


def _wanted(kernel: Kernel) -> int | None:
    """Registers of a thread at entry that are enough for all roles; None if these have no count."""
    roles = [r for s in kernel.body if isinstance(s, Roles) for r in s.roles]
    total = sum(32 * r.warps * (r.registers or 0) for r in roles)
    step = kernel.target.register_step
    return -(-total // (kernel.threads * step)) * step or None


def _reallocated(stmt: Stmt, kernel: Kernel) -> Stmt:
    threads, target = kernel.threads, kernel.target
    if not isinstance(stmt, Roles) or all(r.registers is None for r in stmt.roles):
        return stmt
    parts = [(_count(run), run) for run in _by_warpgroup(stmt.roles)]
    _check(threads, parts, target)
    entry = kernel.registers_at_entry

    def headed(count: int, run: tuple[Role, ...]) -> Role:
        head = SetMaxNReg("dec" if count <= entry else "inc", count)
        inner = tuple(replace(r, registers=None) for r in run)
        if len(run) == 1:
            return replace(inner[0], body=(head, *inner[0].body))
        warps = sum(r.warps for r in run)
        name = "_".join(r.name for r in run)
        return Role(name, run[0].first_warp, warps, (head, Roles(inner)))

    return Roles(tuple(headed(*part) for part in parts))


def _by_warpgroup(roles: tuple[Role, ...]) -> list[tuple[Role, ...]]:
    """The shortest runs of neighbours that are whole warpgroups; a role alone in the usual case."""
    runs: list[tuple[Role, ...]] = []
    run: tuple[Role, ...] = ()
    for role in sorted(roles, key=lambda r: r.first_warp):
        run = (*run, role)
        if role.span.stop % 4 == 0:
            runs.append(run)
            run = ()
    if run:
        names = ", ".join(r.name for r in run)
        raise InternalError("reallocate_registers", f"{names}: not a whole warpgroup in the end")
    return runs


def _count(run: tuple[Role, ...]) -> int:
    """The registers that all roles of a run want."""
    counts = {r.name: r.registers for r in run}
    first = run[0].registers
    if first is None or set(counts.values()) != {first}:
        raise InternalError("reallocate_registers", f"registers of roles: {counts}")
    return first


def _check(threads: int, parts: list[tuple[int, tuple[Role, ...]]], target: Target) -> None:
    """Refuse counts beyond the pool.

    Where one role is of warps that each load for themselves and one of warpgroups, in the words of
    the schedule, which gives such a pair.
    """
    by_name = {r.name: count for count, run in parts for r in run}
    loading = [count for count, run in parts for r in run if r.group is None]
    computing = [count for count, run in parts for r in run if r.group is not None]
    if len(loading) == len(computing) == 1:
        (load,), (compute,) = loading, computing
        problem = target.register_pair_problem(threads, load, compute)
        wrote = f"WarpSpecialized(num_registers=({load}, {compute}))"
        legal = tuple(f"num_registers={pair}" for pair in target.register_pairs(threads))
    else:
        shares = tuple((32 * sum(r.warps for r in run), count) for count, run in parts)
        problem = target.registers_problem(threads, shares)
        wrote = "registers of roles: " + ", ".join(f"{n} {c}" for n, c in by_name.items())
        legal = ()
    if problem:
        raise ScheduleError("registers", wrote, problem, legal or ("num_registers=None",))
