"""The page of the ladder: what stands between its marks is made here.

``<!-- NAME -->`` opens a part and ``<!-- end -->`` closes it; ``table`` is that of all rungs,
``v3`` what is generated of the third, ``choice`` what separates the last one from the heuristic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from wsched.ladder.choice import to_choice
from wsched.ladder.climb import Step, rate
from wsched.predict.activity import ACTIVITIES

__all__ = ["PROBLEM", "generated", "with_generated"]

PROBLEM = (4096, 4096, 4096)
"""M, N and K of the table."""

CHOSEN = (PROBLEM, (8192, 8192, 8192))
"""The same of the ways to the heuristic's choice."""

_PART = re.compile(r"<!-- (table|waits|choice|v\d+) -->\n.*?<!-- end -->\n", re.DOTALL)


def with_generated(page: str, steps: Sequence[Step]) -> str:
    """A page with its generated parts made anew.

    Args:
        page: the text.
        steps: all rungs.
    """
    return _PART.sub(lambda found: generated(found[1], steps), page)


def generated(name: str, steps: Sequence[Step]) -> str:
    """A part with its marks.

    Args:
        name: ``table``, ``waits``, ``choice`` or that of a rung.
        steps: all rungs.
    """
    if name == "table":
        text = _table(steps)
    elif name == "waits":
        text = _waits(steps)
    elif name == "choice":
        text = "\n".join(map(_way, CHOSEN))
    else:
        text = next(_rung(s) for s in steps if s.rung.name == name)
    return f"<!-- {name} -->\n{text}<!-- end -->\n"


def _table(steps: Sequence[Step]) -> str:
    """Rungs and what is predicted of them; where costs are assumed, no speed."""
    priced = all(s.priced for s in steps)
    heads = ["rung", "decision", "threads", "KiB shared", "CTAs of an SM",
             "cycles for 64 of K", "% of them in which the tensor core works"]  # fmt: skip
    heads += ["predicted TFLOP/s"] * priced
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for s in steps:
        cells, p, kernel = [s.rung.name, s.decision or s.rung.title], s.prediction, s.kernel.kernel
        share = 100 * p.tiles * s.rung.decided.rows * s.row_cycles / p.slice
        cells += [f"{kernel.threads}", f"{kernel.shared_bytes / 1024:.0f}", f"{p.tiles}"]
        cells += [f"{p.slice:.0f}", f"{share:.0f}"]
        if priced:
            cells += [f"{rate(*PROBLEM, p.us(s.rung.decided, *PROBLEM)):.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _waits(steps: Sequence[Step]) -> str:
    """What the warps of a CTA do with their time."""
    lines = ["| % of the time | " + " | ".join(ACTIVITIES) + " |",
             "| --- |" + " --- |" * len(ACTIVITIES)]  # fmt: skip
    for s in steps:
        for lane in s.shown.lanes:
            row = lane.shares(s.shown.cycles)
            cells = (f"{100 * row[a]:.0f}" if a in row else "" for a in ACTIVITIES)
            lines.append(f"| {s.rung.name} {lane.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _way(sizes: tuple[int, int, int]) -> str:
    """From the last rung to the choice for a problem."""
    turns = to_choice(*sizes)
    shape = " x ".join(map(str, sizes))
    lines = [f"| {shape} | predicted TFLOP/s | of the choice |", "| --- | --- | --- |"]
    for turn in turns:
        share = f"{turns[-1].us / turn.us:.3f}"
        lines.append(f"| {turn.decision or 'v10'} | {rate(*sizes, turn.us):.1f} | {share} |")
    return "\n".join(lines) + "\n"


def _rung(step: Step) -> str:
    """Why, the loops, and the calls that changed."""
    parts = ["\n".join(wrap(step.why, 104)) + "\n", _block("", step.nests + "\n")]
    if step.before is not None:
        parts += [f"`{step.decision}`. Of the schedule:\n", _block("diff", step.diff("calls"))]
        parts += ["Of the kernel, before passes:\n", _block("diff", step.diff("lower"))]
    else:
        parts += ["The schedule:\n", _block("python", step.calls)]
        parts += ["The kernel, before passes:\n", _block("", step.diff("lower"))]
    return "\n".join(parts)


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text}```\n"
