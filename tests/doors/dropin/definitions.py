"""Definitions that the tests of the drop-in share, built through nvFuser, with inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
nvf = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")

__all__ = ["BF16", "BUILDERS", "F32", "built", "gelu", "inputs_of", "matrix", "nvf"]

BF16, F32 = nvf.DataType.BFloat16, nvf.DataType.Float


def matrix(fd: Any, dtype: Any = BF16) -> Any:
    """A row-major matrix of any size."""
    return fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=dtype)


def _row(fd: Any, dtype: Any = BF16) -> Any:
    return fd.define_tensor(shape=[-1], contiguity=True, dtype=dtype)


def gelu(fd: Any, x: Any) -> Any:
    """Gelu in its tanh form, in bf16 as ``x``."""
    f = fd.ops.cast(x, dtype=F32)
    cube = fd.ops.mul(fd.ops.mul(fd.ops.mul(f, f), f), 0.044715)
    t = fd.ops.tanh(fd.ops.mul(fd.ops.add(f, cube), 0.7978845608028654))
    return fd.ops.cast(fd.ops.mul(fd.ops.mul(f, 0.5), fd.ops.add(t, 1.0)), dtype=BF16)


def linear(fd: Any) -> None:
    """The product alone."""
    fd.add_output(fd.ops.linear(matrix(fd), matrix(fd)))


def mlp(fd: Any) -> None:
    """gelu(x · w1ᵀ + b) · w2ᵀ + x."""
    x, w1, b, w2 = matrix(fd), matrix(fd), _row(fd), matrix(fd)
    h = gelu(fd, fd.ops.linear(x, w1, b))
    fd.add_output(fd.ops.cast(fd.ops.add(fd.ops.linear(h, w2), x), dtype=BF16))


def gated(fd: Any) -> None:
    """(silu(x · w1ᵀ) * (x · w2ᵀ)) · w3ᵀ: the product of two matmuls is an operand."""
    x, w1, w2, w3 = (matrix(fd) for _ in range(4))
    gate = fd.ops.silu(fd.ops.cast(fd.ops.linear(x, w1), dtype=F32))
    h = fd.ops.cast(fd.ops.mul(gate, fd.ops.linear(x, w2)), dtype=BF16)
    fd.add_output(fd.ops.linear(h, w3))


def normed(fd: Any) -> None:
    """x · wᵀ + r, and that divided by the root mean square of its rows."""
    x, w, r = matrix(fd), matrix(fd), matrix(fd)
    y = fd.ops.add(fd.ops.linear(x, w), r)
    square = fd.ops.sum(fd.ops.mul(y, y), dims=[1], keepdim=True)
    scale = fd.ops.rsqrt(fd.ops.add(fd.ops.mul(square, 0.015625), 1e-5))
    fd.add_output(fd.ops.cast(y, dtype=BF16))
    fd.add_output(fd.ops.cast(fd.ops.mul(y, scale), dtype=BF16))


def normed_before(fd: Any) -> None:
    """-rms(x) · wᵀ: a factor of an operand before the matmul, which commutes with it."""
    x, w = matrix(fd), matrix(fd)
    f = fd.ops.cast(x, dtype=F32)
    square = fd.ops.sum(fd.ops.mul(f, f), dims=[1], keepdim=True)
    scale = fd.ops.rsqrt(fd.ops.add(fd.ops.mul(square, 0.015625), 1e-5))
    n = fd.ops.cast(fd.ops.mul(f, scale), dtype=BF16)
    fd.add_output(fd.ops.neg(fd.ops.linear(n, w)))


def centred_before(fd: Any) -> None:
    """-atan(x - mean(x)) · wᵀ: before the matmul, with an operation that wsched has not."""
    x, w = matrix(fd), matrix(fd)
    f = fd.ops.cast(x, dtype=F32)
    mean = fd.ops.mul(fd.ops.sum(f, dims=[1], keepdim=True), 0.015625)
    n = fd.ops.cast(fd.ops.atan(fd.ops.sub(f, mean)), dtype=BF16)
    fd.add_output(fd.ops.neg(fd.ops.linear(n, w)))


def scaled(fd: Any) -> None:
    """A run-time scalar in the epilogue, and fp32 results."""
    x, w, s = matrix(fd), matrix(fd), fd.define_scalar(None, dtype=nvf.DataType.Double)
    fd.add_output(fd.ops.mul(fd.ops.cast(fd.ops.linear(x, w), dtype=F32), s))


def put_together(fd: Any) -> None:
    """x · [w1, w2]ᵀ, rectified: the weights are put together first."""
    x, w1, w2 = (matrix(fd) for _ in range(3))
    y = fd.ops.linear(x, fd.ops.cat([w1, w2], dim=0))
    wide = fd.ops.cast(y, dtype=F32)  # nvFuser compiles no relu of 16 bits
    fd.add_output(fd.ops.cast(fd.ops.relu(wide), dtype=BF16))


BUILDERS = {
    f.__name__: f
    for f in (
        linear, mlp, gated, normed, normed_before, centred_before, scaled, put_together,
    )
}  # fmt: skip
"""Definitions that wsched takes a part of, by name."""


def built(build: Callable[[Any], None], kind: type | None = None) -> Any:
    """The definition that a function writes, of nvFuser's class unless told."""
    with (kind or nvf.FusionDefinition)() as fd:
        build(fd)
    return fd


def inputs_of(name: str, rows: int = 32, device: str = "cpu", seed: int = 0) -> list[Any]:
    """Small integers as inputs of one of ``BUILDERS``, so that all sums are exact in fp32."""
    generator = torch.Generator().manual_seed(seed)
    sides = {
        "linear": ((rows, 64), (24, 64)),
        "mlp": ((rows, 64), (96, 64), (96,), (64, 96)),
        "gated": ((rows, 64), (96, 64), (96, 64), (64, 96)),
        "normed": ((rows, 64), (64, 64), (rows, 64)),
        "normed_before": ((rows, 64), (24, 64)),
        "centred_before": ((rows, 64), (24, 64)),
        "scaled": ((rows, 64), (24, 64)),
        "put_together": ((rows, 64), (24, 64), (41, 64)),
    }[name]
    made = [torch.randint(-2, 3, s, generator=generator).bfloat16().to(device) for s in sides]
    return [*made, 0.5] if name == "scaled" else made
