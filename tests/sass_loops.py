"""Loops of a disassembly: which instructions run once per k step."""

from __future__ import annotations

import re

__all__ = ["innermost_loops"]

_LABEL = re.compile(r"^(\.L\w+):")
_BRANCH = re.compile(r"\bBRA\s+`\((\.L\w+)\)")


def innermost_loops(sass: str, opcode: str) -> list[list[str]]:
    """Lines of the shortest loop around each ``opcode``, every loop once; a branch back ends one.

    Raises:
        ValueError: an instruction is in no loop, or there is none.
    """
    lines = sass.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    spans = []
    for end, line in enumerate(lines):
        target = _BRANCH.search(line)
        if target and labels.get(target[1], end + 1) <= end:
            spans.append((labels[target[1]], end))
    places = [i for i, line in enumerate(lines) if re.search(rf"\b{opcode}\b", line)]
    found: dict[tuple[int, int], None] = {}
    for place in places:
        around = [span for span in spans if span[0] <= place <= span[1]]
        if not around:
            raise ValueError(f"no loop around line {place + 1}: {lines[place].strip()}")
        found[min(around, key=lambda span: span[1] - span[0])] = None
    if not found:
        raise ValueError(f"there is no {opcode}")
    return [lines[start : end + 1] for start, end in found]
