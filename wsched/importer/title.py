"""A few words that tell a definition from others, for people."""

from __future__ import annotations

from collections import Counter

from wsched.importer.definition import Definition
from wsched.importer.ops import PRODUCTS

__all__ = ["title_of"]


def title_of(definition: Definition) -> str:
    """Its matmuls, and how much there is beside them: ``2 linear + 5 more``."""
    ops = [n.op for n in definition.nodes if not n.op.startswith("define_")]
    counts = Counter(op for op in ops if op in PRODUCTS)
    told = [op if n == 1 else f"{n} {op}" for op, n in counts.items()]
    others = len(ops) - counts.total()
    return " + ".join([*(told or ["no matmul"]), *([f"{others} more"] if others else [])])
