"""What of a running program wsched has taken, what not and why, and what that saved."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from wsched.doors.dropin.ledger import LEDGER, Tally

__all__ = ["Report", "report"]

REASONS = 12
"""Reasons that the text shows, those of most operations first."""


@dataclass(frozen=True, slots=True)
class Report:
    """Calls of ``FusionDefinition.execute`` with wsched in front, since it was installed.

    Args:
        lines: one for each definition and class of inputs, in the order of their first calls.
    """

    lines: tuple[Tally, ...]

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(t.calls for t in self.lines)

    @property
    def taken(self) -> int:
        """Calls of which wsched ran a part."""
        return sum(t.calls for t in self.lines if not t.reason)

    @property
    def share(self) -> float | None:
        """The part of the matmuls' operations with 16-bit operands that ran in wsched's kernels.

        None if there was none.
        """
        narrow = [(s.reason, s.flops * t.calls) for t in self.lines for s in t.shares if s.narrow]
        whole = sum(flops for _, flops in narrow)
        return sum(flops for reason, flops in narrow if not reason) / whole if whole else None

    @property
    def saved_us(self) -> float:
        """Predicted microseconds that all calls together took less than nvFuser's own route."""
        return sum(t.saved_us for t in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, times in microseconds."""
        lines = [
            {
                "name": t.name,
                "calls": t.calls,
                "taken": not t.reason,
                "reason": t.reason,
                "predicted_us": None if t.cost is None else t.cost.us,
                "nvfuser_us": None if t.nvfuser is None else t.nvfuser.us,
                "saved_us": t.saved_us,
                "matmuls": [asdict(s) for s in t.shares],
            }
            for t in self.lines
        ]
        return {
            "calls": self.calls,
            "taken": self.taken,
            "share": self.share,
            "saved_us": self.saved_us,
            "lines": lines,
        }

    def __str__(self) -> str:
        if not self.lines:
            return "no call of FusionDefinition.execute with wsched in front of nvFuser\n"
        share = "none of 16 bits" if self.share is None else f"{self.share:.1%} of the operations"
        lines = [
            f"{self.taken} of {self.calls} calls taken in part or whole; of the matmuls: {share} "
            f"in wsched's kernels; predicted to have saved {self.saved_us / 1e3:.3f} ms",
            "",
            *map(_line, sorted(self.lines, key=lambda t: -_flops(t) * t.calls)),
        ]
        if reasons := self._reasons():
            lines += ["", "why not:", *reasons]
        return "\n".join([*lines, ""])

    def _reasons(self) -> list[str]:
        """Why matmuls are in no kernel, with the operations that this cost."""
        lost: Counter[str] = Counter()
        for t in self.lines:
            for s in t.shares:
                if s.reason:
                    lost[s.reason] += s.flops * t.calls
        whole = sum(s.flops * t.calls for t in self.lines for s in t.shares) or 1
        shown = lost.most_common(REASONS)
        told = [f"  {flops / whole:6.1%} of the operations: {why}" for why, flops in shown]
        more = len(lost) - len(shown)
        return [*told, *([f"  and {more} more reasons"] if more else [])]


def _flops(tally: Tally) -> int:
    return sum(s.flops for s in tally.shares)


def _line(tally: Tally) -> str:
    if tally.reason:
        return f"  {tally.calls:7} x {tally.name}: nvFuser ({tally.reason})"
    own = sum(not s.reason for s in tally.shares)
    predicted = ""
    if tally.cost is not None and tally.nvfuser is not None:
        predicted = f", {tally.cost.us:.1f} us instead of {tally.nvfuser.us:.1f}"
    return f"  {tally.calls:7} x {tally.name}: {own} of {len(tally.shares)} matmuls{predicted}"


def report(*, clear: bool = False) -> Report:
    """What has become of all calls since wsched was installed, in this process.

    Calls under :func:`wsched.install`, :func:`wsched.enabled` and of ``wsched.FusionDefinition``.
    Times are predicted ones of an H200 (design note 0017), nothing is measured.

    Args:
        clear: whether the next report begins with the calls after this one.

    Returns:
        The report; ``str`` of it is a text, ``to_dict`` plain data for JSON.
    """
    found = Report(tuple(Tally(*_fields(t)) for t in LEDGER.lines()))
    if clear:
        LEDGER.clear()
    return found


def _fields(tally: Tally) -> tuple[Any, ...]:
    return tuple(getattr(tally, name) for name in Tally.__dataclass_fields__)
