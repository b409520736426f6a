"""Philox4x32-10 on the machine, and what ``frag.random`` makes of it."""

from __future__ import annotations

import numpy as np

from lowering.kernel.nodes import FragRandom
from lowering.kernel.random import PHILOX_KEYS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array, element_index
from lowering.machine.program import Program, Run
from lowering.machine.state import Registers, Warp

__all__ = ["frag_random", "philox", "uniform"]

_WORD = 1 << 32


def philox(seed: int, offset: int, subsequence: Array) -> Array:
    """Four words of 32 bits for each counter, ``[..., 4]``.

    Args:
        seed: key of 64 bits.
        offset: low 64 bits of the counters.
        subsequence: their high 64 bits, uint64.
    """
    keys = [seed % _WORD, seed // _WORD % _WORD]
    high = np.asarray(subsequence, np.uint64)
    low = (offset % _WORD, offset // _WORD % _WORD)
    a, b = (np.full(high.shape, word, np.uint64) for word in low)
    c, d = high % np.uint64(_WORD), high >> np.uint64(32)
    for _ in range(PHILOX_ROUNDS):
        p, q = (x * np.uint64(m) for x, m in zip((a, c), PHILOX_MULTIPLIERS, strict=True))
        k0, k1 = map(np.uint64, keys)
        a, b = (q >> np.uint64(32)) ^ b ^ k0, q % np.uint64(_WORD)
        c, d = (p >> np.uint64(32)) ^ d ^ k1, p % np.uint64(_WORD)
        keys = [(k + step) % _WORD for k, step in zip(keys, PHILOX_KEYS, strict=True)]
    return np.stack([a, b, c, d], -1).astype(np.uint32)


def uniform(words: Array) -> Array:
    """fp32 in [0, 1) of words of 32 bits."""
    found = words.astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)
    return np.where(found == 1, np.float32(0), found)


def frag_random(stmt: FragRandom, program: Program) -> Run:
    """``frag.random``."""
    seed, offset = program.scalar(stmt.seed), program.scalar(stmt.offset)
    first, stride = program.scalar(stmt.first), program.scalar(stmt.stride)
    kind = stmt.out.type

    def run(warp: Warp) -> None:
        rows, cols = element_index(kind, warp.index % 4)
        number = np.broadcast_to(first(warp.env) + rows * stride(warp.env) + cols, (32, *kind.held))
        if number.min() < 0:
            raise FaultError(f"an element has the number {number.min()}, which is negative")
        words = philox(seed(warp.env) % _WORD**2, offset(warp.env) % _WORD**2, number // 4)
        chosen = np.take_along_axis(words, (number % 4)[..., None], -1)[..., 0]
        warp.define(stmt.out, Registers(uniform(chosen), warp.epoch))

    return run
