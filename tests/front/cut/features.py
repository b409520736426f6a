"""Definitions with what real programs have around their matmuls, one feature each, as texts.

``FEATURES`` has by name: the text, the shapes of its inputs, and how many of its matmuls get a
kernel of wsched's. All sizes are small enough for the machine model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from wsched.front.cut.predict import Sizes
from wsched.front.cut.segments import Cutter
from wsched.front.cut.sizes import open_extents

torch = pytest.importorskip("torch", reason="torch is not installed")

__all__ = ["FEATURES", "Feature", "inputs_of", "sizes_of"]


@dataclass(frozen=True)
class Feature:
    """A definition.

    Args:
        body: its lines, without the first.
        shapes: of its inputs.
        own: matmuls in kernels of wsched's.
        all: all matmuls.
        wide: positions of inputs in fp32.
        beside: how many of those in kernels are in one with another.
    """

    body: str
    shapes: tuple[tuple[int, ...], ...]
    own: int
    all: int
    wide: tuple[int, ...] = ()
    beside: int = 0

    @property
    def kernels(self) -> int:
        """Kernels of wsched's."""
        return self.own - self.beside

    @property
    def text(self) -> str:
        """The definition; its inputs are t0, t1, ..."""
        lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
        for at, shape in enumerate(self.shapes):
            dtype = "Float" if at in self.wide else "BFloat16"
            contiguity = [None if size == 1 else True for size in shape]
            lines.append(
                f"    t{at} = fd.define_tensor(shape={list(shape)}, contiguity={contiguity}, "
                f"dtype=DataType.{dtype}, is_cpu=False)"
            )
        return "\n".join(
            [*lines, *(f"    {x.strip()}" for x in self.body.strip().splitlines()), ""]
        )


def inputs_of(feature: Feature, seed: int = 0) -> list[Any]:
    """Small integers, so that sums of products are exact."""
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randint(-1, 2, s, generator=generator) for s in feature.shapes]
    return [t.float() if at in feature.wide else t.bfloat16() for at, t in enumerate(made)]


def sizes_of(cutter: Cutter) -> Sizes:
    """A call by what the definition says of its sizes."""
    tensors = cutter.graph.types
    return Sizes(tensors, open_extents(cutter.definition, tensors))


_NORM = """
    f = fd.ops.cast(t0, dtype=DataType.Float)
    q = fd.ops.mul(f, f)
    s = fd.ops.sum(q, dims=[{last}], keepdim=False, dtype=DataType.Null)
    b = fd.ops.broadcast(s, is_broadcast_dim={flags})
    n = fd.ops.reciprocal(32.0)
    m = fd.ops.mul(b, n)
    a = fd.ops.add(m, 1.0)
    r = fd.ops.rsqrt(a)
    e = fd.ops.expand(r, shape={shape})
    g = fd.ops.mul(f, e)
    x = fd.ops.cast(g, dtype=DataType.BFloat16)
"""

FEATURES = {
    "gated": Feature(
        """
        u = fd.ops.linear(t0, t1)
        v = fd.ops.linear(t0, t2)
        f = fd.ops.cast(u, dtype=DataType.Float)
        g = fd.ops.relu(f)
        h = fd.ops.cast(v, dtype=DataType.Float)
        p = fd.ops.mul(g, h)
        c = fd.ops.cast(p, dtype=DataType.BFloat16)
        d = fd.ops.linear(c, t3)
        fd.add_output(d)
        """,
        ((24, 16), (32, 16), (32, 16), (16, 32)), 3, 3, beside=1,
    ),
    "operand_root": Feature(
        """
        a = fd.ops.abs(t0)
        r = fd.ops.sqrt(a)
        x = fd.ops.cast(r, dtype=DataType.BFloat16)
        y = fd.ops.linear(x, t1)
        z = fd.ops.relu(y)
        fd.add_output(z)
        """,
        ((24, 32), (16, 32)), 1, 1, (0,),
    ),
    "transposed_cast": Feature(
        """
        x = fd.ops.cast(t0, dtype=DataType.BFloat16)
        p = fd.ops.permute(x, dims=[1, 0])
        y = fd.ops.linear(p, t1)
        fd.add_output(y)
        """,
        ((32, 24), (16, 32)), 1, 1, (0,),
    ),
    "norm": Feature(
        _NORM.format(last=1, flags=[False, True], shape=[24, 32])
        + """
        y = fd.ops.linear(x, t1, t2)
        fd.add_output(y)
        """,
        ((24, 32), (16, 32), (16,)), 1, 1,
    ),
    "norm_3d_residual": Feature(
        _NORM.format(last=2, flags=[False, False, True], shape=[2, 24, 32])
        + """
        y = fd.ops.linear(x, t1)
        z = fd.ops.cast(y, dtype=DataType.Float)
        w = fd.ops.add(z, f)
        o = fd.ops.cast(w, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        ((2, 24, 32), (32, 32)), 1, 1,
    ),
    "bias_expanded": Feature(
        """
        y = fd.ops.linear(t0, t1)
        b = fd.ops.broadcast(t2, is_broadcast_dim=[True, True, True, False])
        e = fd.ops.expand(b, shape=[2, 3, 8, 16])
        f = fd.ops.cast(e, dtype=DataType.Float)
        z = fd.ops.cast(y, dtype=DataType.Float)
        a = fd.ops.add(z, f)
        o = fd.ops.cast(a, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        ((2, 3, 8, 32), (16, 32), (16,)), 1, 1,
    ),
    "heads": Feature(
        """
        q = fd.ops.linear(t0, t1)
        k = fd.ops.linear(t0, t2)
        a = fd.ops.reshape(q, new_shape=[2, 8, 2, 16])
        b = fd.ops.reshape(k, new_shape=[2, 8, 2, 16])
        c = fd.ops.permute(a, dims=[0, 2, 1, 3])
        d = fd.ops.permute(b, dims=[0, 2, 3, 1])
        s = fd.ops.matmul(c, d)
        p = fd.ops.permute(s, dims=[0, 2, 1, 3])
        r = fd.ops.reshape(p, new_shape=[2, 8, 16])
        o = fd.ops.linear(r, t3)
        fd.add_output(o)
        """,
        ((2, 8, 32), (32, 32), (32, 32), (32, 16)), 4, 4, beside=1,
    ),
    "widths": Feature(
        """
        q = fd.ops.linear(t0, t1)
        k = fd.ops.linear(t0, t2)
        v = fd.ops.linear(t0, t3)
        a = fd.ops.reshape(q, new_shape=[2, 8, 2, 16])
        b = fd.ops.permute(a, dims=[0, 2, 1, 3])
        fd.add_output(b)
        fd.add_output(k)
        fd.add_output(v)
        """,
        ((2, 8, 32), (32, 32), (8, 32), (16, 32)), 3, 3, beside=2,
    ),
    "low_rank": Feature(
        """
        y = fd.ops.linear(t0, t1)
        t = fd.ops.linear(t0, t2)
        u = fd.ops.linear(t, t3)
        f = fd.ops.cast(y, dtype=DataType.Float)
        g = fd.ops.cast(u, dtype=DataType.Float)
        h = fd.ops.mul(g, 0.25)
        s = fd.ops.add(f, h)
        z = fd.ops.cast(s, dtype=DataType.BFloat16)
        fd.add_output(z)
        """,
        ((2, 12, 32), (24, 32), (8, 32), (24, 8)), 3, 3, beside=1,
    ),
    "reshaped_result": Feature(
        """
        y = fd.ops.linear(t0, t1)
        z = fd.ops.relu(y)
        r = fd.ops.reshape(z, new_shape=[24, 2, 8])
        p = fd.ops.permute(r, dims=[1, 0, 2])
        fd.add_output(p)
        """,
        ((24, 32), (16, 32)), 1, 1,
    ),
    "row_sums": Feature(
        """
        y = fd.ops.linear(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        s = fd.ops.sum(f, dims=[1], keepdim=False, dtype=DataType.Null)
        n = fd.ops.neg(s)
        fd.add_output(y)
        fd.add_output(n)
        """,
        ((24, 32), (16, 32)), 1, 1,
    ),
    "backward": Feature(
        """
        p = fd.ops.permute(t0, dims=[1, 0])
        w = fd.ops.matmul(p, t1)
        x = fd.ops.matmul(t0, t2)
        f = fd.ops.cast(t0, dtype=DataType.Float)
        b = fd.ops.sum(f, dims=[0], keepdim=False, dtype=DataType.Null)
        c = fd.ops.cast(b, dtype=DataType.BFloat16)
        fd.add_output(w)
        fd.add_output(x)
        fd.add_output(c)
        """,
        ((24, 32), (24, 16), (32, 16)), 2, 2,
    ),
    "made_beside": Feature(
        """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        a = fd.ops.tanh(f)
        g = fd.ops.cast(a, dtype=DataType.BFloat16)
        p = fd.ops.permute(t1, dims=[1, 0])
        w = fd.ops.matmul(p, g)
        d = fd.ops.matmul(t1, t2)
        e = fd.ops.cast(d, dtype=DataType.Float)
        s = fd.ops.mul(a, a)
        q = fd.ops.sub(1.0, s)
        r = fd.ops.mul(e, q)
        z = fd.ops.cast(r, dtype=DataType.BFloat16)
        o = fd.ops.permute(z, dims=[1, 0])
        v = fd.ops.matmul(o, t3)
        fd.add_output(w)
        fd.add_output(v)
        """,
        ((24, 32), (24, 16), (16, 32), (24, 8)), 3, 3,
    ),
    "sliced_between": Feature(
        """
        y = fd.ops.linear(t0, t1)
        s = fd.ops.slice(y, start_indices=[0, 16], end_indices=[24, 32], strides=[1, 1])
        z = fd.ops.linear(s, t2)
        fd.add_output(z)
        """,
        ((24, 32), (32, 32), (16, 16)), 2, 2,
    ),
    "unused_input": Feature(
        """
        y = fd.ops.linear(t0, t1)
        fd.add_output(y)
        """,
        ((24, 32), (16, 32), (8, 8)), 1, 1,
    ),
    "fp32_beside": Feature(
        """
        y = fd.ops.linear(t0, t1)
        z = fd.ops.linear(t2, t3)
        fd.add_output(y)
        fd.add_output(z)
        """,
        ((24, 32), (16, 32), (8, 8), (4, 8)), 1, 2, (2, 3),
    ),
}  # fmt: skip
