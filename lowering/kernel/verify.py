"""What every well-formed kernel satisfies; run on the last one, on all to find a culprit.

Rules: names are defined once and before use, with their type; references name storage that
exists; an accumulator is consumed at most once, on every path and in every iteration; nothing but
wgmma and ``wgmma.wait`` touches a value in flight; loops yield what they carry; collective
operations do not stand under ``elect``, and operations of one thread stand only there. Which
warps run what is in ``verify_roles``, what values and tensors an operation takes in
``verify_values``, of how many coordinates in ``verify_references``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowering.ground.expr import Expr, ScalarType, Var, children, free_vars, type_of
from lowering.ground.frozen import values_of
from lowering.ground.types import FragmentType
from lowering.kernel import (
    verify_cluster,
    verify_copy_tile,
    verify_cp_async,
    verify_fragments,
    verify_memory,
    verify_queue,
    verify_reduction,
    verify_tensor,
    verify_values,
)
from lowering.kernel.control import EVENTS, Elect, For, Let
from lowering.kernel.kernel import Kernel, Ring, TraceBuffer
from lowering.kernel.lexer import NUMBER_NAMES
from lowering.kernel.nodes import (
    Body,
    Break,
    CounterRef,
    Frag,
    GmemRef,
    MapRef,
    MBarrierRef,
    NamedBarrierRef,
    PartialRef,
    Roles,
    Section,
    SmemRef,
    Stamp,
    Stmt,
    TmemRef,
)
from lowering.kernel.rules import by_kind
from lowering.kernel.stage import Stage
from lowering.kernel.stamp import CLOCKS, PHASES
from lowering.kernel.text import print_stmt
from lowering.kernel.traits import Threads
from lowering.kernel.verify_maps import declared_maps, declared_over, map_rules
from lowering.kernel.verify_references import declared_shapes, reference_rules
from lowering.kernel.verify_roles import role_rules
from lowering.kernel.verify_values import declared, predicate_rules, share_rules, tensor_rules
from lowering.kernel.visit import bodies, bound, used

__all__ = ["verify"]

_CHECKS = by_kind((
    *verify_values.RULES, *verify_memory.RULES, *verify_cluster.RULES, *verify_cp_async.RULES,
    *verify_copy_tile.RULES, *verify_queue.RULES, *verify_reduction.RULES, *verify_fragments.RULES,
    *verify_tensor.RULES,
))  # fmt: skip
"""What is checked of a kind of statement beside names, types and references."""

_REFERENCES = frozenset({SmemRef, GmemRef, MapRef})


def verify(kernel: Kernel, stage: Stage | None = None) -> list[str]:
    """Every rule that ``kernel`` breaks, as sentences; empty if it is well-formed.

    Args:
        kernel: of any stage.
        stage: the passes that have run; without it statements of all levels may stand together.
    """
    return list(_Verifier(kernel, stage).problems())


class _Verifier:
    def __init__(self, kernel: Kernel, stage: Stage | None) -> None:
        self.kernel, self.stage = kernel, stage
        self.names: set[str] = set()
        self.consumed: set[str] = set()
        self.before_loop: set[str] = set()
        self.specialized = any(isinstance(s, Roles) for s in kernel.body)
        in_global = {t.name for t in kernel.tensor_maps} | {g.name for g in kernel.globals}
        self.storage = {
            SmemRef: {b.name for b in kernel.shared},
            TmemRef: {b.name for b in kernel.tensors},
            GmemRef: in_global,
            MapRef: in_global,
            MBarrierRef: {b.name for b in kernel.mbarriers},
            NamedBarrierRef: {b.name for b in kernel.named_barriers},
            CounterRef: {c.name for c in kernel.counters},
            PartialRef: {w.name for w in kernel.workspaces},
        }

    def problems(self) -> Iterator[str]:
        scope: dict[str, object] = {p.name: p.type for p in self.kernel.params}
        self.names |= set(scope)
        yield from self.grid(scope)
        yield from declared(self.kernel)
        yield from declared_shapes(self.kernel)
        yield from declared_maps(self.kernel)
        yield from declared_over(self.kernel)
        yield from verify_tensor.declared_tensors(self.kernel)
        if self.stage is not None:
            yield from self.stage.undeclared(self.kernel)
        yield from share_rules(self.kernel)
        yield from role_rules(self.kernel)
        yield from self.body(self.kernel.body, scope, one_thread=False)

    def grid(self, scope: dict[str, object]) -> Iterator[str]:
        """What a launch counts the CTAs by it is told, or knows of the device."""
        both = (("x", self.kernel.grid, {"sms"}), ("y", self.kernel.grid_y, set[str]()))
        for axis, count, more in both:
            for name in sorted({v.name for v in free_vars(count)} - set(scope) - more):
                yield f"the grid along {axis} is over {name}, which is no parameter"

    def body(self, body: Body, scope: dict[str, object], one_thread: bool) -> Iterator[str]:
        scope = dict(scope)
        for stmt in body:
            if isinstance(stmt, Break):
                yield f"break outside the body of a loop, in: {print_stmt(stmt)}"
            yield from self.stmt(stmt, scope, one_thread)

    def stmt(self, stmt: Stmt, scope: dict[str, object], one_thread: bool) -> Iterator[str]:
        inner = ", in: "
        for problem in self.rules(stmt, scope, one_thread):
            yield problem if inner in problem else f"{problem}{inner}{print_stmt(stmt)}"

    def rules(self, stmt: Stmt, scope: dict[str, object], one_thread: bool) -> Iterator[str]:
        threads = stmt.TRAITS.threads
        if one_thread and threads in (Threads.WARP, Threads.WARPGROUP):
            yield f"{stmt.OP} under elect"
        if self.specialized and not one_thread and threads is Threads.ONE:
            yield f"{stmt.OP} outside elect"
        if self.stage is not None:
            yield from self.stage.problems(stmt)
        yield from self.operands(stmt, scope)
        for check in _CHECKS.get(type(stmt), ()):
            yield from check(self.kernel, stmt)
        if isinstance(stmt, Let):
            yield from self.define(scope, stmt.var.name, stmt.var.type)
            kind = type_of(stmt.value)
            if kind is not stmt.var.type:
                yield f"{stmt.var.name} is {stmt.var.type.value}, its value {kind.value}"
            if stmt.once and stmt.var.type is not ScalarType.I32:
                yield f"{stmt.var.name} is {stmt.var.type.value}, only i32 is computed once"
            return
        if isinstance(stmt, For):
            yield from self.loop(stmt, scope, dict(scope), one_thread)
            return
        if isinstance(stmt, Roles):
            for role in stmt.roles:
                own = dict(scope)
                if role.group:
                    yield from self.define(own, role.group.name, role.group.type)
                yield from self.body(role.body, own, one_thread)
            return
        if lists := bodies(stmt):
            yield from self.lists(stmt, lists, dict(scope), one_thread)
            return
        for value in bound(stmt):
            yield from self.define(scope, value.name, value.type)

    def lists(
        self, stmt: Stmt, lists: tuple[Body, ...], inside: dict[str, object], one_thread: bool
    ) -> Iterator[str]:
        if isinstance(stmt, Section) and stmt.group:
            yield from self.define(inside, stmt.group.name, stmt.group.type)
        before, after = self.consumed, set(self.consumed)
        for inner in lists:
            self.consumed = set(before)  # of two branches only one is executed
            yield from self.body(inner, inside, one_thread or isinstance(stmt, Elect))
            after |= self.consumed
        self.consumed = after

    def loop(
        self, loop: For, scope: dict[str, object], inside: dict[str, object], one_thread: bool
    ) -> Iterator[str]:
        yield from self.define(inside, loop.var.name, loop.var.type)
        for carry in loop.carries:
            yield from self.define(inside, carry.var.name, carry.var.type)
        if len(loop.yields) != len(loop.carries):
            yield f"{len(loop.yields)} yields for {len(loop.carries)} carried values"
        inner = dict(inside)
        outside, self.before_loop = self.before_loop, set(scope)
        for stmt in loop.body:
            taken = sorted(self.consumed & {c.var.name for c in loop.carries})
            if isinstance(stmt, Break) and taken:
                yield f"{taken[0]} is consumed before the loop may end, in: {print_stmt(stmt)}"
            yield from self.stmt(stmt, inner, one_thread)
        for carry, value in zip(loop.carries, loop.yields, strict=False):
            names = {value.name} if isinstance(value, Frag) else _names(value)
            for name in sorted(names - set(inner)):
                yield f"{name} is yielded before it is defined"
            match value, carry.var:
                case Frag() as last, Frag() as var:
                    yield from self.assignable(last.type, var.type, last.name)
                    yield from self.consume(last.name)
                case (Frag(), _) | (_, Frag()):
                    yield f"of {carry.var.name} and what is yielded for it one is a fragment"
        self.before_loop = outside
        for carry in loop.carries:
            match carry.init, carry.var:
                case Frag() as init, Frag() as var:
                    yield from self.assignable(init.type, var.type, init.name)
                    yield from self.consume(init.name)
                case (Frag(), _) | (_, Frag()):
                    yield f"of {carry.var.name} and what it begins as one is a fragment"
        for carry in loop.carries:
            yield from self.define(scope, carry.result.name, carry.result.type)

    def operands(self, stmt: Stmt, scope: dict[str, object]) -> Iterator[str]:
        return_later: set[str] = set()
        if isinstance(stmt, For):
            yield from self.event(stmt)
            return_later = {n for y in stmt.yields for n in _operand_names(y)}
            if stmt.event is not None and not stmt.of_one_tile:
                return_later.add(stmt.var.name)
        for name in sorted(used(stmt).difference(scope, return_later)):
            yield f"{name} is used before it is defined"
        values = values_of(stmt)
        held = {*map(type, values.values())}
        for field, value in values.items():
            kind = type(value)
            if kind in self.storage:
                yield from self.stored(value)
            elif (kind is Frag or kind is tuple) and field != "out" and type(stmt) is not For:
                for frag in value if kind is tuple else (value,):
                    if isinstance(frag, Frag):
                        yield from self.fragment(stmt, field, frag, scope)
        if not held.isdisjoint(_REFERENCES):
            for check in (tensor_rules, reference_rules, map_rules):
                yield from check(self.kernel, stmt)
        if Frag in held:
            yield from predicate_rules(stmt, values)
        if isinstance(stmt, Stamp):
            yield from self.stamp(stmt)
        ring = getattr(stmt, "ring", None)
        if ring is not None and self.kernel.find(Ring, ring) is None:
            yield f"no ring named {ring}"

    def fragment(
        self, stmt: Stmt, field: str, value: Frag, scope: dict[str, object]
    ) -> Iterator[str]:
        if scope.get(value.name, value.type) != value.type:
            yield f"{value.name} is {scope[value.name]}, used as {value.type}"
        if value.type.in_flight and field not in stmt.TRAITS.flying:
            yield f"{value.name} is in flight"
        if field in stmt.TRAITS.consumes:
            yield from self.consume(value.name)

    @staticmethod
    def event(loop: For) -> Iterator[str]:
        if loop.event is not None and loop.event.name not in EVENTS:
            yield f"no event of a loop named {loop.event.name}, but {', '.join(EVENTS)}"

    def stamp(self, stmt: Stamp) -> Iterator[str]:
        trace = self.kernel.find(TraceBuffer, stmt.buffer)
        if trace is None:
            yield f"no trace buffer named {stmt.buffer}"
            return
        for what, found, legal in (
            ("event", stmt.event, trace.events),
            ("phase", stmt.phase, PHASES),
            ("clock", stmt.clock, CLOCKS),
        ):
            if found not in legal:
                yield f"no {what} named {found}, but {', '.join(legal)}"

    def stored(self, ref: Any) -> Iterator[str]:
        name = getattr(ref, "buffer", None) or getattr(ref, "map", None) or ref.array
        if name not in self.storage[type(ref)]:
            yield f"no storage named {name}"

    def define(self, scope: dict[str, object], name: str, kind: object) -> Iterator[str]:
        if name in self.names:
            yield f"{name} is defined twice"
        if name in NUMBER_NAMES:
            yield f"{name} reads as a number"
        self.names.add(name)
        scope[name] = kind

    def consume(self, name: str) -> Iterator[str]:
        if name in self.consumed:
            yield f"{name} is consumed twice"
        elif name in self.before_loop:
            yield f"{name} is consumed in a loop that it stands before"
        self.consumed.add(name)

    @staticmethod
    def assignable(value: FragmentType, to: FragmentType, name: str) -> Iterator[str]:
        if value != to and value.flying() != to:
            yield f"{name} is {value}, carried as {to}"


def _operand_names(value: Expr | Frag) -> set[str]:
    return {value.name} if isinstance(value, Frag) else _names(value)


def _names(e: Expr) -> set[str]:
    if isinstance(e, Var):
        return {e.name}
    return set().union(*(_names(c) for c in children(e)))
