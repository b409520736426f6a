"""A linear with results of 8 bits, and what they should be, bit by bit."""

from __future__ import annotations

from typing import Any

__all__ = ["AMAX", "LARGEST", "definition", "expected"]

LARGEST = {"Float8_e4m3fn": 448.0, "Float8_e5m2": 57344.0}
"""What exceeds it becomes it; by nvFuser's name of the type."""

AMAX = ("a = fd.ops.max(fd.ops.abs(f), dims=[0, 1])", "fd.add_output(a)")
"""The largest absolute value before the scale, as lines of :func:`definition`."""


def definition(to: str, *more: str, operand: str = "BFloat16") -> str:
    """``s * linear(x, w)`` rounded once, ``s`` a single number; ``more`` are further lines, in
    which ``f`` is the product in fp32, ``d`` the result.
    """
    kind = f"fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.{operand})"
    lines = (
        "def nvfuser_fusion(fd : FusionDefinition) -> None :",
        f"x = {kind}",
        f"w = {kind}",
        "s = fd.define_tensor(shape=[1, 1], contiguity=[None, None], dtype=DataType.Float)",
        "p = fd.ops.linear(x, w)",
        "f = fd.ops.cast(p, dtype=DataType.Float)",
        "m = fd.ops.mul(f, s)",
        f"d = fd.ops.cast(m, dtype=DataType.{to})",
        "fd.add_output(d)",
        *more,
    )
    return "\n    ".join(lines) + "\n"


def expected(x: Any, w: Any, scale: float, to: str) -> Any:
    """The result of operands whose products are exact in fp32, in fp32."""
    import torch

    most = LARGEST[to]
    product = (x.float() @ w.float().T * scale).clamp(-most, most)
    return product.to(getattr(torch, to.lower())).float()
