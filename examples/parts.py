"""Warps of its own for each stage: one warpgroup rounds A to bf16 on its way to two that multiply.

``python -m examples.parts``, on a GPU by the kernel, else on the machine model. A is fp32 in
memory. TMA brings it, the warpgroup rounds it and stores it into a ring that the mma reads: no
kernel that casts runs first. Three parts, with loops of their own; two rings between them, beside
that of B.
"""

from __future__ import annotations

import torch

import wsched
from wsched import LoadStoreOpType as Op
from wsched import MemoryType, Special, WarpSpecialized
from wsched import ParallelType as P

__all__ = ["DEFINITION", "main", "rounded_on_the_way"]

DEFINITION = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    a = fd.ops.cast(x, dtype=DataType.BFloat16)
    d = fd.ops.linear(a, w)
    fd.add_output(d)
"""


def rounded_on_the_way() -> wsched.Schedule:
    """Tiles of 128 x 64, steps of 32 along K."""
    s = wsched.Schedule(DEFINITION)
    view, d = s.fusion.producers(s.a)[0].name, s.outputs[0]
    raw, b = (s.cache_after(t, Op.CpAsyncBulkTensorTile) for t in (view, s.b))
    held = s.cache_after(raw)  # fp32 in registers
    half = s.cache_before(s.a, Op.StMatrix)  # rounded, in registers; s.a is what is stored of it
    out = s.cache_before(d)
    loads, transform, compute = (raw, b), (held, half, s.a), (s.acc, out, d)
    for t in (*loads, s.a):
        s.set_memory_type(t, MemoryType.Shared)
    for t in (*loads, *transform, *compute):
        s[t].split("M", 128).split("N", 64).reorder(["Mo", "No"]).merge("Mo", label="tiles")
        s[t].split("tiles", Special("nctaid.x"), labels=("tile", "cta")).reorder(["cta", "tile"])
        s[t].parallelize("cta", P.BIDx)
    for t in (*loads, *transform):
        s[t].split("K", 32).reorder(["cta", "tile", "Ko"])
    for t in loads:  # two load warps, a ring each
        s[t].merge("tile", "Ko").parallelize(["Mi", "Ni", "Ki"], P.Bulk)
        s[t].circular_buffer(3, 1, WarpSpecialized(P.TIDy))
    for t in transform:  # one warpgroup: 64 rows at a time
        s[t].split("Mi", 64, labels=("m64", "m")).reorder(["cta", "tile", "Ko", "m64"])
        s[t].parallelize(["m", "Ni", "Ki"], P.Mma)
    s[half].inline_at("m64"), s[held].inline_at("m64")
    s[s.a].circular_buffer(3, 1, WarpSpecialized(P.TIDy, None, 3))  # cta, tile, Ko | a stage
    for t in compute:  # two warpgroups: 64 rows each
        s[t].split("Mi", 64, labels=("row", "Mg")).reorder(["cta", "tile", "row"])
        s[t].parallelize("row", P.TIDy).split("Mg", 64, labels=("m64", "m"))
    s[s.acc].split("K", 32).split("Ki", 16, labels=("k16", "k"))
    s[s.acc].reorder(["cta", "tile", "row", "Ko", "k16", "m64"])
    s[s.acc].parallelize(["m", "Ni", "k"], P.Mma)
    for t in (out, d):
        s[t].split("Ni", 32, labels=("chunk", "n"))
        s[t].reorder(["cta", "tile", "row", "chunk", "m64"]).parallelize(["m", "n"], P.Mma)
    s[out].inline_at("m64"), s[s.acc].inline_at("row")
    return s


def main() -> float:
    """Print the nests and the proof; the relative error of the result against fp32."""
    s = rounded_on_the_way()
    print(s.show(), s.check(), sep="\n")
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = (torch.randn(n, 136, device=where) for n in (200, 72))
    w = w.bfloat16()
    (result,) = wsched.execute(s, [x, w])
    expected = x.bfloat16().float() @ w.float().T
    error = float((result.float() - expected).norm() / expected.norm())
    print(f"relative error {error:.1e}")
    return error


if __name__ == "__main__":
    main()
