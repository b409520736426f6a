"""Values that a loop begins with and that its first trip does not read."""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.expr import ZERO, Binary, Const, Expr, Var
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, If
from lowering.kernel.visit import bodies, used, walk

__all__ = ["not_yet"]


def not_yet(kernel: Kernel, loop: For) -> bool:
    """Whether a loop of a kernel begins with another value than ``loop``, which is read only where
    something else that it carries, nothing at first, is positive.
    """
    (new,) = (s for s in walk(kernel.body) if isinstance(s, For) and s.var == loop.var)
    pairs = zip(new.carries, loop.carries, strict=True)
    first = [n for n, o in pairs if n != o and replace(n, init=o.init) == o]
    if len(first) != 1 or new.yields != loop.yields:
        return False
    names = {first[0].var.name, first[0].result.name}
    flags = {x.name for c in new.carries if c.init == ZERO for x in (c.var, c.result)}
    return not _read_at_first(kernel.body, names, flags - names)


def _read_at_first(body: Body, names: set[str], flags: set[str]) -> bool:
    """Whether one of some names is read where none of some flags has to be positive."""
    for s in body:
        if isinstance(s, If) and _positive(s.cond, flags):
            continue
        if used(s) & names or any(_read_at_first(b, names, flags) for b in bodies(s)):
            return True
    return False


def _positive(cond: Expr, flags: set[str]) -> bool:
    """Whether a condition says that one of some flags is positive."""
    match cond:
        case Binary("<", Const(0), Var(name=name)):
            return name in flags
        case Binary("and", a, b):
            return _positive(a, flags) or _positive(b, flags)
    return False
