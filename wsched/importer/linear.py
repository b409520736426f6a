"""The shortest definition that wsched schedules: what demo, tools and defaults begin with."""

from __future__ import annotations

__all__ = ["LINEAR"]

LINEAR = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv2 = fd.ops.linear(tv0, tv1)
    fd.add_output(tv2)
"""
"""``D[M, N] = x[M, K] · w[N, K]ᵀ`` as nvFuser prints it, less what it prints by default."""
