"""Matmuls and sums in the dimensions that what is around them has, as a backward pass needs it."""

from __future__ import annotations

import pytest

import wsched
from tests.front.cut.features import Feature, inputs_of
from wsched.doors.fallback import interpret
from wsched.front.cut.epilogues import Take
from wsched.front.cut.infer import infer
from wsched.front.cut.lifted import lifted
from wsched.front.cut.segments import Cutter
from wsched.importer import Definition, record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

BACKWARD = Feature(
    """
    g = fd.ops.squeeze(t0, dims=[0])
    h = fd.ops.matmul(g, t1)
    b = fd.ops.broadcast(h, is_broadcast_dim=[True, False, False])
    f = fd.ops.cast(b, dtype=DataType.Float)
    x = fd.ops.cast(t2, dtype=DataType.Float)
    y = fd.ops.mul(x, 2.0)
    d = fd.ops.mul(f, y)
    n = fd.ops.cast(d, dtype=DataType.BFloat16)
    q = fd.ops.squeeze(d, dims=[0])
    s = fd.ops.sum(q, dims=[0], dtype=DataType.Float)
    o = fd.ops.cast(s, dtype=DataType.BFloat16)
    fd.add_output(n)
    fd.add_output(o)
    """,
    ((1, 32, 16), (16, 24), (1, 32, 24)), 1, 1,
)  # fmt: skip
"""Of a layer with a bias, behind something like gelu."""


def changed(feature: Feature) -> tuple[Definition, Definition]:
    definition = record_text(feature.text)
    return definition, lifted(definition, infer(definition))


def test_a_backward_pass_is_one_kernel() -> None:
    inputs = inputs_of(BACKWARD)
    found = wsched.execute(BACKWARD.text, inputs)
    for result, wanted in zip(found, interpret(record_text(BACKWARD.text), inputs), strict=True):
        assert result.equal(wanted) and result.stride() == wanted.stride()
    kernel, *finish = wsched.explain(BACKWARD.text, inputs).parts
    assert kernel.runs == "wsched" and {"mul", "sum"} <= set(kernel.operations) and not finish


def test_what_is_written_anew() -> None:
    _, made = changed(BACKWARD)
    matmul, total = made.node("b"), made.node("s")
    assert matmul is not None and (matmul.op, matmul.refs) == ("matmul", ("t0", "t1"))
    assert total is not None and total.refs == ("d",) and total.get("dims") == (0, 1)
    assert total.get("dtype") is not None
    assert made.node("h") is None
    assert infer(made)["b"].dims == infer(record_text(BACKWARD.text))["b"].dims


LEADING = Feature(
    """
    g = fd.ops.reshape(t0, new_shape=[32, 16])
    h = fd.ops.linear(g, t1)
    b = fd.ops.reshape(h, new_shape=[4, 8, 24])
    f = fd.ops.cast(b, dtype=DataType.Float)
    d = fd.ops.mul(f, t2)
    fd.add_output(d)
    """,
    ((4, 8, 16), (24, 16), (4, 8, 24)), 1, 1,
)  # fmt: skip


BEHIND = Feature(
    """
    h = fd.ops.linear(t0, t1)
    b = fd.ops.reshape(h, new_shape=[32, 24])
    d = fd.ops.relu(b)
    fd.add_output(d)
    """,
    ((4, 8, 16), (24, 16)), 1, 1,
)  # fmt: skip
"""Rows that are taken together behind the product."""


def test_leading_dimensions_taken_together_behind() -> None:
    inputs = inputs_of(BEHIND)
    (found,) = wsched.execute(BEHIND.text, inputs)
    (wanted,) = interpret(record_text(BEHIND.text), inputs)
    assert found.equal(wanted) and found.stride() == wanted.stride()
    (part,) = wsched.explain(BEHIND.text, inputs).parts
    assert part.runs == "wsched" and part.operations == ("linear", "relu")


def test_rows_are_those_of_the_operand() -> None:
    definition, made = changed(BEHIND)
    look, matmul = made.node("t0@b"), made.node("b")
    assert look is not None and (look.op, look.get("new_shape")) == ("reshape", (32, 16))
    assert matmul is not None and matmul.refs == ("t0@b", "t1") and made.node("h") is None
    assert infer(made)["b"].dims == infer(definition)["b"].dims


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[32, 24]", "[4, 4, 48]"),
        ("[32, 24]", "[8, 96]"),
        ("fd.add_output(d)", "fd.add_output(d)\n    fd.add_output(h)"),
        ("fd.ops.relu(b)", "fd.ops.relu(b)\n    e = fd.ops.relu(h)\n    fd.add_output(e)"),
    ],
    ids=["other columns", "columns too", "an output", "read twice"],
)
def test_rows_that_stay_behind(old: str, new: str) -> None:
    definition = record_text(BEHIND.text.replace(old, new))
    assert lifted(definition, infer(definition)) == definition


@pytest.mark.parametrize(
    "said", ["contiguity=[True, False, True]", "contiguity=True, stride_order=[1, 2, 0]"]
)
def test_rows_that_do_not_lie_together_stay_behind(said: str) -> None:
    text = BEHIND.text
    first = next(line for line in text.splitlines() if "t0 = " in line)
    text = text.replace(
        first, f"    t0 = fd.define_tensor(shape=[4, 8, 16], {said}, dtype=DataType.BFloat16)"
    )
    definition = record_text(text)
    assert lifted(definition, infer(definition)) == definition


def test_leading_dimensions_taken_together() -> None:
    inputs = inputs_of(LEADING)
    (found,) = wsched.execute(LEADING.text, inputs)
    (wanted,) = interpret(record_text(LEADING.text), inputs)
    assert found.equal(wanted) and found.stride() == wanted.stride()
    (part,) = wsched.explain(LEADING.text, inputs).parts
    assert part.runs == "wsched" and "mul" in part.operations


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("new_shape=[4, 8, 24]", "new_shape=[8, 4, 24]"),
        ("fd.add_output(d)", "fd.add_output(d)\n    fd.add_output(h)"),
        ("fd.add_output(d)", "k = fd.ops.neg(h)\n    fd.add_output(d)\n    fd.add_output(k)"),
        ("g = fd.ops.reshape(t0, new_shape=[32, 16])", "p = fd.ops.neg(t0)\n"
         "    r = fd.ops.cast(p, dtype=DataType.BFloat16)\n"
         "    v = fd.ops.permute(r, dims=[1, 0, 2])\n"
         "    g = fd.ops.reshape(v, new_shape=[32, 16])"),
    ],
    ids=["apart otherwise", "a result", "read by others", "exchanged before"],
)  # fmt: skip
def test_what_stays_as_it_is(old: str, new: str) -> None:
    body = LEADING.body.replace(old, new)
    shapes = ((4, 8, 16), (24, 16), (8, 4, 24)) if "[8, 4, 24]" in new else LEADING.shapes
    definition, made = changed(Feature(body, shapes, 1, 1))
    assert made is definition


def test_sums_that_stay() -> None:
    kept = BACKWARD.body.replace("dims=[0], dtype", "dims=[0], keepdim=True, dtype")
    _, made = changed(Feature(kept, BACKWARD.shapes, 1, 1))
    total = made.node("s")
    assert total is not None and total.refs == ("q",)


SHARED = Feature(
    """
    x = fd.ops.cast(t0, dtype=DataType.Float)
    y = fd.ops.tanh(x)
    m = fd.ops.max(y, dims=[1], keepdim=True, dtype=DataType.Null)
    a = fd.ops.add(y, m)
    b = fd.ops.mul(a, a)
    c = fd.ops.cast(b, dtype=DataType.BFloat16)
    h = fd.ops.linear(c, t1)
    f = fd.ops.cast(h, dtype=DataType.Float)
    d = fd.ops.mul(f, y)
    fd.add_output(d)
    """,
    ((32, 24), (24, 24)), 1, 1,
)  # fmt: skip


def test_what_several_make_of_an_input_is_not_stored() -> None:
    """``tanh`` in fp32 is twice its input's bytes: the kernel reads the input, too."""
    inputs = inputs_of(SHARED)
    rest, kernel = wsched.explain(SHARED.text, inputs).parts
    assert rest.writes == ("c",) and set(kernel.reads) == {"c", "t0", "t1"}
    assert "tanh" in rest.operations and "tanh" in kernel.operations
    (found,) = wsched.execute(SHARED.text, inputs)
    (wanted,) = interpret(record_text(SHARED.text), inputs)
    torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)


def test_what_is_made_of_more_is_stored() -> None:
    """Of an input in fp32 and one in 16 bits: to read them again would be more."""
    body = SHARED.body.replace("tanh(x)", "add(x, t2)")
    feature = Feature(body, (*SHARED.shapes, (32, 24)), 1, 1, wide=(2,))
    rest, kernel = wsched.explain(feature.text, inputs_of(feature)).parts
    assert rest.writes == ("y", "c") and "y" in kernel.reads


@pytest.mark.parametrize("order", [None, (0, 1), (1, 0)])
def test_operands_of_fewer_dimensions_lie_as_they_do(order: tuple[int, ...] | None) -> None:
    """Both batches of A become rows; what B says of columns stays, and nothing is added."""
    text = Feature(
        "y = fd.ops.matmul(t0, t1)\nfd.add_output(y)", ((2, 3, 24, 40), (40, 16)), 1, 1
    ).text
    if order is not None:
        text = text.replace("shape=[40, 16]", f"shape=[40, 16], stride_order={list(order)}")
    (segment,) = Cutter(record_text(text)).all(Take.NONE).segments
    a, b = segment.definition.inputs
    assert (a.get("shape"), a.get("stride_order")) == ((144, 40), None)
    assert (b.get("shape"), b.get("stride_order")) == (
        (40, 16),
        (0, 1) if order == (0, 1) else None,
    )
