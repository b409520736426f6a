"""Tokens and expressions of the kernel IR's text form; ``parse`` builds statements on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lowering.ground.dtypes import STORED, DType
from lowering.ground.errors import WschedError
from lowering.ground.expr import (
    FALSE,
    SPECIALS,
    TRUE,
    Binary,
    Const,
    Expr,
    ScalarType,
    Select,
    Special,
    Var,
)
from lowering.ground.scalar_ops import OPS
from lowering.kernel.operands import Frag

__all__ = ["NUMBER_NAMES", "IRSyntaxError", "Lexer"]

NUMBER_NAMES = ("inf", "nan")
"""Numbers that look like names; ``verify`` keeps fragments from being called so."""

_SPACE = re.compile(r"\s*(?:#[^\n]*\n?\s*)*")
_TOKEN = re.compile(
    r"%[a-z][\w.]*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
    r"|\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+|\d+(?:x\d+)+|\d+"
    r"|->|\.\.|//|<<|<=|==|!=|[-+*%^<>=(){}\[\],:]"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan")

_SCALAR_TYPES = tuple(t.value for t in ScalarType)


class IRSyntaxError(WschedError):
    """The text is no kernel: ``line`` (from 1), what was found there and what was expected."""

    def __init__(self, line: int, found: str, expected: str) -> None:
        self.line, self.found, self.expected = line, found, expected
        super().__init__(f"line {line}: found {found!r}, expected {expected}")


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where the match of ``pattern`` at ``position`` ends; ``position`` itself if there is none."""
    match = pattern.match(text, position)
    return match.end() if match else position


class Lexer:
    """A cursor over the tokens of a text, with the names in scope; parses expressions."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        self.at = 0
        self.scope: dict[str, Var | Frag] = {}
        line, position = 1, 0
        while (start := _end(_SPACE, text, position)) < len(text):
            line += text.count("\n", position, start)
            position = _end(_TOKEN, text, start)
            if position == start:
                raise IRSyntaxError(line, text[start : start + 20].split()[0], "a token")
            self.tokens.append((text[start:position], line))

    @property
    def peek(self) -> str:
        """The next token, empty at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def ahead(self, *tokens: str) -> bool:
        """Whether ``tokens`` follow the next token."""
        after = self.tokens[self.at + 1 : self.at + 1 + len(tokens)]
        return tuple(token for token, _ in after) == tokens

    def fail(self, expected: str) -> IRSyntaxError:
        """The error for the token at hand."""
        line = self.tokens[min(self.at, len(self.tokens) - 1)][1] if self.tokens else 1
        return IRSyntaxError(line, self.peek, expected)

    def next(self) -> str:
        """Take the next token."""
        token = self.peek
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Take ``token`` if it is next."""
        if self.peek == token:
            self.at += 1
            return True
        return False

    def expect(self, *tokens: str) -> None:
        """Take these tokens, which have to follow."""
        for token in tokens:
            if not self.accept(token):
                raise self.fail(f"{token!r}")

    def integer(self) -> int:
        """Take an integer."""
        sign = -1 if self.accept("-") else 1
        if not self.peek.isdigit():
            raise self.fail("an integer")
        return sign * int(self.next())

    def number(self, expected: str = "a number") -> float:
        """Take a number, which may have a sign, a fraction and an exponent."""
        sign = -1.0 if self.accept("-") else 1.0
        if not _NUMBER.fullmatch(self.peek):
            raise self.fail(expected)
        return sign * float(self.next())

    def scalar_type(self) -> ScalarType:
        """Take the type of a scalar."""
        if self.peek not in _SCALAR_TYPES:
            raise self.fail("a scalar type: " + ", ".join(_SCALAR_TYPES))
        return ScalarType(self.next())

    def dtype(self, among: tuple[DType, ...] = STORED) -> DType:
        """Take the type of an element."""
        found = next((d for d in among if d.value == self.peek), None)
        if found is None:
            raise self.fail("an element type: " + ", ".join(d.value for d in among))
        self.at += 1
        return found

    def pair(self) -> tuple[int, int]:
        """Take ``ROWSxCOLS``."""
        rows, _, cols = self.peek.partition("x")
        if not (rows.isdigit() and cols.isdigit()):
            raise self.fail("ROWSxCOLS")
        self.at += 1
        return int(rows), int(cols)

    def shape(self) -> tuple[int, ...]:
        """Take extents, ``N`` or ``ROWSxCOLS`` or more of them."""
        if not re.fullmatch(r"\d+(?:x\d+)*", self.peek):
            raise self.fail("extents: N, ROWSxCOLS, ...")
        return tuple(map(int, self.next().split("x")))

    def name(self) -> str:
        """Take a name."""
        if not re.match(r"[A-Za-z_]", self.peek):
            raise self.fail("a name")
        return self.next()

    def items(self, one: Callable[[], Any], close: str, least: int = 0) -> tuple[Any, ...]:
        """Take comma-separated items up to ``close``, at least so many."""
        found: list[Any] = []
        while len(found) < least or not self.accept(close):
            if found:
                self.expect(",")
            found.append(one())
        return tuple(found)

    def arguments(self, count: int) -> tuple[Expr, ...]:
        """Take ``count`` expressions and the closing parenthesis."""
        found = [self.expr()]
        while len(found) < count:
            self.expect(",")
            found.append(self.expr())
        self.expect(")")
        return tuple(found)

    def expr(self, level: int = 1) -> Expr:
        """Take an expression whose operators bind at least as strongly as ``level``."""
        if level > 7:
            return self.atom()
        left = self.expr(level + 1)
        while self.peek in OPS and OPS[self.peek][1] == level:
            op = self.next()
            left = Binary(op, left, self.expr(level + 1))
        return left

    def atom(self) -> Expr:
        """Take a literal, a name, a call or a parenthesised expression."""
        token = self.peek
        if token.isdigit() or token == "-":
            value = self.integer()
            return Const(value, self.scalar_type()) if self.accept(":") else Const(value)
        self.at += 1
        if token == "(":
            inner = self.expr()
            self.expect(")")
            return inner
        if token in ("true", "false"):
            return TRUE if token == "true" else FALSE
        if token.startswith("%") and token[1:] in SPECIALS:
            return Special(token[1:])
        if self.peek == "(" and token in OPS:
            self.at += 1
            return Binary(token, *self.arguments(2))
        if self.peek == "(" and token == "select":
            self.at += 1
            return Select(*self.arguments(3))
        found = self.scope.get(token)
        if isinstance(found, Var):
            return found
        self.at -= 1
        raise self.fail("a defined scalar")
