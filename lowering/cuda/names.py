"""C++ identifiers for the names of a kernel, and the lines of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lowering.ground.errors import InternalError

__all__ = ["Names", "Writer"]

_WIDTH = 100

_RESERVED_WORDS = """
    alignas alignof and asm auto bool break case catch char class const constexpr continue
    default delete do double else enum explicit extern false float for friend goto if inline int
    long max min mutable namespace new not operator or private protected ptx public register
    return short signed sizeof static struct switch template this throw true try typedef typename
    u64 union unsigned using virtual void volatile while xor TensorMap blockDim blockIdx gridDim
    threadIdx warpSize ctaid ctaid_y ctaid_z nctaid nctaid_y lane warp warpgroup_warp
    cluster_ctarank smid smem shared_memory r evict_first evict_last
"""
# C++, the device header, and what the emitter itself calls things; ``r`` counts registers.
_RESERVED = frozenset(_RESERVED_WORDS.split())


class Names:
    """One identifier for each (kind, name) of the kernel; the kinds have name spaces of their own.

    The identifier is the name itself where C++ allows it and nothing else took it before.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set(_RESERVED)

    def fresh(self, wish: str) -> str:
        """An identifier like ``wish`` that is not in use."""
        base = re.sub(r"\W", "_", wish)
        base = f"v{base}" if base[:1].isdigit() or not base else base
        name, serial = base, 1
        while name in self._taken:
            serial += 1
            name = f"{base}_{serial}"
        self._taken.add(name)
        return name

    def define(self, kind: str, name: str, wish: str = "") -> str:
        """Give ``name`` its identifier, ``wish`` or its own name, where that is free.

        Raises:
            InternalError: it has one (the IR is SSA).
        """
        if (kind, name) in self._given:
            raise InternalError("emit_cuda", f"{kind} {name} is defined twice")
        self._given[kind, name] = identifier = self.fresh(wish or name.lstrip("%"))
        return identifier

    def of(self, kind: str, name: str) -> str:
        """The identifier of a defined name; InternalError if it has none."""
        try:
            return self._given[kind, name]
        except KeyError:
            raise InternalError("emit_cuda", f"{kind} {name} is not defined here") from None


class Writer:
    """Lines of C++ with the current indentation."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth

    def line(self, text: str) -> None:
        """One line at the current depth; preprocessor lines (``#``) too."""
        self.lines.append("  " * self.depth + text if text else "")

    def call(self, function: str, *arguments: str, end: str = ";") -> None:
        """A call on one line, or with one argument to a line where that is too long."""
        text = f"{function}({', '.join(arguments)}){end}"
        if 2 * self.depth + len(text) <= _WIDTH:
            self.line(text)
            return
        self.line(f"{function}(")
        for i, argument in enumerate(arguments):
            self.line(f"    {argument}{',' if i + 1 < len(arguments) else ')' + end}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head { ... }``; an empty head opens a plain scope."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")
