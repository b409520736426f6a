"""Whether the accumulators of a schedule fit into registers."""

from __future__ import annotations

from math import prod

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Const
from lowering.target import ptx
from wsched.fusion import (
    IterDomain,
    IterType,
    ParallelType,
    TensorView,
    WarpSpecialized,
    nest_text,
)
from wsched.schedule.plan import Plan
from wsched.schedule.proof.loading import loading_warpgroups

__all__ = ["BARE_REGISTERS", "SPARE_REGISTERS", "require_registers"]

SPARE_REGISTERS = 32
"""Registers of a thread beside its accumulators. Seen with ptxas 13.0: no spills up to 200
accumulators at 232 registers and 208 at 240; at 512 threads (128 at entry) m64n192 is the widest
wgmma that compiles."""

BARE_REGISTERS = 28
"""The same without any of the epilogue."""

_IN_THREADS = (ParallelType.Serial, ParallelType.Unroll, ParallelType.Mma)


def require_registers(made: Plan) -> None:
    """Refuse what no compiler finds registers for, whatever the epilogue.

    Raises:
        ScheduleError: rule ``registers``: the accumulators of a thread, or those of one wgmma as
            the kernel starts, leave too few for all else.
    """
    relation = made.operands
    readers = (made.fusion.tensor(name) for name in relation.readers)
    sums = [t for t in readers if t.sums] or [made.fusion.tensor(relation.compute)]
    kind = relation.buffer.type
    specialized = isinstance(kind, WarpSpecialized)
    rings = [e.relation.loads for e in made.rings if made.parts[e.producer].loads]
    loading = loading_warpgroups(made.fusion, rings) if specialized else 0
    threads = ptx.WARPGROUP * (relation.warpgroups.count + loading)
    entry = made.target.registers_at_entry(threads)
    pair = kind.num_registers if isinstance(kind, WarpSpecialized) else None
    most = entry if pair is None else pair[1]
    held = [[d for d in t.loop[t.compute_at :] if d.parallel in _IN_THREADS] for t in sums]
    one = [d for d in held[0] if d.parallel is ParallelType.Mma]
    for loops, limit, other in ((held, most, BARE_REGISTERS), ([one], entry, SPARE_REGISTERS)):
        number = sum(map(_elements, loops)) // ptx.WARPGROUP
        if number + other > limit:
            what = "a thread" if loops is held else "one wgmma"
            why = (
                f"{number} accumulators of {what} and {other} other registers exceed the {limit} "
                f"of a thread, of {threads} in a CTA"
            )
            wrote = " and ".join(map(_wrote, sums, loops))
            raise ScheduleError(
                "registers", wrote, why, ("a smaller tile", "more warpgroups"), nest_text(sums[0])
            )


def _wrote(t: TensorView, loops: list[IterDomain]) -> str:
    return f"{t.name}: " + " * ".join(f"{d.label} {d.extent}" for d in loops if _counts(d))


def _counts(d: IterDomain) -> bool:
    """Whether a loop runs over accumulators: not over what is summed."""
    return d.iter_type is IterType.Iteration and isinstance(d.extent, Const)


def _elements(loops: list[IterDomain]) -> int:
    return prod(d.extent.value for d in loops if _counts(d) and isinstance(d.extent, Const))
