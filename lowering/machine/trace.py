"""What a run leaves behind: events of each warp, and tables of them for people and golden files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["TraceRow", "one_warp_each", "visit_table"]


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One event of a warp, in its program order.

    Args:
        cta: ``%ctaid.x``.
        role: the role's name, empty outside ``roles``.
        group: index of the warpgroup within the role.
        warp: warp of the CTA.
        op: the statement, e.g. ``mbarrier.wait`` or ``tma.load``.
        target: barrier, tensor map or, of a wgmma, the buffer of its A operand.
        index: barrier index or stage; of a store, -1.
        parity: of an ``mbarrier.wait``, else -1.
        at: coordinates of a load or store in the tensor, outermost first, else empty.
        ctas: of a ``tma.load`` the ``%ctaid.x`` of those in whose shared memory it lands, in order.
        value: of an ``ld.word`` what is read, else -1.
        scalars: indices and carried scalars of the loops around it, outermost first.
    """

    cta: int
    role: str
    group: int
    warp: int
    op: str
    target: str
    index: int
    parity: int = -1
    at: tuple[int, ...] = ()
    ctas: tuple[int, ...] = ()
    value: int = -1
    scalars: tuple[tuple[str, int], ...] = ()

    @property
    def row(self) -> int:
        """The last coordinate but one, -1 without."""
        return self.at[-2] if len(self.at) > 1 else -1

    @property
    def col(self) -> int:
        """The last coordinate, -1 without."""
        return self.at[-1] if self.at else -1


def one_warp_each(rows: Iterable[TraceRow]) -> tuple[TraceRow, ...]:
    """The events of one warp of each warpgroup, ordered by CTA, role and group.

    The warps of a warpgroup do the same; the one with the lowest number stands for them.
    """
    rows = tuple(rows)
    lowest: dict[tuple[int, str, int], int] = {}
    for row in rows:
        key = row.cta, row.role, row.group
        lowest[key] = min(row.warp, lowest.get(key, row.warp))
    chosen = [r for r in rows if lowest[r.cta, r.role, r.group] == r.warp]
    return tuple(sorted(chosen, key=lambda r: (r.cta, r.role, r.group)))


def visit_table(rows: Iterable[TraceRow]) -> str:
    """Events as a table with a line for each, ending in a newline.

    Columns: CTA, role and group, operation, target with its index, parity, position in the tensor,
    loop indices and carried scalars; those that no event has are left out.
    """
    lines = [
        (
            f"cta {r.cta}",
            f"{r.role}[{r.group}]" if r.role else "",
            r.op,
            r.target if r.index < 0 else f"{r.target}[{r.index}]",
            "" if r.parity < 0 else f"parity {r.parity}",
            "" if r.op not in ("tma.load", "tma.store") else f"({', '.join(map(str, r.at))})",
            " ".join(f"{name}={value}" for name, value in r.scalars),
        )
        for r in rows
    ]
    columns = [column for column in zip(*lines, strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    table = ("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True))
             for line in zip(*columns, strict=True))  # fmt: skip
    return "".join(line.rstrip() + "\n" for line in table)
