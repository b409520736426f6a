"""Norms, scales and other factors in front of matmuls, spelled as programs spell them."""

from __future__ import annotations

from tests.front.cut.features import Feature

__all__ = ["COMMUTE", "half"]

_STATISTICS = """
    f = fd.ops.cast(t0, dtype=DataType.Float)
    q = fd.ops.mul(f, f)
    s = fd.ops.sum(q, dims=[1], keepdim=False, dtype=DataType.Null)
    b = fd.ops.broadcast(s, is_broadcast_dim=[False, True])
    m = fd.ops.mul(b, 0.015625)
    a = fd.ops.add(m, 1e-05)
    r = fd.ops.rsqrt(a)
"""

_NORMED = (
    _STATISTICS
    + """
    e = fd.ops.expand(r, shape=[40, 64])
    n = fd.ops.mul(f, e)
    g = fd.ops.broadcast_in_dim(t2, shape=[40, 64], broadcast_dims=[1])
    w = fd.ops.cast(g, dtype=DataType.Float)
    h = fd.ops.mul(n, w)
    x = fd.ops.cast(h, dtype=DataType.BFloat16)
"""
)

_SHAPES = (40, 64), (24, 64), (64,)

COMMUTE = {
    "norm": Feature(
        _NORMED + "y = fd.ops.linear(x, t1)\n fd.add_output(y)", _SHAPES, 1, 1
    ),
    "bias_and_epilogue": Feature(
        _NORMED
        + """
        y = fd.ops.linear(x, t1, t3)
        z = fd.ops.cast(y, dtype=DataType.Float)
        u = fd.ops.silu(z)
        v = fd.ops.mul(u, t4)
        o = fd.ops.cast(v, dtype=DataType.BFloat16)
        fd.add_output(o)
        fd.add_output(y)
        """,
        (*_SHAPES, (24,), (40, 24)), 1, 1,
    ),
    "rounded_twice": Feature(  # the weight times what has been rounded
        _STATISTICS
        + """
        n = fd.ops.mul(f, r)
        c = fd.ops.cast(n, dtype=DataType.BFloat16)
        g = fd.ops.broadcast(t2, is_broadcast_dim=[True, False])
        h = fd.ops.mul(g, c)
        x = fd.ops.cast(h, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        fd.add_output(y)
        """,
        _SHAPES, 1, 1,
    ),
    "divided": Feature(
        """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        q = fd.ops.abs(f)
        s = fd.ops.max(q, dims=[1], keepdim=True, dtype=DataType.Null)
        c = fd.ops.add(s, 1e-05)
        n = fd.ops.div(f, c)
        x = fd.ops.cast(n, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        fd.add_output(y)
        """,
        _SHAPES[:2], 1, 1,
    ),
    "rank_3": Feature(
        """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        q = fd.ops.mul(f, f)
        s = fd.ops.sum(q, dims=[2], keepdim=False, dtype=DataType.Null)
        b = fd.ops.broadcast_in_dim(s, shape=[2, 40, 1], broadcast_dims=[0, 1])
        a = fd.ops.add(b, 1e-05)
        r = fd.ops.rsqrt(a)
        e = fd.ops.broadcast_in_dim(r, shape=[2, 40, 64], broadcast_dims=[0, 1, 2])
        n = fd.ops.mul(f, e)
        x = fd.ops.cast(n, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        fd.add_output(y)
        """,
        ((2, 40, 64), (24, 64)), 1, 1,
    ),
    "two_readers": Feature(
        _NORMED
        + """
        y = fd.ops.linear(x, t1)
        z = fd.ops.linear(x, t3)
        u = fd.ops.silu(y)
        v = fd.ops.mul(u, z)
        o = fd.ops.cast(v, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        (*_SHAPES, (24, 64)), 2, 2,
    ),
    "residual": Feature(
        """
        p = fd.ops.add(t0, t3)
        k = fd.ops.cast(p, dtype=DataType.BFloat16)
        q = fd.ops.mul(p, p)
        s = fd.ops.sum(q, dims=[1], keepdim=True, dtype=DataType.Null)
        a = fd.ops.add(s, 1e-05)
        r = fd.ops.rsqrt(a)
        n = fd.ops.mul(p, r)
        h = fd.ops.mul(n, t2)
        x = fd.ops.cast(h, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        fd.add_output(k)
        fd.add_output(y)
        """,
        (*_SHAPES, (40, 64)), 1, 1,
    ),
    "transposed_weight": Feature(
        _NORMED
        + """
        k = fd.ops.permute(t1, dims=[1, 0])
        y = fd.ops.matmul(x, k)
        fd.add_output(y)
        """,
        _SHAPES, 1, 1,
    ),
    "scales_of_both": Feature(  # of rows of x and of the weight
        """
        d = fd.ops.mul(t0, t2)
        x = fd.ops.cast(d, dtype=DataType.BFloat16)
        c = fd.ops.broadcast(t3, is_broadcast_dim=[False, True])
        e = fd.ops.div(t1, c)
        w = fd.ops.cast(e, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, w)
        fd.add_output(y)
        """,
        ((40, 64), (24, 64), (40, 1), (24,)), 1, 1, wide=(2, 3),
    ),
    "scaled_query": Feature(
        """
        d = fd.ops.mul(t0, 0.125)
        x = fd.ops.cast(d, dtype=DataType.BFloat16)
        k = fd.ops.permute(t1, dims=[0, 2, 1])
        y = fd.ops.matmul(x, k)
        fd.add_output(y)
        """,
        ((2, 40, 64), (2, 24, 64)), 1, 1,
    ),
}  # fmt: skip
"""By name; the first input is what the first operand is made of."""


def half(text: str) -> str:
    """The same in Half."""
    return text.replace("BFloat16", "Half")
