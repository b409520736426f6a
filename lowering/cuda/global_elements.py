"""Where a thread's elements of a tile lie in a plain tensor, and which of them are in bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lowering.cuda.emitter import Emitter
from lowering.cuda.expressions import C_TYPES
from lowering.ground.expr import ONE, ZERO, Expr, substitute, type_of
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import GlobalTensor
from lowering.kernel.nodes import Frag, GmemRef
from lowering.kernel.places import thread_col, thread_row
from lowering.kernel.tensors import ENTRY

__all__ = ["Elements", "Rows", "outer_dimensions"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows of a tile count, and which of the tensor they are, where that is not all in turn.

    Args:
        limit: rows from here on count as out of bounds.
        index: column of the tensor's rows, counted from the tile's first.
        limit_cols: likewise columns.
    """

    limit: Expr | None = None
    index: Frag | None = None
    limit_cols: Expr | None = None


class Elements:
    """A thread's elements of a tile in a tensor, as the tile's layout deals them out.

    Defines ``row`` and ``col`` of the thread's first element, and its address ``at``; of a tensor
    of more than two dimensions also the coordinates in front of them, ``dim0`` and so on. With a
    ``limit``, ``left`` is how many rows from the thread's first one on count, with ``limit_cols``
    ``wide`` how many columns; with an ``index``,
    ``row`` and ``at`` are those of the row that it counts from. With ``trans`` the tile's columns
    are rows of the tensor.
    """

    def __init__(
        self, e: Emitter, kind: FragmentType, ref: GmemRef, tensor: GlobalTensor, rows: Rows,
        *, const: str = "const ", trans: bool = False,
    ) -> None:  # fmt: skip
        of = tensor if ref.entry is None else _entry(tensor, ref.entry)
        self.e, self.kind, self.g, self.by, self.trans = e, kind, of, rows.index, trans
        tensor, entries = of, tensor.entries
        first = [_chosen(e, ref.entry, [e.names.of("global", x.name) for x in entries])]
        names = zip(*(x.strides for x in entries), strict=True)
        found = [_chosen(e, ref.entry, [e.names.of("stride", s) for s in each]) for each in names]
        *strides, self.stride = found or [""]
        outer, self.tests = outer_dimensions(e, ref, tensor, strides)
        first += outer
        self.row = ""
        if self.stride:
            row = thread_row(kind, ref.row) if self.by is None else ref.row
            self.row = self.index("row", thread_col(kind, ref.row) if trans else row)
            first.append(f"{self.row} * {self.stride}")
        own = thread_row if trans else thread_col
        self.col = self.index("col", own(kind, ref.col))
        self.at = e.names.fresh("at")
        text = " + ".join([*first, self.col])
        e.out.line(f"{const}{tensor.dtype.cuda}* {self.at} = {text};")
        self.left = self.wide = ""
        if rows.limit is not None:
            self.left = self.index("left", rows.limit - thread_row(kind))
        if rows.limit_cols is not None:
            self.wide = self.index("wide", rows.limit_cols - thread_col(kind))
        # A row of a tensor that has only one is in bounds, and likewise a column.
        down, right = (kind.cols, kind.rows) if trans else (kind.rows, kind.cols)
        self.all_rows = tensor.rows == ONE and ref.row == ZERO and down == 1
        self.all_rows = self.all_rows and self.by is None
        self.all_cols = tensor.cols == ONE and ref.col == ZERO and right == 1

    def index(self, wish: str, value: Expr) -> str:
        """Define a coordinate; its identifier."""
        return _coordinate(self.e, wish, value)

    def place(self, block: int, row: int, col: int) -> tuple[str, str]:
        """Address of an element of group ``r``, and the condition that it is in bounds."""
        if self.trans:
            return self._transposed(block, row, col)
        where, tests = self.in_row(block, row)
        right = self.right(col)
        tests += self.counted(col)
        if not self.all_cols:
            tests.append(f"{self.col}{right} < {self.e.expr(self.g.cols)}")
        return where + right, " && ".join(tests) or "true"

    def _transposed(self, block: int, row: int, col: int) -> tuple[str, str]:
        """The same where the tile's columns are rows of the tensor."""
        down, right = self.right(col), self.kind.layout.down(block, row)
        below = down and f" + ({down.removeprefix(' + ')}) * {self.stride}"
        beside = f" + {right}" * (right > 0)
        tests = [*self.tests, *self.counted(col)]
        if self.left:
            tests.append(f"{right} < {self.left}")
        if not self.all_rows:
            tests.append(f"{self.row}{down} < {self.e.expr(self.g.rows)}")
        if not self.all_cols:
            tests.append(f"{self.col}{beside} < {self.e.expr(self.g.cols)}")
        return self.at + below + beside, " && ".join(tests) or "true"

    def counted(self, col: int) -> list[str]:
        """The condition that column ``col`` of group ``r`` lies in front of the limit."""
        return [f"{self.right(col).removeprefix(' + ') or 0} < {self.wide}"] if self.wide else []

    def right(self, col: int) -> str:
        """What leads from the first column to column ``col`` of group ``r``."""
        step = self.kind.layout.columns
        return f" + {step} * r" * (self.kind.groups > 1) + f" + {col}" * (col > 0)

    def in_row(self, block: int, row: int) -> tuple[str, list[str]]:
        """Address of the first column in a row, and the conditions that the row is in bounds."""
        down = self.kind.layout.down(block, row)
        tests = list(self.tests)
        if self.left:
            tests.append(f"{down} < {self.left}")
        behind = str(down) if down else ""
        if self.by is not None:
            behind, _ = self.e.element(self.by, block, row, 0)
            tests.append(f"{behind} >= 0")
        below = f" + {behind}" if behind else ""
        if not self.all_rows:
            tests.append(f"{self.row}{below} < {self.e.expr(self.g.rows)}")
        return self.at + (f"{below} * {self.stride}" if behind else ""), tests


def outer_dimensions(
    e: Emitter, ref: GmemRef, tensor: GlobalTensor, strides: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Define a tile's coordinates in front of row and column: what each adds to the address by its
    stride, and the conditions that they are in bounds.
    """
    terms, tests = list[str](), list[str]()
    for d, (at, stride) in enumerate(zip(ref.coords[:-2], strides, strict=True)):
        name = _coordinate(e, f"dim{d}", at)
        terms.append(f"{name} * {stride}")
        if at != ZERO or tensor.sizes[d] != ONE:
            tests.append(f"{name} < {e.expr(tensor.sizes[d])}")
    return terms, tests


def _coordinate(e: Emitter, wish: str, value: Expr) -> str:
    name = e.names.fresh(wish)
    e.out.line(f"const {C_TYPES[type_of(value)]} {name} = {e.arg(value)};")
    return name


def _entry(tensor: GlobalTensor, entry: Expr) -> GlobalTensor:
    """One of an array, by an index that is known at run time only."""
    sizes = tuple(substitute(size, {ENTRY: entry}) for size in tensor.sizes)
    return replace(tensor, sizes=sizes, count=None)


def _chosen(e: Emitter, entry: Expr | None, names: list[str]) -> str:
    """The identifier that belongs to an entry."""
    if entry is None:
        return names[0]
    *others, text = names
    for at, name in reversed(list(enumerate(others))):
        text = f"({e.arg(entry.eq(at))} ? {name} : {text})"
    return text
