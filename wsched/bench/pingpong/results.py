"""From the raw times of ``wsched bench pingpong`` to ratios, and the JSON form of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.table import Table

from wsched.bench.fused.systems import CHOICE, COMPILE, COOPERATIVE, OWN, PING_PONG
from wsched.bench.gemm.results import BAD
from wsched.bench.method.statistic import Spread, paired_ratios
from wsched.bench.peers.systems import REFERENCE
from wsched.bench.problem import Shape

__all__ = ["RATIOS", "SCHEMA", "Row", "notes", "rows_of", "table", "to_json"]

SCHEMA = "wsched.bench.pingpong/1"

Runs = Mapping[str, Sequence[dict[str, Any]]]
"""Epilogue -> processes, as :func:`wsched.bench.method.watch.run_process` returns them."""

RATIOS = {
    "cooperative/ping-pong": (COOPERATIVE, PING_PONG),
    "choice/best": (CHOICE, ""),
    "cuBLAS/choice": (REFERENCE, CHOICE),
    "compile/choice": (COMPILE, CHOICE),
}
"""Name -> the systems whose times are divided; the best of cooperative and ping-pong for ``""``."""


@dataclass(frozen=True, slots=True)
class Row:
    """An epilogue at a shape.

    Args:
        epilogue: a key of ``EPILOGUES``.
        shape: the matmul.
        us: median microseconds of each system over all rounds of all processes; of the right ones.
        ratios: those of :data:`RATIOS` and ``ping-pong/cooperative`` and ``cuBLAS/cooperative`` of
            the plot: the median over processes of the median over rounds of the times' ratio in the
            same round; quartiles over all rounds. One whose system is missing is left out.
        left_out: system -> (status, reason).
    """

    epilogue: str
    shape: Shape
    us: dict[str, float]
    ratios: dict[str, Spread]
    left_out: dict[str, tuple[str, str]]

    @property
    def broken(self) -> bool:
        """Whether a system of wsched, or cuBLAS, failed or is wrong."""
        return any(
            status in BAD and name in (*OWN, REFERENCE)
            for name, (status, _) in self.left_out.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON data."""
        return asdict(self) | {"shape": str(self.shape)}


def rows_of(shapes: Sequence[Shape], runs: Runs) -> list[Row]:
    """Return a row for each epilogue and shape that a process measured."""
    rows = []
    for epilogue, processes in runs.items():
        for shape in shapes:
            key = str(shape)
            scores = [p["shapes"][key]["systems"] for p in processes if key in p["shapes"]]
            if scores:
                rows.append(_row(epilogue, shape, scores))
    return rows


def _row(epilogue: str, shape: Shape, scores: Sequence[dict[str, Any]]) -> Row:
    us: dict[str, float] = {}
    left_out: dict[str, tuple[str, str]] = {}
    for name in scores[0]:
        own = [score[name] for score in scores]
        bad = next((r for r in own if r["status"] != "ok"), None)
        if bad is not None:
            left_out[name] = bad["status"], bad["reason"]
        else:
            us[name] = median(t for r in own for t in r["times_us"])
    both = [name for name in (COOPERATIVE, PING_PONG) if name in us]
    best = min(both, key=us.__getitem__, default="")
    wanted = {name: (above, below or best) for name, (above, below) in RATIOS.items()}
    wanted |= {f"{name}/cooperative": (system, COOPERATIVE) for name, system in _PLOTTED.items()}
    ratios = {
        name: _ratio(scores, above, below)
        for name, (above, below) in wanted.items()
        if above in us and below in us
    }
    return Row(epilogue, shape, us, ratios, left_out)


_PLOTTED = {"ping-pong": PING_PONG, "cuBLAS": REFERENCE}


def _ratio(scores: Sequence[dict[str, Any]], above: str, below: str) -> Spread:
    by_process = [paired_ratios(r[above]["times_us"], r[below]["times_us"]) for r in scores]
    spread = Spread.of([ratio for ratios in by_process for ratio in ratios])
    return Spread(median(median(ratios) for ratios in by_process), spread.low, spread.high)


def to_json(
    command: dict[str, Any], method: str, runs: Runs, rows: Sequence[Row]
) -> dict[str, Any]:
    """Return everything that was measured; the environment is that of the first process."""
    first = next(p for processes in runs.values() for p in processes)
    return {
        "schema": SCHEMA,
        "method": method,
        "command": command,
        "environment": first["environment"],
        "epilogues": {
            epilogue: [{n: p[n] for n in ("seed", "complete", "shapes")} for p in processes]
            for epilogue, processes in runs.items()
        },
        "summary": [row.to_dict() for row in rows],
    }


def table(rows: Sequence[Row], systems: Sequence[str], title: str) -> Table:
    """Return microseconds and ratios for a terminal; an epilogue each section."""
    made = Table("", "M, N, K", *systems, *RATIOS, title=title, title_justify="left")
    for column in made.columns[2:]:
        column.justify = "right"
    epilogue = ""
    for row in rows:
        if row.epilogue != epilogue:
            made.add_section()
            epilogue = row.epilogue
        us = (f"{row.us[n]:.1f}" if n in row.us else row.left_out[n][0] for n in systems)
        ratios = (f"{row.ratios[n].median:.3f}" if n in row.ratios else "–" for n in RATIOS)
        shape = row.shape
        made.add_row(epilogue, f"{shape.m}, {shape.n}, {shape.k}", *us, *ratios)
    return made


def notes(rows: Sequence[Row]) -> list[str]:
    """Return a line for each system that was left out and the reason, with its places."""
    at: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        for name, (status, reason) in row.left_out.items():
            at.setdefault((name, status, reason), []).append(f"{row.epilogue} {row.shape}")
    return [
        f"{name} {status} at {', '.join(places)}: {reason}"
        for (name, status, reason), places in at.items()
    ]
