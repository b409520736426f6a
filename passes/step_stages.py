"""Carry stage and parity through the loops instead of dividing the load step by the stages.

Requires: mbarrier indices of the form ``m % stages`` and parities ``m // stages % 2`` with ``m``
linear in the loop indices, inside roles.
Guarantees: within a role, no division by the number of stages is left inside a loop. Each loop that
moves ``m`` carries (stage, parity); a step of one adds one with carry, and a loop whose
iterations skip steps (ping-pong: the other group's) adds ``skip % stages`` and
``skip // stages % 2`` with carry, both computed once before the loops.

After ``allocate_mbarriers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lowering.ground.errors import InternalError
from lowering.ground.expr import (
    ONE,
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Var,
    free_vars,
    select,
    substitute,
)
from lowering.ground.poly import Poly, poly
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Carry, Elect, For, If, Let, MBarrierRef, Role, Stmt
from lowering.kernel.visit import Names, defined, map_bodies, map_exprs, map_roles, walk
from passes.options import LoweringOptions

__all__ = ["step_stages"]


def step_stages(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Strength-reduce stage and parity.

    before::

        for t in 0 .. tiles {
          for k in 0 .. n { mbarrier.wait full[(t * n + k) % 4], (t * n + k) // 4 % 2 }
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
            for stages in sorted({s for _, s in _steps(r.body, arrays)}):
                stepper = _Stepper(names, r, stages, arrays)
                body, _ = stepper.body(r.body, None)
                r = replace(r, body=(*stepper.before, *body))
        return r

    return map_roles(kernel, role)


def _rings(kernel: Kernel) -> list[frozenset[str]]:
    """Mbarrier arrays that are stepped through together: some role uses them at steps that are
    always the same distance apart.
    """
    rings = [frozenset((array.name,)) for array in kernel.mbarriers]
    by_step: dict[object, str] = {}
    for stmt in walk(kernel.body):
        for m, _, array in _indices((stmt,)):
            moving = tuple(term for term in poly(m).terms if term[0])
            first = by_step.setdefault(moving or array, array)
            joined = frozenset().union(*(r for r in rings if r & {first, array}))
            rings = [r for r in rings if not r & joined] + [joined]
    return sorted(rings, key=min)


def _indices(stmts: Body) -> Iterator[tuple[Expr, int, str]]:
    """(m, stages, array) of every mbarrier index ``m % stages``, not looking into statements."""
    for stmt in stmts:
        bar = getattr(stmt, "bar", None)
        if isinstance(bar, MBarrierRef):
            match bar.index:
                case Binary("%", m, Const(stages)):
                    yield m, stages, bar.array


def _steps(body: Body, arrays: frozenset[str]) -> list[tuple[Expr, int]]:
    """(m, stages) of every index ``m % stages`` into one of ``arrays``, in program order."""
    found = _indices(tuple(walk(body)))
    return [(m, stages) for m, stages, array in found if array in arrays]


@dataclass(frozen=True)
class _Place:
    """Where in the sequence of steps the program is: at step ``at``, whose stage and parity are
    these expressions.
    """

    at: Poly
    stage: Expr
    parity: Expr


@dataclass
class _Stepper:
    names: Names
    role: Role
    stages: int
    arrays: frozenset[str]
    before: list[Stmt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lets = {s.var: s.value for s in walk(self.role.body) if isinstance(s, Let)}
        loops = [s for s in walk(self.role.body) if isinstance(s, For)]
        stmts = [s for loop in loops for s in (loop, *walk(loop.body)) if not isinstance(s, Let)]
        self.inside = {name for s in stmts for name in defined(s)}

    def position(self, m: Expr) -> Poly:
        """Normal form of a step, local bindings resolved."""
        resolved = substitute(m, self.lets)
        while resolved != m:
            m, resolved = resolved, substitute(resolved, self.lets)
        return poly(resolved)

    def body(self, body: Body, place: _Place | None) -> tuple[Body, _Place | None]:
        """Rewrite ``body`` starting at ``place`` (None before the first loop that steps)."""
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, For) and any(
                s == self.stages for _, s in _steps(stmt.body, self.arrays)
            ):
                new, place = self.loop(stmt, place)
                out += new
            elif isinstance(stmt, If) and place is None:
                then, _ = self.body(stmt.then, None)
                out.append(replace(stmt, then=then, other=self.body(stmt.other, None)[0]))
            elif isinstance(stmt, Elect) and place is None:
                out.append(replace(stmt, body=self.body(stmt.body, None)[0]))
            else:
                out.append(self.statement(stmt, place))
        return tuple(out), place

    def loop(self, loop: For, place: _Place | None) -> tuple[Body, _Place]:
        if loop.step != ONE:
            raise InternalError("step_stages", f"loop {loop.var.name} has step {loop.step}")
        here = self.entry(loop)
        first = _at(here, {loop.var: loop.start, **_scalars(loop, "init")})
        if place is None:
            place = self.begin(first)
        elif place.at != first:
            raise InternalError(
                "step_stages", f"loop {loop.var.name} starts at {first.expr()}, not "
                f"{place.at.expr()}"
            )  # fmt: skip
        stage, parity = (
            Var(self.names.new(f"{what}_{loop.var.name}")) for what in ("stage", "parity")
        )
        inside = _Place(here, stage, parity)
        body, last = self.body(loop.body, inside)
        assert last is not None
        following = {v: y for v, _, y in _carried(loop)}
        moved = substitute(here.expr(), {loop.var: loop.var + loop.step} | following)
        delta = self.position(moved) - last.at
        if {v.name for v in free_vars(delta.expr())} & self.inside:
            raise InternalError(
                "step_stages",
                f"loop {loop.var.name} moves by {delta.expr()} steps, not always the same number",
            )
        lets, step = self.advance(last, delta)
        ends = Var(self.names.new(f"{stage.name}_end")), Var(self.names.new(f"{parity.name}_end"))
        carries = (
            *loop.carries,
            Carry(stage, place.stage, ends[0]),
            Carry(parity, place.parity, ends[1]),
        )
        new = replace(loop, body=(*body, *lets), carries=carries, yields=(*loop.yields, *step))
        after = {loop.var: loop.stop, **_scalars(loop, "result")}
        return (new,), _Place(self.position(substitute(here.expr(), after)), *ends)

    def entry(self, loop: For) -> Poly:
        """Step at the start of an iteration of ``loop``: inner loops at their own starts."""
        m = next(m for m, s in _steps(loop.body, self.arrays) if s == self.stages)
        starts = {s.var: s.start for s in walk(loop.body) if isinstance(s, For)}
        return _at(self.position(m), starts)

    def begin(self, first: Poly) -> _Place:
        at = first.constant()
        if at is not None:
            stages = self.stages
            return _Place(first, Const(at % stages), Const(at // stages % 2))
        stage, parity = self.split(first, "first")
        return _Place(first, stage, parity)

    def split(self, steps: Poly, base: str) -> tuple[Var, Var]:
        """Stage and parity of a run-time number of steps, computed before the loops."""
        stage, parity = Var(self.names.new(f"{base}_stage")), Var(self.names.new(f"{base}_parity"))
        self.before.append(Let(stage, steps.expr() % self.stages))
        self.before.append(Let(parity, steps.expr() // self.stages % 2))
        return stage, parity

    def advance(self, place: _Place, delta: Poly) -> tuple[Body, tuple[Expr, Expr]]:
        """Stage and parity ``delta`` steps further on."""
        steps = delta.constant()
        if steps == 0:
            return (), (place.stage, place.parity)
        add_stage, add_parity = (
            self.split(delta, "skip") if steps is None
            else (Const(steps % self.stages), Const(steps // self.stages % 2))
        )  # fmt: skip
        following = Var(self.names.new("next"))
        wraps = Var(self.names.new("wraps"), ScalarType.PRED)
        lets = (
            Let(following, place.stage + add_stage),
            Let(wraps, Const(self.stages) <= following),
        )
        stage = select(wraps, following - self.stages, following)
        return lets, (stage, (place.parity ^ add_parity) ^ select(wraps, 1, 0))

    def statement(self, stmt: Stmt, place: _Place | None) -> Stmt:
        if place is None:
            return stmt
        new = map_exprs(stmt, lambda e: self.replaced(e, place))
        return map_bodies(new, lambda b: tuple(self.statement(s, place) for s in b))

    def replaced(self, e: Expr, place: _Place) -> Expr:
        match e:
            case Binary("%", Binary("//", m, Const(self.stages)), Const(2)):
                offset = (self.position(m) - place.at).constant()
                if offset is not None:
                    return self.shifted(place, offset)[1]
            case Binary("%", m, Const(self.stages)):
                offset = (self.position(m) - place.at).constant()
                if offset is not None:
                    return self.shifted(place, offset)[0]
        match e:
            case Binary(op, a, b):
                return Binary(op, self.replaced(a, place), self.replaced(b, place))
            case Select(c, a, b):
                return Select(*(self.replaced(x, place) for x in (c, a, b)))
        return e

    def shifted(self, place: _Place, offset: int) -> tuple[Expr, Expr]:
        """Stage and parity ``offset`` steps from ``place``, at most one round away."""
        if abs(offset) >= self.stages:
            raise InternalError("step_stages", f"a step {offset} away with {self.stages} stages")
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


def _carried(loop: For) -> list[tuple[Var, Carry, Expr]]:
    """The scalars that a loop carries, with what it yields for them."""
    pairs = zip(loop.carries, loop.yields, strict=True)
    return [(c.var, c, y) for c, y in pairs if isinstance(c.var, Var) and isinstance(y, Expr)]


def _scalars(loop: For, what: str) -> dict[Var, Expr]:
    return {v: getattr(c, what) for v, c, _ in _carried(loop)}


def _at(p: Poly, env: Mapping[Var, Expr]) -> Poly:
    """``p`` with variables replaced."""
    return poly(substitute(p.expr(), env))
