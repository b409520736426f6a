"""Hopper, compute capability 9.0.

Sources: PTX ISA 8.x (wgmma, setmaxnreg, bar), CUDA C++ Programming Guide, table of technical
specifications, and what ptxas 13.0 was seen to accept.
"""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.target.mma import MmaFamily, MmaForm
from lowering.target.target import Target

__all__ = ["HOPPER", "WGMMA"]

_EIGHTS = frozenset(range(8, 257, 8)), "a multiple of 8 from 8 to 256"
_INTEGERS = frozenset((8, 24, *range(16, 257, 16))), "8, 24, or a multiple of 16 from 16 to 256"

WGMMA = MmaFamily("wgmma", 64, 32, (
    MmaForm((DType.F16,), (DType.F32, DType.F16), *_EIGHTS, transposes=True),
    MmaForm((DType.BF16,), (DType.F32,), *_EIGHTS, transposes=True),
    MmaForm((DType.TF32,), (DType.F32,), *_EIGHTS),
    MmaForm((DType.E4M3, DType.E5M2), (DType.F32, DType.F16), *_EIGHTS, promotion=128,
            aligned=13),
    MmaForm((DType.S8, DType.U8), (DType.S32,), *_INTEGERS, scales=False),
))  # fmt: skip
"""Bits that sums of 8-bit floats keep as measured (H200, design/0030-eight-bits.md), the rest what
ptxas takes; beyond it, ``b1`` (bits, and their population count), which nobody needs."""

HOPPER = Target(
    arch="sm_90a",  # wgmma and setmaxnreg are features of the architecture-specific target only
    capability=(9, 0),
    gpus=("H100", "H200"),
    sms=132,
    mma=WGMMA,
    max_threads=1024,
    shared_bytes=227 * 1024,
    registers=65536,
    register_step=8,
    setmaxnreg=(24, 240),
    named_barriers=16,
    max_cluster=8,  # portable; 16 on some parts, for kernels that say so
)
