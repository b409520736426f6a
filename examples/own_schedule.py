"""A schedule of a matmul from nothing: one that is refused, why, and one that runs.

``python -m examples.own_schedule [FILE.sched]``, on a GPU by the kernel, else on the machine model.
Two warpgroups share each tile of 128 x 96 and store it in three chunks of 32 columns.
"""

from __future__ import annotations

import sys

import torch

import wsched
from examples.linear import LINEAR
from wsched import LoadStoreOpType, MemoryType, ParallelType, Schedule, Special, WarpSpecialized

__all__ = ["compute", "loads", "main"]

TMA, P = LoadStoreOpType.CpAsyncBulkTensorTile, ParallelType


def compute(s: Schedule) -> None:
    """Copies of the operands in shared memory, and all of what is not the loads' alone."""
    operands = s[s.a, s.b].cache_after(TMA).set_memory_type(MemoryType.Shared)
    out, acc = s[s.outputs], s[s.acc]
    box = out.cache_before(TMA)  # what TMA stores, a chunk of columns at a time
    held = box.cache_before(LoadStoreOpType.StMatrix)  # the same in registers
    box.set_memory_type(MemoryType.Shared)
    tiles = s[operands, acc, held, box, out].split("M", 128).split("N", 96)
    tiles.reorder(["Mo", "No"]).merge("Mo", label="tiles")
    tiles.split("tiles", Special("nctaid.x"), labels=("tile", "cta"))
    tiles.reorder(["cta", "tile"]).parallelize("cta", P.BIDx)
    groups = s[acc, held, box, out].split("Mi", 64, labels=("group", "rows"))
    groups.reorder(["cta", "tile", "group"]).parallelize("group", P.TIDy)
    acc.split("K", 64).split("Ki", 16, labels=("k16", "k")).split("rows", 64, labels=("m64", "m"))
    acc.reorder(["cta", "tile", "group", "Ko", "k16", "m64"])
    acc.parallelize(["m", "Ni", "k"], P.Mma)
    stored = s[held, box, out].split("Ni", 32, labels=("chunk", "columns"))
    stored.reorder(["cta", "tile", "group", "chunk"])
    held.split("rows", 64, labels=("m64", "m")).parallelize(["m", "columns"], P.Mma)
    s[box, out].parallelize(["rows", "columns"], P.Bulk)
    s[held, box].inline_at("chunk")
    acc.inline_at("group")


def loads(s: Schedule, *outer: str) -> None:
    """One loop over the load steps, of which ``outer`` are the loops from slow to fast."""
    operands = s[s.a, s.b].split("K", 64).reorder(["cta", *outer])
    operands.merge(outer[0], outer[1], label="step").parallelize(["Mi", "Ni", "Ki"], P.Bulk)
    operands.circular_buffer(4, 2, WarpSpecialized(P.TIDy, (40, 232)))


def main(path: str | None = None) -> float:
    """Print what happens; the relative error of the result against fp32."""
    s = Schedule(LINEAR)
    compute(s)
    before = len(s.history)
    loads(s, "Ko", "tile")
    print("loads that go through all tiles before the next slice of K:", s.check(), sep="\n")
    s.undo(len(s.history) - before)
    loads(s, "tile", "Ko")
    print("loads in the order of compute:", s.show(), s.check(), sep="\n")
    if path is not None:
        s.save(path)
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = (torch.randn(n, 136, device=where).bfloat16() for n in (200, 264))
    (result,) = wsched.execute(s, [x, w])
    expected = x.float() @ w.float().T
    error = float((result.float() - expected).norm() / expected.norm())
    print(f"relative error {error:.1e}")
    return error


if __name__ == "__main__":
    main(*sys.argv[1:2])
