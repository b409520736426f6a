"""Results that are views of what a kernel makes: nobody computes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.expr import Const
from tests.front.cut.features import Feature, inputs_of, sizes_of
from wsched.choose.nvfuser_cost import host_us
from wsched.doors.fallback import interpret
from wsched.front.cut.epilogues import Take
from wsched.front.cut.looks import looked, move_of
from wsched.front.cut.predict import VIEW_HOST_US, nvfuser_us, segment_us
from wsched.front.cut.program import make
from wsched.front.cut.segments import Cutter, Segment
from wsched.front.look import Move
from wsched.importer import record_text
from wsched.importer.definition import Node
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

HEADS = Feature(
    """
    y = fd.ops.linear(t0, t1)
    a = fd.ops.slice(y, start_indices=[0, 0, 0], end_indices=[2, 8, 32], strides=[1, 1, 1])
    b = fd.ops.reshape(a, new_shape=[2, 8, 4, 8])
    q = fd.ops.permute(b, dims=[0, 2, 1, 3])
    c = fd.ops.slice(y, start_indices=[0, 0, 32], end_indices=[2, 8, 64], strides=[1, 1, 1])
    k = fd.ops.reshape(c, new_shape=[2, 8, 4, 8])
    fd.add_output(q)
    fd.add_output(k)
    """,
    ((2, 8, 16), (64, 16)), 1, 1,
)  # fmt: skip


def segment_with(feature: Feature, name: str) -> Segment:
    segments = Cutter(record_text(feature.text)).all(Take.ALL).segments
    return next(s for s in segments if name in s.outputs)


def test_they_are_the_kernels_memory() -> None:
    inputs = inputs_of(HEADS)
    q, k = wsched.execute(HEADS.text, inputs)
    for found, wanted in zip((q, k), interpret(record_text(HEADS.text), inputs), strict=True):
        assert found.equal(wanted) and found.stride() == wanted.stride()
    assert q.untyped_storage().data_ptr() == k.untyped_storage().data_ptr()
    assert [p.runs for p in wsched.explain(HEADS.text, inputs).parts] == ["wsched", "wsched"]


def test_a_place_that_is_not_there() -> None:
    with pytest.raises(InputError) as error:
        looked(torch.ones(2, 3), [Move("select", (1, 3), (Const(2),))], {})
    assert str(error.value) == "place 3 is selected of dimension 1 of [2, 3]"


@pytest.mark.parametrize("dims", [None, 3, "s0", ("s0", 2, 1, 3), (0, 2, 1)], ids=str)
def test_a_step_of_other_than_numbers_is_none(dims: Any) -> None:
    types = Cutter(record_text(HEADS.text)).graph.types.types
    step = Node("permute", ("q",), ("b",), (("dims", (0, 2, 1, 3)),), 1)
    known = move_of(step, types)
    assert known is not None and known.places == (0, 2, 1, 3)
    assert move_of(replace(step, kwargs=(("dims", dims),)), types) is None


@pytest.mark.parametrize(
    "body",
    [
        "x = fd.ops.slice(t0, start_indices=[-8, 0], end_indices=[24, 32])\n"
        "y = fd.ops.linear(x, t1)\nfd.add_output(y)",
        "w = fd.ops.slice(t1, start_indices=[-64, 0], end_indices=[-8, 32])\n"
        "y = fd.ops.linear(t0, w)\nfd.add_output(y)",
        "y = fd.ops.linear(t0, t1)\nx = fd.ops.slice(y, start_indices=[0, -24], "
        "end_indices=[24, 40])\nfd.add_output(x)",
    ],
    ids=["operand", "from before the first", "result"],
)
def test_slices_that_begin_so_far_from_the_end(body: str) -> None:
    feature = Feature(body, ((24, 32), (40, 32)), 1, 1)
    inputs = inputs_of(feature)
    (wanted,) = interpret(record_text(feature.text), inputs)
    (found,) = wsched.execute(feature.text, inputs)
    assert found.equal(wanted)
    assert {p.runs for p in wsched.explain(feature.text, inputs).parts} == {"wsched"}


def test_only_operands_are_looked_at() -> None:
    """What a kernel adds it reads by itself, of size 1 or not: no view on the host for it."""
    body = """
        b = fd.ops.squeeze(t2, dims=[0])
        x = fd.ops.slice(t0, start_indices=[0, 16], end_indices=[8, 32], strides=[1, 1])
        y = fd.ops.linear(x, t1, b)
        fd.add_output(y)
    """
    feature = Feature(body, ((8, 48), (64, 16), (1, 64)), 1, 1)
    found = segment_with(feature, "y")
    assert [str(look) for look in found.looks] == ["x is t0 by slice from [0, 16]"]
    inputs = inputs_of(feature)
    (wanted,) = interpret(record_text(feature.text), inputs)
    assert wsched.execute(feature.text, inputs)[0].equal(wanted)


def test_what_they_cost() -> None:
    """NvFuser makes them without a kernel, too, but calls something for each."""
    cutter = Cutter(record_text(HEADS.text))
    call = sizes_of(cutter)
    segments = cutter.all(Take.NONE).segments
    assert [v.name for v in segments[-1].views] == ["q", "k"] and segments[-1].own
    cost = segment_us(segments[-1], call)
    assert (cost.gpu_us, cost.host_us) == (0.0, 2 * VIEW_HOST_US)
    route = nvfuser_us(segments, call)
    assert (route.kernels_us, route.host_us) == (0.0, host_us(3))


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("is computed", "fd.add_output(k)", "n = fd.ops.neg(k)\n    fd.add_output(n)"),
        ("is copied", "fd.add_output(k)", "n = fd.ops.reshape(q, new_shape=[16, 32])\n"
         "    fd.add_output(n)"),
        ("is of an input", "fd.add_output(k)", "n = fd.ops.permute(t0, dims=[0, 2, 1])\n"
         "    fd.add_output(n)"),
        ("has another order", "fd.add_output(k)", "n = fd.ops.stride_order(k, "
         "stride_order=[0, 1, 2, 3])\n    fd.add_output(n)"),
    ],
)  # fmt: skip
def test_a_rest_that_is_more(why: str, old: str, new: str) -> None:
    feature = Feature(HEADS.body.replace(old, new), HEADS.shapes, 1, 1)
    rest = segment_with(feature, "n")
    assert not rest.views and not rest.own, why
    inputs = inputs_of(feature)
    wanted = interpret(record_text(feature.text), inputs)
    for found, right in zip(wsched.execute(feature.text, inputs), wanted, strict=True):
        assert found.equal(right), why


def test_a_view_of_a_sum_that_a_kernel_stores_in_parts() -> None:
    """It looks at what has been put together."""
    body = """
        y = fd.ops.linear(t0, t1)
        f = fd.ops.cast(y, dtype=DataType.Float)
        s = fd.ops.sum(f, dims=[1], dtype=DataType.Float)
        r = fd.ops.reshape(s, new_shape=[4, 6])
        fd.add_output(r)
    """
    feature = Feature(body, ((24, 32), (40, 32)), 1, 1)
    cutter = Cutter(record_text(feature.text))
    segments = cutter.all(Take.ALL).segments
    assert [v.name for v in segments[-1].views] == ["r"]
    inputs = inputs_of(feature)
    run = make(cutter.definition, cutter.graph.types, segments, inputs, no_rest).run
    (found,) = run(inputs, None)
    wanted = (inputs[0].double() @ inputs[1].double().T).sum(1).view(4, 6)
    torch.testing.assert_close(found.double(), wanted, rtol=2**-7, atol=2**-7)


def no_rest(segment: Segment, _: Any) -> Any:
    raise AssertionError(f"{segment.outputs} are somebody else's")
