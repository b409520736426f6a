"""Memory of a process that meets one definition after another, none of them twice.

    python -m tests.many --count 10000

Each is a linear with an epilogue that no other has: imported, planned, proved, lowered and emitted
as for a GPU. The compiler is a stub whose cubins are as long as real ones and each another, so that
what takes time is ours; with ``--nvrtc`` it is the real one, a second or more for each. Prints the
resident memory as they go by, JSON with ``--json``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import wsched
from lowering.cuda.cache import CubinCache
from lowering.cuda.nvrtc import Compiled
from tests.schedules import definition
from wsched.run import bundles

__all__ = ["definitions", "measured", "resident_mib"]

EPILOGUES = (
    "fd.ops.mul(d, {0})",
    "fd.ops.relu(fd.ops.add(d, {0}))",
    "fd.ops.tanh(fd.ops.mul(d, {0}))",
    "fd.ops.where(fd.ops.gt(d, {0}), d, fd.ops.neg(d))",
)

CUBIN_BYTES = 30_000


def definitions(count: int) -> Iterator[str]:
    """Texts of definitions, each another one's."""
    for i in range(count):
        result = EPILOGUES[i % len(EPILOGUES)].format(i + 0.5)
        yield definition().replace("add_output(d)", f"add_output({result})")


def resident_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def measured(
    count: int, at: Sequence[int], folder: Path, stub: bool = True
) -> Iterator[dict[str, Any]]:
    """Compile so many definitions, and tell what the process holds after those of ``at``.

    Args:
        count: of definitions.
        at: after how many of them to measure.
        folder: for the cubins.
        stub: whether nothing is compiled.
    """
    import torch

    def compiler(source: str, *_: object) -> Compiled:
        return Compiled(source.encode().ljust(CUBIN_BYTES, b"\0"), "", (12, 8), 0.0)

    if stub:
        bundles._caches[folder] = CubinCache(folder, "many", limit=1 << 20, compiler=compiler)
    least = CUBIN_BYTES if stub else 1
    os.environ["WSCHED_CACHE_DIR"] = str(folder)
    inputs = [torch.zeros(64, 64, dtype=torch.bfloat16)] * 2
    begin = process_time()
    for i, text in enumerate(definitions(count), 1):
        assert len(wsched.compile(text, inputs).compiled.cubin) >= least
        if i in at:
            seconds = round(process_time() - begin, 1)
            yield {"definitions": i, "MiB": round(resident_mib(), 1), "seconds": seconds}


def main() -> None:
    """Measure, tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure")
    parser.add_argument("--nvrtc", action="store_true", help="compile for real")
    told = parser.parse_args()
    steps = {1, told.count, *(told.count * i // 20 for i in range(1, 20))}
    with tempfile.TemporaryDirectory() as folder:
        for figure in measured(told.count, sorted(steps), Path(folder), not told.nvrtc):
            text = "{definitions:6} definitions: {MiB:7.1f} MiB, {seconds:6.1f} s of processor time"
            print(json.dumps(figure) if told.json else text.format(**figure), flush=True)


if __name__ == "__main__":
    main()
