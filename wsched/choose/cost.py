"""Microseconds of a kernel, part by part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from lowering.ground.frozen import quick

__all__ = ["Cost"]

_PARTS = {
    "start": "launch_us", "k loops": "main_us", "epilogues": "epilogue_us",
    "adding parts": "combine_us", "memory": "memory_us", "power": "power_us",
}  # fmt: skip
"""What takes time, and the field that has it."""

_us_of_parts: Callable[[Cost], tuple[float, ...]] = attrgetter(*_PARTS.values())


@quick
@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of a kernel, and what they are made of.

    Args:
        launch_us: start of the kernel.
        main_us: the k loops of the SM with most tiles.
        epilogue_us: epilogues that no main loop hides.
        combine_us: adding up the parts of tiles that CTAs share.
        memory_us: more, because L2 or memory are slower than that.
        power_us: more, because the power limit takes clock.
        tiles: output tiles, with those that a cluster adds at an edge.
        rounds: tiles of the CTA with most.
        step: what a step of the k loop waits for: ``tensor cores``, ``shared memory``,
            ``copies``, ``latency`` or ``threads that load``.
        factor: measured over predicted time of kernels like it, beside others at the same problem
            (:mod:`wsched.choose.learned`); 1 where nobody has measured such.
        measured: whether the model was fitted to kernels that ran; else it is reckoned from data
            sheets, and nobody knows how far off it is.
    """

    launch_us: float
    main_us: float
    epilogue_us: float
    combine_us: float
    memory_us: float
    power_us: float
    tiles: int
    rounds: int
    step: str
    factor: float = 1.0
    measured: bool = True

    @property
    def parts(self) -> dict[str, float]:
        """Microseconds by what takes them, by the laws."""
        return dict(zip(_PARTS, _us_of_parts(self), strict=True))

    @property
    def by_laws(self) -> float:
        """The sum of the parts."""
        return sum(_us_of_parts(self))

    @property
    def us(self) -> float:
        """Microseconds of the whole."""
        return self.by_laws * self.factor

    def __str__(self) -> str:
        shown = {n: us for n, us in self.parts.items() if us or n != "adding parts"}
        parts = ", ".join(f"{name} {us:.1f}" for name, us in shown.items())
        rounds = f"{self.rounds} round{'s' * (self.rounds != 1)}"
        guess = "" if self.measured else "by data sheets, nothing was measured, "
        known = "" if self.factor == 1 else f", {self.factor:.3f} of these by kernels like it"
        return (
            f"{guess}{self.us:.1f} us: {parts} ({rounds} of tiles, a step waits for {self.step})"
            f"{known}"
        )

    def worse(self, best: Cost) -> str:
        """What costs more than in a faster schedule: the part with the largest difference."""
        more = {name: us - best.parts[name] for name, us in self.parts.items()}
        name = max(more, key=lambda n: more[n])
        if (measured := self.by_laws * (self.factor - best.factor)) > more[name]:
            return f"{measured:.1f} us more by what kernels like it were measured to take"
        why = {
            "k loops": f", which wait for {self.step} in {self.rounds} rounds, not {best.rounds}"
            if self.rounds != best.rounds
            else f", which wait for {self.step}",
        }.get(name, "")
        return f"{more[name]:.1f} us more in {name}{why}"
