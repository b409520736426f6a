"""Time lines: what the cost model predicts, and what stamps have recorded."""

from __future__ import annotations

from wsched.choose.cost import Cost
from wsched.explore.data import Bar, Lane, TimeLine
from wsched.trace.spans import COLUMNS
from wsched.trace.timeline import MICROSECONDS, Trace

__all__ = ["measured", "predicted"]

CTAS = 2
"""CTAs of a trace that are shown."""

MOST_ROUNDS = 64
"""Tiles of a CTA that are drawn one by one."""

_ABOUT = {
    "ns": "stamps on the device, by the clocks of its multiprocessors",
    "cycles": "stamps on the device, CTAs aligned at their beginnings",
    "steps": "steps of the machine on the CPU, where each warp makes one in turn: an order of "
    "events, not a time",
}


def predicted(cost: Cost, ping_pong: bool) -> TimeLine:
    """What the cost model says of the SM with most tiles, in microseconds.

    Main loops and epilogues take turns, but in ping-pong, where only what no main loop hides of the
    epilogues is left, at the end. What memory and power add comes last: they slow down all of it.
    """
    rounds = 1 if ping_pong or cost.rounds > MOST_ROUNDS else cost.rounds
    parts = [("start", cost.launch_us, -1)]
    for tile in range(rounds):
        parts.append(("k loops", cost.main_us / rounds, tile))
        parts.append(("epilogues", cost.epilogue_us / rounds, tile))
    parts += [("adding parts", cost.combine_us, -1), ("memory", cost.memory_us, -1)]
    parts.append(("power", cost.power_us, -1))
    bars, at = [], 0.0
    for name, us, tile in parts:
        if us > 0:
            bars.append(Bar(name, at, at + us, tile if rounds > 1 else -1))
            at += us
    about = f"by the cost model, for an H200; each step of the k loop waits for {cost.step}"
    return TimeLine("predicted", "us", about, (Lane("SM with most tiles", tuple(bars)),))


def measured(trace: Trace) -> TimeLine:
    """The first CTAs of a recorded run; nanoseconds become microseconds."""
    scale, unit = (MICROSECONDS["ns"], "us") if trace.unit == "ns" else (1.0, trace.unit)
    tracks = trace.tracks()
    shown = sorted({cta for cta, _, _ in tracks})[:CTAS]
    lanes = []
    for (cta, role, group), track in tracks.items():
        if cta in shown:
            spans = sorted(track, key=lambda s: COLUMNS.index(s.name))  # inner ones lie on top
            bars = (
                Bar(s.name, s.begin * scale, s.end * scale, -1 if s.tile is None else s.tile)
                for s in spans
            )
            lanes.append(Lane(f"CTA {cta} {role}[{group}]", tuple(bars)))
    title = "on the machine" if trace.unit == "steps" else "measured"
    dropped = f"; {trace.dropped} stamps were dropped" if trace.dropped else ""
    return TimeLine(title, unit, _ABOUT[trace.unit] + dropped, tuple(lanes))
