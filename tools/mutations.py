"""What a mutation of a Python text may be: one operator, constant, condition or statement changed.

Each kind changes what a line says. Docstrings, annotations,
texts of messages and what only type checkers read stay as they are: no test can see them. So does
what only they would refuse: None in place of False.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["Mutation", "mutations"]

_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "//",
    ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Mutation:
    """One change of a text.

    Args:
        line: of its first character, from 1.
        begin: of what is replaced, a position in the text.
        end: behind it.
        new: what stands there instead.
        kind: ``compare``, ``binary``, ``boolean``, ``not``, ``condition``, ``number``, ``flag``,
            ``keyword``, ``return`` or ``statement``.
    """

    line: int
    begin: int
    end: int
    new: str
    kind: str

    def apply(self, text: str) -> str:
        """The changed text."""
        return text[: self.begin] + self.new + text[self.end :]

    def parses(self, text: str) -> bool:
        """Whether the changed text is Python."""
        try:
            ast.parse(self.apply(text))
        except SyntaxError:
            return False
        return True

    def shown(self, text: str) -> str:
        """``old -> new`` on one line."""
        old = " ".join(text[self.begin : self.end].split())
        return f"{self.kind}: {old} -> {' '.join(self.new.split())}"


def mutations(text: str) -> list[Mutation]:
    """All mutations of a text, in its order; what some make of it is no Python."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    return sorted(set(finder.found))


class _Finder(ast.NodeVisitor):
    """Collects the mutations of what it visits."""

    def __init__(self, text: str) -> None:
        self.text, self.found = text, list[Mutation]()
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._encoded = [line.encode() for line in text.splitlines(keepends=True)]

    def _at(self, line: int, column: int) -> int:
        """Position of a line, from 1, and a column in bytes of UTF-8."""
        return self._lines[line - 1] + len(self._encoded[line - 1][:column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(
            node.end_lineno, node.end_col_offset
        )

    def _source(self, node: ast.expr | ast.stmt) -> str:
        begin, end = self._span(node)
        return self.text[begin:end]

    def _change(self, node: ast.expr | ast.stmt, new: str, kind: str) -> None:
        self.found.append(Mutation(node.lineno, *self._span(node), new, kind))

    def _between(self, left: ast.expr, right: ast.expr, new: str, kind: str) -> None:
        """Replace the operator between two operands, brackets aside."""
        begin, end = self._span(left)[1], self._span(right)[0]
        old = self.text[begin:end]
        kept = old.strip(" ()\n\\")
        if "#" in old:  # a comment stands between them
            return
        start = begin + old.index(kept)
        line = left.end_lineno or left.lineno
        self.found.append(Mutation(line, start, start + len(kept), new, kind))

    # --- what is visited ---------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, op, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            self._between(left, right, _COMPARE[type(op)], "compare")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if new := _BINARY.get(type(node.op)):
            self._between(node.left, node.right, new, "binary")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        new = "or" if isinstance(node.op, ast.And) else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, new, "boolean")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._change(node, f"bool({self._source(node.operand)})", "not")
        elif isinstance(node.op, ast.USub):
            self._change(node, f"({self._source(node.operand)})", "number")
        self.generic_visit(node)

    def _condition(self, node: ast.If | ast.While | ast.IfExp) -> None:
        self._change(node.test, f"(not ({self._source(node.test)}))", "condition")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        name = node.test.id if isinstance(node.test, ast.Name) else ""
        if name != "TYPE_CHECKING":
            self._condition(node)

    visit_While = visit_IfExp = _condition  # noqa: N815

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._change(node, str(not node.value), "flag")
        elif isinstance(node.value, int | float):
            self._change(node, f"({self._source(node)} + 1)", "number")

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg == "strict":  # of zip: what it refuses does not happen
                continue
            self.visit(keyword.value)
            if keyword.arg is None:
                continue
            begin, end = self._at(keyword.lineno, keyword.col_offset), self._span(keyword.value)[1]
            rest = self.text[end:].lstrip()
            end += (len(self.text[end:]) - len(rest) + 1) * rest.startswith(",")
            self.found.append(Mutation(keyword.lineno, begin, end, "", "keyword"))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not _is_falsy(node.value):
            self._change(node.value, "None", "return")
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        if not _narrows(node.test):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self._change(node, "pass", "statement")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._change(node, "pass", "statement")  # numbers within messages are left alone

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._change(node, "pass", "statement")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for part in node.body:
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:  # frozen and slots of a dataclass change no result
            self.visit(part)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nothing: positions within f-strings are not reliable before Python 3.12."""


def _is_falsy(node: ast.expr) -> bool:
    """None, and False, of which a flag is made True elsewhere."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _narrows(test: ast.expr) -> bool:
    """Whether all that is claimed is of which types something is."""
    if isinstance(test, ast.BoolOp):
        return all(map(_narrows, test.values))
    return (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "isinstance"
    )
