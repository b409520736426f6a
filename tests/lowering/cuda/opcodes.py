"""Instruction counts of machine code."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_opcodes"]

# "/*0a40*/  @!P0  HGMMA.64x256x16.F32 R24, ..." : address, optional predicate, opcode.
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", re.MULTILINE)


def count_opcodes(sass: str) -> Counter[str]:
    """How often each opcode stands in a disassembly (without its modifiers)."""
    return Counter(_INSTRUCTION.findall(sass))
