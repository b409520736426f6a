"""Which statements a kernel may hold, by the passes that have run over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt

__all__ = ["Stage"]


@dataclass(frozen=True, slots=True)
class Stage:
    """How far the lowering of a kernel has come: the names of the passes that have run.

    The traits of a node name the pass that makes the first of its kind, and the one that leaves
    none, so a kernel of the tile level is none of the final stage, and the other way round.
    """

    ran: frozenset[str] = frozenset()

    def after(self, name: str) -> Stage:
        """The stage once the pass of that name has run too."""
        return Stage(self.ran | {name})

    def problems(self, stmt: Stmt) -> Iterator[str]:
        """What a kernel of this stage does not hold of ``stmt`` itself, not of what is in it."""
        traits = stmt.TRAITS
        if traits.until in self.ran:
            yield f"{stmt.OP} is left after {traits.until}"
        if traits.since is not None and traits.since not in self.ran:
            yield f"{stmt.OP} stands before {traits.since}"
        for field, name in traits.filled:
            if name in self.ran and getattr(stmt, field) is None:
                yield f"{stmt.OP} has no {field} after {name}"

    def undeclared(self, kernel: Kernel) -> Iterator[str]:
        """What the declarations of a kernel of this stage still lack."""
        for declared in kernel.storage:
            for field, name in declared.FILLED:
                if name in self.ran and getattr(declared, field) is None:
                    yield f"{declared.name} has no {field} after {name}"
