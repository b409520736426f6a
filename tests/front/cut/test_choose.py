"""Which cut is taken: the sum of all predicted times decides."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

import wsched.front.cut.choose as module
from lowering.ground.errors import UnsupportedError
from tests.front.cut.features import FEATURES, Feature, sizes_of
from wsched.choose.copy_cost import CALL_HOST_US, STEP_HOST_US
from wsched.choose.nvfuser_cost import (
    NvfuserCost,
    cublas_us,
    host_us,
    pointwise_us,
    roofline_us,
)
from wsched.front.cut.choose import Chosen, choose
from wsched.front.cut.epilogues import Take
from wsched.front.cut.hidden import hidden_us, statistics
from wsched.front.cut.predict import (
    SegmentsCost,
    Sizes,
    nvfuser_us,
    segment_us,
    together,
)
from wsched.front.cut.segments import Cutter, Segment
from wsched.front.cut.shares import shares
from wsched.front.cut.sizes import OPEN, open_extents
from wsched.front.cut.summaries import with_summaries
from wsched.front.cut.swept import with_sweeps
from wsched.front.explain import planned_cut
from wsched.importer import record_text


def least(cutter: Cutter, call: Sizes, takes: Any) -> float:
    """The least of all cuts, each of them looked at."""
    found = []
    for cut in product(takes, repeat=len(cutter.matmuls)):
        try:
            ways = cutter.cut(cut), cutter.beside(cut)
        except UnsupportedError:
            continue
        for whole in filter(None, ways):
            apart = with_summaries(cutter.graph, whole, {})
            swept = (with_sweeps(cutter.graph, x, {}, lambda s: True) for x in (whole, apart))
            for made in (whole, apart, *swept):
                costs = {s: segment_us(s, call) for s in made.segments}
                hidden = sum(
                    hidden_us(*pair, call, (costs[pair[0]], costs[pair[1]]))
                    for pair in statistics(made.segments)
                )
                cost = together([*costs.values()])
                found.append(replace(cost, gpu_us=cost.gpu_us - hidden).us)
    return min(found)


@pytest.mark.sampled
@pytest.mark.parametrize("may_leave", [False, True])
@pytest.mark.parametrize(
    "name", ["gated", "norm_3d_residual", "sliced_between", "backward", "made_beside"]
)
def test_no_cut_is_better(name: str, may_leave: bool) -> None:
    cutter = Cutter(record_text(FEATURES[name].text))
    call = sizes_of(cutter)
    takes = [t for t in Take if may_leave or t is not Take.LEFT]
    found = choose(cutter, call, may_leave=may_leave)
    assert found.cost.us == pytest.approx(least(cutter, call, takes))


FAN = Feature(
    """
    u = fd.ops.linear(t0, t1)
    f = fd.ops.cast(u, dtype=DataType.Float)
    g = fd.ops.exp(f)
    v = fd.ops.linear(t3, t2)
    h = fd.ops.cast(v, dtype=DataType.Float)
    p = fd.ops.mul(g, h)
    fd.add_output(p)
    """,
    ((8192, 4096),) * 4, 2, 2,
)  # fmt: skip


def test_what_crosses_in_fp32_is_priced() -> None:
    """``exp`` is done where its fp32 values need not be stored."""
    cutter = Cutter(record_text(FAN.text))
    first, second = choose(cutter, sizes_of(cutter), may_leave=False).cut.segments
    assert first.outputs == ("u",)
    assert [n.op for n in second.definition.nodes if n.op == "exp"] == ["exp"]


def test_a_matmul_that_cublas_is_faster_at_may_be_left() -> None:
    """Few rows: cuBLAS splits K. ``execute`` takes it all the same."""
    feature = Feature(
        """
        u = fd.ops.linear(t0, t1)
        w = fd.ops.linear(t2, t3)
        s = fd.ops.relu(w)
        fd.add_output(u)
        fd.add_output(s)
        """,
        ((100, 4096), (4096, 4096), (8192, 8192), (8192, 8192)), 2, 2,
    )  # fmt: skip
    cutter = Cutter(record_text(feature.text))
    call = sizes_of(cutter)
    for may_leave in (False, True):
        found = choose(cutter, call, may_leave=may_leave).cut
        own = [s for s in found.segments if s.matmul]
        assert len(own) == (1 if may_leave else 2)
    explained = planned_cut(feature.text, 132).chosen.cut  # as it is executed
    assert sum(bool(s.matmul) for s in explained.segments) == 2


def test_what_a_definition_leaves_open() -> None:
    text = FEATURES["gated"].text.replace("shape=[24, 16]", "shape=[-1, 16]")
    definition = record_text(text)
    cutter = Cutter(definition)
    assert set(open_extents(definition, cutter.graph.types).values()) == {OPEN}


def test_dimensions_outside_of_a_batch_of_matrices() -> None:
    """They are 1: a page or an explanation is of no quarter of a million matrices."""
    dims = ", ".join(["-1"] * 5), ", ".join(["True"] * 5)
    text = (
        "def f(fd: FusionDefinition):\n"
        f"    x = fd.define_tensor(shape=[{dims[0]}], contiguity=[{dims[1]}], "
        "dtype=DataType.BFloat16)\n"
        "    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], "
        "dtype=DataType.BFloat16)\n"
        "    fd.add_output(fd.ops.linear(x, w))\n"
    )
    definition = record_text(text)
    cutter = Cutter(definition)
    sizes = open_extents(definition, cutter.graph.types)
    x = cutter.graph.types.types[definition.inputs[0].results[0]]
    assert [sizes[str(d.extent)] for d in x.dims or ()] == [1, 1, OPEN, OPEN, OPEN]


# --- what is left to nvFuser ---------------------------------------------------------------------

M, N, K = 100, 4096, 512
SHAPES = ((M, K), (N, K), (M, K), (N, K))
BESIDE = """
    w = fd.ops.linear(t2, t3)
    fd.add_output(w)
"""
FOLLOWED = Feature(
    f"""
    u = fd.ops.linear(t0, t1)
    s = fd.ops.relu(u)
    fd.add_output(s)
    {BESIDE}
    """,
    SHAPES, 1, 1,
)  # fmt: skip
ALONE = Feature(
    f"""
    u = fd.ops.linear(t0, t1)
    fd.add_output(u)
    {BESIDE}
    """,
    SHAPES, 1, 1,
)  # fmt: skip
MOVED = 2 * (M * K + N * K + M * N)
MATMUL_US = roofline_us(2 * M * N * K, MOVED)
"""A product of 16-bit matrices: its operations, and the bytes of both operands and the result."""


def left(feature: Feature) -> tuple[Cutter, Sizes, Segment]:
    """The segment of a matmul that has no kernel of wsched's, beside one that has."""
    cutter = Cutter(record_text(feature.text))
    cut = cutter.cut((Take.LEFT, Take.NONE))
    (segment,) = (s for s in cut.segments if not s.matmul)
    return cutter, sizes_of(cutter), segment


def test_a_matmul_that_is_left_is_priced_by_its_operations_and_bytes() -> None:
    _, call, segment = left(ALONE)
    assert segment_us(segment, call) == SegmentsCost(pytest.approx(MATMUL_US), host_us(1))


def test_what_follows_it_is_a_kernel_that_reads_the_product() -> None:
    """The operands are the matmul's alone."""
    _, call, segment = left(FOLLOWED)
    us = pytest.approx(MATMUL_US + pointwise_us(2 * 2 * M * N, M * N))
    assert segment_us(segment, call) == SegmentsCost(us, host_us(2))


def test_nvfusers_route_counts_kernels() -> None:
    cutter, call, segment = left(FOLLOWED)
    matmul, others = pytest.approx(MATMUL_US), pytest.approx(pointwise_us(2 * 2 * M * N, M * N))
    assert nvfuser_us([segment], call) == NvfuserCost(matmul, others, host_us(2))
    plain = cutter.all(Take.NONE).segments
    kernels = [s for s in plain if s.matmul]
    assert len(kernels) == 2 and len(plain) == 3
    found = nvfuser_us(plain, call)
    each = [cublas_us(call.planned(s).problem, ()) for s in kernels]
    others = pytest.approx(pointwise_us(2 * 2 * M * N, M * N))
    assert found == NvfuserCost(pytest.approx(sum(each)), others, host_us(3))


def test_the_call_beside_its_segments() -> None:
    _, call, segment = left(FOLLOWED)
    one = segment_us(segment, call)
    host = 2 * one.host_us + CALL_HOST_US - STEP_HOST_US
    assert together([one, one]) == SegmentsCost(2 * one.gpu_us, host)


def test_what_keeps_the_gpu_longer_is_only_better_than_what_does_so_more() -> None:
    """A call is left to nvFuser whose GPU would be busy longer, so such a cut is none."""
    cutter = Cutter(record_text(FAN.text))
    call = sizes_of(cutter)
    cut = cutter.all(Take.NONE)

    def made(gpu: float, host: float, limit: float = 40.0) -> Chosen:
        return Chosen(cut, SegmentsCost(gpu, host), cutter, call, limit)

    short, long, longer = made(39, 66), made(42, 50), made(43, 45)
    assert short.better_by(0.0, long) and not long.better_by(0.0, short)
    assert long.better_by(0.0, longer) and not longer.better_by(0.0, long)
    assert made(42, 50, inf).better_by(1.0, made(39, 66, inf))
    assert not made(39, 65).better_by(2.0, short)


def test_the_limit_of_the_gpu_is_asked_for() -> None:
    """As long as a cut keeps it; where none does, the one that takes least of the GPU."""
    cutter = Cutter(record_text(FAN.text))
    call = sizes_of(cutter)
    best = choose(cutter, call, may_leave=True)
    assert choose(cutter, call, may_leave=True, gpu_us=best.cost.gpu_us).cost == best.cost
    found = choose(cutter, call, may_leave=True, gpu_us=0.0)
    ways = (cutter.all(t) for t in (Take.ALL, Take.NARROW, Take.NONE))
    least_gpu = min(sum(segment_us(s, call).gpu_us for s in w.segments) for w in ways)
    assert found.cost.gpu_us <= least_gpu


def test_factors_are_moved_only_where_that_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what takes as long the definition as it is, and those of few operands before all."""
    cutter = Cutter(record_text(FAN.text))
    call = sizes_of(cutter)
    cut = cutter.all(Take.NONE)

    def made(us: float) -> Chosen:
        return Chosen(cut, SegmentsCost(us, 0.0), cutter, call)

    given = SimpleNamespace(moves=("a", "b"))
    given.forms = (given,)
    for times, wanted in (
        ({("a", "b"): 5, ("a",): 5, ("b",): 5}, 5.0),
        ({("a", "b"): 4, ("a",): 3, ("b",): 2}, 3.0),  # one after the other
        ({("a", "b"): 2, ("a",): 3, ("b",): 4}, 2.0),
        ({("a", "b"): 6, ("a",): 6, ("b",): 3}, 3.0),
        ({("a", "b"): 4, ("a",): 6}, 4.0),  # both, where neither pays by itself
        ({}, 5.0),
    ):
        tried: list[Any] = []

        def moved(_: Any, moves: Any, *more: Any, times: Any = times, tried: Any = tried) -> Any:
            tried.append(moves)
            return made(times[moves]) if moves in times else None

        first = made(5)
        monkeypatch.setattr(module, "least", lambda *_, first=first: first)
        monkeypatch.setattr(module, "_with_moved", moved)
        found = choose(given, call, may_leave=False)  # type: ignore[arg-type]
        assert found.cost.us == wanted and (found is first) is (wanted == 5)
        assert sorted(tried) == sorted({*tried}) and ("a", "b") in tried


def test_operations_of_matmuls() -> None:
    """Two for each product, whatever the rank of the operands."""
    lines = {
        "linear(t0, t1)": 2 * 24 * 16 * 40,
        "matmul(t0, t2)": 2 * 24 * 48 * 40,
        "matmul(t3, t4)": 2 * 3 * 24 * 8 * 40,
        "linear(t3, t1)": 2 * 3 * 24 * 16 * 40,
    }
    body = "\n".join(f"y{n} = fd.ops.{x}\nfd.add_output(y{n})" for n, x in enumerate(lines))
    shapes = ((24, 40), (16, 40), (40, 48), (3, 24, 40), (3, 40, 8))
    cutter = Cutter(record_text(Feature(body, shapes, 0, 4).text))
    found = shares(cutter.definition, cutter.graph.types, {}, "told")
    assert [s.flops for s in found] == [*lines.values()]
    assert found[0].problem == "24x40 . 16x40"
    assert {(s.narrow, s.reason) for s in found} == {(True, "told")}


def test_a_matmul_without_a_batch_is_planned_as_one() -> None:
    cutter = Cutter(record_text(FAN.text))
    segment = next(s for s in cutter.all(Take.NONE).segments if s.matmul)
    problem = sizes_of(cutter).planned(segment).problem
    assert (problem.m, problem.n, problem.k) == (8192, 8192, 4096)
    assert (problem.batch, problem.a_count, problem.b_count) == (1, 1, 1)


@pytest.mark.parametrize("behind", ["fd.ops.linear(t0, y)", "fd.ops.linear(y, t1)"])
def test_what_is_computed_of_a_matmul_shares_no_kernel_with_it(behind: str) -> None:
    """Though both have an operand; the third one has it, too, and is in its kernel."""
    beside = "t0, t2" if "t0" in behind else "t2, t1"
    body = f"""
    y = fd.ops.linear(t0, t1)
    z = fd.ops.linear({beside})
    v = {behind}
    fd.add_output(z)
    fd.add_output(v)
    """
    cutter = Cutter(record_text(Feature(body, ((32, 32),) * 3, 3, 3).text))
    found = [s.outputs for s in cutter.all(Take.SHARED).segments]
    assert found == [("y", "z"), ("v",)]


def test_a_router_stays_out_of_the_kernel_of_gate_and_up() -> None:
    """It multiplies the same rows, by fewer columns, and is followed by something else."""
    body = """
    g = fd.ops.linear(t0, t1)
    s = fd.ops.silu(g)
    r = fd.ops.linear(t0, t2)
    p = fd.ops.sigmoid(r)
    u = fd.ops.linear(t0, t3)
    m = fd.ops.mul(s, u)
    fd.add_output(p)
    fd.add_output(m)
    """
    shapes = (24, 32), (40, 32), (8, 32), (40, 32)
    cutter = Cutter(record_text(Feature(body, shapes, 3, 3).text))
    found = [(s.inputs, s.outputs) for s in cutter.all(Take.SHARED).segments]
    assert found == [(("t0", "t1", "t3"), ("m",)), (("t0", "t2"), ("p",))]


@pytest.mark.parametrize("also", ["", "fd.add_output(p)"])
def test_what_only_an_epilogue_reads_is_in_its_kernel(also: str) -> None:
    body = f"""
    y = fd.ops.linear(t0, t1)
    p = fd.ops.silu(t2)
    d = fd.ops.add(y, p)
    fd.add_output(d)
    {also}
    """
    cutter = Cutter(record_text(Feature(body, ((24, 32), (40, 32), (24, 40)), 1, 1).text))
    found = [
        [n.op for n in s.definition.nodes if not n.is_input]
        for s in cutter.all(Take.ALL).segments if s.matmul
    ]  # fmt: skip
    assert found == [["linear", "add"] if also else ["linear", "silu", "add"]]
