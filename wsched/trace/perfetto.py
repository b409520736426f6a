"""A time line read back from the file that it was saved to."""

from __future__ import annotations

import json
import re
from math import inf
from operator import index
from pathlib import Path
from typing import Any

from lowering.ground.errors import WschedError
from wsched.trace.spans import COLUMNS, Span
from wsched.trace.timeline import MICROSECONDS, Trace

__all__ = ["TraceFileError", "load_trace", "trace_of"]


class TraceFileError(WschedError):
    """A file that ``wsched trace --json`` did not write; the text says what is missing."""


def load_trace(path: Path) -> Trace:
    """The time line in a file that :meth:`wsched.trace.timeline.Trace.save` wrote.

    Raises:
        TraceFileError: it is no such file.
        OSError: it cannot be read.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as e:
        raise TraceFileError(f"{path} is no JSON: {e}") from None
    try:
        return trace_of(data)
    except (KeyError, TypeError, IndexError, AttributeError, ArithmeticError, ValueError) as e:
        text = f"{path} is no time line as wsched trace --json writes it: {type(e).__name__} {e}"
        raise TraceFileError(text) from None


def trace_of(data: dict[str, Any]) -> Trace:
    """The time line of which :meth:`wsched.trace.timeline.Trace.perfetto` has made ``data``."""
    about = data["otherData"]
    scale = MICROSECONDS[about["unit"]]
    sms: dict[int, int] = {}
    places: dict[tuple[int, int], tuple[str, int]] = {}
    for e in data["traceEvents"]:
        name = e["args"].get("name", "")
        if e["name"] == "process_name":
            sms[e["pid"]] = int(name.rpartition(" ")[2])
        elif e["name"] == "thread_name":
            found = re.fullmatch(r"(.*)\[(\d+)\] warp \d+", name)
            places[e["pid"], e["tid"]] = (found[1], int(found[2])) if found else (name, 0)
    spans = tuple(
        _span(e, sms[e["pid"]], places[e["pid"], e["tid"]], scale)
        for e in data["traceEvents"]
        if e["ph"] == "X"
    )
    ghz, dropped = float(about.get("ghz", 0.0)), index(about["dropped"])
    if not 0 <= ghz < inf:
        raise ValueError(f"a clock of {ghz} GHz")
    told = str(about.get("about", "")), ghz
    return Trace(str(about["kernel"]), about["unit"], spans, dropped, *told)


def _span(e: dict[str, Any], sm: int, place: tuple[str, int], scale: float) -> Span:
    """What an event says of a warp at a place: its role and group."""
    begin, end = e["ts"] / scale, (e["ts"] + e["dur"]) / scale
    if e["name"] not in ("cta", *COLUMNS):
        raise ValueError(f"a span {e['name']}")
    if not 0 <= end - begin < inf:  # NaN, too
        raise ValueError(f"a span from {e['ts']} that takes {e['dur']}")
    tile = None if e["args"].get("tile") is None else index(e["args"]["tile"])
    return Span(e["name"], e["pid"], sm, *place, e["tid"], tile, begin, end)
