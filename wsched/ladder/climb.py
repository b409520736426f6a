"""A rung made: its schedule and kernel, and what differs from the rung before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property
from typing import Any

from lowering.ground.progress import doing
from lowering.target.target import Target
from lowering.target.targets import DEFAULT, grouped
from wsched.choose.reckoned import PRODUCTS
from wsched.choose.step import FLOPS_PER_CYCLE
from wsched.front.own import kernel_of
from wsched.front.schedule import Schedule
from wsched.ladder.calls import lines_of
from wsched.ladder.decisions import TILE, Decisions, decide
from wsched.ladder.predict import Prediction, Shown, predict, shown
from wsched.ladder.rungs import DEFINITION, RUNGS, Rung, changed
from wsched.predict.world import resident
from wsched.run.compiled import CompiledFusion
from wsched.schedule.loops import side_by_side

__all__ = ["Step", "climb", "rate"]


@dataclass(frozen=True)
class Step:
    """A rung with what becomes of it.

    Args:
        rung: the rung.
        before: the step below; None of the first.
        target: the GPU that it is for.
    """

    rung: Rung
    before: Step | None
    target: Target = DEFAULT

    @cached_property
    def schedule(self) -> Schedule:
        """Call by call."""
        return decide(self._start, self.rung.decided)

    @property
    def _start(self) -> Schedule:
        """A schedule without calls. Where an instruction may be that of as many CTAs as share B,
        it is.
        """
        ctas = grouped(self.target.arch)
        target = ctas.get(self.rung.decided.cluster, self.target)
        return Schedule(DEFINITION, target=target.name)

    @cached_property
    def kernel(self) -> CompiledFusion:
        """The kernel of exactly this schedule."""
        with self._doing("made"):
            return kernel_of(self.schedule)

    @property
    def priced(self) -> bool:
        """Whether it is known how long what it does takes: costs were fitted on a GPU."""
        return self.target.tensor_memory is None

    @property
    def row_cycles(self) -> float:
        """Cycles of an SM's tensor core for a row of a tile and 64 of K."""
        products = FLOPS_PER_CYCLE / 2 if self.priced else PRODUCTS
        return TILE * 64 / products

    @property
    def why(self) -> str:
        """What the rung is for."""
        return self.rung.why if self.priced else self.rung.in_tensor_memory or self.rung.why

    @cached_property
    def prediction(self) -> Prediction:
        """What the machine with a clock says of it."""
        with self._doing("predicted"):
            return predict(self.kernel, self.rung.decided)

    @cached_property
    def shown(self) -> Shown:
        """A short run on it."""
        with self._doing("shown"):
            return shown(self.kernel, self.rung.decided)

    def _doing(self, what: str) -> AbstractContextManager[None]:
        return doing(f"{self.rung.name} of {RUNGS[-1].name} is {what}")

    @property
    def decision(self) -> str:
        """The field that differs from the rung before, and its values; empty of the first rung."""
        if self.before is None:
            return ""
        was, now = self.before.rung.decided, self.rung.decided
        names = changed(was, now)
        return ", ".join(f"{n}: {_word(was, n)} → {_word(now, n)}" for n in names)

    @property
    def nests(self) -> str:
        """The loop nests of its parts, without the extents."""
        return side_by_side(self.schedule.fusion).partition("\nextents\n")[0].rstrip()

    @property
    def calls(self) -> str:
        """The primitives, one call a line."""
        return "\n".join(lines_of(self._start, self.schedule.history)) + "\n"

    def diff(self, what: str) -> str:
        """What differs from the rung before, lines with ``-`` and ``+``; all of it of the first.

        Args:
            what: ``calls``, or a stage that ``CompiledFusion.dump`` knows.
        """
        mine = self._text(what)
        if self.before is None:
            return mine
        return _differences(self.before._text(what).splitlines(), mine.splitlines())

    def _text(self, what: str) -> str:
        if what == "calls":
            return self.calls
        return self.kernel.dump(what).replace(self.kernel.kernel.name, "matmul")

    def to_dict(self, m: int, n: int, k: int, measured_us: float | None = None) -> dict[str, Any]:
        """All of it as JSON data, for a problem.

        Args:
            m: rows.
            n: columns.
            k: what is summed over.
            measured_us: what a GPU took, if it was asked.
        """
        us = self.prediction.us(self.rung.decided, m, n, k) if self.priced else None
        return {
            "rung": self.rung.name, "target": self.schedule.target.name, "title": self.rung.title,
            "why": self.why, "decision": self.decision, "calls": self.diff("calls"),
            "loops": self.nests,
            "threads": self.kernel.kernel.threads, "registers": self.kernel.resources.registers,
            "shared_bytes": self.kernel.kernel.shared_bytes, "resident": resident(self.kernel),
            "predicted_us": us, "predicted_tflops": None if us is None else rate(m, n, k, us),
            "measured_us": measured_us,
            "measured_tflops": None if measured_us is None else rate(m, n, k, measured_us),
            "waits": {lane.name: lane.shares(self.shown.cycles) for lane in self.shown.lanes},
        }  # fmt: skip


def rate(m: int, n: int, k: int, us: float) -> float:
    """TFLOP/s of a problem that takes so many microseconds."""
    return 2 * m * n * k / us / 1e6


def climb(target: Target = DEFAULT) -> tuple[Step, ...]:
    """All rungs for a GPU, from the first."""
    found: list[Step] = []
    for rung in RUNGS:
        found.append(Step(rung, found[-1] if found else None, target))
    return tuple(found)


def _word(decided: Decisions, name: str) -> str:
    value = getattr(decided, name)
    return str(getattr(value, "value", value))


def _differences(old: Sequence[str], new: Sequence[str]) -> str:
    lines = unified_diff(old, new, n=0, lineterm="")
    kept = [x for x in lines if not x.startswith(("---", "+++", "@@"))]
    return "".join(f"{x}\n" for x in kept)
