"""Expressions between tensors: four kinds, each with one output. Tensors are named, not held."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wsched.fusion.types import LoadStoreOpType

__all__ = ["BroadcastOp", "CastOp", "FusionExpr", "LoadStoreOp", "MmaOp", "inputs_of", "rewire"]


@dataclass(frozen=True, slots=True)
class BroadcastOp:
    """A view of ``input`` with new dimensions where ``flags`` is true; moves no data."""

    output: str
    input: str
    flags: tuple[bool, ...]

    def __str__(self) -> str:
        flags = ", ".join(str(f).lower() for f in self.flags)
        return f"broadcast({self.input}, flags = {{{flags}}})"


@dataclass(frozen=True, slots=True)
class MmaOp:
    """``output[m, n] = sum over k of a[m, 1, k] * b[1, n, k]``, accumulated in fp32."""

    output: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"mma({self.a}, {self.b})"


@dataclass(frozen=True, slots=True)
class CastOp:
    """``input`` rounded to the output's type, to nearest even."""

    output: str
    input: str

    def __str__(self) -> str:
        return f"cast({self.input})"


@dataclass(frozen=True, slots=True)
class LoadStoreOp:
    """A copy of ``input`` between memories."""

    output: str
    input: str
    op: LoadStoreOpType

    def __str__(self) -> str:
        return f"{self.op}({self.input})"


FusionExpr = BroadcastOp | MmaOp | CastOp | LoadStoreOp


def inputs_of(e: FusionExpr) -> tuple[str, ...]:
    """Names of the tensors that ``e`` reads."""
    return (e.a, e.b) if isinstance(e, MmaOp) else (e.input,)


def rewire(e: FusionExpr, old: str, new: str) -> FusionExpr:
    """``e`` reading ``new`` where it read ``old``."""
    if isinstance(e, MmaOp):
        return replace(e, a=new if e.a == old else e.a, b=new if e.b == old else e.b)
    return replace(e, input=new) if e.input == old else e
