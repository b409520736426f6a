"""Registers that a wgmma reads as A, in machine code: nothing writes them until its wait."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.sass_loops import innermost_loops

__all__ = ["overwritten", "registers_of_a"]

_FROM_REGISTERS = re.compile(r"HGMMA\S*\s+R\d+, R(\d+), gdesc")
_WAIT = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, (0x[0-9a-f]+)")
_WRITES = re.compile(r"\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)\s+(?:P\w+, )*R(\d+)")
_NO_RESULT = "BAR", "WARPSYNC", "HGMMA", "ST"
"""Instructions whose first register is read; accumulators are other registers in any case."""

_A_REGISTERS = 4


def registers_of_a(line: str) -> range:
    """The registers that a wgmma reads as A; empty where A is in shared memory, or none."""
    found = _FROM_REGISTERS.search(line)
    return range(int(found[1]), int(found[1]) + _A_REGISTERS) if found else range(0)


def overwritten(sass: str) -> list[tuple[str, str]]:
    """Each wgmma with A in registers, and what writes one of them ahead of the wait that covers it:
    in the loop that it is in, gone through twice.

    Raises:
        ValueError: no wgmma takes A from registers, or no wait covers one.
    """
    found, some = [], False
    for loop in innermost_loops(sass, "HGMMA"):
        for at, line in enumerate(loop):
            a = registers_of_a(line)
            if a:
                some = True
                behind = _until_covered(line, (loop[at + 1 :] + loop) * 2)
                found += [(line, by) for by in behind if not _written(by).isdisjoint(a)]
    if not some:
        raise ValueError("no wgmma takes A from registers")
    return found


def _until_covered(line: str, behind: list[str]) -> Iterator[str]:
    """What is executed until a wait leaves fewer groups than were committed since the wgmma."""
    groups = int("gsb0" in line)
    for other in behind:
        wait = _WAIT.search(other)
        if wait and groups > int(wait[1], 16):
            return
        groups += "HGMMA" in other and "gsb0" in other
        yield other
    raise ValueError(f"no wait covers {line.strip()}")


def _written(line: str) -> set[int]:
    """Registers that an instruction writes."""
    found = _WRITES.search(line)
    if found is None or found[1].startswith(_NO_RESULT):
        return set()
    wide = 4 if ".128" in found[1] or ".M88.4" in found[1] else 2
    count = wide if re.search(r"\.(64|128|WIDE|M88)", found[1]) or found[1] == "CS2R" else 1
    return set(range(int(found[2]), int(found[2]) + count))
