"""Which tensors are in registers, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowering.ground.expr import ZERO, Expr
from lowering.ground.frozen import replaced
from lowering.kernel.nodes import (
    Body,
    Consume,
    Frag,
    FragColumns,
    FragRows,
    Produce,
    Stmt,
)
from lowering.nest.scope import Namer
from lowering.nest.tile import Tile

__all__ = ["Held", "Registers"]


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor in registers: the fragment, and which box of the tensor it is."""

    value: Frag
    tile: Tile


@dataclass
class Registers:
    """The fragments of a statement list.

    Args:
        namer: of everything in the kernel.
        held: what is held, by tensor.
        parts: those that were cut out, by tensor, first element and size.
        steps: steps of rings that were waited for, or begun to fill, by ring and which of both.
    """

    namer: Namer
    held: dict[str, Held] = field(default_factory=dict)
    parts: dict[tuple[str, tuple[Expr, ...], int, int], Frag] = field(default_factory=dict)
    steps: dict[tuple[str, type[Stmt]], Expr] = field(default_factory=dict)

    def inner(self) -> Registers:
        """Those of a list in this one: what it adds is gone at its end."""
        return Registers(self.namer, dict(self.held), dict(self.parts), dict(self.steps))

    def step(self, ring: str, step: Expr, made: type[Consume] | type[Produce]) -> Body:
        """What opens a step of a ring, unless this list or one around it has opened it."""
        if self.steps.get((ring, made)) == step:
            return ()
        self.steps[ring, made] = step
        return (made(ring, step),)

    def hold(self, tile: Tile, value: Frag) -> None:
        """A tensor is in registers from here on."""
        self.held[tile.tensor.name] = Held(value, tile)

    def part(self, name: str, at: Sequence[Expr], rows: int, cols: int) -> tuple[Frag, Body]:
        """Rows and columns of a tensor, from ``at`` on, and the statements that cut them out."""
        *_, row, col = at
        key = name, tuple(at), rows, cols
        value = self.parts.get(key, self.held[name].value)
        kind = value.type
        if key in self.parts or ((kind.rows, kind.cols) == (rows, cols) and set(at) == {ZERO}):
            return value, ()
        body: list[Stmt] = []
        if kind.rows != rows or row != ZERO:
            part = Frag(self.namer.new("rows"), replaced(kind, rows=rows))
            body.append(FragRows(part, value, row))
            value = part
        if kind.cols != cols or col != ZERO:
            part = Frag(self.namer.new("part"), replaced(kind, rows=rows, cols=cols))
            body.append(FragColumns(part, value, col))
            value = part
        self.parts[key] = value
        return value, tuple(body)
