"""A program with every kind of step, which the tests share, and the kernels that it runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr, Var, as_expr, ceildiv
from tests.epilogues import RESIDUAL
from tests.schedules import definition, ping_pong
from wsched.front.known import import_fusion
from wsched.program.program import Buffer, CallStep, CopyStep, KernelStep, Program, WorkspaceStep
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.plan import Plan

__all__ = ["TEXT", "K", "M", "N", "Whole", "buffer", "kernels", "plans", "whole"]

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = Var("M"), Var("N"), Var("K")


@cache
def kernels() -> dict[str, CompiledFusion]:
    """A matmul, and one that adds a matrix to the product."""
    texts = {"matmul": definition(), "residual": RESIDUAL}
    return {
        name: compile_fusion(import_fusion(text), ping_pong(64, 64)) for name, text in texts.items()
    }


def plans() -> dict[str, Plan]:
    """The plans that these names stand for."""
    return {name: kernel.plan for name, kernel in kernels().items()}


def buffer(name: str, *shape: Expr | int, dtype: DType = DType.BF16, **more: Any) -> Buffer:
    """A buffer of this shape."""
    return Buffer(name, dtype, tuple(map(as_expr, shape)), **more)


TEXT = """\
program (x, w, v, r, s) -> (y, z) {
  x: bf16[M, K]
  w: bf16[N, K]
  v: bf16[P, N]
  r: bf16[M, P]
  s: any
  a: bf16[M, K] strides [ceildiv(K, 8) * 8, 1]
  h: bf16[M, N]
  memory: bf16[M, N]
  g: bf16[M, N] at memory
  y: bf16[M, P] at r
  z: f32[M, P]
  copy x -> a
  kernel matmul(a, w) -> h
  workspace memory
  call scale(h, s) -> g deterministic batch_invariant
  kernel residual(g, v, r) -> y
  call widen(y) -> z deterministic
}
"""
"""``y = s · (x wᵀ) vᵀ + r``, in the place of r, and the same in fp32."""


@dataclass(frozen=True)
class Whole:
    """That program, with every kind of step, and its buffers."""

    program: Program
    x: Buffer
    a: Buffer
    h: Buffer
    memory: Buffer
    g: Buffer
    r: Buffer
    y: Buffer


@cache
def whole() -> Whole:
    """The program of ``TEXT``, made by hand."""
    p = Var("P")
    x, w, v, r = buffer("x", M, K), buffer("w", N, K), buffer("v", p, N), buffer("r", M, p)
    s = Buffer("s")
    a = buffer("a", M, K, strides=(ceildiv(K, 8) * 8, as_expr(1)))
    h, memory = buffer("h", M, N), buffer("memory", M, N)
    g, y = buffer("g", M, N, at=memory), buffer("y", M, p, at=r)
    z = buffer("z", M, p, dtype=DType.F32)
    steps = (
        CopyStep(x, a),
        KernelStep("matmul", plans()["matmul"], (a, w), (h,)),
        WorkspaceStep(memory),
        CallStep("scale", (h, s), (g,), deterministic=True, batch_invariant=True),
        KernelStep("residual", plans()["residual"], (g, v, r), (y,)),
        CallStep("widen", (y,), (z,), deterministic=True),
    )
    return Whole(Program((x, w, v, r, s), steps, (y, z)), x, a, h, memory, g, r, y)
