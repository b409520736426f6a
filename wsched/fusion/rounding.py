"""What products are rounded to: casts of their sums, a bias added, and what widens these again.

A linear or matmul has a 16-bit result, which what follows reads (design/0008-epilogue.md). Where
nothing else reads the sums, what they are rounded to takes their place.
"""

from __future__ import annotations

from dataclasses import dataclass

from wsched.fusion.expr import CastOp, FusionExpr, LoadStoreOp, MmaOp, PointwiseOp, inputs_of
from wsched.fusion.fusion import Fusion

__all__ = ["Rounding", "roundings"]


@dataclass(frozen=True, slots=True)
class Rounding:
    """A cast of sums.

    Args:
        sums: what the product adds up, then its copy out of tensor memory and what a bias was added
            to, if there are such; the last one is cast.
        output: what it is cast to.
        again: what that is cast to.
        alone: whether all that reads the sums are casts to 16 bits.
    """

    sums: tuple[str, ...]
    output: str
    again: tuple[str, ...]
    alone: bool

    @property
    def tensors(self) -> tuple[str, ...]:
        """All of them, which take turns in as many registers as the sums have."""
        return (*self.sums, self.output, *self.again)


def roundings(fusion: Fusion) -> tuple[Rounding, ...]:
    """The casts of sums, in topological order."""
    sums, found = dict[str, tuple[str, ...]](), list[Rounding]()
    for e in fusion.exprs:
        made = [sums[name] for name in inputs_of(e) if name in sums]
        if isinstance(e, MmaOp):
            sums[e.output] = (e.output,)
        elif isinstance(e, CastOp) and made:
            again = (x.output for x in fusion.uses(e.output) if isinstance(x, CastOp))
            found.append(Rounding(made[0], e.output, tuple(again), _alone(fusion, made[0])))
        elif len(made) == 1 and _goes_on(e):
            sums[e.output] = (*made[0], e.output)
    return tuple(found)


def _goes_on(e: FusionExpr) -> bool:
    """Whether what an expression makes of sums are sums still."""
    return isinstance(e, LoadStoreOp) or (isinstance(e, PointwiseOp) and e.op == "add")


def _alone(fusion: Fusion, sums: tuple[str, ...]) -> bool:
    """Whether sums are read as those that follow them, the last ones by casts to 16 bits."""
    return all(
        e.output in sums or (isinstance(e, CastOp) and fusion.tensor(e.output).dtype.bytes == 2)
        for name in sums
        for e in fusion.uses(name)
    )
