"""Hopper, compute capability 9.0.

Sources: PTX ISA 8.x (wgmma, setmaxnreg, bar), CUDA C++ Programming Guide, table of technical
specifications, and what ptxas 13.0 was seen to accept.
"""

from __future__ import annotations

from lowering.target.target import MmaFamily, Target

__all__ = ["HOPPER", "WGMMA"]

WGMMA = MmaFamily("wgmma", 64, range(8, 257, 8), 32)

HOPPER = Target(
    arch="sm_90a",  # wgmma and setmaxnreg are features of the architecture-specific target only
    capability=(9, 0),
    gpus=("H100", "H200"),
    mma=WGMMA,
    max_threads=1024,
    shared_bytes=227 * 1024,
    registers=65536,
    register_step=8,
    setmaxnreg=(24, 240),
    named_barriers=16,
)
