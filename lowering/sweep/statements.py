"""Statements of a kernel of pointwise operations, and the fragments that its values are in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr
from lowering.ground.layouts import ACCUMULATOR, RegisterLayout
from lowering.ground.types import FragmentType
from lowering.kernel.nodes import Frag, FragBelow, FragCast, FragFill, FragPointwise, Stmt
from wsched.fusion.types import DataType

__all__ = ["Computed", "Statements"]


class Computed(Protocol):
    """A value that a kernel computes of others: a cast or a pointwise operation."""

    @property
    def name(self) -> str:
        """A C identifier."""
        ...

    @property
    def op(self) -> str:
        """``cast``, or a key of ``lowering.kernel.pointwise.OPS``."""
        ...

    @property
    def dtype(self) -> DataType:
        """What the result of fp32 is rounded to."""
        ...

    @property
    def inputs(self) -> tuple[str | float, ...]:
        """Names of values in front of it, and numbers."""
        ...


@dataclass
class Statements:
    """The body of a kernel as it grows.

    Args:
        layout: of all fragments.
        body: the statements so far.
        held: the fragment of each value that is in registers.
    """

    layout: RegisterLayout = ACCUMULATOR
    body: list[Stmt] = field(default_factory=list)
    held: dict[str, Frag] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def emit(self, stmt: Stmt) -> None:
        """Add a statement."""
        self.body.append(stmt)

    @contextmanager
    def inside(self) -> Iterator[list[Stmt]]:
        """A body of its own, for a loop or a branch; what it holds is gone behind it."""
        outer, held = self.body, dict(self.held)
        self.body = []
        yield self.body
        self.body, self.held = outer, held

    def name(self, wish: str) -> str:
        """A name that is not taken."""
        found, number = wish, 0
        while found in self._names:
            number += 1
            found = f"{wish}_{number}"
        self._names.add(found)
        return found

    def new(self, wish: str, dtype: DType, rows: int, cols: int) -> Frag:
        """A fragment of a name like ``wish``."""
        return Frag(self.name(wish), FragmentType(dtype, rows, cols, layout=self.layout))

    def filled(self, wish: str, value: float, rows: int, cols: int) -> Frag:
        """A fragment of fp32 with one value everywhere."""
        out = self.new(wish, DType.F32, rows, cols)
        self.emit(FragFill(out, value))
        return out

    def compute(self, value: Computed) -> None:
        """A cast or pointwise operation on values that are held; a reduction is cast alone."""
        args = tuple(self.held[x] if isinstance(x, str) else x for x in value.inputs)
        shapes = [a.type for a in args if isinstance(a, Frag)]
        rows, cols = (max(n) for n in zip(*((t.rows, t.cols) for t in shapes), strict=True))
        if value.op == "cast" and isinstance(only := args[0], Frag):
            if only.type.dtype is not DType.PRED:
                self.held[value.name] = self._cast(value, only)
                return
            self._pointwise(value, "where", (only, 1.0, 0.0), rows, cols)
            return
        self._pointwise(value, value.op, args, rows, cols)

    def below(self, limit: Expr, rows: int, cols: int) -> Frag:
        """Which rows or columns of a tile count."""
        out = self.new("inside", DType.PRED, rows, cols)
        self.emit(FragBelow(out, limit))
        return out

    def wide(self, name: str) -> Frag:
        """A value as fp32, which reductions take."""
        found = self.held[name]
        if found.type.dtype is DType.F32:
            return found
        out = self.new(f"{name}_wide", DType.F32, found.type.rows, found.type.cols)
        self.emit(FragCast(out, found))
        return out

    def reduced(self, value: Computed, total: Frag) -> None:
        """Hold what a reduction has come to, as its type."""
        self.held[value.name] = total if value.dtype is DataType.Float else self._cast(value, total)

    def narrowed(self, value: Frag, dtype: DType) -> Frag:
        """A fragment of fp32 as another type; itself where that is its own."""
        if dtype is value.type.dtype:
            return value
        out = self.new(value.name, dtype, value.type.rows, value.type.cols)
        self.emit(FragCast(out, value))
        return out

    def _pointwise(
        self, value: Computed, op: str, args: tuple[Frag | float, ...], rows: int, cols: int
    ) -> None:
        kind = DType.PRED if value.dtype is DataType.Bool else DType.F32
        out = self.new(value.name, kind, rows, cols)
        self.emit(FragPointwise(out, op, args))
        narrow = value.dtype not in (DataType.Bool, DataType.Float)
        self.held[value.name] = self._cast(value, out) if narrow else out

    def _cast(self, value: Computed, source: Frag) -> Frag:
        out = self.new(value.name, value.dtype.element, source.type.rows, source.type.cols)
        self.emit(FragCast(out, source))
        return out
