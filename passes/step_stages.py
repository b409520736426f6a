"""Carry stage and parity through the loops instead of dividing the load step by the stages.

Requires: ``stage(m, stages)`` and ``parity(m, stages)`` with ``m`` linear in the loop indices,
inside roles.
Guarantees: within a role, no division by the number of stages is left inside a loop. Each loop that
moves ``m`` carries (stage, parity); a step of one adds one with carry, and a loop whose
iterations skip steps (ping-pong: the other group's) adds ``skip % stages`` and
``skip // stages % 2`` with carry, both computed once before the loops. So does a loop that begins
some steps behind where the one in front of it ended.

After ``allocate_mbarriers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import is_

from lowering.ground.errors import InternalError
from lowering.ground.expr import (
    ONE,
    ZERO,
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Var,
    children,
    free_vars,
    select,
    substitute,
)
from lowering.ground.frozen import quick, replaced
from lowering.ground.poly import Poly, poly
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Carry,
    Elect,
    For,
    If,
    Let,
    OnWarp,
    Role,
    Stmt,
)
from lowering.kernel.visit import (
    Names,
    bodies,
    defined,
    kept,
    map_bodies,
    map_exprs,
    map_roles,
    walk,
)
from passes.options import LoweringOptions
from passes.ring_barriers import step_of

__all__ = ["step_stages"]


def step_stages(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Strength-reduce stage and parity.

    before::

        for t in 0 .. tiles {
          for k in 0 .. n { mbarrier.wait full[stage(t * n + k, 4)], parity(t * n + k, 4) }
        }

    after::

        for t in 0 .. tiles carry (stage_t: i32 = 0 -> stage_t_end, parity_t: ...) {
          for k in 0 .. n carry (stage_k: i32 = stage_t -> stage_k_end, parity_k: ...) {
            mbarrier.wait full[stage_k], parity_k
            let next: i32 = stage_k + 1
            let wraps: pred = 4 <= next
            yield select(wraps, next - 4, next), parity_k ^ select(wraps, 1, 0)
          }
          yield stage_k_end, parity_k_end
        }

    Raises:
        InternalError: the steps of a role are not linear in its loops.
    """
    names = Names(kernel)
    rings = _rings(kernel)

    def role(r: Role) -> Role:
        for arrays in rings:
            for stages in _stages(r.body, arrays):
                stepper = _Stepper(names, r, stages, arrays)
                body, _ = stepper.body(r.body, ())
                r = replaced(r, body=(*stepper.before, *body))
        return r

    return map_roles(kernel, role)


def _rings(kernel: Kernel) -> list[frozenset[str]]:
    """Mbarrier arrays that are stepped through together: some role uses them at steps that are
    always the same distance apart.
    """
    rings = [frozenset((array.name,)) for array in kernel.mbarriers]
    by_step: dict[object, str] = {}
    for stmt in walk(kernel.body):
        if found := step_of(stmt):
            m, _, array = found
            moving = tuple(term for term in poly(m).terms if term[0])
            first = by_step.setdefault(moving or array, array)
            joined = frozenset().union(*(r for r in rings if r & {first, array}))
            rings = [r for r in rings if not r & joined] + [joined]
    return sorted(rings, key=min)


def _stages(body: Body, arrays: frozenset[str]) -> list[int]:
    """The numbers of stages by which ``stage(m, stages)`` is an index into one of ``arrays``."""
    found = (step_of(stmt) for stmt in walk(body))
    return sorted({step[1] for step in found if step and step[2] in arrays})


_OF_STEPS = ("stage", "parity")
"""What is asked of a step."""


@quick
@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the sequence of steps the program is: at step ``at``, whose stage, one of
    ``stages``, and parity are these expressions.
    """

    at: Poly
    stage: Expr
    parity: Expr
    stages: int

    @property
    def values(self) -> tuple[Expr, ...]:
        """What a loop carries: of one stage the parity alone."""
        return (self.stage, self.parity)[self.stages == 1 :]

    @property
    def changing(self) -> tuple[Var, ...]:
        """The same, where it has names."""
        return tuple(v for v in self.values if isinstance(v, Var))


_Places = tuple[_Place, ...]
"""Those that are known, the last one first."""


@dataclass
class _Stepper:
    names: Names
    role: Role
    stages: int
    arrays: frozenset[str]
    before: list[Stmt] = field(default_factory=list)
    positions: dict[Expr, Poly] = field(default_factory=dict)
    inside_of: dict[int, list[Expr]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lets = {s.var: s.value for s in walk(self.role.body) if isinstance(s, Let)}
        self.taken(self.role.body)
        stmts = (s for s in _in_loops(self.role.body) if not isinstance(s, Let))
        self.inside = {n for s in stmts for n in defined(s)}

    def position(self, m: Expr) -> Poly:
        """Normal form of a step, local bindings resolved."""
        found = self.positions.get(m)
        if found is None:
            whole, resolved = m, substitute(m, self.lets)
            while resolved != whole:
                whole, resolved = resolved, substitute(resolved, self.lets)
            found = self.positions[m] = poly(resolved)
        return found

    def body(self, body: Body, places: _Places) -> tuple[Body, _Places]:
        """Rewrite ``body`` with places that are known in front of it; those known behind it."""
        out: list[Stmt] = []
        for stmt in body:
            if self.steps(stmt):
                assert isinstance(stmt, For)
                new, place = self.loop(stmt, places)
                out += new
                places = (place, *places)
            elif isinstance(stmt, If | OnWarp | Elect) and any(map(self.moves, walk((stmt,)))):
                out.append(map_bodies(stmt, partial(self.within, places=places)))
            else:
                out.append(self.statement(stmt, places))
        return tuple(out), places

    def within(self, body: Body, places: _Places) -> Body:
        return self.body(body, places)[0]

    def taken(self, body: Body) -> list[Expr]:
        """The steps in a statement list of the role as it was, in program order."""
        found: list[Expr] = []
        for stmt in body:
            if (step := step_of(stmt)) and step[1] == self.stages and step[2] in self.arrays:
                found.append(step[0])
            for inner in bodies(stmt):
                found += self.taken(inner)
        self.inside_of[id(body)] = found
        return found

    def steps(self, stmt: Stmt) -> bool:
        """Whether a statement is a loop that steps through the stages."""
        return isinstance(stmt, For) and bool(self.inside_of[id(stmt.body)])

    def moves(self, stmt: Stmt) -> bool:
        """Whether a statement is a loop that steps from trip to trip."""
        return isinstance(stmt, For) and any(
            any(stmt.var in free_vars(a) for term, _ in self.position(m).terms for a in term)
            for m in self.inside_of[id(stmt.body)]
        )

    def loop(self, loop: For, places: _Places) -> tuple[Body, _Place]:
        if loop.step != ONE:
            raise InternalError("step_stages", f"loop {loop.var.name} has step {loop.step}")
        here = self.entry(loop)
        first = self.at(here, {loop.var: loop.start, **_scalars(loop, "init")})
        lets, begin = self.advance(self.before_loop(loop, first, places), first)
        inside = self.named(here, [f"{what}_{loop.var.name}" for what in ("stage", "parity")])
        body, known = self.body(loop.body, (inside,))
        following = {v: y for v, _, y in _carried(loop)}
        moved = substitute(here.expr(), {loop.var: loop.var + loop.step} | following)
        to = self.position(moved)
        last = _near(known, to) or known[0]
        delta = (to - last.at).expr()
        if {v.name for v in free_vars(delta)} & self.inside:
            why = f"loop {loop.var.name} moves by {delta} steps, not always the same number"
            raise InternalError("step_stages", why)
        more, step = self.advance(last, to)
        after = {loop.var: loop.stop, **_scalars(loop, "result")}
        end = self.named(
            self.position(substitute(here.expr(), after)),
            [f"{v}_end" for v in (inside.stage, inside.parity)],
        )
        carried = zip(inside.changing, begin.values, end.changing, strict=True)
        carries = (*loop.carries, *(Carry(*c) for c in carried))
        new = replaced(
            loop, body=(*body, *more), carries=carries, yields=(*loop.yields, *step.values)
        )
        return (*lets, new), end

    def entry(self, loop: For) -> Poly:
        """Step at the start of an iteration of ``loop``: inner loops at their own starts."""
        m = self.inside_of[id(loop.body)][0]
        starts = {s.var: s.start for s in walk(loop.body) if isinstance(s, For)}
        return self.at(self.position(m), starts)

    def at(self, p: Poly, env: Mapping[Var, Expr]) -> Poly:
        """``p`` with variables replaced, local bindings resolved."""
        return self.position(substitute(p.expr(), env))

    def before_loop(self, loop: For, first: Poly, places: _Places) -> _Place:
        """A place that is known in front of a loop, some steps before or behind its first one."""
        if near := _near(places, first):
            return near
        if not places or first.constant() is not None:
            return self.begin(first)
        why = f"loop {loop.var.name} starts at {first.expr()}, not {places[0].at.expr()}"
        raise InternalError("step_stages", why)

    def begin(self, first: Poly) -> _Place:
        at = first.constant()
        if at is not None:
            stages = self.stages
            return _Place(first, Const(at % stages), Const(at // stages % 2), stages)
        return _Place(first, *self.split(first, "first"), self.stages)

    def named(self, at: Poly, names: list[str]) -> _Place:
        """A place whose stage and parity are new variables; the only stage needs none."""
        stage, parity = names
        first = Var(self.names.new(stage)) if self.stages > 1 else ZERO
        return _Place(at, first, Var(self.names.new(parity)), self.stages)

    def split(self, steps: Poly, base: str) -> tuple[Expr, Expr]:
        """Stage and parity of a run-time number of steps, computed before the loops."""
        stage = Var(self.names.new(f"{base}_stage")) if self.stages > 1 else ZERO
        parity = Var(self.names.new(f"{base}_parity"))
        if isinstance(stage, Var):
            self.before.append(Let(stage, steps.expr() % self.stages))
        self.before.append(Let(parity, steps.expr() // self.stages % 2))
        return stage, parity

    def advance(self, place: _Place, to: Poly) -> tuple[Body, _Place]:
        """The place at another step, and what computes it."""
        delta = to - place.at
        steps = delta.constant()
        if steps == 0:
            return (), place
        add_stage, add_parity = (
            self.split(delta, "skip") if steps is None
            else (Const(steps % self.stages), Const(steps // self.stages % 2))
        )  # fmt: skip
        if self.stages == 1:
            return (), replaced(place, at=to, parity=place.parity ^ add_parity)
        following = Var(self.names.new("next"))
        wraps = Var(self.names.new("wraps"), ScalarType.PRED)
        lets = (
            Let(following, place.stage + add_stage),
            Let(wraps, Const(self.stages) <= following),
        )
        stage = select(wraps, following - self.stages, following)
        parity = (place.parity ^ add_parity) ^ select(wraps, 1, 0)
        return lets, _Place(to, stage, parity, self.stages)

    def statement(self, stmt: Stmt, places: _Places) -> Stmt:
        if not places:
            return stmt
        new = map_exprs(stmt, partial(self.replaced, places=places))
        return map_bodies(new, lambda b: kept(b, [self.statement(s, places) for s in b]))

    def replaced(self, e: Expr, places: _Places) -> Expr:
        if isinstance(e, Binary):
            if e.op in _OF_STEPS and e.rhs == Const(self.stages):
                at = self.position(e.lhs)
                if place := _near(places, at):
                    return self.shifted(place, at)[_OF_STEPS.index(e.op)]
            a, b = self.replaced(e.lhs, places), self.replaced(e.rhs, places)
            return e if a is e.lhs and b is e.rhs else Binary(e.op, a, b)
        if isinstance(e, Select):
            old = children(e)
            new = [self.replaced(x, places) for x in old]
            return e if all(map(is_, old, new)) else Select(*new)
        return e

    def shifted(self, place: _Place, at: Poly) -> tuple[Expr, Expr]:
        """Stage and parity some steps from ``place``: whole rounds change the parity."""
        offset = at.apart(place.at)
        assert offset is not None
        rounds = abs(offset) // self.stages
        place = replaced(place, parity=place.parity ^ (rounds % 2))
        offset -= rounds * self.stages if offset > 0 else -rounds * self.stages
        if offset == 0:
            return place.stage, place.parity
        if offset < 0:
            wraps = place.stage < -offset
            around = place.stage + (self.stages + offset)
        else:
            wraps = Const(self.stages - offset) <= place.stage
            around = place.stage - (self.stages - offset)
        near = place.stage + offset if offset > 0 else place.stage - -offset
        return select(wraps, around, near), place.parity ^ select(wraps, 1, 0)


def _in_loops(body: Body) -> Iterator[Stmt]:
    """The loops of a body and everything in them."""
    for stmt in body:
        if isinstance(stmt, For):
            yield from walk((stmt,))
        else:
            for inner in bodies(stmt):
                yield from _in_loops(inner)


def _near(places: _Places, at: Poly) -> _Place | None:
    """The last place that is always the same number of steps away."""
    return next((p for p in places if at.apart(p.at) is not None), None)


def _carried(loop: For) -> list[tuple[Var, Carry, Expr]]:
    """The scalars that a loop carries, with what it yields for them."""
    pairs = zip(loop.carries, loop.yields, strict=True)
    return [(c.var, c, y) for c, y in pairs if isinstance(c.var, Var) and isinstance(y, Expr)]


def _scalars(loop: For, what: str) -> dict[Var, Expr]:
    return {v: getattr(c, what) for v, c, _ in _carried(loop)}
