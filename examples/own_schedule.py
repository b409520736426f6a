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
    for operand in (s.a, s.b):
        s[operand].cache_after(TMA).set_memory_type(MemoryType.Shared)
    (out,) = s.outputs
    box = s.cache_before(out, TMA)  # what TMA stores, a chunk of columns at a time
    held = s.cache_before(box, LoadStoreOpType.StMatrix)  # the same in registers
    s.set_memory_type(box, MemoryType.Shared)
    for t in (s.a, s.b, s.acc, held, box, out):
        s[t].split("M", 128).split("N", 96).reorder(["Mo", "No"]).merge("Mo", label="tiles")
        s[t].split("tiles", Special("nctaid.x"), labels=("tile", "cta"))
        s[t].reorder(["cta", "tile"]).parallelize("cta", P.BIDx)
    for t in (s.acc, held, box, out):
        s[t].split("Mi", 64, labels=("group", "rows")).reorder(["cta", "tile", "group"])
        s[t].parallelize("group", P.TIDy)
    s[s.acc].split("K", 64).split("Ki", 16, labels=("k16", "k"))
    s[s.acc].split("rows", 64, labels=("m64", "m"))
    s[s.acc].reorder(["cta", "tile", "group", "Ko", "k16", "m64"])
    s[s.acc].parallelize(["m", "Ni", "k"], P.Mma)
    for t in (held, box, out):
        s[t].split("Ni", 32, labels=("chunk", "columns"))
        s[t].reorder(["cta", "tile", "group", "chunk"])
    s[held].split("rows", 64, labels=("m64", "m")).parallelize(["m", "columns"], P.Mma)
    for t in (box, out):
        s[t].parallelize(["rows", "columns"], P.Bulk)
    for t in (held, box):
        s[t].inline_at("chunk")
    s[s.acc].inline_at("group")


def loads(s: Schedule, *outer: str) -> None:
    """One loop over the load steps, of which ``outer`` are the loops from slow to fast."""
    for t in (s.a, s.b):
        s[t].split("K", 64).reorder(["cta", *outer]).merge(outer[0], outer[1], label="step")
        s[t].parallelize(["Mi", "Ni", "Ki"], P.Bulk)
        s[t].circular_buffer(4, 2, WarpSpecialized(P.TIDy, (40, 232)))


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
