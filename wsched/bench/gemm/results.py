"""From the raw times of all processes to ratios, and the JSON form of both."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.files import save_file
from wsched.bench.method.statistic import Spread, geometric_mean, paired_ratios
from wsched.bench.peers.systems import REFERENCE, is_own
from wsched.bench.problem import Shape, parse_shapes

__all__ = [
    "BAD", "SCHEMA", "Cell", "Summary", "broken_systems", "check_path", "from_json", "save",
    "summarize", "to_json",
]  # fmt: skip

SCHEMA = "wsched.bench.gemm/2"


BAD = ("failed", "wrong")
"""What a cell may be that is nobody's decision."""


def broken_systems(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Of systems' scores by name those that failed or were wrong, with the reason."""
    return {n: r.get("reason", "") for n, r in scores.items() if r["status"] in BAD}


@dataclass(frozen=True, slots=True)
class Cell:
    """A system at a shape.

    Args:
        status: ``ok``, ``skipped``, ``wrong`` or ``failed``: the worst of all processes;
            ``missing`` where no process came so far.
        reason: why it is not ok; empty if it is.
        tflops: over all counted rounds of all processes; None if not ok.
        ratio: cuBLAS's time over this one's, the median of the processes' medians; quartiles over
            all rounds. None where one of both is missing.
        best_peer: the same against the fastest right peer of each process; wsched's systems only.
        pj_per_flop: energy, median over processes; None if not measured.
    """

    status: str
    reason: str = ""
    tflops: Spread | None = None
    ratio: Spread | None = None
    best_peer: float | None = None
    pj_per_flop: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """All cells; ``systems`` in the order in which they were asked for."""

    shapes: tuple[Shape, ...]
    systems: tuple[str, ...]
    cells: dict[tuple[Shape, str], Cell]

    @property
    def broken(self) -> bool:
        """Whether a system of wsched, or the one that ratios refer to, failed or is wrong."""
        return any(
            cell.status in BAD and (is_own(name) or name == REFERENCE)
            for (_, name), cell in self.cells.items()
        )

    def mean_ratio(self, system: str) -> tuple[float, int] | None:
        """Geometric mean of the ratios to cuBLAS and the number of shapes that have one."""
        cells = [self.cells[s, system] for s in self.shapes]
        ratios = [c.ratio.median for c in cells if c.ratio is not None]
        return (geometric_mean(ratios), len(ratios)) if ratios else None

    def mean_best_peer(self, system: str) -> tuple[float, int] | None:
        """Geometric mean of the ratios to the best peer and the number of shapes."""
        ratios = [self.cells[s, system].best_peer for s in self.shapes]
        found = [r for r in ratios if r is not None]
        return (geometric_mean(found), len(found)) if found else None

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        return {
            "shapes": {
                str(shape): {n: _cell_dict(self.cells[shape, n]) for n in self.systems}
                for shape in self.shapes
            },
            "geometric_mean": {n: _mean_dict(self.mean_ratio(n)) for n in self.systems},
            "geometric_mean_best_peer": {
                n: _mean_dict(self.mean_best_peer(n)) for n in self.systems if is_own(n)
            },
        }


def _cell_dict(cell: Cell) -> dict[str, Any]:
    return {
        "status": cell.status,
        "reason": cell.reason,
        "tflops": cell.tflops and cell.tflops.to_dict(),
        "ratio": cell.ratio and cell.ratio.to_dict(),
        "best_peer": cell.best_peer,
        "pj_per_flop": cell.pj_per_flop,
    }


def _mean_dict(mean: tuple[float, int] | None) -> dict[str, Any] | None:
    return None if mean is None else {"ratio": mean[0], "shapes": mean[1]}


def summarize(
    shapes: Sequence[Shape], systems: Sequence[str], processes: Sequence[dict[str, Any]]
) -> Summary:
    """Return the statistics of all processes.

    Args:
        shapes: rows.
        systems: columns.
        processes: as :func:`wsched.bench.method.watch.run_process` returns them.
    """
    cells = {}
    for shape in shapes:
        scores = [
            p["shapes"][str(shape)]["systems"] for p in processes if str(shape) in p["shapes"]
        ]
        for name in systems:
            cells[shape, name] = _cell(shape, name, scores)
    return Summary(tuple(shapes), tuple(systems), cells)


_SEVERITY = ("ok", "skipped", "failed", "wrong")


def _cell(shape: Shape, name: str, scores: Sequence[dict[str, Any]]) -> Cell:
    if not scores:
        return Cell("missing", "the run ended before it")
    own = [r[name] for r in scores]
    worst = max(own, key=lambda score: _SEVERITY.index(score["status"]))
    if worst["status"] != "ok":
        return Cell(worst["status"], worst["reason"])
    tflops = Spread.of([shape.tflops(t) for score in own for t in score["times_us"]])
    energy = [r["pj_per_flop"] for r in own if "pj_per_flop" in r]
    return Cell(
        "ok",
        tflops=tflops,
        ratio=_ratio(name, REFERENCE, scores),
        best_peer=_best_peer(name, scores) if is_own(name) else None,
        pj_per_flop=median(energy) if energy else None,
    )


def _ratio(name: str, peer: str, scores: Sequence[dict[str, Any]]) -> Spread | None:
    """Time of ``peer`` over time of ``name``, of the same rounds; None if one is missing."""
    pairs = [(r[peer], r[name]) for r in scores if _right(r, peer)]
    if not pairs:
        return None
    by_process = [paired_ratios(p["times_us"], own["times_us"]) for p, own in pairs]
    spread = Spread.of([ratio for ratios in by_process for ratio in ratios])
    return Spread(median(median(ratios) for ratios in by_process), spread.low, spread.high)


def _best_peer(name: str, scores: Sequence[dict[str, Any]]) -> float | None:
    best = []
    for score in scores:
        peers = [n for n in score if not is_own(n) and _right(score, n)]
        ratios = [_ratio(name, peer, [score]) for peer in peers]
        medians = [r.median for r in ratios if r is not None]
        if medians:
            best.append(min(medians))
    return median(best) if best else None


def _right(score: dict[str, Any], name: str) -> bool:
    return bool(name in score and score[name]["status"] == "ok")


def to_json(
    command: dict[str, Any], method: str, processes: Sequence[dict[str, Any]], summary: Summary
) -> dict[str, Any]:
    """Return everything that was measured: method, environment, raw rounds, summary.

    The environment is that of the first process.
    """
    return {
        "schema": SCHEMA,
        "method": method,
        "command": command,
        "environment": processes[0]["environment"],
        "shapes": [str(s) for s in summary.shapes],
        "systems": list(summary.systems),
        "processes": [{n: p[n] for n in ("seed", "complete", "shapes")} for p in processes],
        "summary": summary.to_dict(),
    }


def from_json(data: dict[str, Any]) -> tuple[Summary, list[dict[str, Any]]]:
    """Return summary and processes of a file that :func:`to_json` made.

    Raises:
        UnsupportedError: another schema.
    """
    schema = data.get("schema")
    if schema != SCHEMA:
        raise UnsupportedError(f"a file with schema {schema!r}", SCHEMA)
    processes = [p | {"environment": data["environment"]} for p in data["processes"]]
    shapes = parse_shapes(",".join(data["shapes"]))
    return summarize(shapes, data["systems"], processes), processes


def check_path(path: Path) -> None:
    """See that :func:`save` can write, before anything is measured for it.

    Raises:
        UnsupportedError: something other than a file, or a folder that cannot be written.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UnsupportedError(f"--json {path}", "a file")
    if not os.access(path.parent, os.W_OK):
        raise UnsupportedError(f"--json {path}", "a file in a folder that can be written")


def save(path: Path, data: dict[str, Any]) -> None:
    """Write JSON so that the file holds the former state or this one, never a part of it."""
    save_file(path, (json.dumps(data, indent=1) + "\n").encode())
