"""From the raw times of all processes to ratios, and the JSON form of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lowering.errors import UnsupportedError
from wsched.bench.problem import Shape, parse_shapes
from wsched.bench.statistic import Spread, geometric_mean, paired_ratios
from wsched.bench.systems import REFERENCE, is_own

__all__ = ["SCHEMA", "Cell", "Summary", "from_json", "summarize", "to_json"]

SCHEMA = "wsched.bench.gemm/1"


@dataclass(frozen=True, slots=True)
class Cell:
    """A system at a shape.

    Args:
        status: ``ok``, ``skipped``, ``wrong`` or ``failed``: the worst of all processes.
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
        processes: as :func:`wsched.bench.watch.run_process` returns them.
    """
    cells = {}
    for shape in shapes:
        records = [p["shapes"][str(shape)]["systems"] for p in processes]
        for name in systems:
            cells[shape, name] = _cell(shape, name, records)
    return Summary(tuple(shapes), tuple(systems), cells)


_SEVERITY = ("ok", "skipped", "failed", "wrong")


def _cell(shape: Shape, name: str, records: Sequence[dict[str, Any]]) -> Cell:
    own = [r[name] for r in records]
    worst = max(own, key=lambda record: _SEVERITY.index(record["status"]))
    if worst["status"] != "ok":
        return Cell(worst["status"], worst["reason"])
    tflops = Spread.of([shape.tflops(t) for record in own for t in record["times_us"]])
    energy = [r["pj_per_flop"] for r in own if "pj_per_flop" in r]
    return Cell(
        "ok",
        tflops=tflops,
        ratio=_ratio(name, REFERENCE, records),
        best_peer=_best_peer(name, records) if is_own(name) else None,
        pj_per_flop=median(energy) if energy else None,
    )


def _ratio(name: str, peer: str, records: Sequence[dict[str, Any]]) -> Spread | None:
    """Time of ``peer`` over time of ``name``, of the same rounds; None if one is missing."""
    pairs = [(r[peer], r[name]) for r in records if _right(r, peer)]
    if not pairs:
        return None
    by_process = [paired_ratios(p["times_us"], own["times_us"]) for p, own in pairs]
    spread = Spread.of([ratio for ratios in by_process for ratio in ratios])
    return Spread(median(median(ratios) for ratios in by_process), spread.low, spread.high)


def _best_peer(name: str, records: Sequence[dict[str, Any]]) -> float | None:
    best = []
    for record in records:
        peers = [n for n in record if not is_own(n) and _right(record, n)]
        ratios = [_ratio(name, peer, [record]) for peer in peers]
        medians = [r.median for r in ratios if r is not None]
        if medians:
            best.append(min(medians))
    return median(best) if best else None


def _right(record: dict[str, Any], name: str) -> bool:
    return bool(name in record and record[name]["status"] == "ok")


def to_json(
    command: dict[str, Any], method: str, processes: Sequence[dict[str, Any]], summary: Summary
) -> dict[str, Any]:
    """Return everything that was measured: method, device, versions, raw rounds, summary."""
    first = processes[0]
    return {
        "schema": SCHEMA,
        "method": method,
        "command": command,
        "device": first["device"],
        "versions": first["versions"],
        "shapes": [str(s) for s in summary.shapes],
        "systems": list(summary.systems),
        "processes": [p["shapes"] for p in processes],
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
    processes = [{"shapes": shapes} for shapes in data["processes"]]
    for process in processes:
        process |= {"device": data["device"], "versions": data["versions"]}
    shapes = parse_shapes(",".join(data["shapes"]))
    return summarize(shapes, data["systems"], processes), processes
