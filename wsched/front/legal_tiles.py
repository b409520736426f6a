"""Which tiles a definition's kernel can have, as data and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from textwrap import wrap
from typing import Any

from lowering.target.target import Target
from wsched.front.known import import_fusion
from wsched.front.targets import planned_target
from wsched.fusion import Fusion
from wsched.importer.linear import LINEAR
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.params import MatmulParams, MmaArch, MmaMacro
from wsched.schedule.matmul.tiles import TileChoice, tile_choices

__all__ = ["legal_tiles", "tiles_table", "to_dict"]

COLUMNS = 80
"""Of a table: it is read in files and in terminals of any width."""


def legal_tiles(
    definition: Any = None,
    *,
    params: MatmulParams | None = None,
    target: Target | None = None,
) -> tuple[TileChoice, ...]:
    """Every tile in every partition, with complete parameters or the reason against it.

    Tiles have 64 to 256 rows in steps of 64, 8 to 256 columns in steps of 8 and a K of 32, 64 or
    128; one to three compute warpgroups share them, or two take turns. Two of them, or four, also
    lie side by side, with twice as many columns. What is legal compiles without spills;
    ``wsched.compile(definition, inputs, params=choice.params)`` makes the kernel.

    Args:
        definition: live, or a text: its types, layouts and epilogue decide what fits. By default a
            linear of bf16.
        params: what the tile does not decide, such as the cluster; its tile and stages are
            replaced. By default operands are exchanged where the second one is computed, so that
            it has the rows of tiles.
        target: the GPU that the kernels are for; by default that of the parameters, else the first.

    Raises:
        InputError: parameters for another target.
        UnsupportedError: a definition that wsched does not schedule.
    """
    fusion, made_for = _fusion(definition), planned_target(None, params, target)
    return tuple(tile_choices(fusion, params or _base(fusion, made_for), made_for))


def _fusion(definition: Any) -> Fusion:
    return import_fusion(LINEAR if definition is None else definition)


def _base(fusion: Fusion, target: Target) -> MatmulParams:
    """What a tile does not decide, where nobody says it."""
    computed = Demands.of(fusion, target).computed
    turned = computed is not None and computed.side == "b"
    macro = MmaMacro(target.mma.m, arch=MmaArch[target.mma.macro])
    return MatmulParams(exchange_operands=turned, mma_macro=macro)


def to_dict(choice: TileChoice) -> dict[str, Any]:
    """A choice as plain data; parameters only where they are legal."""
    tile = choice.tile
    return {
        "m": tile.m, "n": tile.n, "k": tile.k, "warpgroups": choice.warpgroups,
        "across": choice.across, "ping_pong": choice.ping_pong, "legal": choice.legal,
        "reason": choice.reason, "params": choice.params.to_dict() if choice.legal else None,
    }  # fmt: skip


def tiles_table(choices: Sequence[TileChoice], legal_only: bool) -> str:
    """A row for each partition and M, or several M: the legal N for each K; below, why not others.

    No line has more than 80 columns.

    Args:
        choices: of :func:`legal_tiles`.
        legal_only: leave out the reasons, and rows with nothing legal.
    """
    steps = sorted({c.tile.k for c in choices})
    rows = [("way", "groups", "M", *(f"N at K={k}" for k in steps))]
    merged: dict[tuple[tuple[str, str], tuple[str, ...], tuple[str, ...]], list[int]] = {}
    by_row = sorted(choices, key=_row)  # stable: N and K stay in order
    for (ping_pong, across, groups, m), of_row in groupby(by_row, key=_row):
        found = list(of_row)
        if legal_only and not any(c.legal for c in found):
            continue
        cells = (_ranges([c.tile.n for c in found if c.tile.k == k and c.legal]) for k in steps)
        why = () if legal_only else tuple(_first_reasons(found))
        way = "ping-pong" if ping_pong else "cooperative"
        shown = f"{groups // across}x{across}" if across > 1 else str(groups)
        merged.setdefault(((way, shown), tuple(cells), why), []).append(m)
    reasons: list[str] = []
    for (partition, columns, why), sizes in merged.items():
        rows.append((*partition, _rows(sizes), *columns))
        reasons += [f"{' '.join(partition)}, M {_rows(sizes)}: {reason}" for reason in why]
    lines = list(_laid_out(rows))
    if reasons:
        lines += ["", "why not others"]
        for reason in reasons:
            lines += wrap(reason, COLUMNS, initial_indent="  ", subsequent_indent="    ")
    return "".join(f"{line}\n" for line in lines)


def _laid_out(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table, in which cells that are too wide go on below."""
    wrapped = [[wrap(cell, most) for cell, most in zip(row, _widths(row), strict=True)]
               for row in rows]  # fmt: skip
    widths = [max(len(line) for cell in column for line in cell)
              for column in zip(*wrapped, strict=True)]  # fmt: skip
    for row in wrapped:
        for line in zip_longest(*row, fillvalue=""):
            yield "  ".join(map(str.ljust, line, widths)).rstrip()


def _widths(row: Sequence[str]) -> list[int]:
    """Columns that cells may take: the way, its groups, M, and what is left for each N."""
    first = [11, 6, 7]
    left = COLUMNS - sum(first) - 2 * (len(row) - 1)
    return first + [left // (len(row) - 3)] * (len(row) - 3)


def _row(choice: TileChoice) -> tuple[bool, int, int, int]:
    return choice.ping_pong, choice.across, choice.warpgroups, choice.tile.m


def _rows(sizes: Sequence[int]) -> str:
    """``64 128``, or ``64-256`` of all between."""
    if len(sizes) > 2 and sizes == list(range(sizes[0], sizes[-1] + 1, 64)):
        return f"{sizes[0]}-{sizes[-1]}"
    return " ".join(map(str, sizes))


def _ranges(columns: Sequence[int]) -> str:
    """``16-200 208``: neighbours are 8 apart; in a run of multiples of 16 they are 16 apart."""
    step = 8 if any(n % 16 for n in columns) else 16
    runs: list[list[int]] = []
    for n in columns:
        if runs and n - runs[-1][-1] == step:
            runs[-1].append(n)
        else:
            runs.append([n])
    texts = (f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return " ".join(texts) + (" by 16" if columns and step == 16 else "") or "-"


def _first_reasons(choices: Sequence[TileChoice]) -> Iterator[str]:
    """The reason against the narrowest tile that has each kind of reason, at most two."""
    seen: set[str] = set()
    for c in sorted(choices, key=lambda c: c.tile.n):
        kind = "".join(ch for ch in c.reason if not ch.isdigit())
        if kind and kind not in seen and len(seen) < 2:
            seen.add(kind)
            whole_row = not any(other.legal for other in choices)
            yield c.reason if whole_row else f"{c.tile.n}x{c.tile.k}: {c.reason}"
            if whole_row:
                return
