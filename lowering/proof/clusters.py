"""Clusters that draw tickets are alike: what one does with a ticket, each other one would do.

Who draws which ticket is a matter of time, so the one order that is followed (``circles``) gives
each cluster some tickets, and says nothing of it with others. That is enough if the cluster makes
no difference. So here it is claimed that nothing that a warp does depends on which cluster of the
grid it is of: of ``%ctaid.x`` on what it is modulo the cluster alone, which is the CTA's rank.

With X for the number of the cluster and r for the rank ``%ctaid.x`` is ``X * size + r``. Of sums,
products with numbers, quotients and remainders of such terms it is found whether X is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import ONE, Binary, Const, Expr, Special, Var, children
from lowering.kernel.atomic import Atom
from lowering.kernel.control import For, Let
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Stmt
from lowering.kernel.stamp import Stamp
from lowering.kernel.visit import expressions, walk
from lowering.proof.agent import Agent
from lowering.proof.numbers import given
from lowering.proof.obligation import Obligation, Verdict

__all__ = ["clusters", "draws"]

NAME = "clusters are alike"


def draws(kernel: Kernel) -> bool:
    """Whether clusters draw tickets: numbers that an atomic gives them, but for those of CTAs."""
    numbers = given(kernel)
    atoms = (s for s in walk(kernel.body) if isinstance(s, Atom) and s.op == "inc")
    return any(s.counter.array not in numbers for s in atoms)


def clusters(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """One claim about a kernel whose clusters draw tickets."""
    if not draws(kernel):
        return
    for agent in agents:
        for stmt, e in _Names(kernel, agent.rank).apart(agent):
            why = f"{stmt.OP} depends on which cluster draws, by {e}"
            yield Obligation(NAME, str(agent), Verdict.UNPROVED, why)
            return
    yield Obligation(NAME, kernel.name)


@dataclass(frozen=True, slots=True)
class _Number:
    """``by * X + first`` with the number X of the cluster; somehow of X where ``by`` is 0."""

    by: int = 0
    first: int = 0


SOMEHOW = _Number()


@dataclass(slots=True)
class _Names:
    """What names stand for in a CTA of a rank, as far as it depends on the cluster."""

    kernel: Kernel
    rank: int
    known: dict[str, _Number] = field(default_factory=dict)

    def apart(self, agent: Agent) -> Iterator[tuple[Stmt, Expr]]:
        """What depends on the cluster, and is more than a name for that."""
        for stmt in walk(agent.body):
            if isinstance(stmt, Let):
                if found := self.number(stmt.value):
                    self.known[stmt.var.name] = found
            elif not isinstance(stmt, Stamp):
                yield from ((stmt, e) for e in _read(stmt) if self.number(e))

    def number(self, e: Expr) -> _Number | None:
        """How an expression depends on the cluster; None if it does not."""
        match e:
            case Special(name):
                return self.places.get(name)
            case Var(name):
                return self.known.get(name)
            case Binary(op, lhs, Const(n)) if (a := self.number(lhs)) and type(n) is int:
                return _with(op, a, n)
            case Binary("+" | "*" as op, Const(n), rhs) if b := self.number(rhs):
                return _with(op, b, n)
        return SOMEHOW if any(map(self.number, children(e))) else None

    @property
    def places(self) -> Mapping[str, _Number]:
        """Special registers that differ from cluster to cluster."""
        found = {"ctaid.x": _Number(self.kernel.cluster, self.rank), "smid": SOMEHOW}
        found |= {"ctaid.y": SOMEHOW} if self.kernel.grid_y != ONE else {}
        return found | ({"ctaid.z": SOMEHOW} if self.kernel.splits > 1 else {})


def _with(op: str, a: _Number, n: int) -> _Number | None:
    """A number that depends on the cluster, and another one, which does not."""
    if not a.by or n <= 0:
        return SOMEHOW
    match op:
        case "+":
            return _Number(a.by, a.first + n)
        case "*":
            return _Number(a.by * n, a.first * n)
        case "//" if a.by % n == 0:
            return _Number(a.by // n, a.first // n)
        case "%" if a.by % n == 0:
            return None
    return SOMEHOW


def _read(stmt: Stmt) -> Iterator[Expr]:
    """The expressions that decide what a statement does; not what its events are called by."""
    if isinstance(stmt, For):
        yield from (stmt.start, stmt.stop, stmt.step)
        carried = (*(c.init for c in stmt.carries), *stmt.yields)
        yield from (e for e in carried if isinstance(e, Expr))
    else:
        yield from expressions(stmt)
