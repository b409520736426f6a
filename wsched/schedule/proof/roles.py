"""Compute warpgroups: how many there are, who takes which steps, and with how many registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lowering.ground.expr import Const
from lowering.target.ptx import WARPGROUP
from wsched.fusion import IterDomain, Pipelined, WarpSpecialized
from wsched.schedule.proof.bounds import Guard
from wsched.schedule.proof.loading import load_registers_problem, warpgroups_that_load
from wsched.schedule.proof.orders import Misordered
from wsched.schedule.proof.relation import StepLoop
from wsched.schedule.proof.sides import ROLES, Sides
from wsched.schedule.proof.trim import Trimmed
from wsched.schedule.warpgroups import Warpgroups

__all__ = ["check_turns", "find_warpgroups"]


def find_warpgroups(sides: Sides, digits: Sequence[StepLoop], outside: int) -> Warpgroups:
    """The compute warpgroups, numbered so that those that share a tile are neighbours.

    Args:
        sides: of the edge.
        digits: compute's loops that take part in the load index.
        outside: how many of them choose the tile.

    Raises:
        ScheduleError: ``role``, ``registers``.
    """
    loops = [d for axis in ROLES if (d := sides.compute.axis_on(axis)) is not None]
    extents = {d: _constant(sides, d) for d in loops}
    turns = [s.domain.id for s in reversed(digits)]  # the fastest first: who comes next
    within = [s.domain.id for s in digits[outside:]]
    total = prod(extents.values())
    kind = sides.buffer.type
    dealing = [s.domain.label for s in digits if s.role]
    if isinstance(kind, Pipelined) and dealing:
        raise sides.refuse(
            "role",
            f"{dealing[0]} deals load steps out to warpgroups that also load: without a load "
            "warpgroup all of them take part in every step",
            ("WarpSpecialized(ParallelType.TIDy)",),
        )
    if isinstance(kind, WarpSpecialized) and kind.on not in ROLES and total > 1:
        raise sides.refuse(
            "role",
            f"warps are specialized on {kind.on}, where each of the {total} compute warpgroups "
            "would get one that loads: the one for all of them is one more on TIDy or TIDz",
            tuple(f"WarpSpecialized(ParallelType.{p})" for p in ROLES),
        )
    if sides.alone:
        _check_registers(sides, total)
    in_order = sorted(extents.items(), key=lambda found: _place(found[0].id, turns))
    return Warpgroups(
        tuple((d.parallel, n) for d, n in in_order),
        prod(n for d, n in extents.items() if d.id not in turns),
        prod(n for d, n in extents.items() if d.id in within),
    )


def _place(loop: int, turns: Sequence[int]) -> int:
    """Where a loop on warpgroups stands among the others: those without turns come first."""
    return turns.index(loop) + 1 if loop in turns else 0


def _constant(sides: Sides, d: IterDomain) -> int:
    if not isinstance(d.extent, Const):
        raise sides.refuse("role", f"the number of warpgroups {d.extent} is not a constant")
    return d.extent.value


def check_turns(
    sides: Sides, found: Sequence[Trimmed], guards: Sequence[Guard], outside: int
) -> None:
    """Warpgroups that take turns do so tile by tile, one after the other.

    The barriers that order them let one into its main loop when the one before has left it. So in
    the load index the role comes right above the steps of a tile, and all tiles above the role;
    and nobody misses a turn but at the end: what ends a role grows with every loop above it. Those
    that deal out the steps of a tile (``tile_steps``) do so one after the other, too, each all of
    its own, and nobody has fewer.

    Args:
        sides: of the edge.
        found: compute's loops that take part in the load index, slowest first.
        guards: what ends them.
        outside: how many of them choose the tile.

    Raises:
        Misordered: ``role``, where roles have another place, or are not beside each other.
        ScheduleError: ``role``, where one misses a turn.
    """
    digits = [t.loop for t in found]
    at = [p for p, s in enumerate(digits) if s.role]
    turns = sum(p < outside for p in at)
    if at != list(range(outside - turns, outside - turns + len(at))):
        raise _out_of_turn(digits, at)
    for guard in guards:
        moving = [bool(t.weight(guard).terms) for t in found]
        ended = [p for p in at if moving[p]]
        others = [digits[p].domain.label for p in range(outside) if not moving[p]]
        if ended and (others or ended[-1] >= outside):
            roles = ", ".join(digits[p].domain.label for p in at)
            each = f" for each {others[0]}" if others else ""
            raise sides.refuse(
                "role",
                f"{guard.group.label} < {guard.group.extent} ends the turns of {roles} early{each}:"
                " the next turn would not be that of the next warpgroup",
            )


def _out_of_turn(digits: Sequence[StepLoop], at: Sequence[int]) -> Misordered:
    fast = ", ".join(s.domain.label for s in reversed(digits))
    roles = ", ".join(digits[p].domain.label for p in at)
    return Misordered(
        "role",
        f"the load index counts {fast} from fastest to slowest, but warpgroups take turns tile by "
        f"tile: {roles} has to come between the tiles and the steps of a tile",
    )


def _check_registers(sides: Sides, roles: int) -> None:
    """The pair after ``setmaxnreg``: down for load, up for compute, no more than the CTA has."""
    kind = sides.buffer.type
    if isinstance(kind, Pipelined) or kind.num_registers is None:
        return
    rings = [r.tensors for part in sides.parts if part.loads for r in part.rings]
    loading = warpgroups_that_load(sides.fusion, rings, int(bool(sides.graph.dealt)))
    problem = load_registers_problem(sides.target, loading, roles, kind.num_registers)
    if problem:
        threads = WARPGROUP * (roles + loading)
        pairs = () if loading > 1 else sides.target.register_pairs(threads)
        legal = tuple(f"num_registers={pair}" for pair in pairs)
        raise sides.refuse("registers", problem, legal or ("num_registers=None",))
