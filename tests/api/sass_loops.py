"""Loops of a disassembly: which instructions run once per k step."""

from __future__ import annotations

import re

__all__ = ["innermost_loop"]

_LABEL = re.compile(r"^(\.L\w+):")
_BRANCH = re.compile(r"\bBRA\s+`\((\.L\w+)\)")


def innermost_loop(sass: str, opcode: str) -> list[str]:
    """Lines of the shortest loop around all instructions ``opcode``; a loop ends in a branch back.

    Raises:
        ValueError: no loop contains all of them.
    """
    lines = sass.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    places = [i for i, line in enumerate(lines) if re.search(rf"\b{opcode}\b", line)]
    found = []
    for end, line in enumerate(lines):
        start = labels.get(m[1], end + 1) if (m := _BRANCH.search(line)) else end + 1
        if places and start <= places[0] and places[-1] <= end:
            found.append(lines[start : end + 1])
    if not found:
        raise ValueError(f"no loop contains all {len(places)} {opcode}")
    return min(found, key=len)
