"""The warpgroups that load: one thread does where TMA copies, whole warpgroups where threads do."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from lowering.ground.expr import Const
from lowering.target import ptx
from lowering.target.target import Target
from wsched.fusion import Fusion, ParallelType, TensorView
from wsched.schedule.warpgroups import ROLES, Warpgroups

__all__ = ["load_registers_problem", "sharing", "warpgroups_that_fill", "warpgroups_that_load"]


def warpgroups_that_fill(fusion: Fusion, loads: Iterable[str]) -> Warpgroups | None:
    """Those whose threads fill a ring: all of them fill each stage together.

    Args:
        fusion: the schedule.
        loads: what is loaded into the ring.

    Returns:
        None where one thread does, by TMA. Tensors that threads load share what they have on TIDy
        and TIDz (rule ``role``), so the first one says how many there are.
    """
    threads = [fusion.tensor(t) for t in loads if t in fusion.loaded_by_threads]
    if not threads:
        return None
    found = sharing(threads[0])
    return Warpgroups(found, prod(n for _, n in found))


def sharing(t: TensorView) -> tuple[tuple[ParallelType, int], ...]:
    """How many warpgroups share a stage of what threads load, along each axis that is used; 0 of a
    number that is not known when the kernel is made.
    """
    loops = [(axis, d.extent) for axis in ROLES if (d := t.axis_on(axis)) is not None]
    return tuple((axis, n.value if isinstance(n, Const) else 0) for axis, n in loops)


def warpgroups_that_load(fusion: Fusion, rings: Iterable[tuple[str, ...]], alone: int = 0) -> int:
    """Warpgroups that fill rings: those of each ring that threads fill, one for every four warps.

    Args:
        fusion: the schedule.
        rings: what is loaded into each.
        alone: warps beside those that TMA needs, of one thread each: they find out which tile is
            next, or issue products.
    """
    found = [warpgroups_that_fill(fusion, loads) for loads in rings]
    warps = sum(groups is None for groups in found) + alone
    return sum(g.count for g in found if g is not None) - (-warps // ptx.WARPS)


def load_registers_problem(
    target: Target, loading: int, computing: int, pair: tuple[int, int]
) -> str | None:
    """Why warpgroups that load and that compute cannot have a pair of registers; None if they can.

    Args:
        target: the GPU.
        loading: how many warpgroups load.
        computing: how many compute.
        pair: registers of a thread that loads, and of one that computes.
    """
    threads = ptx.WARPGROUP * (loading + computing)
    if loading == 1:
        return target.register_pair_problem(threads, *pair)
    sizes = [ptx.WARPGROUP * n for n in (loading, computing)]
    return target.registers_problem(threads, tuple(zip(sizes, pair, strict=True)))
