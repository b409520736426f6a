"""Reductions beside matmuls: which are kernels of wsched's own, with what, and what they give."""

from __future__ import annotations

from typing import Any

import pytest

from tests.front.cut.features import Feature, sizes_of
from wsched.front.cut.choose import choose
from wsched.front.cut.route import cut_route
from wsched.front.cut.segments import Cutter, Segment
from wsched.front.route import TORCH, WSCHED
from wsched.importer import record_text

torch = pytest.importorskip("torch")

MEAN = Feature(
    """
    y = fd.ops.linear(t0, t1)
    f = fd.ops.cast(y, dtype=DataType.Float)
    s = fd.ops.sum(f, dims=[0], keepdim=False, dtype=DataType.Null)
    m = fd.ops.mul(s, 0.0078125)
    e = fd.ops.add(m, 1e-05)
    fd.add_output(y)
    fd.add_output(e)
    """,
    ((128, 64), (72, 64)), 1, 1,
)  # fmt: skip
"""What follows a reduction of a kernel goes into what puts its parts together."""

VARIANCE = Feature(
    """
    y = fd.ops.linear(t0, t1)
    f = fd.ops.cast(y, dtype=DataType.Float)
    s = fd.ops.sum(f, dims=[1], keepdim=False, dtype=DataType.Null)
    q = fd.ops.mul(f, f)
    t = fd.ops.sum(q, dims=[1], keepdim=False, dtype=DataType.Null)
    m = fd.ops.mul(s, 0.015625)
    n = fd.ops.mul(t, 0.015625)
    p = fd.ops.mul(m, m)
    v = fd.ops.sub(n, p)
    fd.add_output(y)
    fd.add_output(s)
    fd.add_output(v)
    """,
    ((136, 72), (64, 72)), 1, 1,
)  # fmt: skip
"""Two reductions that meet, one of them a result."""

SCALE = Feature(
    """
    y = fd.ops.linear(t0, t1)
    f = fd.ops.cast(y, dtype=DataType.Float)
    a = fd.ops.abs(f)
    s = fd.ops.max(a, dims=[0, 1], keepdim=False, dtype=DataType.Null)
    c = fd.ops.maximum(s, 1e-12)
    r = fd.ops.reciprocal(c)
    d = fd.ops.mul(r, 448.0)
    fd.add_output(y)
    fd.add_output(d)
    """,
    ((136, 72), (64, 72)), 1, 1,
)  # fmt: skip
"""The scale of a tensor of 8 bits."""

STATISTICS = Feature(
    """
    x = fd.ops.cast(t0, dtype=DataType.Float)
    q = fd.ops.mul(x, x)
    s = fd.ops.sum(q, dims=[2], keepdim=False, dtype=DataType.Null)
    b = fd.ops.broadcast_in_dim(s, shape=[2, 40, 1], broadcast_dims=[0, 1])
    m = fd.ops.mul(b, 0.015625)
    e = fd.ops.add(m, 1e-05)
    r = fd.ops.rsqrt(e)
    y = fd.ops.linear(t0, t1)
    fd.add_output(r)
    fd.add_output(y)
    """,
    ((2, 40, 64), (72, 64)), 1, 1,
)  # fmt: skip
"""Of an input, with a dimension of size 1 in the result."""

ALL = {"mean": MEAN, "variance": VARIANCE, "scale": SCALE, "statistics": STATISTICS}


def chosen(feature: Feature) -> tuple[Segment, ...]:
    cutter = Cutter(record_text(feature.text))
    call = sizes_of(cutter)
    return choose(cutter, call, may_leave=False).cut.segments


def ops(segment: Segment) -> list[str]:
    return [n.op for n in segment.definition.nodes if not n.op.startswith("define_")]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("mean", ["mul", "add"]), ("variance", ["mul", "mul", "mul", "sub"]),
        ("scale", ["maximum", "reciprocal", "mul"]),
        ("statistics", ["cast", "mul", "sum", "broadcast_in_dim", "mul", "add", "rsqrt"]),
    ],
)  # fmt: skip
def test_segments(name: str, wanted: list[str]) -> None:
    segments = chosen(ALL[name])
    assert all(s.own for s in segments)
    (found,) = (s for s in segments if s.summary)
    assert ops(found) == wanted


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ALL)
def test_executed(name: str) -> None:
    """Without a call of anybody else's, and as torch has it."""
    feature = ALL[name]
    torch.manual_seed(0)
    x, w = (torch.randint(-2, 3, s).bfloat16() for s in feature.shapes)
    route = cut_route(record_text(feature.text), (x, w), ())
    assert {p.runs for p in route.parts} == {WSCHED}
    found = route.run(None, (x, w))
    y = x.float() @ w.float().T
    wanted: dict[str, list[Any]] = {
        "mean": [y.bfloat16(), y.sum(0) / 128 + 1e-5],
        "variance": [y.bfloat16(), y.sum(1), (y * y).sum(1) / 64 - (y.sum(1) / 64) ** 2],
        "scale": [y.bfloat16(), 448 / y.abs().amax()],
        "statistics": [
            torch.rsqrt((x.float() ** 2).sum(-1, keepdim=True) / 64 + 1e-5), y.bfloat16(),
        ],
    }  # fmt: skip
    for a, b in zip(found, wanted[name], strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("runs", "old", "new"),
    [
        # the reduced values meet what has not been reduced
        (WSCHED, "fd.add_output(r)", "g = fd.ops.mul(x, r)\n    fd.add_output(g)"),
        # a result that is as large as the tensor
        (WSCHED, "fd.add_output(r)", "fd.add_output(r)\n    fd.add_output(q)"),
        # a result of another order in memory
        (WSCHED, "fd.add_output(r)",
         "o = fd.ops.stride_order(r, stride_order=[0, 2, 1])\n    fd.add_output(o)"),
        # an operation that no kernel has
        (TORCH, "rsqrt(e)", "lgamma(e)"),
    ],
)  # fmt: skip
def test_what_is_no_summary_alone(runs: str, old: str, new: str) -> None:
    """There is a rest, which sweeps are or others run, and what it does is right."""
    text = STATISTICS.text.replace(old, new)
    assert text != STATISTICS.text
    torch.manual_seed(0)
    x, w = (torch.randint(-2, 3, s).bfloat16() for s in STATISTICS.shapes)
    definition = record_text(text)
    route = cut_route(definition, (x, w), ())
    assert {p.runs for p in route.parts} == {WSCHED, runs}
    from wsched.doors.fallback import interpret

    for a, b in zip(route.run(None, (x, w)), interpret(definition, (x, w)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert a.stride() == b.stride()


APART = Feature(
    """
    y = fd.ops.linear(t0, t1)
    f = fd.ops.cast(t0, dtype=DataType.Float)
    q = fd.ops.mul(f, f)
    s = fd.ops.sum(q, dims=[0], keepdim=False, dtype=DataType.Null)
    t = fd.ops.sum(q, dims=[1], keepdim=False, dtype=DataType.Null)
    r = fd.ops.rsqrt(t)
    fd.add_output(y)
    fd.add_output(s)
    fd.add_output(r)
    """,
    ((4096, 1024), (72, 1024)), 1, 1,
)  # fmt: skip


def test_reductions_that_no_kernel_has_together() -> None:
    """Over rows and over columns: a kernel each, which makes again what both are of."""
    first, second, product = chosen(APART)
    assert first.summary and second.summary and product.matmul
    assert (ops(first), first.outputs) == (["cast", "mul", "sum"], ("s",))
    assert (ops(second), second.outputs) == (["cast", "mul", "sum", "rsqrt"], ("r",))


SIZES = Feature(
    """
    f = fd.ops.cast(t0, dtype=DataType.Float)
    g = fd.ops.cast(t1, dtype=DataType.Float)
    s = fd.ops.sum(f, dims=[1], keepdim=False, dtype=DataType.Null)
    t = fd.ops.sum(g, dims=[1], keepdim=False, dtype=DataType.Null)
    y = fd.ops.linear(t0, t1)
    fd.add_output(s)
    fd.add_output(t)
    fd.add_output(y)
    """,
    ((24, 64), (40, 64)), 1, 1,
)  # fmt: skip


def test_reductions_of_tensors_of_two_sizes_are_two_kernels() -> None:
    """A kernel walks over one shape."""
    assert [s.outputs for s in chosen(SIZES) if s.summary] == [("s",), ("t",)]
    x, w = (torch.randint(-2, 3, s).bfloat16() for s in SIZES.shapes)
    s, t, _ = cut_route(record_text(SIZES.text), (x, w), ()).run(None, (x, w))
    torch.testing.assert_close((s, t), (x.float().sum(1), w.float().sum(1)))


SQUEEZED = Feature(
    """
    y = fd.ops.matmul(t0, t1)
    q = fd.ops.squeeze(y, dims=[1])
    f = fd.ops.cast(q, dtype=DataType.Float)
    r = fd.ops.relu(f)
    s = fd.ops.sum(r, dims=[1], keepdim=False, dtype=DataType.Null)
    fd.add_output(s)
    fd.add_output(y)
    """,
    ((3, 1, 32), (3, 32, 40)), 1, 1,
)  # fmt: skip
"""What is reduced has a dimension less than what lies in memory."""


def test_a_squeeze_in_front_of_what_is_reduced() -> None:
    assert [ops(s) for s in chosen(SQUEEZED)] == [["matmul"], ["squeeze", "cast", "relu", "sum"]]
    a, b = (torch.randint(-2, 3, s).bfloat16() for s in SQUEEZED.shapes)
    s, y = cut_route(record_text(SQUEEZED.text), (a, b), ()).run(None, (a, b))
    torch.testing.assert_close(y, a @ b)
    torch.testing.assert_close(s, (a @ b)[:, 0].float().relu().sum(1))


@pytest.mark.parametrize(
    ("given", "to", "own"),
    [
        ((3, 1, 40), (3, 8, 40), False), ((40,), (3, 8, 40), False), ((3, 8), (3, 8, 40), False),
        ((8, 40), (3, 8, 40), False), ((8, 40), (1, 8, 40), True), ((3, 8, 40), (3, 8, 40), True),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_broadcast_repeats_is_summed_as_often(
    given: tuple[int, ...], to: tuple[int, ...], own: bool
) -> None:
    """Once, it was, where no input has the dimension: a mask of keys counted for each query."""
    dims = {(3, 1, 40): [0, 1, 2], (3, 8): [0, 1]}.get(given, [0, 1, 2][3 - len(given) :])
    text = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[24, 32], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[16, 32], contiguity=True, dtype=DataType.BFloat16)
    m = fd.define_tensor(shape={list(given)}, contiguity=True, dtype=DataType.Float)
    b = fd.ops.broadcast_in_dim(m, shape={list(to)}, broadcast_dims={dims})
    fd.add_output(fd.ops.linear(x, w))
    fd.add_output(fd.ops.sum(b, dims=[0, 1, 2]))
"""
    x, w, m = torch.ones(24, 32).bfloat16(), torch.ones(16, 32).bfloat16(), torch.ones(given)
    route = cut_route(record_text(text), [x, w, m], ())
    assert [p.runs for p in route.parts] == [WSCHED if own else TORCH, WSCHED]
    _, total = route.run(None, [x, w, m])
    assert total == torch.ones(to).sum()
