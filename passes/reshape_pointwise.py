"""Replace pointwise chains by cheaper ones of the same value.

Requires: pointwise operations on fragments. Guarantees: the same values up to rounding.

One function so far, the tanh that gelu and its derivative are made of: with ``s = sigmoid(2 u)``,
``1 + tanh(u) = 2 s`` and ``1 - tanh(u)^2 = 4 s (1 - s)``. The right sides take a quarter of the
instructions; the first does not cancel where tanh is near -1, and the second no more than the left
one. What reads tanh otherwise keeps it: near 0 it has digits that ``2 s - 1`` has not.

Anywhere before ``simplify``, which drops what is no longer used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lowering.ground.types import FragmentType
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Frag, FragPointwise, Stmt
from lowering.kernel.visit import Names, map_bodies, reads_in, walk
from passes.options import LoweringOptions

__all__ = ["reshape_pointwise"]


def reshape_pointwise(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Rewrite what matches an identity.

    before::

        t: frag<f32, 64x64> = frag.pointwise tanh, u
        y: frag<f32, 64x64> = frag.pointwise add, t, 1.0

    after::

        twice: frag<f32, 64x64> = frag.pointwise mul, u, 2.0
        half: frag<f32, 64x64> = frag.pointwise sigmoid, twice
        y: frag<f32, 64x64> = frag.pointwise mul, half, 2.0

    and ``1 - t * t`` likewise, also beside it.
    """
    if not any(isinstance(s, FragPointwise) and s.op == "tanh" for s in walk(kernel.body)):
        return kernel
    reads = reads_in(kernel.body)
    names = Names(kernel)

    def body(stmts: Body) -> Body:
        chains = _by_reader(_Tanh.of(s, stmts, reads) for s in stmts)
        halves: dict[str, Frag] = {}
        out: list[Stmt] = []
        for stmt in stmts:
            chain = chains.get(id(stmt))
            if chain is None:
                out.append(map_bodies(stmt, body))
                continue
            if chain.name not in halves:
                twice, half = (Frag(names.new(n), chain.type) for n in ("twice", "half"))
                out.append(FragPointwise(twice, "mul", (chain.u, 2.0)))
                out.append(FragPointwise(half, "sigmoid", (twice,)))
                halves[chain.name] = half
            out += chain.rewritten(stmt, halves[chain.name], names)
        return tuple(out)

    return replace(kernel, body=body(kernel.body))


@dataclass(frozen=True, slots=True)
class _Tanh:
    """A tanh that is read for what follows from a sigmoid alone.

    Args:
        made: it.
        sums: statements that add one to it.
        rests: statements that take its square from one.
    """

    made: FragPointwise
    sums: Body
    rests: Body

    @staticmethod
    def of(stmt: Stmt, stmts: Body, reads: Mapping[str, int]) -> _Tanh | None:
        """The chain of a statement; None if it is no tanh, or one that others read as well."""
        if not isinstance(stmt, FragPointwise) or stmt.op != "tanh":
            return None
        t = stmt.out
        plain = [s for s in stmts if isinstance(s, FragPointwise)]
        sums = tuple(s for s in plain if s.op == "add" and s.args in ((t, 1.0), (1.0, t)))
        squares = [s.out for s in plain if s.op == "mul" and s.args == (t, t)]
        rests = tuple(s for s in plain if s.op == "sub" and s.args in [(1.0, q) for q in squares])
        alone = reads[t.name] == len(sums) + len(squares)
        whole = sum(reads[q.name] for q in squares) == len(rests)
        return _Tanh(stmt, sums, rests) if alone and whole and (sums or rests) else None

    @property
    def name(self) -> str:
        """Of the tanh."""
        return self.made.out.name

    @property
    def type(self) -> FragmentType:
        """Of all fragments here."""
        return self.made.out.type

    @property
    def u(self) -> Frag | float:
        """What it is the tanh of."""
        return self.made.args[0]

    def rewritten(self, stmt: Stmt, half: Frag, names: Names) -> Body:
        """A reader by the sigmoid ``half``."""
        assert isinstance(stmt, FragPointwise)
        if stmt in self.sums:
            return (replace(stmt, op="mul", args=(half, 2.0)),)
        rest, part = (Frag(names.new(n), half.type) for n in ("rest", "part"))
        return (
            FragPointwise(rest, "sub", (1.0, half)),
            FragPointwise(part, "mul", (half, rest)),
            replace(stmt, op="mul", args=(part, 4.0)),
        )


def _by_reader(chains: Iterable[_Tanh | None]) -> dict[int, _Tanh]:
    return {id(s): c for c in chains if c is not None for s in (*c.sums, *c.rests)}
