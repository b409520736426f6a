"""Blackwell (sm_100a).

Sources: PTX ISA 8.7 (TensorCore 5th Generation Family Instructions: tensor memory, its allocation,
shapes and types of ``tcgen05.mma``; setmaxnreg, barriers, clusters), the CUDA C++ Programming Guide
(compute capabilities), and what ptxas 12.8 was seen to accept. Nothing was measured: there was no
such GPU.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.dtypes import DType
from lowering.ground.layouts import LANES
from lowering.target.mma import MmaFamily, MmaForm
from lowering.target.target import Target
from lowering.target.tensor_memory import LANES as ROWS
from lowering.target.tensor_memory import TensorMemory

__all__ = ["BLACKWELL", "BLACKWELL_PAIRS", "TCGEN05"]

_SIXTEENS = frozenset(range(16, 257, 16)), "a multiple of 16 from 16 to 256"
_OF_PAIRS = frozenset(range(32, 257, 32)), "a multiple of 32 from 32 to 256"

TCGEN05 = MmaFamily("tcgen05.mma", ROWS, 32, (
    MmaForm((DType.F16,), (DType.F32,), *_SIXTEENS, transposes=True, kind="f16"),
    MmaForm((DType.BF16,), (DType.F32,), *_SIXTEENS, transposes=True, kind="f16"),
    MmaForm((DType.E4M3, DType.E5M2), (DType.F32,), *_SIXTEENS, kind="f8f6f4"),
), layout=LANES, version=1, macro="Blackwell1CTA")  # fmt: skip
"""One CTA's (``cta_group::1``) with 128 rows. Beyond it: 64 rows, accumulators of 16 bits, which
take a half of each cell, floats of 6 and 4 bits, integers, tf32. Sums of 8-bit floats are those of
fp32, as far as documents say.
"""

_PAIRED = replace(
    TCGEN05,
    forms=tuple(replace(f, n=_OF_PAIRS[0], columns=_OF_PAIRS[1]) for f in TCGEN05.forms),
    macro="Blackwell2CTA",
    ctas=2,
)
"""Two CTAs' (``cta_group::2``) with 256 rows, 128 of each. N as CUTLASS has it; beyond it: 128
rows.
"""

BLACKWELL = Target(
    arch="sm_100a",  # tcgen05 is a feature of the architecture-specific target only
    capability=(10, 0),
    gpus=("B200", "GB200"),
    sms=148,  # what a B200's driver tells (pytorch/ao, pull request 4002)
    mma=TCGEN05,
    max_threads=1024,
    shared_bytes=227 * 1024,
    registers=65536,
    register_step=8,
    setmaxnreg=(24, 240),
    named_barriers=16,
    max_cluster=8,  # portable
    tensor_memory=TensorMemory(lanes=ROWS, columns=512, least=32),
)

BLACKWELL_PAIRS = replace(BLACKWELL, mma=_PAIRED)
"""The same GPU for kernels whose CTAs multiply in pairs: all tcgen05 instructions of a kernel have
one ``cta_group`` (PTX ISA, Issue Granularity).
"""
