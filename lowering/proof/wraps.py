"""No sum, difference or product of 32 bits wraps, at the largest sizes that a launch admits.

A launch that is refused because its sizes, or what is computed of them, are too large does not
count (``Admitted``). A kernel's numbers grow with its sizes, with the number of a CTA and with that
of a trip, or fall with them. So those sizes are looked at that cannot be larger without being
refused, some parameters as large as they can be together, the others small; of the CTAs the first
and the last one; of each loop the first and the last trip. Each agent's program is walked there
with ranges of its scalars; words in shared memory have the ranges of all that is stored there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from lowering.ground.expr import I32_MAX, Binary, Expr, ScalarType, Var, evaluate, type_of
from lowering.kernel.atomic import Atom
from lowering.kernel.control import Break, For, If, Let
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, Frag, GmemRef, Stmt
from lowering.kernel.queue import LdWord, StWord
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import bodies, expressions, operands, walk
from lowering.proof.admitted import FIRST_CTA, Admitted
from lowering.proof.agent import Agent
from lowering.proof.bounds import ANY, Bounds, Range, joined
from lowering.proof.obligation import Obligation, UnknownError, Verdict
from lowering.proof.sizes import listed, units_of
from lowering.proof.steps import Steps, scalars_of

__all__ = ["unwrapped"]

NAME = "32 bits"

SMALL = 2**12
"""A size that is not large."""

MEMORY = 2**40
"""Bytes that no GPU has: a launch whose workspaces need them gets none."""

WORDS = 8
"""Walks after which the ranges of words stay."""

FAR = 2**40
"""In place of the largest number of what grows."""

Sizes = dict[str, int]


def unwrapped(
    kernel: Kernel, steps: Mapping[Agent, Steps], admitted: Admitted | None
) -> list[Obligation]:
    """One claim: every operation stays within 32 bits. It is not made where launches are not known,
    nor of a kernel that loads words of memory with which it counts, as those of a grouped matmul.
    """
    if admitted is None:
        return [Obligation(NAME, kernel.name, Verdict.ABSENT, "its launches are not known")]
    if any(isinstance(s, LdGlobalScalar) for s in walk(kernel.body)):
        return [Obligation(NAME, kernel.name, Verdict.ABSENT, "it counts with words of memory")]
    walks = [_Walk(a, s) for a, s in steps.items() if not a.rank]
    try:
        for sizes, grid in _largest(kernel, admitted):
            for place in _places(kernel, sizes, grid):
                if why := _wrapped(walks, place):
                    at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
                    why = f"at {at} on {grid} CTAs {why}"
                    return [Obligation(NAME, kernel.name, Verdict.UNPROVED, why)]
    except UnknownError as e:
        return [Obligation(NAME, kernel.name, Verdict.UNPROVED, str(e))]
    return [Obligation(NAME, kernel.name)]


def _largest(kernel: Kernel, admitted: Admitted) -> Iterator[tuple[Sizes, int]]:
    """Sizes that a launch just admits, and CTAs along x: some large, the others small; on as many
    multiprocessors as the target's GPUs have, and as few as a cluster takes.
    """
    units = units_of(kernel)
    names = list(units)
    chosen = [c for n in sorted({1, 2, len(names)}) for c in combinations(names, n)]
    drawn = [(c, kernel.target.sms) for c in chosen] + [(c, kernel.cluster) for c in chosen[-1:]]
    seen = set[tuple[int, ...]]()
    for large, sms in drawn:
        plain = dict.fromkeys(names, SMALL)
        low, high = 0, I32_MAX
        while low < high:
            middle = (low + high + 1) // 2
            sizes = listed(plain | dict.fromkeys(large, middle), units)
            fits = _fits(kernel, admitted, sizes, sms)
            low, high = (middle, high) if fits else (low, middle - 1)
        sizes = listed(plain | dict.fromkeys(large, low), units)
        if low and (key := (*sizes.values(), sms)) not in seen:
            seen.add(key)
            yield sizes, evaluate(kernel.grid, sizes | {"sms": sms})


def _fits(kernel: Kernel, admitted: Admitted, sizes: Sizes, sms: int) -> bool:
    """Whether a launch is admitted."""
    grid = evaluate(kernel.grid, sizes | {"sms": sms})
    values = {**sizes, **FIRST_CTA, "%nctaid.x": grid, "ctas": grid}
    parts = sum(w.rows * w.cols * 4 * evaluate(w.count, values) for w in kernel.workspaces)
    numbers = (*sizes.values(), *(evaluate(e, values) for e in admitted.numbers))
    admissible = 0 < grid <= I32_MAX and parts < MEMORY
    return admissible and all(n <= admitted.largest for n in numbers)


def _places(kernel: Kernel, sizes: Sizes, grid: int) -> Iterator[dict[str, Range]]:
    """Ranges of parameters and special registers in some CTAs."""
    cluster, rows = kernel.cluster, kernel.rows(sizes)
    known = {n: (v, v) for n, v in sizes.items()}
    known |= {
        "%nctaid.x": (grid, grid),
        "%nctaid.y": (rows, rows),
        "%cluster.ctarank": (0, cluster),
    }
    known |= {"%warp": (0, 31), "%lane": (0, 31), "%warpgroup.warp": (0, 3), "%smid": (0, 2**10)}
    last = grid - cluster
    for first in sorted({0, last}):
        yield {
            **known, "%ctaid.x": (first, first + cluster - 1), "%ctaid.y": (0, max(rows - 1, 0)),
            "%ctaid.z": (0, kernel.splits - 1),
        }  # fmt: skip


def _wrapped(walks: Sequence[_Walk], known: Mapping[str, Range]) -> str:
    """What wraps in a CTA; empty if nothing does."""
    words: dict[str, Range] = {}
    before: dict[str, Range] | None = None
    rounds = 0
    while words != before:
        before, rounds = dict(words), rounds + 1
        if rounds > WORDS:
            raise UnknownError("words that are stored depend on words that are loaded")
        for way in walks:
            way.begin(known, words)
    for way in walks:
        for e, (low, high) in way.found.items():
            if low < -I32_MAX - 1 or high > I32_MAX:
                return f"{way.agent}: {e} is in {low}..{high}"
    return ""


@dataclass
class _Walk:
    """One agent's walks; ``found`` are its operations with their ranges."""

    agent: Agent
    steps: Steps
    words: dict[str, Range] = field(default_factory=dict)
    names: dict[str, Range] = field(default_factory=dict)
    lets: dict[Var, Expr] = field(default_factory=dict)
    found: dict[Expr, Range] = field(default_factory=dict)
    ahead: int = 0

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.names, self.lets, self.told)

    def begin(self, known: Mapping[str, Range], words: dict[str, Range]) -> None:
        """Walk the whole program, from what is known of parameters and special registers."""
        self.names.clear()
        self.names |= known
        self.found.clear()
        self.words = words
        self.body(self.agent.body)

    def told(self, e: Expr, found: Range) -> None:
        """Note an operation."""
        if not self.ahead and type_of(e) is ScalarType.I32:
            self.found[e] = joined(self.found.get(e, found), found)

    def body(self, body: Body) -> None:
        """Walk a statement list."""
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        """Walk a statement."""
        match stmt:
            case Let(var=var, value=value):
                self.lets[var] = value
                self.names[var.name] = self.bounds.of(value)
            case For():
                self.loop(stmt)
            case If(cond, then, other):
                self.bounds.of(cond)
                for truth, branch in ((True, then), (False, other)):
                    kept = dict(self.names)
                    self.narrow(cond, truth)
                    self.body(branch)
                    self.names |= kept
            case Break(cond):
                self.bounds.of(cond)
                self.narrow(cond, False)
            case _:
                self.plain(stmt)
                for inner in bodies(stmt):
                    self.body(inner)

    def narrow(self, cond: Expr, truth: bool) -> None:
        """What is known of names where a comparison holds, or does not."""
        match cond:
            case Binary("<" | "<=", x, y):
                for side in (x, y):
                    if isinstance(side, Var):
                        self.names[side.name] = self.bounds.where(cond, truth, side)

    def plain(self, stmt: Stmt) -> None:
        """Walk a statement without others in it."""
        for e in expressions(stmt):
            self.bounds.of(e)
        for ref in operands(stmt) if stmt.TRAITS.plain else ():
            for c in ref.coords if isinstance(ref, GmemRef) else ():
                low, high = self.bounds.of(c)
                self.told(c + _side(stmt), (low, high + _side(stmt)))
        match stmt:
            case StWord(dst=dst, value=value) if not self.ahead:
                new = self.bounds.of(value)
                self.words[dst.buffer] = joined(self.words.get(dst.buffer, new), new)
            case LdWord(out=out, src=src):
                self.names[out.name] = self.words.get(src.buffer, (0, 0))
            case Atom(out=out, value=value, op=op):
                high = self.bounds.of(value)[1]
                self.names[out.name] = (0, high) if op == "inc" else ANY

    def loop(self, loop: For) -> None:
        """Walk the first and the last trip of a loop."""
        carried = list(scalars_of(loop))
        (first, _), (_, stop) = self.bounds.of(loop.start), self.bounds.of(loop.stop)
        step = max(self.bounds.of(loop.step)[0], 1)
        trips = max(-(-(stop - first) // step), 0)
        inits = [self.placed(c.var.name) or self.bounds.of(c.init) for c in carried]
        self.told(loop.var + loop.step, (first, max(stop - 1, first) + step))
        ranges = once = self.trip(loop, inits, first) if trips else inits
        if trips > 1:
            before = self.before(loop, inits, once, first + (trips - 2) * step, trips - 1)
            ranges = self.trip(loop, before, first + (trips - 1) * step)
        for c, found in zip(carried, ranges, strict=True):
            self.names[c.result.name] = self.placed(c.var.name) or found

    def trip(self, loop: For, ranges: Sequence[Range], at: int) -> list[Range]:
        """What a trip yields, from the ranges of what is carried."""
        carried = list(scalars_of(loop))
        self.names[loop.var.name] = at, at
        for c, found in zip(carried, ranges, strict=True):
            self.names[c.var.name] = self.placed(c.var.name) or found
        self.body(loop.body)
        return [self.bounds.of(c.following) for c in carried]

    def before(
        self, loop: For, inits: Sequence[Range], once: Sequence[Range], at: int, trips: int
    ) -> Sequence[Range]:
        """What is carried into the last trip: what the one before, whose number is ``at``, yields
        whatever it was given, or, if that has no end, as much more for each of the ``trips`` before
        as the first one has added.
        """
        if all(self.placed(c.var.name) for c in scalars_of(loop)):
            return inits
        self.ahead += 1
        last = self.trip(loop, [(min(low, 0), FAR) for low, _ in inits], at)
        self.ahead -= 1
        return [
            (a, b) if b < FAR else (low + trips * (x - low), high + trips * (y - high))
            for (low, high), (x, y), (a, b) in zip(inits, once, last, strict=True)
        ]

    def placed(self, name: str) -> Range | None:
        """The range of a stage or a parity."""
        for s in self.steps.rings:
            if kind := self.steps.kind(name, s):
                return 0, s - 1 if kind == "stage" else 1
        return None


def _side(stmt: Stmt) -> int:
    """What threads add to a coordinate, at most: the elements of the longer side of a tile."""
    tiles = [
        x.type for x in (getattr(stmt, n, None) for n in ("value", "out")) if isinstance(x, Frag)
    ]
    sides = [n for t in tiles for n in (t.rows, t.cols)]
    return max([*sides, getattr(stmt, "rows", 1), getattr(stmt, "cols", 1)]) - 1
