"""What no schedule is faster than: FLOP at the tensor cores' rate, bytes at that of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wsched.choose.cost_model import GHZ, Terms
from wsched.choose.memory import bytes_per_us, least_bytes, memory_bytes
from wsched.choose.problem import Problem
from wsched.choose.step import FLOPS_PER_CYCLE, stage_bytes
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Roofline", "Traffic", "roofline_of"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Something that is moved or computed.

    Args:
        name: what.
        amount: FLOP or bytes, of a launch.
        rate: of it in a microsecond at most, by all SMs.
        least: what of it no schedule can do without.
    """

    name: str
    amount: float
    rate: float
    least: float

    @property
    def us(self) -> float:
        """Microseconds that the amount takes alone."""
        return self.amount / self.rate

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "name": self.name, "amount": self.amount, "rate_per_us": self.rate, "us": self.us,
            "least": self.least,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bounds of a problem, and what a schedule moves.

    Args:
        flop: multiplied and added, with the zeros beyond the edges of tiles; the least of it are
            the problem's. Of operands of 8 bits half as much counts, of 32 bits twice.
        l2: bytes of operands that SMs load, by way of the L2.
        memory: bytes that memory moves; the least of it is everything once.
    """

    flop: Traffic
    l2: Traffic
    memory: Traffic

    @property
    def us(self) -> float:
        """Microseconds that no schedule is faster than."""
        return max(t.least / t.rate for t in (self.flop, self.memory))

    @property
    def bound(self) -> str:
        """Which of both it is."""
        flop, memory = (t.least / t.rate for t in (self.flop, self.memory))
        return self.flop.name if flop >= memory else self.memory.name


def roofline_of(problem: Problem, params: MatmulParams, terms: Terms) -> Roofline:
    """The roofline of a problem, with what a schedule of it moves.

    Args:
        problem: which.
        params: the schedule.
        terms: what its time is made of.
    """
    computed = problem.exchanged if params.exchange_operands else problem
    steps = terms.tiles * computed.steps(params.output_tile.k)
    tile = params.output_tile
    wide = problem.operand.bytes / 2  # of 16 bits the tensor cores' rate
    done = 2 * problem.products * steps * tile.m * tile.n * tile.k * wide
    least = 2 * problem.products * problem.batch * problem.m * problem.n * problem.k * wide
    clock = GHZ * 1e3 * problem.sms
    loaded = steps * stage_bytes(computed, tile)
    rate = stage_bytes(computed, tile) / terms.step.fill * clock
    moved = memory_bytes(computed, params, *problem.tiles(params))
    return Roofline(
        Traffic("tensor cores", done, FLOPS_PER_CYCLE * clock, least),
        Traffic("L2", loaded, rate, sum(problem.operand_bytes)),
        Traffic("memory", moved, bytes_per_us(problem), least_bytes(problem)),
    )
