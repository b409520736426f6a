"""Tokens and expressions of the kernel IR's text form; ``parse`` builds statements on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lowering.errors import WschedError
from lowering.ir.expr import (
    FALSE,
    OPS,
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
from lowering.ir.operands import Frag

__all__ = ["IRSyntaxError", "Lexer"]

_TOKEN = re.compile(
    r"\s*(?:#[^\n]*\n?\s*)*"
    r"(?P<token>%[a-z][\w.]*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
    r"|\d+\.\d+(?:e[-+]?\d+)?|\d+x\d+|\d+|->|\.\.|//|<<|<=|==|!=|[-+*%^<>=(){}\[\],:])"
)


class IRSyntaxError(WschedError):
    """The text is no kernel: ``line`` (from 1), what was found there and what was expected."""

    def __init__(self, line: int, found: str, expected: str) -> None:
        self.line, self.found, self.expected = line, found, expected
        super().__init__(f"line {line}: found {found!r}, expected {expected}")


class Lexer:
    """A cursor over the tokens of a text, with the names in scope; parses expressions."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, int]] = []
        self.at = 0
        self.scope: dict[str, Var | Frag] = {}
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                if not re.sub(r"#[^\n]*", "", text[position:]).strip():
                    break
                line = text.count("\n", 0, position) + 1
                raise IRSyntaxError(line, text[position : position + 20].strip(), "a token")
            line = text.count("\n", 0, match.start("token")) + 1
            self.tokens.append((match["token"], line))
            position = match.end()

    @property
    def peek(self) -> str:
        """The next token, empty at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

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

    def name(self) -> str:
        """Take a name."""
        if not re.match(r"[A-Za-z_]", self.peek):
            raise self.fail("a name")
        return self.next()

    def items(self, one: Callable[[], Any], close: str) -> tuple[Any, ...]:
        """Take comma-separated items up to ``close``."""
        found: list[Any] = []
        while not self.accept(close):
            if found:
                self.expect(",")
            found.append(one())
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
            return Const(value, ScalarType(self.next())) if self.accept(":") else Const(value)
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
            a, b = self.items(self.expr, ")")
            return Binary(token, a, b)
        if self.peek == "(" and token == "select":
            self.at += 1
            return Select(*self.items(self.expr, ")"))
        found = self.scope.get(token)
        if isinstance(found, Var):
            return found
        self.at -= 1
        raise self.fail("a defined scalar")
