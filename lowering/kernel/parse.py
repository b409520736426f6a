"""The parser of the kernel IR's text form (``lowering.kernel.text`` prints it)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_args, get_type_hints

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, Expr, Var
from lowering.ground.layouts import ACCUMULATOR, RegisterLayout
from lowering.ground.sharing import WHOLE
from lowering.ground.types import FragmentType
from lowering.kernel import nodes
from lowering.kernel.declarations import DECLARATIONS, Declarations
from lowering.kernel.group_part import GroupPart
from lowering.kernel.kernel import Kernel, Storage
from lowering.kernel.lexer import NUMBER_NAMES, IRSyntaxError
from lowering.kernel.nodes import (
    Body,
    Carry,
    CounterRef,
    Elect,
    Event,
    For,
    Frag,
    GmemRef,
    If,
    Let,
    MapRef,
    MBarrierRef,
    NamedBarrierRef,
    OnWarp,
    PartialRef,
    Role,
    Roles,
    Section,
    SmemRef,
    Stmt,
    TmemRef,
)
from lowering.target.target import Target
from lowering.target.targets import TARGETS, grouped

__all__ = ["IRSyntaxError", "parse_kernel"]

_BLOCKS = {c.OP for c in (Let, For, If, OnWarp, Elect, Section, Roles)}
_PLAIN: dict[str, type[Stmt]] = {
    cls.OP: cls
    for cls in vars(nodes).values()
    if isinstance(cls, type) and issubclass(cls, Stmt) and cls.OP and cls.OP not in _BLOCKS
}

_ARRAYS = (MBarrierRef, NamedBarrierRef, CounterRef, PartialRef)
"""What is written as a name and one index."""


@cache
def _hints(op: str) -> dict[str, Any]:
    """Types of a statement's fields, evaluated once: that was three quarters of all parsing."""
    return get_type_hints(_PLAIN[op])


def parse_kernel(text: str) -> Kernel:
    """The kernel that ``print_kernel`` printed as ``text``; ``#`` starts a comment.

    Raises:
        IRSyntaxError: the text does not follow the grammar, or uses an undefined name.
    """
    return _Parser(text).kernel()


class _Parser(Declarations):
    def kernel(self) -> Kernel:
        self.expect("kernel")
        name = self.name()
        self.expect("threads")
        threads = self.integer()
        registers = self.integer() if self.accept("registers") else None
        self.expect("cluster")
        cluster = self.integer()
        splits = self.integer() if self.accept("splits") else 1
        share = self.share() if self.accept("share") else WHOLE
        dependent = self.accept("dependent")
        target = self.target() if self.accept("target") else TARGETS[0]
        self.expect("grid")
        mark = self.at
        while self.peek not in ("{", ""):
            self.at += 1
        self.expect("{")
        params: list[Var] = []
        storage: list[Storage] = []
        while self.peek == "param" or self.peek in DECLARATIONS:
            word = self.next()
            if word == "param":
                params.append(self.scalar())
            else:
                storage.append(DECLARATIONS[word](self))
        body = self.body()
        self.expect("}")
        if self.peek:
            raise self.fail("the end of the text")
        self.at = mark
        self.scope = {p.name: p for p in (*params, Var("sms"))}
        grid = self.expr()
        grid_y: Expr = ONE
        if self.accept(","):
            del self.scope["sms"]
            grid_y = self.expr()
        return Kernel(
            name, threads, grid, tuple(params), tuple(storage), body, cluster, dependent, share,
            splits, target, grid_y, registers,
        )  # fmt: skip

    def target(self) -> Target:
        found = next((t for t in TARGETS if t.arch == self.peek), None)
        if found is None:
            raise self.fail("a target: " + ", ".join(t.arch for t in TARGETS))
        self.at += 1
        if not self.accept("cta_group"):
            return found
        several = grouped(found.arch)
        if self.peek not in map(str, several):
            raise self.fail("a cta_group: " + ", ".join(map(str, several)))
        return several[self.integer()]

    # --- statements ---

    def body(self) -> Body:
        found = []
        while self.peek not in ("}", "yield", ""):
            found.append(self.stmt())
        return tuple(found)

    def block(self) -> Body:
        self.expect("{")
        body = self.body()
        self.expect("}")
        return body

    def stmt(self) -> Stmt:
        word = self.peek
        if word in _CONTROL and not self.ahead(":"):
            self.at += 1
            return _CONTROL[word](self)
        out: Frag | Var | None = None
        if word not in _PLAIN and self.ahead(":"):
            out = self.result() if self.ahead(":", "frag") else self.scalar()
            self.expect("=")
        cls = _PLAIN.get(self.peek)
        if cls is None:
            raise self.fail("a statement")
        if (out is None) == any(f.name == "out" for f in fields(cls)):
            raise self.fail("a statement without a result" if out else "a result before it")
        if out is not None and not isinstance(out, _hints(cls.OP)["out"]):
            kind = "scalar" if isinstance(out, Var) else "fragment"
            raise self.fail(f"a statement that gives a {kind}")
        self.at += 1
        return self.plain(cls, out)

    def plain(self, cls: type[Stmt], out: Frag | Var | None) -> Stmt:
        hints = _hints(cls.OP)
        values: dict[str, Any] = {}
        named = [f.name for f in fields(cls) if f.default is not MISSING]
        first = True
        for field in fields(cls):
            if field.name == "out":
                values["out"] = out
            elif field.default is MISSING:
                if not first:
                    self.expect(",")
                first = False
                values[field.name] = self.operand(hints[field.name])
        while named and (self.peek in named if first else self.peek == ","):
            if not first:
                self.expect(",")
            first = False
            key = self.name()
            if key not in named:
                self.at -= 1
                raise self.fail("one of " + ", ".join(named))
            self.expect("=")
            values[key] = self.operand(hints[key])
        return cls(**values)

    def operand(self, hint: Any) -> Any:
        text = str(hint)
        if hint is bool:
            if self.peek not in ("true", "false"):
                raise self.fail("'true' or 'false'")
            return self.next() == "true"
        if "Expr" in text:
            return self.expr()
        if hint is int or text.startswith("int |"):
            return self.integer()
        if hint is float:
            return self.number()
        if hint is str:
            return self.name()
        if hint in (tuple[Frag | float, ...], tuple[Frag, ...]):
            return self.mixed()
        if hint is Frag or (Frag in get_args(hint) and not self.ahead("[")):
            return self.fragment()
        if hint is GmemRef:
            return self.place()
        if hint is MapRef:
            return MapRef(self.name(), self.expr_in_brackets() if self.peek == "[" else None)
        if "SmemRef" in text or hint is TmemRef:
            name = self.name()
            stage, *coords = self.indices(least=2)
            return (TmemRef if hint is TmemRef else SmemRef)(name, stage, tuple(coords))
        for cls in _ARRAYS:
            if cls.__name__ in text:
                return cls(self.name(), self.expr_in_brackets())
        raise self.fail(f"an operand of type {text}")

    def place(self) -> GmemRef:
        """Take ``NAME[INDEX, ...]``, or ``NAME[ENTRY][INDEX, ...]`` of an array of maps."""
        name, first = self.name(), self.indices()
        if self.peek != "[":
            return GmemRef(name, first)
        if len(first) > 1:
            raise self.fail("one entry of an array of tensor maps in front of it")
        return GmemRef(name, self.indices(), first[0])

    def expr_in_brackets(self) -> Expr:
        self.expect("[")
        index = self.expr()
        self.expect("]")
        return index

    def indices(self, least: int = 1) -> tuple[Expr, ...]:
        """Take ``[INDEX, ...]``, at least so many."""
        self.expect("[")
        return self.items(self.expr, "]", least)

    def fragment(self) -> Frag:
        found = self.scope.get(self.peek)
        if not isinstance(found, Frag):
            raise self.fail("a defined fragment")
        self.at += 1
        return found

    def mixed(self) -> tuple[Frag | float, ...]:
        """Fragments and numbers up to the end of the statement, or what has a name and a value;
        ``inf`` and ``nan`` are numbers.
        """
        found: list[Frag | float] = []
        while not found or (not self.named() and self.accept(",")):
            named = self.scope.get(self.peek)
            if isinstance(named, Frag) and self.peek not in NUMBER_NAMES:
                found.append(self.fragment())
            else:
                found.append(self.number("a defined fragment or a number"))
        return tuple(found)

    def named(self) -> bool:
        """Whether ``, NAME =`` follows."""
        return [token for token, _ in self.tokens[self.at + 2 : self.at + 3]] == ["="]

    def result(self) -> Frag:
        name = self.name()
        self.expect(":", "frag", "<")
        dtype = self.dtype(tuple(DType))
        self.expect(",")
        rows, cols = self.pair()
        layout, flying = ACCUMULATOR, False
        if self.peek == "," and self.ahead("span"):
            self.expect(",", "span")
            layout = self.layout()
        if self.accept(","):
            self.expect("async")
            flying = True
        self.expect(">")
        return self.define(Frag(name, FragmentType(dtype, rows, cols, flying, layout)))

    def layout(self) -> RegisterLayout:
        """Take what a fragment says of its layout, behind ``span``."""
        span, found = self.integer(), {}
        for word, usual in (("lanes", ACCUMULATOR.lanes), ("below", ACCUMULATOR.below)):
            found[word] = usual
            if self.peek == "," and self.ahead(word):
                self.expect(",", word)
                found[word] = self.integer()
        return RegisterLayout(span, **found)

    def let(self) -> Let:
        var = self.scalar()
        self.expect("=")
        value = self.expr()
        # A fragment of that name may begin the next statement.
        return Let(var, value, not self.ahead(":") and self.accept("once"))

    def part(self) -> GroupPart:
        begin = self.scalar()
        self.expect(",")
        size = self.scalar()
        self.expect("of")
        return GroupPart(begin, size, self.expr())

    def for_(self) -> For:
        var = Var(self.name())
        self.expect("in")
        start = self.expr()
        self.expect("..")
        stop = self.expr()
        step = self.expr() if self.accept("step") else ONE
        self.scope[var.name] = var
        event = Event(self.name(), self.expr()) if self.accept("event") else None
        halves: tuple[Any, ...] = ()
        if self.accept("carry"):
            self.expect("(")
            halves = self.items(self.carry, ")")
        unroll = self.accept("unroll")
        self.expect("{")
        body = self.body()
        yields: list[Expr | Frag] = []
        if halves:
            self.expect("yield")
            for i in range(len(halves)):
                if i:
                    self.expect(",")
                yields.append(self.value())
        self.expect("}")
        carries = []
        for inner, init, result_name in halves:
            result = type(inner)(result_name, inner.type)
            self.scope[result_name] = result
            carries.append(Carry(inner, init, result))
        return For(var, start, stop, body, step, tuple(carries), tuple(yields), unroll, event)

    def carry(self) -> tuple[Var | Frag, Expr | Frag, str]:
        before = dict(self.scope)
        var: Var | Frag = self.result() if self.ahead(":", "frag") else self.scalar()
        inside, self.scope = self.scope, before
        self.expect("=")
        init = self.value()
        self.scope = inside
        self.expect("->")
        return var, init, self.name()

    def value(self) -> Expr | Frag:
        return self.fragment() if isinstance(self.scope.get(self.peek), Frag) else self.expr()

    def if_(self) -> If:
        cond = self.expr()
        then = self.block()
        return If(cond, then, self.block() if self.accept("else") else ())

    def on_warp(self) -> OnWarp:
        of = self.peek.removeprefix("%")
        if self.peek not in ("%warp", "%warpgroup.warp"):
            raise self.fail("'%warp' or '%warpgroup.warp'")
        self.at += 1
        return OnWarp(self.integer(), self.block(), of)

    def section(self) -> Section:
        name = self.name()
        self.expect("groups")
        groups = self.integer()
        group = self.group()
        registers = self.registers()
        return Section(name, self.block(), groups, group, registers)

    def registers(self) -> int | None:
        return self.integer() if self.accept("registers") else None

    def group(self) -> Var | None:
        if not self.accept("as"):
            return None
        group = Var(self.name())
        self.scope[group.name] = group
        return group

    def roles(self) -> Roles:
        self.expect("{")
        roles = []
        while not self.accept("}"):
            self.expect("role")
            name = self.name()
            self.expect("warps")
            first = self.integer()
            self.expect("..")
            warps = self.integer() - first
            group, registers = self.group(), self.registers()
            roles.append(Role(name, first, warps, self.block(), group, registers))
        return Roles(tuple(roles))


_CONTROL: dict[str, Callable[[_Parser], Stmt]] = {
    "let": _Parser.let,
    "group.part": _Parser.part,
    "for": _Parser.for_,
    "if": _Parser.if_,
    "on": _Parser.on_warp,
    "elect": lambda p: Elect(p.block()),
    "section": _Parser.section,
    "roles": _Parser.roles,
}
