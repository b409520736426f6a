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
    nest_text,
)
from wsched.schedule.plan import Plan

__all__ = ["BARE_REGISTERS", "FURTHER_REGISTERS", "SPARE_REGISTERS", "require_registers"]

SPARE_REGISTERS = 32
"""Registers of a thread beside its accumulators. Seen with ptxas 13.0: no spills up to 200
accumulators at 232 registers and 208 at 240; at 512 threads (128 at entry) m64n192 is the widest
wgmma that compiles."""

BARE_REGISTERS = 28
"""The same without any of the epilogue."""

FURTHER_REGISTERS = 5
"""What each reduction but the first takes beside them. Seen with NVRTC 13.0: of 160 accumulators
and 40 columns that are held in fp32 one spills nothing at 232 registers, three do, five at 240."""

_REGISTER_BYTES = 4

_IN_THREADS = (ParallelType.Serial, ParallelType.Unroll, ParallelType.Mma)


def require_registers(made: Plan) -> None:
    """Refuse what no compiler finds registers for, whatever the epilogue.

    Raises:
        ScheduleError: rule ``registers``: the accumulators of a thread of some part, or those of
            one wgmma as the kernel starts, leave too few for all else.
    """
    for at in made.computing:
        main = made.main(at)
        readers = () if main is None else main.readers
        sums = [t for name in readers if (t := made.fusion.tensor(name)).sums]
        if sums and not made.parts[at].issued:
            _require(made, sums, made.registers(at))


def _require(made: Plan, sums: list[TensorView], most: int | None) -> None:
    """The accumulators ``sums`` are those of one thread, which has ``most`` registers after
    ``setmaxnreg``; None where that stays as the kernel starts.
    """
    entry = made.target.registers_at_entry(made.threads)
    held = [[d for d in t.loop[t.compute_at :] if d.parallel in _IN_THREADS] for t in sums]
    one = [d for d in held[0] if d.parallel is ParallelType.Mma]
    for loops, limit, other in (
        (held, most or entry, BARE_REGISTERS), ([one], entry, SPARE_REGISTERS),
    ):  # fmt: skip
        elements = zip(sums, map(_elements, loops), strict=False)
        number = sum(t.dtype.bytes * n for t, n in elements) // ptx.WARPGROUP // _REGISTER_BYTES
        if loops is held and any(e.promotion for e in made.fusion.mmas):
            number += len(held) * _elements(one) // ptx.WARPGROUP  # that wgmmas add to
        if number + other > limit:
            what = "a thread" if loops is held else "one wgmma"
            why = (
                f"{number} accumulators of {what} and {other} other registers exceed the {limit} "
                f"of a thread, of {made.threads} in a CTA"
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
