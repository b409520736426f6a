"""What wgmmas multiply: the same columns of both operands, each once, of the same rows.

The wgmmas of a list of statements that hand on one accumulator add up a product. Those of a step,
onto the same columns of it, read A at the same rows and B at the same columns, each another slice
of K, which is the same of both. Whether these are the rows of the tile, and all of its slices, is
not claimed.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.poly import Poly, poly
from lowering.kernel.compute import Wgmma
from lowering.kernel.operands import Body, Frag, SmemRef
from lowering.kernel.visit import bodies
from lowering.proof.agent import Agent
from lowering.proof.obligation import Obligation, Verdict

__all__ = ["products"]

NAME = "products"

_Step = tuple[str, int, tuple[str, str], tuple[str, str]]
"""An accumulator, a column of it, and the stages of both operands."""


def products(name: str, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """One claim about a kernel of that name, if it has wgmmas."""
    some = False
    for agent in agents:
        for body in _lists(agent.body):
            found = [s for s in body if isinstance(s, Wgmma)]
            some |= bool(found)
            if why := _wrong(found):
                yield Obligation(NAME, str(agent), Verdict.REFUTED, why)
                return
    if some:
        yield Obligation(NAME, name)


def _lists(body: Body) -> Iterator[Body]:
    """A list of statements, and those inside."""
    yield body
    for stmt in body:
        for inner in bodies(stmt):
            yield from _lists(inner)


def _wrong(found: list[Wgmma]) -> str:
    """What is wrong with the wgmmas of a list; empty if nothing is."""
    first: dict[str, str] = {}
    places: dict[_Step, tuple[Poly | None, Poly | None]] = {}
    slices = set[tuple[_Step, Poly]]()
    taken = set[str]()
    for w in found:
        if w.acc.name in taken:
            return f"the registers of {w.acc.name} are taken twice"
        taken.add(w.acc.name)
        chain = first[w.out.name] = first.get(w.acc.name, w.acc.name)
        (row, k), (col, same) = _begin(w.a, w.trans_a), _begin(w.b, w.trans_b)
        if k is not None and same is not None and k != same:
            return f"{w.out.name} multiplies the slice at {k.expr()} by that at {same.expr()}"
        step = chain, w.col, _stage(w.a), _stage(w.b)
        if places.setdefault(step, (row, col)) != (row, col):
            return f"{w.out.name} is of other rows or columns than those in front of it"
        if same is not None and (step, same) in slices:
            return f"{w.out.name} adds the slice at {same.expr()} again"
        if same is not None:
            slices.add((step, same))
    return ""


def _stage(operand: SmemRef | Frag) -> tuple[str, str]:
    """The buffer and the stage of an operand; none of one in registers."""
    return ("", "") if isinstance(operand, Frag) else (operand.buffer, str(operand.stage))


def _begin(operand: SmemRef | Frag, trans: bool) -> tuple[Poly | None, Poly | None]:
    """The row of A, or column of B, and the place in K at which an operand begins."""
    if isinstance(operand, Frag):
        return None, None
    outer, inner = (poly(c) for c in operand.coords[-2:])
    return (inner, outer) if trans else (outer, inner)
