"""Rules of the verifier, each with the kinds of statements that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt

__all__ = ["Check", "Rule", "about", "with_field"]

Check = Callable[[Kernel, Any], Iterator[str]]
"""What one statement of a kernel breaks, as sentences."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check, and of which kinds of statements it has something to say."""

    check: Check
    concerns: Callable[[type[Stmt]], bool]


def about(check: Check, *kinds: type[Stmt]) -> Rule:
    """A rule of these kinds."""
    return Rule(check, lambda kind: kind in kinds)


def with_field(check: Check, *names: str) -> Rule:
    """A rule of all kinds that have one of these fields."""
    return Rule(check, lambda kind: any(hasattr(kind, name) for name in names))
