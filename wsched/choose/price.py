"""What the schedule that is taken for a problem counts as: one price, wherever ways are compared.

A schedule that a table has for this GPU counts as it was measured, any other one as the model
predicts it. What a shipped table measured is 0.82 to 1.06 of what the model says, by sizes, and
two ways of a call are often closer than that. So a measured time is never held against one that is
only predicted: where a table has the same product under another epilogue, the model's time counts
by what that took over what the model says of it, and the error is in both.
"""

from __future__ import annotations

from dataclasses import dataclass

from wsched.choose.cost import Cost
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import least_cost, taken
from wsched.choose.learned.order import near
from wsched.choose.problem import Problem
from wsched.choose.thread_loads import copied_us
from wsched.choose.tuned.entry import Entry
from wsched.choose.tuned.lookup import Hit, lookup_product
from wsched.schedule.matmul.kernel_options import thread_bytes
from wsched.schedule.matmul.params import MatmulParams, ThreadLoads

__all__ = ["Price", "price"]


@dataclass(frozen=True, slots=True)
class Price:
    """What is taken for a problem, and what it counts as.

    Args:
        params: the schedule that :func:`~wsched.choose.heuristics.choose_params` returns.
        cost: by the laws, of exactly that schedule; where one is taken because kernels like it were
            measured to be faster (:mod:`wsched.choose.learned`), of what the laws put first.
        hit: of the table that the schedule is from; None if the model chose it.
        scale: what was measured of the product on this GPU over what the model predicts of it; 1
            where no table has it, so that the model is all that is known.
        spared_us: of copies of operands that TMA cannot read, where threads load them instead.
    """

    params: MatmulParams
    cost: Cost
    hit: Hit | None = None
    scale: float = 1.0
    spared_us: float = 0.0

    @property
    def measured(self) -> bool:
        """Whether exactly this was measured on this GPU; what a sister takes says little here."""
        return self.hit is not None and not self.hit.of_sister

    @property
    def us(self) -> float:
        """Microseconds."""
        if self.hit is not None and self.measured:
            return self.hit.entry.us
        return self.cost.us * self.scale

    @property
    def by(self) -> str:
        """Where it is from, in a few words."""
        if self.measured:
            return "measured"
        return "predicted" if self.scale == 1 else "predicted beside what was measured"


def price(problem: Problem) -> Price:
    """The price of what is taken for a problem.

    Raises:
        UnsupportedError: there is no schedule for it.
    """
    found = taken(problem)
    ranked = found.hit is None and near(problem) > 1
    mine = least_cost(problem) if ranked else cost(problem, found.params)
    own = found.hit or lookup_product(problem)
    left = copied_us(problem, ThreadLoads(*thread_bytes(found.params)))
    scale = 1.0 if own is None or own.of_sister else _scale(own.entry)
    return Price(found.params, mine, found.hit, scale, copied_us(problem) - left)


def _scale(entry: Entry) -> float:
    """What was measured over what the laws say of what they put first."""
    return entry.us / least_cost(entry.problem).us
