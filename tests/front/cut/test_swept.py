"""Rests that are sweeps: nothing is left to others, and results are and lie as they did."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.sweep.tile import LONGEST_ROW
from tests.front.cut.features import Feature, inputs_of, sizes_of
from wsched.choose.copy_cost import COPY_HOST_US, STEP_HOST_US
from wsched.choose.nvfuser_cost import pointwise_us
from wsched.choose.sweep_cost import accesses_us
from wsched.doors.fallback import interpret
from wsched.front.cut.choose import choose
from wsched.front.cut.epilogues import Take
from wsched.front.cut.predict import SOONER_US, VIEW_HOST_US, segment_us
from wsched.front.cut.route import call_of, cutter_of
from wsched.front.cut.segments import Cutter, Segment
from wsched.front.cut.swept import with_sweeps
from wsched.front.cut.views_first import views_first
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

SIDES = ((2, 24, 32), (64, 32))

RESTS = {
    "activation before": """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        g = fd.ops.silu(f)
        h = fd.ops.cast(g, dtype=DataType.BFloat16)
        y = fd.ops.linear(h, t1)
        fd.add_output(y)
    """,
    "heads, scaled, as batches": """
        y = fd.ops.linear(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        m = fd.ops.mul(f, 0.125)
        c = fd.ops.cast(m, dtype=DataType.BFloat16)
        a = fd.ops.reshape(c, new_shape=[2, 24, 4, 16])
        p = fd.ops.permute(a, dims=[0, 2, 1, 3])
        q = fd.ops.reshape(p, new_shape=[8, 24, 16])
        fd.add_output(q)
    """,
    "columns of a projection": """
        y = fd.ops.linear(t0, t1)
        a = fd.ops.slice(y, start_indices=[0, 0, 0], end_indices=[2, 24, 32])
        b = fd.ops.slice(y, start_indices=[0, 0, 16], end_indices=[2, 24, 48])
        g = fd.ops.silu(a)
        m = fd.ops.mul(g, b)
        o = fd.ops.cast(m, dtype=DataType.BFloat16)
        fd.add_output(o)
    """,
    "heads of a projection, each normed": """
        y = fd.ops.linear(t0, t1)
        r = fd.ops.reshape(y, new_shape=[2, 24, 4, 16])
        f = fd.ops.cast(r, dtype=DataType.Float)
        q = fd.ops.mul(f, f)
        s = fd.ops.sum(q, dims=[3], keepdim=True)
        a = fd.ops.add(s, 1.0)
        n = fd.ops.rsqrt(a)
        m = fd.ops.mul(f, n)
        c = fd.ops.cast(m, dtype=DataType.BFloat16)
        p = fd.ops.permute(c, dims=[0, 2, 1, 3])
        fd.add_output(p)
    """,
    "rows taken together": """
        y = fd.ops.linear(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        m = fd.ops.max(f, dims=[2], keepdim=True)
        d = fd.ops.sub(f, m)
        r = fd.ops.reshape(d, new_shape=[48, 64])
        fd.add_output(r)
    """,
    "transposed, with a mask": """
        k = fd.ops.gt(t0, 0.0)
        w = fd.ops.where(k, t0, 0.5)
        p = fd.ops.permute(w, dims=[0, 2, 1])
        c = fd.ops.cast(p, dtype=DataType.BFloat16)
        y = fd.ops.matmul(c, t0)
        z = fd.ops.stride_order(c, stride_order=[2, 1, 0])
        fd.add_output(y)
        fd.add_output(z)
    """,
    "a layer norm before": """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        m, v, n = fd.ops.welford(f, dims=[2])
        mb = fd.ops.broadcast(m, is_broadcast_dim=[False, False, True])
        d = fd.ops.sub(f, mb)
        c = fd.ops.reciprocal(32.0)
        s = fd.ops.mul(v, c)
        sb = fd.ops.broadcast(s, is_broadcast_dim=[False, False, True])
        e = fd.ops.add(sb, 1e-5)
        r = fd.ops.rsqrt(e)
        o = fd.ops.mul(d, r)
        h = fd.ops.cast(o, dtype=DataType.BFloat16)
        y = fd.ops.linear(h, t1)
        fd.add_output(y)
    """,
    "a layer norm as torch has it": """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        v, m = fd.ops.var_mean(f, dims=[2], correction=0, keepdim=True)
        d = fd.ops.sub(f, m)
        e = fd.ops.add(v, 1e-5)
        r = fd.ops.rsqrt(e)
        o = fd.ops.mul(d, r)
        h = fd.ops.cast(o, dtype=DataType.BFloat16)
        y = fd.ops.linear(h, t1)
        fd.add_output(y)
    """,
    "a variance without its mean": """
        f = fd.ops.cast(t0, dtype=DataType.Float)
        v = fd.ops.var(f, dims=[-1], correction=0)
        b = fd.ops.broadcast(v, is_broadcast_dim=[False, False, True])
        o = fd.ops.div(f, b)
        h = fd.ops.cast(o, dtype=DataType.BFloat16)
        y = fd.ops.linear(h, t1)
        fd.add_output(y)
    """,
    "a softmax behind": """
        y = fd.ops.linear(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        m = fd.ops.max(f, dims=[2], keepdim=True)
        d = fd.ops.sub(f, m)
        e = fd.ops.exp(d)
        s = fd.ops.sum(e, dims=[2], keepdim=True)
        o = fd.ops.div(e, s)
        h = fd.ops.cast(o, dtype=DataType.BFloat16)
        fd.add_output(h)
    """,
    "places along a dimension": """
        y = fd.ops.linear(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        a = fd.ops.select(f, 1, dim=0)
        b = fd.ops.select(y, 23, dim=-2)
        c = fd.ops.select(b, 0, dim=0)
        d = fd.ops.broadcast(c, is_broadcast_dim=[True, False])
        m = fd.ops.mul(a, d)
        fd.add_output(m)
    """,
    "results of two shapes": """
        y = fd.ops.linear(t0, t1)
        a = fd.ops.slice(y, start_indices=[0, 0, 0], end_indices=[2, 24, 24])
        b = fd.ops.slice(y, start_indices=[0, 0, 16], end_indices=[2, 24, 64])
        e = fd.ops.exp(a)
        n = fd.ops.neg(b)
        fd.add_output(e)
        fd.add_output(n)
    """,
}


def feature(name: str) -> Feature:
    return Feature(RESTS[name], SIDES, 1, 1)


def segments(made: Feature) -> tuple[Segment, ...]:
    cutter = Cutter(record_text(made.text))
    return choose(cutter, sizes_of(cutter), may_leave=False).cut.segments


@pytest.mark.sampled
@pytest.mark.parametrize("name", RESTS)
def test_nothing_is_left(name: str) -> None:
    made = feature(name)
    inputs = inputs_of(made)
    assert any(s.sweep is not None for s in segments(made))
    told = wsched.explain(made.text, inputs)
    # An activation that one kernel computes on its way leaves nothing to cut.
    assert told.route == "wsched" or {p.runs for p in told.parts} == {"wsched"}
    found, wanted = wsched.execute(made.text, inputs), interpret(record_text(made.text), inputs)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=2**-7, atol=2**-7)
        assert a.stride() == b.stride()


def test_results_of_two_shapes_are_two_sweeps() -> None:
    found = [s.outputs for s in segments(feature("results of two shapes")) if s.sweep is not None]
    assert found == [("e",), ("n",)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fd.ops.silu(f)", "fd.ops.atan(f)"),  # an operation that no kernel has
        ("h = fd.ops.cast(g, dtype=DataType.BFloat16)",
         "v = fd.ops.cumsum(g, 2)\n    h = fd.ops.cast(v, dtype=DataType.BFloat16)"),
    ],
)  # fmt: skip
def test_what_is_left(old: str, new: str) -> None:
    text = feature("activation before").text
    assert old in text
    cutter = Cutter(record_text(text.replace(old, new)))
    found = choose(cutter, sizes_of(cutter), may_leave=False).cut.segments
    assert [s.own for s in found] == [False, True]


@pytest.mark.parametrize(
    ("refused", "runs", "sweeps", "left"),
    [
        ((), True, ["e", "n"], []),
        (("e",), True, ["n"], ["e"]),
        (("n",), True, ["e"], ["n"]),
        (("e", "n"), True, [], ["e", "n"]),
        ((), False, [], ["e", "n"]),
    ],
)
def test_what_is_left_of_a_rest_is_without_what_became_a_sweep(
    refused: tuple[str, ...], runs: bool, sweeps: list[str], left: list[str]
) -> None:
    """Of two results of two shapes: no kernel has an operation, or none runs in these sizes."""
    text = feature("results of two shapes").text
    for name, old, new in (("e", "exp(a)", "atan(a)"), ("n", "neg(b)", "atan(b)")):
        text = text.replace(old, new) if name in refused else text
    cutter = Cutter(record_text(text))
    whole = cutter.all(Take.NONE)
    found = with_sweeps(cutter.graph, whole, {}, lambda _: runs).segments
    rest = [s for s in found if not s.matmul]
    assert [n for s in rest if s.sweep is not None for n in s.outputs] == sweeps
    assert [n for s in rest if s.sweep is None for n in s.outputs] == left
    for s in rest:
        computed = [n for n in s.definition.nodes if n.op in ("exp", "neg", "atan")]
        assert len(computed) == len(s.outputs)
    if not sweeps:
        assert found == whole.segments


@pytest.mark.parametrize(
    ("source", "order", "swept"),
    [("q", "[2, 1, 0]", True), ("q", "[0, 1, 2]", False), ("c", "[0, 1, 2]", True)],
)
def test_a_result_in_another_shape_and_order_is_no_sweep(
    source: str, order: str, swept: bool
) -> None:
    """A sweep's memory is looked at in another shape, which row by row alone is one."""
    text = feature("heads, scaled, as batches").text.replace(
        "fd.add_output(q)",
        f"z = fd.ops.stride_order({source}, stride_order={order})\n    fd.add_output(z)",
    )
    cutter = Cutter(record_text(text))
    found = with_sweeps(cutter.graph, cutter.all(Take.NONE), {}, lambda _: True).segments
    (rest,) = (s for s in found if not s.matmul)
    assert rest.outputs == ("z",) and (rest.sweep is not None) is swept


def test_results_that_look_at_a_kernels_memory_are_still_views() -> None:
    """Beside one that is computed: nobody copies what nvFuser would not."""
    made = feature("columns of a projection")
    text = made.text.replace("fd.add_output(o)", "fd.add_output(o)\n    fd.add_output(a)")
    inputs = inputs_of(made)
    wanted = interpret(record_text(text), inputs)
    for a, b in zip(wsched.execute(text, inputs), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=2**-7, atol=2**-7)
        assert a.stride() == b.stride()
    cutter = Cutter(record_text(text))
    found = choose(cutter, sizes_of(cutter), may_leave=False).cut.segments
    assert [v.name for s in found for v in s.views] == ["a"]


@pytest.mark.parametrize(
    "view",
    ["slice(c, start_indices=[0, 0, 0], end_indices=[2, 24, 16])", "permute(c, dims=[0, 2, 1])"],
    ids=["a part", "of a result"],
)
def test_views_of_what_is_computed_that_are_no_sweeps(view: str) -> None:
    """A part is no result whole, and what looks at a result has that one's memory."""
    body = f"""
        y = fd.ops.linear(t0, t1)
        s = fd.ops.max(y, dims=[2], keepdim=True)
        c = fd.ops.sub(y, s)
        v = fd.ops.{view}
        fd.add_output(v)
        {"fd.add_output(c)" if view.startswith("permute") else ""}
    """
    made = Feature(body, SIDES, 1, 1)
    assert [s.own for s in segments(made)] == [True, False]
    inputs = inputs_of(made)
    wanted = interpret(record_text(made.text), inputs)
    for a, b in zip(wsched.execute(made.text, inputs), wanted, strict=True):
        assert a.equal(b) and a.stride() == b.stride()


def test_what_they_cost() -> None:
    """Bytes once, a start, and the host's views; an input with elements apart is copied before."""
    made = feature("columns of a projection")
    (sweep,) = (s for s in segments(made) if s.sweep is not None)
    cost = segment_us(sweep, sizes_of(Cutter(record_text(made.text))))
    elements = 2 * 24 * 32
    assert cost.gpu_us == pytest.approx(pointwise_us(3 * elements * 2, 6 * elements) - SOONER_US)
    assert cost.host_us == STEP_HOST_US + 2 * VIEW_HOST_US
    cutter = cutter_of(record_text(feature("activation before").text))
    prices = []
    for x in (torch.empty(2, 24, 32), torch.empty(2, 24, 64)[..., ::2]):
        call = call_of(cutter, [x.bfloat16() if x.is_contiguous() else wide(x), inputs()[1]])
        (own,) = (s for s in swept(cutter, call) if s.sweep is not None)
        prices.append(segment_us(own, call))
    assert prices[1].host_us == prices[0].host_us + COPY_HOST_US
    assert prices[1].gpu_us == prices[0].gpu_us + pointwise_us(2 * 2 * 24 * 32 * 2)


def test_what_lies_by_columns_costs_its_accesses() -> None:
    cutter, prices = cutter_of(record_text(feature("activation before").text)), []
    for x in (torch.empty(2, 24, 32), torch.empty(2, 32, 24).mT):
        call = call_of(cutter, [x.bfloat16(), inputs()[1]])
        (own,) = (s for s in swept(cutter, call) if s.sweep is not None)
        prices.append(segment_us(own, call).gpu_us)
    moved = 2 * 24 * 32 * 2
    both = [[(moved, *how), (moved, 512, False)] for how in ((512, False), (64, True))]
    before, after = (accesses_us(each, 5 * moved / 2) for each in both)
    assert prices[1] - prices[0] == pytest.approx(after - before) and after > before


def inputs() -> list[Any]:
    return inputs_of(feature("activation before"))


def wide(x: Any) -> Any:
    """The same strides, in the definition's type."""
    return torch.empty(*x.shape[:-1], 2 * x.shape[-1], dtype=torch.bfloat16)[..., ::2]


def swept(cutter: Cutter, call: Any) -> tuple[Segment, ...]:
    return choose(cutter, call, may_leave=False).cut.segments


def test_views_go_through_what_is_pointwise() -> None:
    definition = record_text(feature("heads, scaled, as batches").text)
    cutter = Cutter(definition)
    (segment,) = (s for s in segments(feature("heads, scaled, as batches")) if s.sweep is not None)
    assert [str(look) for look in segment.looks] == ["y@4 is y by reshape to [2, 24, 4, 16]"]
    assert segment.seen[0][0] == "q" and len(segment.seen[0][1]) == 4
    plain, looks = views_first(segment.definition, cutter.graph.types.types)
    assert plain is segment.definition and not looks  # nothing is left to move


def test_what_no_walk_reads_has_no_price_by_sizes_either() -> None:
    """Two inputs that are turned two ways: no order of dimensions has both contiguous."""
    text = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[64, 16, 24], contiguity=True, dtype=DataType.BFloat16)
    y = fd.define_tensor(shape=[24, 64, 16], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[32, 64], contiguity=True, dtype=DataType.BFloat16)
    both = fd.ops.add(fd.ops.permute(x, dims=[1, 2, 0]), fd.ops.permute(y, dims=[2, 0, 1]))
    fd.add_output(fd.ops.linear(fd.ops.cast(both, dtype=DataType.BFloat16), w))
"""
    cutter = cutter_of(record_text(text))
    given = [torch.empty(*t, dtype=torch.bfloat16) for t in ((64, 16, 24), (24, 64, 16), (32, 64))]
    for call in (call_of(cutter, given), sizes_of(cutter)):
        assert all(s.sweep is None for s in swept(cutter, call))


@pytest.mark.parametrize("row", [LONGEST_ROW, LONGEST_ROW + 8])
def test_rows_that_are_longer_than_a_tile_are_no_sweep(row: int) -> None:
    text = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    f = fd.ops.cast(x, dtype=DataType.Float)
    d = fd.ops.sub(f, fd.ops.max(f, dims=[1], keepdim=True))
    y = fd.ops.linear(fd.ops.cast(d, dtype=DataType.BFloat16), w)
    fd.add_output(y)
"""
    cutter = cutter_of(record_text(text))
    given = [torch.empty(n, row, dtype=torch.bfloat16) for n in (8, 16)]
    first, _ = swept(cutter, call_of(cutter, given))
    assert (first.sweep is not None) is (row == LONGEST_ROW)
