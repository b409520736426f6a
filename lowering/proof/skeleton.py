"""What an agent waits for and tells others, as steps that can be taken one by one.

Of a program only events of some kinds are left, with the loops, conditions and scalars that they
depend on: no data moves. Each step is a function of a walker that returns the number of the next
one, or :data:`BLOCKED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from lowering.ground.expr import ONE, Expr, Var, free_vars
from lowering.ground.frozen import replaced
from lowering.kernel.control import Break, Carry, Elect, For, If, Let
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, Frag, MBarrierRef, Stmt
from lowering.kernel.text import print_stmt
from lowering.kernel.visit import operands, walk
from lowering.proof.agent import Agent
from lowering.proof.board import QUIET, Event, Walker
from lowering.proof.obligation import UnknownError
from lowering.proof.steps import scalars_of
from lowering.proof.value_of import Value, value_of, value_of_let, values_of

__all__ = ["Skeleton", "alike"]

BLOCKED = -1
"""In place of the number of the next step: nothing has happened."""

Step = Callable[[Walker], int]


@dataclass
class Skeleton:
    """The steps of an agent: of ``tables`` each may have one for a statement, ``texts`` are the
    statements by step, ``named`` what those name. With ``data`` loops carry fragments as well.

    Raises:
        UnknownError: a statement synchronizes, and nothing is known of how.
    """

    kernel: Kernel
    agent: Agent
    tables: tuple[Mapping[type[Stmt], Event], ...]
    data: bool = False
    steps: list[Step] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    named: dict[int, frozenset[Var]] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)
    lets: dict[str, Expr] = field(default_factory=dict)
    breaks: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mark(self.agent.body)
        self.need(self.agent.body)
        self.body(self.agent.body, 32 * len(self.agent.warps))

    def mark(self, body: Body) -> bool:
        """Note the statements that are events, or have some in them; whether there are any."""
        found = False
        for stmt in body:
            if isinstance(stmt, If):
                kept = any([self.mark(stmt.then), self.mark(stmt.other)])
            elif isinstance(stmt, For | Elect):
                kept = self.mark(stmt.body)
                kept |= isinstance(stmt, For) and any(True for _ in scalars_of(stmt))
            elif isinstance(stmt, Break | Let):
                continue
            else:
                kept = any(True for _ in self.events(stmt))
                if not kept and type(stmt) not in QUIET and _signals(stmt):
                    raise UnknownError(f"{stmt.OP} synchronizes, and nothing is known of how")
            if kept:
                self.kept.add(id(stmt))
            found |= kept
        return found

    def events(self, stmt: Stmt) -> Iterator[Event]:
        """What is followed of a statement."""
        return (events[type(stmt)] for events in self.tables if type(stmt) in events)

    def need(self, body: Body) -> None:
        """Note the names that events, and what they depend on, read."""
        self.lets |= {s.var.name: s.value for s in walk(body) if isinstance(s, Let)}
        pending = [e for s in walk(body) for e in self.asked(s)]
        while pending:
            for var in free_vars(pending.pop()):
                if var.name not in self.needed:
                    self.needed.add(var.name)
                    pending += [self.lets[var.name]] if var.name in self.lets else []

    def asked(self, stmt: Stmt) -> Iterator[Expr]:
        """What a statement that is kept evaluates."""
        if isinstance(stmt, Break):
            yield stmt.cond
        if id(stmt) not in self.kept:
            return
        match stmt:
            case If(cond=cond):
                yield cond
            case For():
                yield from (stmt.start, stmt.stop, stmt.step)
                for c in scalars_of(stmt):
                    yield from (c.init, c.following)
            case Elect():
                pass
            case _:
                yield from (e for event in self.events(stmt) for e in event.asks(self.kernel, stmt))

    def go(self, w: Walker, limit: int) -> int:
        """Take a walker's steps until none can be taken; how many.

        Raises:
            UnknownError: more than ``limit``, or a scalar that nothing is known of.
        """
        steps, at, taken = self.steps, w.at, 0
        end = len(steps)
        try:
            while at < end:
                following = steps[at](w)
                if following == BLOCKED:
                    break
                at, taken = following, taken + 1
                if taken > limit:
                    raise UnknownError(f"more than {limit} steps of {self.agent}")
        except KeyError as e:
            raise UnknownError(f"{self.agent}: {e} has no value") from None
        except ZeroDivisionError:
            raise UnknownError(f"{self.agent}: a division by zero") from None
        w.at = at
        return taken

    def said(self, w: Walker) -> str:
        """Where a walker waits, for people."""
        names = sorted(v.name for v in self.named.get(w.at, ()) if v.name in w.env)
        known = ", ".join(f"{n} = {w.env[n]}" for n in names)
        where = f"{self.texts[w.at]}{f' ({known})' if known else ''}"
        return f"CTA {w.cta}, {self.agent}: {where}"

    def left(self, body: Body) -> tuple[object, ...]:
        """What is left of a statement list, to be compared."""
        found: list[object] = []
        for stmt in body:
            match stmt:
                case Let(var=var):
                    found += [stmt] * (var.name in self.needed)
                case Break():
                    found.append(stmt)
                case _ if id(stmt) not in self.kept:
                    pass
                case If(cond, then, other):
                    found.append((cond, self.left(then), self.left(other)))
                case Elect(body=inner):
                    found.append((Elect, self.left(inner)))
                case For():
                    found.append((replaced(stmt, body=()), self.left(stmt.body)))
                case _:
                    found.append(stmt)
        return tuple(found)

    # --- steps ------------------------------------------------------------------------------------

    def body(self, body: Body, threads: int) -> None:
        """Add the steps of a statement list, which so many threads of the agent execute."""
        lets: list[tuple[str, Value]] = []
        for stmt in body:
            if isinstance(stmt, Let):
                if stmt.var.name in self.needed:
                    lets.append((stmt.var.name, value_of_let(stmt.value, self.lets)))
                continue
            if lets and (isinstance(stmt, Break) or id(stmt) in self.kept):
                self.name(lets)
                lets = []
            if isinstance(stmt, Break):
                self.breaks[-1].append(len(self.steps))
                self.add(value_of(stmt.cond))
            elif id(stmt) in self.kept:
                self.statement(stmt, threads)
        if lets:
            self.name(lets)

    def statement(self, stmt: Stmt, threads: int) -> None:
        """Add the steps of a statement."""
        match stmt:
            case Elect():
                self.body(stmt.body, threads // 32)
            case If():
                self.branch(stmt, threads)
            case For():
                self.loop(stmt, threads)
            case _:
                for event in self.events(stmt):
                    self.event(stmt, event, threads)

    def event(self, stmt: Stmt, event: Event, threads: int) -> None:
        """Add the step of an event."""
        at = len(self.steps)
        asked = event.asks(self.kernel, stmt)
        values, does, after = values_of(asked), event.does, at + 1

        def step(w: Walker) -> int:
            given = does(stmt, w, threads, values(w.env))
            if given is True:
                return after
            if given is False:
                return BLOCKED
            w.env.update(given)
            return after

        self.texts[at] = " ".join(print_stmt(stmt).split())
        self.named[at] = frozenset(v for e in asked for v in free_vars(e))
        self.steps.append(step)

    def add(self, marker: Any) -> int:
        """A place for a step that is known later."""
        self.steps.append(marker)
        return len(self.steps) - 1

    def name(self, lets: Sequence[tuple[str, Value]]) -> None:
        """Add a step that gives names values, one after the other."""
        after = len(self.steps) + 1

        def step(w: Walker) -> int:
            env = w.env
            for name, value in lets:
                env[name] = value(env)
            return after

        self.steps.append(step)

    def assign(self, names: tuple[str, ...], values: tuple[Value, ...]) -> None:
        """Add a step that gives names values, all at once."""
        after = len(self.steps) + 1
        if not names:
            return
        if len(names) == 1:
            self.name([(names[0], values[0])])
            return

        def step(w: Walker) -> int:
            env = w.env
            env.update(zip(names, [v(env) for v in values], strict=True))
            return after

        self.steps.append(step)

    def hand(self, pairs: list[tuple[str, str]]) -> None:
        """Add a step that gives fragments other names, all at once."""
        after = len(self.steps) + 1

        def step(w: Walker) -> int:
            w.frags.update([(name, w.frags[value]) for value, name in pairs])
            return after

        if pairs:
            self.steps.append(step)

    def branch(self, stmt: If, threads: int) -> None:
        """Add the steps of a condition."""
        at, cond = self.add(None), value_of(stmt.cond)
        self.body(stmt.then, threads)
        over = self.add(None)
        other = len(self.steps)
        self.body(stmt.other, threads)
        end = len(self.steps)
        self.steps[at] = lambda w: at + 1 if cond(w.env) else other
        self.steps[over] = lambda w: end

    def loop(self, stmt: For, threads: int) -> None:
        """Add the steps of a loop."""
        carried, var = list(scalars_of(stmt)), stmt.var.name
        names = tuple(c.var.name for c in carried)
        stop = value_of(stmt.stop)
        inits = tuple(value_of(c.init) for c in carried)
        self.assign((var, *names), (value_of(stmt.start), *inits))
        frags = list(_frags_of(stmt)) if self.data else []
        self.hand([(a, b) for a, b, _, _ in frags])
        head = self.add(None)
        self.breaks.append([])
        self.body(stmt.body, threads)
        following = tuple(value_of(c.following) for c in carried)
        step = value_of(stmt.var + stmt.step if stmt.step != ONE else stmt.var + 1)
        self.assign((var, *names), (step, *following))
        self.hand([(d, b) for _, b, _, d in frags])
        back = self.add(None)
        end = len(self.steps)
        self.assign(tuple(c.result.name for c in carried), tuple(map(itemgetter, names)))
        self.hand([(b, c) for _, b, c, _ in frags])
        self.steps[back] = lambda w: head
        self.steps[head] = lambda w: head + 1 if w.env[var] < stop(w.env) else end
        for at in self.breaks.pop():
            self.steps[at] = _leave(self.steps[at], at, end)


def alike(skeletons: Sequence[Skeleton]) -> list[Skeleton]:
    """With one for agents of a CTA that only differ in what is no event."""
    found: dict[tuple[object, ...], Skeleton] = {}
    for s in skeletons:
        a = s.agent
        tables = tuple(map(id, s.tables))
        key = a.role, a.group, a.rank, tables, s.data, s.left(a.body)
        if key in found:
            warps = tuple(sorted({*found[key].agent.warps, *a.warps}))
            s = Skeleton(s.kernel, replace(a, warps=warps), s.tables, s.data)
        found[key] = s
    return [*found.values()]


def _frags_of(loop: For) -> Iterator[tuple[str, str, str, str]]:
    """The fragments that a loop carries: before, in and behind it, and what it yields."""
    for carry, following in zip(loop.carries, loop.yields, strict=True):
        match carry, following:
            case Carry(Frag() as var, Frag() as init, Frag() as result), Frag():
                yield init.name, var.name, result.name, following.name


def _signals(stmt: Stmt) -> bool:
    """Whether a statement may change what others wait for."""
    told = any(isinstance(x, MBarrierRef) for x in operands(stmt))
    return told or stmt.TRAITS.synchronizes


def _leave(cond: Any, at: int, end: int) -> Step:
    return lambda w: end if cond(w.env) else at + 1
