"""Sweeps of every kind of term, and what they come to in NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from wsched.fusion import DataType
from wsched.fusion.sweep import Place, Sweep, Term

__all__ = ["NUMPY", "expected", "halves", "masked"]

BF16, HALF, F32, BOOL = DataType.BFloat16, DataType.Half, DataType.Float, DataType.Bool
NUMPY: dict[DataType, Any] = {
    BF16: ml_dtypes.bfloat16, HALF: np.float16, F32: np.float32, BOOL: np.bool_,
}  # fmt: skip


def masked(rank: int = 2, dtype: DataType = BF16) -> Sweep:
    """``where(mask, x * row + column, 0.5)`` rounded, and whether that is above a number."""
    every = frozenset(range(rank))
    row, column, none = frozenset((rank - 1,)), frozenset((rank - 2,)), frozenset[int]()
    terms = (
        Term("x", "input", dtype, (), every),
        Term("row", "input", F32, (), row),
        Term("column", "input", dtype, (), column),
        Term("mask", "input", BOOL, (), every),
        Term("least", "input", F32, (), none),
        Term("wide", "cast", F32, ("x",), every),
        Term("scaled", "mul", F32, ("wide", "row"), every),
        Term("moved", "add", F32, ("scaled", "column"), every),
        Term("kept", "where", F32, ("mask", "moved", 0.5), every),
        Term("made", "cast", dtype, ("kept",), every),
        Term("above", "gt", BOOL, ("kept", "least"), every),
    )
    whole = tuple(range(rank))

    def place(name: str, dims: frozenset[int]) -> Place:
        return Place(name, tuple(d if d in dims else None for d in whole), whole)

    reads = tuple(place(t.name, t.dims) for t in terms if t.op == "input")
    return Sweep(rank, terms, reads, (place("made", every), place("above", every)))


def expected(given: dict[str, Any], dtype: DataType = BF16) -> tuple[Any, Any]:
    """Its results, each operation in fp32."""
    x, row, column, mask, least = (
        np.asarray(given[n]) for n in ("x", "row", "column", "mask", "least")
    )
    moved = x.astype(np.float32) * row + column.astype(np.float32)
    kept = np.where(mask, moved, np.float32(0.5))
    return kept.astype(NUMPY[dtype]), kept > least


def halves(rank: int, along: int, apart: int, dtype: DataType = BF16) -> Sweep:
    """``x`` where the place along one dimension is 0, else ``-y``; neither has it, nor another one
    along which the result repeats.
    """
    every = frozenset(range(rank))
    inner, none = every - {along, apart}, frozenset[int]()
    terms = (
        Term("x", "input", dtype, (), inner),
        Term("y", "input", F32, (), inner),
        Term("minus", "neg", F32, ("y",), inner),
        Term("is_first", "first", BOOL, (), frozenset((along,))),
        Term("made", "where", dtype, ("is_first", "x", "minus"), inner | {along}),
    )
    whole = tuple(range(rank))

    def place(name: str, dims: frozenset[int]) -> Place:
        return Place(name, tuple(d if d in dims else None for d in whole), whole)

    reads = place("x", inner), place("y", inner)
    return Sweep(rank, terms, reads, (place("made", every - {apart}),), none)
