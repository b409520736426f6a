"""Machine code of the MLIR way beside that of the CUDA way, without a GPU.

    python -m tests.ways coop_128x256 pingpong_128x128

prints a row for each schedule and way: instructions of the loops around wgmma and around TMA loads,
those in the first that move a value to a uniform register or wait for lanes of a warp, and all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields

from lowering.cuda.sass import disassemble
from tests.sass_loops import innermost_loops
from tests.schedules import SCHEDULES, definition, for_result
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.mlir import through_mlir

__all__ = ["Counts", "counted", "made", "of_both_ways"]

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][A-Z0-9_.]*)")

_MOVES = "R2UR", "VOTEU"
"""From registers of each thread to uniform ones."""

_MEETS = "BSSY", "BSYNC"
"""Where lanes that may have gone different ways meet."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Instructions of a kernel.

    Attributes:
        mma: of the loops around wgmma, on average.
        moves: of those, from registers of each thread to uniform ones.
        meets: of those, where lanes of a warp meet again.
        load: of the loops around TMA loads, on average.
        all: of the kernel.
        sleeps: waits that suspend a warp for a time.
    """

    mma: float
    moves: float
    meets: float
    load: float
    all: int
    sleeps: int


def made(name: str, text: str = "", result: str = "bf16") -> CompiledFusion:
    """A schedule of ``tests.schedules``, of another definition if there is a text."""
    params = for_result(SCHEDULES[name], result)
    return compile_fusion(build_fusion(record_text(text or definition(result=result))), params)


def _opcodes(lines: list[str]) -> Iterator[str]:
    """Names of the instructions without what follows a dot; none of those that do nothing."""
    for line in lines:
        found = _INSTRUCTION.search(line)
        if found and not found[1].startswith("NOP"):
            yield found[1].partition(".")[0]


def counted(cubin: bytes) -> Counts:
    """Instructions of a cubin.

    Raises:
        ValueError: it has no loop around a wgmma or a TMA load.
    """
    sass = disassemble(cubin)
    mma = [list(_opcodes(loop)) for loop in innermost_loops(sass, "HGMMA")]
    load = [list(_opcodes(loop)) for loop in innermost_loops(sass, "UTMALDG")]
    whole = list(_opcodes(sass.splitlines()))

    def of(names: tuple[str, ...]) -> float:
        return sum(op in names for loop in mma for op in loop) / len(mma)

    return Counts(
        sum(map(len, mma)) / len(mma), of(_MOVES), of(_MEETS), sum(map(len, load)) / len(load),
        len(whole), whole.count("NANOSLEEP"),
    )  # fmt: skip


def of_both_ways(kernel: CompiledFusion) -> tuple[Counts, Counts]:
    """Instructions of a kernel by NVRTC, and by MLIR."""
    return counted(kernel.alone.compiled.cubin), counted(through_mlir(kernel).alone.compiled.cubin)


def main(names: list[str]) -> None:
    """Print a table."""
    print("| schedule | way |", " | ".join(f.name for f in fields(Counts)), "|")
    print("| --- " * (2 + len(fields(Counts))) + "|")
    for name in names:
        for way, counts in zip(("CUDA", "MLIR"), of_both_ways(made(name)), strict=True):
            print(f"| {name} | {way} |", " | ".join(f"{n:g}" for n in astuple(counts)), "|")


if __name__ == "__main__":
    main(sys.argv[1:] or ["coop_128x256", "pingpong_128x128", "cluster_2x1", "dynamic"])
