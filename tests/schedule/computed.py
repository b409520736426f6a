"""Fusions of a matmul whose first operand is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.schedule.fusions import linear
from tests.schedule.gated import Copies
from wsched.fusion import CastOp, DataType, Fusion, MemoryType, MmaOp, PointwiseOp

__all__ = ["Op", "computed_operand"]

Op = tuple[str | float, ...]
"""An operation, and the numbers behind its tensor."""


def computed_operand(dtype: DataType, ops: Sequence[Op] = ()) -> Fusion:
    """``linear(cast(f(A)), B)``: T0 is A, T2 its view, and the mma reads the cast to 16 bits.

    Args:
        dtype: of A in memory.
        ops: what ``f`` does one after the other.
    """
    made = Copies(linear())
    *chain, cast = [made.like("T2", MemoryType.Local) for _ in (*ops, "cast")]
    f = made.fusion
    changed = [replace(f.tensor(t), dtype=dtype) for t in ("T0", "T2")]
    changed += [replace(f.tensor(t), dtype=DataType.Float) for t in chain]
    steps: list[PointwiseOp | CastOp] = []
    for new, old, (op, *numbers) in zip(chain, ("T2", *chain), ops, strict=False):
        steps.append(PointwiseOp(new, str(op), (old, *numbers)))
    steps.append(CastOp(cast, (chain or ["T2"])[-1]))
    at = next(n for n, e in enumerate(f.exprs) if isinstance(e, MmaOp))
    mma = replace(f.exprs[at], a=cast)
    exprs = (*f.exprs[:at], *steps, mma, *f.exprs[at + 1 :])
    inputs = (replace(f.inputs[0], dtype=dtype), *f.inputs[1:])
    return replace(f.updated(changed, exprs), inputs=inputs)
