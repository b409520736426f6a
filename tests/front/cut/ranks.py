"""Matmuls of other ranks than two, and what stands around them."""

from __future__ import annotations

from tests.front.cut.features import Feature

__all__ = ["RANKS"]

RANKS = {
    "linear_4d": Feature(
        """
        y = fd.ops.linear(t0, t1, t2)
        f = fd.ops.cast(y, dtype=DataType.Float)
        g = fd.ops.cast(t3, dtype=DataType.Float)
        z = fd.ops.add(f, g)
        b = fd.ops.broadcast_in_dim(t4, shape=[2, 3, 4, 16], broadcast_dims=[3])
        m = fd.ops.mul(z, b)
        o = fd.ops.cast(m, dtype=DataType.BFloat16)
        fd.add_output(y)
        fd.add_output(o)
        """,
        ((2, 3, 4, 32), (16, 32), (16,), (2, 3, 4, 16), (16,)), 1, 1,
    ),
    "rows_scaled": Feature(
        """
        y = fd.ops.linear(t0, t1)
        b = fd.ops.broadcast_in_dim(t2, shape=[2, 3, 8, 16], broadcast_dims=[0, 1, 2])
        e = fd.ops.expand(t3, shape=[2, 3, 8, 16])
        f = fd.ops.cast(y, dtype=DataType.Float)
        m = fd.ops.mul(f, b)
        a = fd.ops.add(m, e)
        o = fd.ops.cast(a, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        ((2, 3, 8, 32), (16, 32), (2, 3, 8), (1, 1, 1, 16)), 1, 1,
    ),
    "batches_by_batches": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        z = fd.ops.relu(y)
        fd.add_output(z)
        """,
        ((3, 1, 24, 32), (5, 32, 16)), 1, 1,
    ),
    "groups_by_heads": Feature(
        """
        p = fd.ops.permute(t1, dims=[0, 1, 2, 4, 3])
        y = fd.ops.matmul(t0, p)
        f = fd.ops.cast(y, dtype=DataType.Float)
        g = fd.ops.cast(t2, dtype=DataType.Float)
        z = fd.ops.add(f, g)
        o = fd.ops.cast(z, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        ((2, 3, 4, 24, 32), (2, 3, 1, 16, 32), (2, 3, 4, 24, 16)), 1, 1,
    ),
    "batches_of_two_dimensions_again": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        b = fd.ops.broadcast_in_dim(t2, shape=[2, 3, 4, 8, 16], broadcast_dims=[1, 2, 3, 4])
        z = fd.ops.add(f, b)
        o = fd.ops.cast(z, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        ((2, 3, 4, 8, 32), (1, 3, 4, 32, 16), (3, 4, 8, 16)), 1, 1,
    ),
    "two_dimensions_of_one_alone": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        z = fd.ops.relu(y)
        fd.add_output(z)
        """,
        ((2, 1, 1, 8, 32), (2, 3, 4, 32, 16)), 1, 1,
    ),
    "matmul_5d": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        z = fd.ops.relu(y)
        fd.add_output(z)
        """,
        ((2, 1, 3, 8, 32), (2, 1, 3, 32, 16)), 1, 1,
    ),
    "transposed_5d": Feature(
        """
        p = fd.ops.permute(t1, dims=[0, 1, 2, 4, 3])
        y = fd.ops.matmul(t0, p)
        b = fd.ops.broadcast_in_dim(t2, shape=[2, 2, 3, 8, 16], broadcast_dims=[3, 4])
        f = fd.ops.cast(y, dtype=DataType.Float)
        z = fd.ops.add(f, b)
        o = fd.ops.cast(z, dtype=DataType.BFloat16)
        fd.add_output(o)
        """,
        ((2, 2, 3, 8, 32), (2, 2, 3, 16, 32), (8, 16)), 1, 1,
    ),
    "one_batch_by_matrix": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        z = fd.ops.linear(y, t2)
        fd.add_output(z)
        """,
        ((1, 24, 32), (32, 16), (16, 16)), 2, 2,
    ),
    "matmul_4d_by_matrix": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        fd.add_output(y)
        """,
        ((2, 3, 8, 32), (32, 16)), 1, 1,
    ),
    "one_batch_of_the_second": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        fd.add_output(y)
        """,
        ((3, 8, 32), (1, 32, 16)), 1, 1,
    ),
    "one_batch_of_the_first": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        fd.add_output(y)
        """,
        ((1, 1, 8, 32), (2, 3, 32, 16)), 1, 1,
    ),
    "matrix_by_batches": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        z = fd.ops.add(y, t2)
        fd.add_output(z)
        """,
        ((8, 32), (2, 3, 32, 16), (8, 16)), 1, 1,
    ),
    "batches_of_five": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        fd.add_output(y)
        """,
        ((2, 1, 3, 8, 32), (2, 1, 3, 32, 16)), 1, 1,
    ),
    "vector_by_matrix": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        z = fd.ops.add(f, t2)
        fd.add_output(z)
        """,
        ((32,), (32, 16), (16,)), 1, 1,
    ),
    "linear_of_a_vector": Feature(
        """
        y = fd.ops.linear(t0, t1, t2)
        fd.add_output(y)
        """,
        ((32,), (16, 32), (16,)), 1, 1,
    ),
    "matrix_by_vector": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        z = fd.ops.mul(y, t2)
        fd.add_output(z)
        """,
        ((16, 32), (32,), (16,)), 1, 1,
    ),
    "batches_by_vector": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        fd.add_output(y)
        """,
        ((2, 3, 8, 32), (32,)), 1, 1,
    ),
    "vector_by_batches": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        r = fd.ops.relu(f)
        s = fd.ops.sum(r, dims=[2])
        fd.add_output(r)
        fd.add_output(s)
        """,
        ((32,), (2, 3, 32, 16)), 1, 1,
    ),
    "vector_by_vector": Feature(
        """
        y = fd.ops.matmul(t0, t1)
        fd.add_output(y)
        """,
        ((32,), (32,)), 1, 1,
    ),
    "gated_4d": Feature(
        """
        u = fd.ops.linear(t0, t1)
        v = fd.ops.linear(t0, t2)
        f = fd.ops.cast(u, dtype=DataType.Float)
        g = fd.ops.relu(f)
        h = fd.ops.cast(v, dtype=DataType.Float)
        p = fd.ops.mul(g, h)
        c = fd.ops.cast(p, dtype=DataType.BFloat16)
        fd.add_output(c)
        """,
        ((2, 3, 8, 16), (32, 16), (32, 16)), 2, 2, beside=1,
    ),
    "heads_of_one_sequence": Feature(
        """
        y = fd.ops.linear(t0, t1)
        a = fd.ops.slice(y, start_indices=[0, 0, 0], end_indices=[1, 8, 32], strides=[1, 1, 1])
        b = fd.ops.slice(y, start_indices=[0, 0, 32], end_indices=[1, 8, 64], strides=[1, 1, 1])
        c = fd.ops.reshape(a, new_shape=[1, 8, 2, 16])
        d = fd.ops.reshape(b, new_shape=[1, 8, 2, 16])
        e = fd.ops.permute(c, dims=[0, 2, 1, 3])
        f = fd.ops.permute(d, dims=[0, 2, 3, 1])
        s = fd.ops.matmul(e, f)
        g = fd.ops.relu(s)
        fd.add_output(g)
        """,
        ((1, 8, 32), (64, 32)), 2, 2,
    ),
    "sliced_weight": Feature(
        """
        w = fd.ops.slice(t1, start_indices=[16, 8], end_indices=[48, 40], strides=[1, 1])
        x = fd.ops.reshape(t0, new_shape=[24, 32])
        y = fd.ops.linear(x, w)
        fd.add_output(y)
        """,
        ((4, 6, 32), (64, 64)), 1, 1,
    ),
    "squeezed_operand": Feature(
        """
        x = fd.ops.squeeze(t0, dims=[0])
        p = fd.ops.permute(x, dims=[1, 0])
        w = fd.ops.permute(t1, dims=[2, 0, 1])
        v = fd.ops.reshape(w, new_shape=[32, 16])
        y = fd.ops.linear(p, v)
        fd.add_output(y)
        """,
        ((1, 16, 24), (4, 4, 32)), 1, 1,
    ),
    "reshaped_by_a_copy": Feature(
        """
        h = fd.ops.linear(t0, t1)
        r = fd.ops.reshape(h, new_shape=[4, 6, 2, 16])
        p = fd.ops.permute(r, dims=[0, 2, 1, 3])
        x = fd.ops.reshape(p, new_shape=[48, 16])
        y = fd.ops.linear(x, t2)
        fd.add_output(y)
        """,
        ((24, 32), (32, 32), (16, 16)), 2, 2,
    ),
    "attention": Feature(
        """
        q = fd.ops.linear(t0, t1)
        k = fd.ops.linear(t0, t2)
        v = fd.ops.linear(t0, t3)
        a = fd.ops.reshape(q, new_shape=[2, 8, 2, 16])
        b = fd.ops.reshape(k, new_shape=[2, 8, 2, 16])
        c = fd.ops.reshape(v, new_shape=[2, 8, 2, 16])
        d = fd.ops.permute(a, dims=[0, 2, 1, 3])
        e = fd.ops.permute(b, dims=[0, 2, 3, 1])
        f = fd.ops.permute(c, dims=[0, 2, 1, 3])
        s = fd.ops.matmul(d, e)
        g = fd.ops.cast(s, dtype=DataType.Float)
        h = fd.ops.mul(g, 0.25)
        m = fd.ops.max(h, dims=[3], keepdim=True, dtype=DataType.Null)
        n = fd.ops.ge(h, m)
        w = fd.ops.cast(n, dtype=DataType.BFloat16)
        o = fd.ops.matmul(w, f)
        p = fd.ops.permute(o, dims=[0, 2, 1, 3])
        r = fd.ops.reshape(p, new_shape=[2, 8, 32])
        y = fd.ops.linear(r, t4)
        fd.add_output(y)
        """,
        ((2, 8, 32), (32, 32), (32, 32), (32, 32), (16, 32)), 6, 6, beside=2,
    ),
}  # fmt: skip
