"""What nvFuser makes of a rest: matmuls by ATen, kernels between, and what goes through memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from tests.front.cut.features import Feature, sizes_of
from wsched.choose.nvfuser_cost import cublas_us, host_us, pointwise_us, roofline_us
from wsched.front.cut import predict
from wsched.front.cut.choose import choose
from wsched.front.cut.epilogues import Take
from wsched.front.cut.pieces import pieces
from wsched.front.cut.predict import Sizes, matmuls_us, nvfuser_us, segment_us
from wsched.front.cut.segments import Cutter, Segment
from wsched.importer import record_text

SCORES = Feature(
    """
    v = fd.ops.neg(t0)
    n = fd.ops.cast(v, dtype=DataType.BFloat16)
    s = fd.ops.matmul(n, t1)
    f = fd.ops.cast(s, dtype=DataType.Float)
    m = fd.ops.sum(f, dims=[2])
    b = fd.ops.broadcast(m, is_broadcast_dim=[False, False, True])
    c = fd.ops.mul(t3, 2.0)
    d = fd.ops.div(f, b)
    e = fd.ops.mul(d, c)
    p = fd.ops.cast(e, dtype=DataType.BFloat16)
    y = fd.ops.matmul(p, t2)
    fd.add_output(y)
    fd.add_output(n)
    """,
    ((2, 64, 32), (2, 32, 64), (2, 64, 16), (2, 64, 64)), 2, 2, wide=(3,),
)  # fmt: skip


def rest_of(feature: Feature) -> tuple[Segment, Sizes]:
    """The whole as a rest."""
    cutter = Cutter(record_text(feature.text))
    return Segment(cutter.definition, False), sizes_of(cutter)


def test_what_goes_through_memory() -> None:
    rest, call = rest_of(SCORES)
    found = pieces(rest.definition, call.tensors.types)
    assert [(p.matmul and p.matmul.results[0], p.reads, p.writes) for p in found] == [
        ("s", {"n", "t1"}, {"s"}),
        ("y", {"p", "t2"}, {"y"}),
        (None, {"t0"}, {"n"}),
        (None, {"s", "t3"}, {"p"}),  # the cast, the sum and what it is spread to are its own
    ]


def test_what_is_larger_than_what_it_is_made_of_is_made_again() -> None:
    """By each kernel that reads it, while what is computed or as narrow lies in memory between."""
    feature = Feature(
        """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        b = fd.ops.broadcast_in_dim(t3, shape=[64, 32], broadcast_dims=[1])
        v = fd.ops.mul(f, b)
        n = fd.ops.cast(v, dtype=DataType.BFloat16)
        s = fd.ops.linear(n, t1)
        c = fd.ops.add(s, f)
        d = fd.ops.add(c, b)
        e = fd.ops.add(d, v)
        p = fd.ops.cast(e, dtype=DataType.BFloat16)
        y = fd.ops.linear(p, t2)
        fd.add_output(y)
        """,
        ((64, 32), (32, 32), (16, 32), (32,)), 2, 2, wide=(3,),
    )  # fmt: skip
    rest, call = rest_of(feature)
    assert [(p.reads, p.writes) for p in pieces(rest.definition, call.tensors.types)[2:]] == [
        ({"t0", "t3"}, {"n", "v"}),
        ({"s", "t0", "t3", "v"}, {"p"}),
    ]


def test_numbers_are_no_kernel() -> None:
    feature = Feature(
        """
        k = fd.ops.size(t0, dim=0)
        y = fd.ops.linear(t0, t1)
        fd.add_output(y)
        """,
        ((16, 32), (24, 32)), 1, 1,
    )  # fmt: skip
    rest, call = rest_of(feature)
    (only,) = pieces(rest.definition, call.tensors.types)
    assert (only.matmul and only.matmul.op, only.reads, only.writes) == (
        "linear", {"t0", "t1"}, {"y"}
    )  # fmt: skip


def test_a_rest_costs_its_pieces() -> None:
    rest, call = rest_of(SCORES)
    n, s, y, wide = 2 * 64 * 32, 2 * 64 * 64, 2 * 64 * 16, 4 * 2 * 64 * 64
    work = 17 * s  # a sum, two products, and a division
    kernels = pointwise_us(2 * n * 2, n) + pointwise_us(2 * 2 * s + wide, work)
    products = roofline_us(2 * s * 32, 2 * (2 * n + s)) + roofline_us(2 * y * 64, 2 * (s + 2 * y))
    found = segment_us(rest, call)
    assert found.gpu_us == pytest.approx(kernels + products)
    assert found.host_us == host_us(4)
    told = segment_us(rest, call, {"s": 100.0})
    assert told.gpu_us == pytest.approx(
        found.gpu_us + 100 - roofline_us(2 * s * 32, 2 * (2 * n + s))
    )


MLP = Feature(
    """
    u = fd.ops.linear(t0, t1)
    f = fd.ops.cast(u, dtype=DataType.Float)
    g = fd.ops.tanh(f)
    h = fd.ops.cast(g, dtype=DataType.BFloat16)
    y = fd.ops.linear(h, t2)
    fd.add_output(y)
    """,
    ((512, 4096), (16384, 4096), (4096, 16384)), 2, 2,
)  # fmt: skip


def test_a_matmul_costs_cublas_the_same_left_or_not() -> None:
    """At best it would be 6 % faster than as a part of nvFuser's route, and always left."""
    cutter = Cutter(record_text(MLP.text))
    call = sizes_of(cutter)
    bare = cutter.all(Take.NONE).segments
    found = matmuls_us(bare, call)
    assert [*found] == ["u", "y"]
    assert sum(found.values()) == pytest.approx(nvfuser_us(bare, call).matmul_us)
    assert found["y"] > roofline_us(2 * 512 * 4096 * 16384, 0)
    assert all(s.matmul for s in choose(cutter, call, may_leave=True).cut.segments)


def test_a_kernel_that_cannot_be_planned_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    cutter = Cutter(record_text(MLP.text))
    call = sizes_of(cutter)

    def planned(self: Sizes, segment: Segment) -> object:
        raise UnsupportedError("a tile", "one that fits")

    monkeypatch.setattr(predict.Sizes, "planned", planned)
    assert matmuls_us(cutter.all(Take.NONE).segments, call) == {}


def heads(sequences: int) -> Feature:
    """Queries and keys of a sequence after the other, as a layer leaves them."""
    shape = sequences, 64, 8, 64
    return Feature(
        """
        q = fd.ops.permute(t0, dims=[0, 2, 1, 3])
        k = fd.ops.permute(t1, dims=[0, 2, 3, 1])
        s = fd.ops.matmul(q, k)
        fd.add_output(s)
        """,
        (shape, shape), 1, 1,
    )  # fmt: skip


def test_aten_copies_heads_of_several_sequences() -> None:
    """In 658 us where wsched's kernel takes 361 (design/performance.md); cuBLAS has one stride from
    batch to batch.
    """
    costs = []
    for sequences in (1, 4):
        cutter = Cutter(record_text(heads(sequences).text))
        call = sizes_of(cutter)
        bare = cutter.all(Take.NONE).segments
        (kernel,) = bare
        costs.append((nvfuser_us(bare, call), cublas_us(call.planned(kernel).problem)))
    (one, one_us), (four, four_us) = costs
    assert one.matmul_us == one_us and one.host_us == host_us(3)  # two views
    copy = pointwise_us(2 * 2 * 4 * 64 * 8 * 64)
    assert four.matmul_us == pytest.approx(four_us + 2 * copy) and four.host_us == host_us(5)


def test_batches_do_not_split_k() -> None:
    """128 products of 512 x 512 x 64 took ``torch.bmm`` 27.5 us; at 4.3 TB/s it would be 22.5."""
    cutter = Cutter(record_text(heads(1).text))
    call = sizes_of(cutter)
    (kernel,) = cutter.all(Take.NONE).segments
    problem = replace(call.planned(kernel).problem, m=512, n=512, k=64, batch=128)
    moved = 2 * 128 * (2 * 512 * 64 + 512 * 512)
    assert cublas_us(problem) > 1.05 * roofline_us(0, moved)


def test_a_product_lies_row_by_row_however_its_operands_lie() -> None:
    """No copy into rows behind a matmul that is left to nvFuser."""
    feature = Feature(
        """
        q = fd.ops.permute(t0, dims=[0, 2, 1, 3])
        r = fd.ops.reshape(q, new_shape=[256, 512])
        v = fd.ops.linear(r, t1)
        w = fd.ops.linear(v, t2)
        fd.add_output(w)
        """,
        ((4, 8, 64, 64), (256, 512), (128, 256)), 2, 2,
    )  # fmt: skip
    cutter = Cutter(record_text(feature.text))
    rest, kernel = cutter.cut((Take.LEFT, Take.NONE)).segments
    assert kernel.matmul and rest.outputs == ("v",)
    assert [n.op for n in rest.definition.nodes if not n.is_input] == [
        "permute", "reshape", "linear"
    ]  # fmt: skip
