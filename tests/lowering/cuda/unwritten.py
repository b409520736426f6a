"""Registers of emitted kernels that nothing writes: the machine runs IR and cannot see them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from math import prod

__all__ = ["unwritten"]

_DECLARED = re.compile(r"^\s*(?:float|int|unsigned(?: short)?|long long)\s+(\w+)\[(\d+)\];")
_LOOP = re.compile(r"for \(int (\w+) = (\d+); \1 < (\d+); (?:\+\+\1|\1 \+= (\d+))\)")
_ELEMENT = re.compile(r"(\w+)\[([^\[\]]*)\]")
_ASSIGNS = re.compile(r"(?<![=!<>])=(?!=)")

Loop = tuple[str, range]


def unwritten(text: str) -> list[str]:
    """``name[3]`` for each element of an array of registers that no statement of a kernel writes.

    A statement writes what stands left of its ``=``, and what it hands to a function: whole arrays
    and, where there is no ``=``, elements. Indices are worked out for all trips of loops.

    Args:
        text: CUDA of a kernel, as ``emit_cuda`` makes it.
    """
    sizes, written = dict[str, int](), dict[str, set[int]]()
    for line, loops in _lines(text[text.index('extern "C" __global__') :]):
        if found := _DECLARED.match(line):
            sizes[found[1]] = int(found[2])
            written.setdefault(found[1], set())
            continue
        left = _ASSIGNS.split(line, maxsplit=1)[0]
        for name, index in _ELEMENT.findall(left):
            if name in sizes:
                written[name] |= set(_values(index, loops))
        for name in re.findall(r"(?<=[(,])\s*(\w+)\s*(?=[,)])", line):
            if name in sizes:
                written[name] |= set(range(sizes[name]))
    return [f"{a}[{n}]" for a, size in sizes.items() for n in range(size) if n not in written[a]]


def _lines(text: str) -> Iterator[tuple[str, list[Loop]]]:
    """Lines, and the loops with constant bounds around each."""
    blocks: list[Loop | None] = []
    for line in text.splitlines():
        found = _LOOP.search(line)
        loop = found and (found[1], range(int(found[2]), int(found[3]), int(found[4] or 1)))
        around = [b for b in blocks if b is not None]
        yield line, [*around, loop] if loop else around
        for brace in re.findall("[{}]", line):
            if brace == "{":
                blocks.append(loop)
                loop = None
            else:
                blocks.pop()


def _values(index: str, loops: list[Loop]) -> Iterator[int]:
    """What an index comes to; it consists of numbers, ``+``, ``*`` and variables of the loops."""
    for values in product(*(trips for _, trips in loops)):
        known = {name: str(value) for (name, _), value in zip(loops, values, strict=True)}
        terms = [[int(known.get(f, f)) for f in term.split(" * ")] for term in index.split(" + ")]
        yield sum(map(prod, terms))
