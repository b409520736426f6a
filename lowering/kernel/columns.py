"""Fragments taken apart by columns: the statements that compute only some of them.

What is computed element by element, or loaded, has columns that do not need one another. So the
statements that make a whole value can be repeated for a piece of it, each time for that piece only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Expr, ExprLike
from lowering.kernel.nodes import (
    Body,
    Frag,
    FragBelow,
    FragCast,
    FragColumns,
    FragFill,
    FragLoadGlobal,
    FragPointwise,
    LdMatrix,
    LdShared,
    SmemRef,
    Stmt,
)
from lowering.kernel.visit import Names, defined_in, operands, used, walk

__all__ = ["Chain", "chain_of"]

_Computed: TypeAlias = (
    FragFill | FragCast | FragPointwise | FragBelow | LdMatrix | LdShared | FragLoadGlobal
)


@dataclass(frozen=True, slots=True)
class Chain:
    """The statements of a list that make a value and nothing else, in order; the last makes it."""

    stmts: tuple[_Computed, ...]

    @property
    def buffers(self) -> set[str]:
        """Shared buffers that it reads."""
        found = (ref for s in self.stmts for ref in operands(s))
        return {ref.buffer for ref in found if isinstance(ref, SmemRef)}

    @property
    def first(self) -> Body:
        """Loads of narrower elements than those of the value: whole, they take fewer registers, and
        threads wait for memory once, not once for each piece.
        """
        bits = self.stmts[-1].out.type.dtype.register_bits
        loads = (s for s in self.stmts if isinstance(s, LdMatrix | LdShared))
        return tuple(s for s in loads if s.out.type.dtype.register_bits < bits)

    def columns(self, names: Names, start: int, cols: int) -> Body:
        """Statements that make columns ``start .. start + cols`` of the value behind the
        :attr:`first`, the last one it.
        """
        made: dict[str, Frag] = {}
        out: list[Stmt] = []
        for stmt in self.stmts:
            if stmt in self.first:
                continue
            for frag in _whole(stmt):
                if frag.name not in made:  # from in front of the list
                    made[frag.name] = _piece(names, frag, start, cols)
                    out.append(FragColumns(made[frag.name], frag, Const(start)))
            piece = _piece(names, stmt.out, start, cols)
            out.append(_of_columns(stmt, piece, start, made))
            made[stmt.out.name] = piece
        return tuple(out)

    def part(self, names: Names, start: Expr, cols: int) -> Body:
        """Statements that make columns ``start .. start + cols`` in place of all, one for each.

        Raises:
            UnsupportedError: a part of a value that is made in front of the list.
        """
        made: dict[str, Frag] = {}
        out: list[Stmt] = []
        for stmt in self.stmts:
            if given := [f.name for f in _whole(stmt) if f.name not in made]:
                what = f"a part of {given[0]}, which is made in front of the slices"
                raise UnsupportedError(what, "what is made of each slice")
            piece = Frag(names.new(stmt.out.name), replace(stmt.out.type, cols=cols))
            piece = piece if stmt.out.type.cols > 1 else stmt.out
            out.append(_of_columns(stmt, piece, start, made))
            made[stmt.out.name] = piece
        return tuple(out)


def chain_of(body: Body, value: Frag) -> Chain | None:
    """The chain that makes ``value`` in ``body``, None where something else reads a part of it, or
    where a value is not made element by element.

    Args:
        body: statements of one list.
        value: read by others than the chain; of that the caller knows.
    """
    by_name = {s.out.name: s for s in body if isinstance(s, _Computed)}
    others = defined_in(body)
    wanted, found = [value], set()
    while wanted:
        frag = wanted.pop()
        stmt = by_name.get(frag.name)
        if stmt is not None:
            found.add(frag.name)
            wanted += _whole(stmt)
        elif frag.name in others:
            return None
    stmts = tuple(s for s in body if isinstance(s, _Computed) and s.out.name in found)
    rest = walk(tuple(s for s in body if s not in stmts))
    inner = found - {value.name}
    return Chain(stmts) if stmts and not any(used(s) & inner for s in rest) else None


def _whole(stmt: Stmt) -> Iterator[Frag]:
    """What a statement reads of the columns that it makes; a column that all share is no part."""
    match stmt:
        case FragCast(value=value) if value.type.cols > 1:
            yield value
        case FragPointwise(args=args):
            yield from (a for a in args if isinstance(a, Frag) and a.type.cols > 1)


def _piece(names: Names, frag: Frag, start: int, cols: int) -> Frag:
    return Frag(names.new(f"{frag.name}_k{start}"), replace(frag.type, cols=cols))


def _of_columns(stmt: Stmt, out: Frag, start: ExprLike, made: Mapping[str, Frag]) -> Stmt:
    """The statement for a piece of its result, whose arguments are in ``made``."""
    match stmt:
        case FragCast(value=value):
            return replace(stmt, out=out, value=made.get(value.name, value))
        case FragPointwise(args=args):
            taken = tuple(made.get(a.name, a) if isinstance(a, Frag) else a for a in args)
            return replace(stmt, out=out, args=taken)
        case FragBelow(limit=limit):
            return replace(stmt, out=out, limit=limit - start * stmt.right)
        case LdMatrix(src=src) | LdShared(src=src):
            return replace(stmt, out=out, src=src.moved(0, start))
        case FragLoadGlobal(src=place):
            return replace(stmt, out=out, src=place.moved(0, start))
    assert isinstance(stmt, FragFill)
    return replace(stmt, out=out)
