"""What the gate measures: every way in which a matmul is run, few of each, ten minutes in all."""

from __future__ import annotations

from wsched.bench.drawn.problems import Drawn
from wsched.bench.problem import ANCHORS

__all__ = ["PROBLEMS"]

PROBLEMS: tuple[Drawn, ...] = (
    *(Drawn(s.m, s.n, s.k) for s in ANCHORS),
    # Few rows: the weights stream once.
    Drawn(1, 14336, 4096),
    Drawn(16, 4096, 14336),
    Drawn(64, 28672, 8192),
    Drawn(200, 8192, 28672),
    # Other layouts, long K, rows that begin at multiples of 16 bytes.
    Drawn(1000, 1000, 1000, "nt"),
    Drawn(1504, 680, 17992, "tn"),
    Drawn(2944, 3424, 16664, "nn"),
    Drawn(6776, 7528, 2360, "nt"),
    Drawn(352, 1016, 69832, "tt"),
    Drawn(432, 416, 16384, "nn"),
    Drawn(1920, 2816, 256, "nn"),
    # Rows that TMA cannot read or store.
    Drawn(2048, 2048, 2047, "tn"),
    Drawn(4096, 4090, 1030, "tn"),
    Drawn(777, 2049, 3072, "tn"),
)
"""Changing the list makes a new baseline necessary: a problem that one side lacks is not judged."""
