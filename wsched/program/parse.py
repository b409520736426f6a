"""The text form of a program, read back; whatever it says is for ``verify`` to judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from lowering.ground.expr import Var
from lowering.kernel.lexer import Lexer
from wsched.fusion.summary import Summary
from wsched.fusion.sweep import Sweep
from wsched.program.program import (
    Buffer,
    CallStep,
    CopyStep,
    JoinStep,
    KernelStep,
    Program,
    Step,
    SummaryStep,
    SweepStep,
    WorkspaceStep,
)
from wsched.schedule.plan import Plan

__all__ = ["parse_program"]

Made = TypeVar("Made", Plan, Summary, Sweep)


def parse_program(text: str, plans: Mapping[str, Plan | Summary | Sweep]) -> Program:
    """The program of a text as :func:`wsched.program.text.print_program` writes it.

    Args:
        text: ``program (x) -> (y) { … }``; ``#`` starts a comment.
        plans: what each name of a kernel stands for.

    Raises:
        IRSyntaxError: it is no program, or names a kernel or buffer that there is not; with the
            line.
    """
    return _Parser(text, plans).program()


class _Parser(Lexer):
    """Names become buffers where they are declared; every word that is no token is an extent."""

    def __init__(self, text: str, plans: Mapping[str, Plan | Summary | Sweep]) -> None:
        super().__init__(text)
        self.plans = plans
        self.buffers: dict[str, Buffer] = {}
        self.scope.update((t, Var(t)) for t, _ in self.tokens if t.isidentifier())

    def program(self) -> Program:
        """Take all of it."""
        self.expect("program", "(")
        inputs = self.items(self.name, ")")
        self.expect("->", "(")
        outputs = self.items(self.name, ")")
        head = self.at
        self.expect("{")
        while self.ahead(":"):
            self._declaration()
        steps: list[Step] = []
        while not self.accept("}"):
            steps.append(self._step())
        if self.peek:
            raise self.fail("the end")
        self.at = head
        passed, made = (tuple(map(self._named, names)) for names in (inputs, outputs))
        return Program(passed, tuple(steps), made)

    def _declaration(self) -> None:
        if self.peek in self.buffers:
            raise self.fail("another name")
        name = self.name()
        self.expect(":")
        dtype = None if self.accept("any") else self.dtype()
        shape = self._extents() if dtype is not None or self.peek == "[" else ()
        strides = self._extents() if self.accept("strides") else None
        at = self._buffer() if self.accept("at") else None
        past = self.expr() if at is not None and self.accept("from") else None
        self.buffers[name] = Buffer(name, dtype, shape, strides, at, past)

    def _extents(self) -> tuple:  # type: ignore[type-arg]
        self.expect("[")
        return self.items(self.expr, "]")

    def _buffer(self) -> Buffer:
        if self.peek not in self.buffers:
            raise self.fail("a buffer: " + ", ".join(self.buffers))
        return self.buffers[self.next()]

    def _named(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise self.fail(f"a declaration of {name}")
        return self.buffers[name]

    def _step(self) -> Step:
        if self.accept("copy"):
            source = self._buffer()
            self.expect("->")
            return CopyStep(source, self._buffer())
        if self.accept("join"):
            parts = [self._buffer()]
            while self.accept(","):
                parts.append(self._buffer())
            self.expect("->")
            return JoinStep(tuple(parts), self._buffer())
        if self.accept("workspace"):
            return WorkspaceStep(self._buffer(), self.accept("zeroed"))
        if self.accept("kernel"):
            return KernelStep(*self._of(Plan, "a kernel"), *self._passed())
        if self.accept("summary"):
            return SummaryStep(*self._of(Summary, "a summary"), *self._passed())
        if self.accept("sweep"):
            return SweepStep(*self._of(Sweep, "a sweep"), *self._passed())
        if self.accept("call"):
            function, passed = self.name(), self._passed()
            said = map(self.accept, ("deterministic", "batch_invariant", "stable"))
            return CallStep(function, *passed, *said)
        raise self.fail("a step: copy, workspace, join, kernel, summary, sweep, call; or '}'")

    def _of(self, kind: type[Made], what: str) -> tuple[str, Made]:
        """Take the name of a plan, a summary or a sweep."""
        known = {name: made for name, made in self.plans.items() if isinstance(made, kind)}
        if self.peek not in known:
            raise self.fail(f"{what}: " + ", ".join(known))
        name = self.next()
        return name, known[name]

    def _passed(self) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
        self.expect("(")
        reads = self.items(self._buffer, ")")
        self.expect("->")
        writes = [self._buffer()]
        while self.accept(","):
            writes.append(self._buffer())
        return reads, tuple(writes)
