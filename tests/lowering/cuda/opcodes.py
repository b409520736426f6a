"""Instruction counts of machine code."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_opcodes", "main_loop"]

# "/*0a40*/  @!P0  HGMMA.64x256x16.F32 R24, ..." : address, optional predicate, opcode.
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", re.MULTILINE)


def count_opcodes(sass: str) -> Counter[str]:
    """How often each opcode stands in a disassembly (without its modifiers)."""
    return Counter(_INSTRUCTION.findall(sass))


def main_loop(sass: str) -> str:
    """The innermost loop around all wgmmas of a disassembly: from where the first branch behind
    them goes back to.
    """
    lines = sass.splitlines()
    labels = {line.rstrip(":"): i for i, line in enumerate(lines) if line.startswith(".L")}
    wgmmas = [i for i, line in enumerate(lines) if "HGMMA" in line]
    for end in range(wgmmas[-1], len(lines)):
        to = re.search(r"BRA `\((\.L\w+)\)", lines[end])
        if to and labels[to[1]] < wgmmas[0]:
            return "\n".join(lines[labels[to[1]] : end + 1])
    raise AssertionError("no loop around the wgmmas")
