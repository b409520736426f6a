"""Rules of the verifier, each with the kinds of statements that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt

__all__ = ["Check", "Rule", "about", "by_kind", "with_field"]

Check = Callable[[Kernel, Any], Iterator[str]]
"""What one statement of a kernel breaks, as sentences."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check, and the kinds of statements of which it has something to say."""

    check: Check
    kinds: tuple[type[Stmt], ...]


def about(check: Check, *kinds: type[Stmt]) -> Rule:
    """A rule of these kinds."""
    return Rule(check, kinds)


def with_field(check: Check, *names: str) -> Rule:
    """A rule of all kinds that have one of these fields."""
    kinds = (k for k in vars(nodes).values() if isinstance(k, type) and issubclass(k, Stmt))
    return Rule(check, tuple(k for k in kinds if any(hasattr(k, name) for name in names)))


def by_kind(rules: Iterable[Rule]) -> Mapping[type, tuple[Check, ...]]:
    """The checks of each kind that has some, in the order of the rules."""
    found: dict[type, list[Check]] = {}
    for rule in rules:
        for kind in rule.kinds:
            found.setdefault(kind, []).append(rule.check)
    return {kind: tuple(checks) for kind, checks in found.items()}
