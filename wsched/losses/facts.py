"""What is known of why a kernel takes as long as it does, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from wsched.choose.cost import Cost
from wsched.losses.effects import Loss
from wsched.losses.mends import Mend
from wsched.losses.roofline import Roofline
from wsched.trace.overlay import Overlay

__all__ = ["LEAST", "Facts", "Mended"]

LEAST = 0.005
"""Part of the time that a loss has to be, to be named."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A loss with what would mend it, best first."""

    loss: Loss
    mends: tuple[Mend, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of why a kernel takes as long as it does.

    Args:
        kernel: its name.
        problem: the extents, ``MxNxK``.
        gpu: what is planned for.
        sms: multiprocessors of it.
        roofline: what no schedule is faster than, and what this one moves.
        losses: in the order of :data:`wsched.losses.effects.EFFECTS`; with the roofline's time they
            are the time that is predicted.
        largest: those that cost most, with what would mend them.
        cost: of the whole by the laws, as ``explain`` has its parts.
        tensor_share: part of the cycles in which tensor cores work, zeros beyond edges included.
        watts: power limit of the board; None where it is not known.
        tuned_us: microseconds that a table has measured of this schedule, which it was chosen for;
            None where the cost model chose it, or its user.
        waits: of a CTA's warpgroups the part of the time that they spend on each of
            :data:`wsched.predict.activity.ACTIVITIES`, by the machine with a clock; empty where it
            has no time line of the kernel.
        unknown: why there are no waits; empty where there are.
        measured: the time line of a launch that was predicted beside the one that was measured;
            None without.
    """

    kernel: str
    problem: str
    gpu: str
    sms: int
    roofline: Roofline
    losses: tuple[Loss, ...]
    largest: tuple[Mended, ...]
    cost: Cost
    tensor_share: float
    watts: int | None
    tuned_us: float | None
    waits: Mapping[str, Mapping[str, float]]
    unknown: str
    measured: Overlay | None

    @property
    def us(self) -> float:
        """Microseconds that are predicted, where the kernel runs again and again."""
        return self.cost.us

    @property
    def limited(self) -> bool:
        """Whether the power limit takes clock."""
        return self.cost.power_us > LEAST * self.us

    @property
    def joules(self) -> float | None:
        """Of a launch at the power limit: what it takes where that takes clock, else a bound."""
        return None if self.watts is None else self.watts * self.us * 1e-6

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        r = self.roofline
        return {
            "kernel": self.kernel, "problem": self.problem, "gpu": self.gpu, "sms": self.sms,
            "predicted_us": self.us, "tuned_us": self.tuned_us, "cost": asdict(self.cost),
            "roofline": {"us": r.us, "bound": r.bound,
                         "traffic": [t.to_dict() for t in (r.flop, r.l2, r.memory)]},
            "losses": [{"effect": x.effect, "us": x.us, "about": x.about} for x in self.losses],
            "largest": [{"effect": x.loss.effect, "mends": [m.to_dict() for m in x.mends]}
                        for x in self.largest],
            "tensor_share": self.tensor_share,
            "energy": None if self.joules is None else
            {"joules": self.joules, "watts": self.watts, "at_most": not self.limited},
            "waits": {name: dict(row) for name, row in self.waits.items()},
            "waits_unknown": self.unknown or None,
            "measured": None if self.measured is None else
            [p.to_dict() for p in self.measured.phases],
        }  # fmt: skip
