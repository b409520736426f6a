"""Runs behind the stand-in: asks nvFuser, writes ``found.json`` into the folder of argument 1.

It ends with ``os._exit``, because what has pretended to be a driver must not be shut down.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nvfuser_direct as nvf
import torch

from tests.nvfuser.cases import ASKED, OVERRIDES, PARITY, REFUSED_FIELDS, ROUND_TRIPS, linear
from tests.nvfuser.structure import nvfuser_structure
from wsched.nvfuser.params import read_fields, to_fields
from wsched.nvfuser.plugin import build_plugin
from wsched.nvfuser.read import read_schedule
from wsched.nvfuser.scheduled import live_params, schedule
from wsched.schedule.matmul.params import MatmulParams

MATMUL = nvf.SchedulerType.matmul
FOLDER = Path(sys.argv[1])


def metas(m: int, n: int, k: int) -> list[Any]:
    return [torch.empty(*s, dtype=torch.bfloat16, device="meta") for s in ((m, k), (n, k))]


def heuristic(shape: tuple[int, int, int], layout: str = "tn", result: str = "") -> dict[str, Any]:
    """The fields of nvFuser's heuristic, which asks the plugin."""
    m, n, k = shape
    a, b = metas(m, n, k)
    a = a if layout[0] == "t" else a.T.contiguous().T
    b = b if layout[1] == "n" else b.T.contiguous().T
    fd = linear(nvf, layout, result)
    return read_fields(nvf.schedule.compute_heuristics(fd.fusion, MATMUL, [a, b]))


def live(fields: dict[str, Any]) -> Any:
    return live_params(nvf, MatmulParams(), fields)


def answer(f: Callable[[], Any]) -> str:
    """``taken``, or the first line of what nvFuser says."""
    try:
        f()
    except RuntimeError as e:
        lines = [line.strip() for line in str(e).splitlines() if line.strip()]
        # An internal assertion has its sentence in the second line.
        return lines[1 if lines[0].startswith("INTERNAL") else 0]
    return "taken"


def scheduled(fields: dict[str, Any]) -> str:
    return answer(lambda: nvf.schedule.schedule(linear(nvf).fusion, MATMUL, live(fields)))


@contextmanager
def output(path: Path) -> Iterator[None]:
    """What C++ prints, into a file."""
    sys.stdout.flush()
    kept = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)


def kernel(fields: dict[str, Any]) -> str:
    """The text of nvFuser's kernel."""
    fd, params = linear(nvf), live(fields)
    nvf.schedule.schedule(fd.fusion, MATMUL, params)
    with output(FOLDER / "kernel.txt"):
        inputs = metas(4096, 4096, 4096)
        nvf.KernelExecutor().compile(fd.fusion, inputs, params.lparams, params.cparams, MATMUL)
    text = (FOLDER / "kernel.txt").read_text()
    return text[text.rindex("__global__") :]


def overrides() -> dict[str, Any]:
    """Fields that arrive, for each word that a plugin says."""
    found = {}
    for words in OVERRIDES:
        os.environ["WSCHED_STANDIN_FIELDS"] = words
        found[words] = heuristic((4096, 4096, 4096))
    os.environ["WSCHED_STANDIN_FIELDS"] = ""
    return found


def plugin() -> dict[str, Any]:
    """Fields that arrive from wsched's plugin, by shape, layout and result."""
    built = build_plugin(FOLDER, "test", output=FOLDER / "wsched.so")
    os.environ["WSCHED_STANDIN_PLUGIN"] = str(built.path)
    found = {str(case): heuristic(*case) for case in ASKED}
    del os.environ["WSCHED_STANDIN_PLUGIN"]
    return found


def read() -> list[str]:
    """nvFuser's cooperative schedule in wsched's IR: each tensor's loop nest and operation."""
    done = schedule(linear(nvf), metas(4096, 4096, 4096), PARITY["cooperative"])
    return [str(t).splitlines()[0] for t in read_schedule(done.definition).tensors]


def main() -> None:
    trips = {}
    for name, params in ROUND_TRIPS.items():
        fields = to_fields(params)
        trips[name] = {"read": read_fields(live(fields)), "scheduled": scheduled(fields)}
    found = {
        "version": nvf.version(),
        "overrides": overrides(),
        "plugin": plugin(),
        "round trips": trips,
        "refused here": {n: scheduled(f) for n, f in REFUSED_FIELDS.items()},
        "read": read(),
        "parity": {n: nvfuser_structure(kernel(to_fields(p))) for n, p in PARITY.items()},
    }
    (FOLDER / "found.json").write_text(json.dumps(found))
    os._exit(0)


main()
