"""Products of which parts are read: two halves of a gated MLP, query, key and value, one token."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wsched
from tests.front.cut.features import Feature, inputs_of
from wsched.doors.fallback import interpret
from wsched.front.cut.infer import infer
from wsched.front.cut.parted import products_of_parts, whole_of
from wsched.front.cut.segments import Cutter
from wsched.importer import Definition, Node, record_text
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

_GATE = """
    f = fd.ops.cast(a, dtype=DataType.Float)
    g = fd.ops.cast(b, dtype=DataType.Float)
    r = fd.ops.relu(f)
    m = fd.ops.mul(r, g)
    o = fd.ops.cast(m, dtype=DataType.BFloat16)
    fd.add_output(o)
"""

HALVES = Feature(
    """
    y = fd.ops.linear(t0, t1, t2)
    a = fd.ops.slice(y, start_indices=[0, 0, 0], end_indices=[2, 24, 16])
    b = fd.ops.slice(y, start_indices=[0, 0, 16], end_indices=[2, 24, 32])
    """ + _GATE,
    ((2, 24, 32), (32, 32), (32,)), 2, 2, beside=1,
)  # fmt: skip
"""A gated MLP whose two weights, and biases, are one."""

PLACES = Feature(
    """
    y = fd.ops.matmul(t0, t1)
    c = fd.ops.reshape(y, new_shape=[24, 2, 16])
    a = fd.ops.select(c, dim=1, index=0)
    b = fd.ops.select(c, dim=1, index=-1)
    """ + _GATE,
    ((24, 32), (32, 32)), 2, 2, beside=1,
)  # fmt: skip
"""The same by a reshape, which puts the halves at two places of one dimension."""

HEADS = Feature(
    """
    y = fd.ops.linear(t0, t1)
    q = fd.ops.slice(y, start_indices=[0, 0, 0], end_indices=[2, 8, 32])
    k = fd.ops.slice(y, start_indices=[0, 0, 32], end_indices=[2, 8, 48])
    v = fd.ops.slice(y, start_indices=[0, 0, 48], end_indices=[2, 8, 64])
    a = fd.ops.relu(q)
    b = fd.ops.relu(k)
    c = fd.ops.relu(v)
    fd.add_output(a)
    fd.add_output(b)
    fd.add_output(c)
    """,
    ((2, 8, 32), (64, 32)), 3, 3, beside=2,
)  # fmt: skip
"""Query, key and value of one weight, of different widths."""

LAST = Feature(
    """
    y = fd.ops.linear(t0, t1)
    s = fd.ops.slice(y, start_indices=[0, 7, 0], end_indices=[2, 8, 64])
    f = fd.ops.cast(s, dtype=DataType.Float)
    fd.add_output(f)
    """,
    ((2, 8, 32), (64, 32)), 1, 1,
)  # fmt: skip
"""The logits of the last token."""

FEATURES = {"halves": HALVES, "places": PLACES, "heads": HEADS, "last": LAST}


def parted(feature: Feature) -> Definition:
    definition = record_text(feature.text)
    return products_of_parts(definition, infer(definition))


@pytest.mark.parametrize("name", FEATURES)
def test_right(name: str) -> None:
    feature = FEATURES[name]
    inputs = inputs_of(feature)
    found = wsched.execute(feature.text, inputs)
    wanted = interpret(record_text(feature.text), inputs)
    assert [r.shape for r in found] == [r.shape for r in wanted]
    assert all(a.equal(b) for a, b in zip(found, wanted, strict=True))


def test_query_key_and_value_are_one_kernel() -> None:
    (part,) = wsched.explain(HEADS.text, inputs_of(HEADS)).parts
    assert part.runs == "wsched" and part.operations.count("linear") == 3


@pytest.mark.parametrize("name", ["halves", "places"])
def test_two_halves_are_one_kernel_with_what_follows(name: str) -> None:
    feature = FEATURES[name]
    explained = wsched.explain(feature.text, inputs_of(feature))
    (part,) = explained.parts
    assert part.runs == "wsched"
    assert [m.op for m in explained.matmuls] == 2 * [record_text(feature.text).node("y").op]
    assert {m.line for m in explained.matmuls} == {record_text(feature.text).node("y").line}
    assert {m.result for m in explained.matmuls} == {"y"}


def part(made: Definition, reader: str) -> Node:
    """The product that an operation reads."""
    node = made.node(reader)
    assert node is not None
    product = made.node(node.refs[0])
    assert product is not None and whole_of(product.results[0]) == "y"
    return product


def test_what_is_written_anew() -> None:
    made = parted(HALVES)
    assert all(made.node(name) is None for name in "yab")
    for name, first in (("f", 0), ("g", 16)):
        linear = part(made, name)
        assert linear is not None and linear.op == "linear" and linear.refs[0] == "t0"
        weight, bias = (made.node(n) for n in linear.refs[1:])
        assert (weight.refs, weight.get("start_indices")) == (("t1",), (first, 0))
        assert weight.get("end_indices") == (first + 16, 32)
        assert (bias.refs, bias.get("start_indices")) == (("t2",), (first,))


def test_places_of_a_reshape_are_parts() -> None:
    made = parted(PLACES)
    weights = [made.node(part(made, reader).refs[1]) for reader in "fg"]
    assert [w.get("start_indices") for w in weights] == [(0, 0), (0, 16)]
    assert made.node("c") is None and made.node("y") is None


def test_one_token_of_all_is_multiplied() -> None:
    made = parted(LAST)
    tokens, weight = part(made, "f").refs
    assert (infer(made)[tokens].shape({}), weight) == ((2, 1, 32), "t1")


def test_equal_parts_are_one_product() -> None:
    body = """
    y = fd.ops.linear(t0, t1)
    a = fd.ops.slice(y, start_indices=[0, 0], end_indices=[8, 16])
    b = fd.ops.slice(y, start_indices=[0, 0], end_indices=[8, 16])
    z = fd.ops.add(a, b)
    fd.add_output(z)
    """
    feature = Feature(body, ((8, 32), (32, 32)), 1, 1)
    made = parted(feature)
    (product,) = (n for n in made.nodes if n.op == "linear")
    assert made.node("z").refs == 2 * product.results
    inputs = inputs_of(feature)
    (found,), (wanted,) = wsched.execute(feature.text, inputs), interpret(made, inputs)
    assert found.equal(wanted)


def _read(first: int, behind: int, more: str = "", name: str = "a") -> str:
    """A part of ``y``, and what is computed of it as a result."""
    where = f"start_indices=[0, {first}], end_indices=[8, {behind}]{more}"
    return f"{name} = fd.ops.slice(y, {where})\n{_result(name)}"


def _result(name: str) -> str:
    return f"z{name} = fd.ops.relu({name})\nfd.add_output(z{name})\n"


_PLACES_OF = "c = fd.ops.reshape(y, new_shape=[8, 2, 16])\n"

WHOLE = {
    "a result, too": _read(0, 16) + "fd.add_output(y)",
    "a part that is a result": _read(0, 16) + "fd.add_output(a)",
    "a view of a part as a result":
        _read(0, 16) + "p = fd.ops.permute(a, dims=[1, 0])\nfd.add_output(p)",
    "a place that is a result":
        _PLACES_OF + "a = fd.ops.select(c, dim=1, index=0)\nfd.add_output(a)",
    "a view of a place as a result":
        _PLACES_OF + "a = fd.ops.select(c, dim=1, index=0)\n"
        "p = fd.ops.permute(a, dims=[1, 0])\nfd.add_output(p)",
    "read whole": _read(0, 16) + _result("y"),
    "overlapping": _read(0, 20) + _read(12, 32, name="b"),
    "all of it": _read(0, 32),
    "gaps": _read(0, 32, ", strides=[1, 2]"),
    "gaps that a name says":
        "n = fd.define_scalar(2, dtype=DataType.Int)\n" + _read(0, 16, ", strides=[1, n]"),
    "a place that is not there":
        _PLACES_OF + "a = fd.ops.select(c, dim=1, index=2)\n" + _result("a"),
    "one before the first":
        _PLACES_OF + "a = fd.ops.select(c, dim=1, index=-3)\n" + _result("a"),
    "one of each": _PLACES_OF + "a = fd.ops.select(c, dim=2, index=0)\n" + _result("a"),
    "a reshape that is read":
        _PLACES_OF + "a = fd.ops.select(c, dim=1, index=0)\n" + _result("a") + _result("c"),
}  # fmt: skip


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_what_stays_whole(body: str) -> None:
    feature = Feature(f"y = fd.ops.linear(t0, t1)\n{body}", ((8, 32), (32, 32)), 1, 1)
    definition = record_text(feature.text)
    assert products_of_parts(definition, infer(definition)) is definition
    assert Cutter(definition).in_parts is None


def test_a_place_that_is_not_there_is_refused() -> None:
    text = PLACES.text.replace("index=-1", "index=2")
    with pytest.raises(InputError, match="index 2 out of range"):
        wsched.execute(text, inputs_of(PLACES))


def test_gaps_are_left() -> None:
    """Also where a number of the call says so."""
    body = """
    y = fd.ops.linear(t0, t1)
    n = fd.define_scalar(None, dtype=DataType.Int)
    a = fd.ops.slice(y, start_indices=[0, 0], end_indices=[8, 16], strides=[1, n])
    z = fd.ops.relu(a)
    fd.add_output(z)
    """
    feature = Feature(body, ((8, 32), (32, 32)), 1, 1)
    inputs = [*inputs_of(feature), 2]
    (found,), (wanted,) = (
        run(feature.text, inputs)
        for run in (wsched.execute, lambda text, given: interpret(record_text(text), given))
    )
    assert found.equal(wanted)


def test_parts_from_the_end_and_up_to_a_name() -> None:
    body = "n = fd.define_scalar(12, dtype=DataType.Int)\ny = fd.ops.linear(t0, t1)\n"
    for name, begin, end in (("a", "-16", "99"), ("b", "0", "n")):
        where = f"start_indices=[0, {begin}], end_indices=[8, {end}]"
        body += f"{name} = fd.ops.slice(y, {where})\n{_result(name)}"
    made = parted(Feature(body, ((8, 32), (32, 32)), 1, 1))
    weights = [made.node(part(made, f"z{name}").refs[1]) for name in "ab"]
    assert [w.get("start_indices") for w in weights] == [(16, 0), (0, 0)]
    assert [w.get("end_indices") for w in weights] == [(32, 32), (12, 32)]


BIASES = {
    "cast": ("k = fd.ops.cast(t2, dtype=DataType.BFloat16)", True),
    "computed": ("n = fd.ops.neg(t2)\nk = fd.ops.cast(n, dtype=DataType.BFloat16)", True),
    "a part": ("k = fd.ops.slice(t2, start_indices=[1], end_indices=[57])", False),
    "reshaped": ("m = fd.ops.reshape(t2, new_shape=[8, 8])\n"
                 "k = fd.ops.reshape(m, new_shape=[64])", False),
    "repeated": ("h = fd.ops.slice(t2, start_indices=[5], end_indices=[6])\n"
                 "k = fd.ops.expand(h, shape=[64])", False),
}  # fmt: skip


@pytest.mark.parametrize(("made", "wide"), BIASES.values(), ids=BIASES)
def test_a_part_of_any_vector_is_a_bias(made: str, wide: bool) -> None:
    """And the product has a kernel: what it is a part of lies in memory."""
    body = f"""{made}
    b = fd.ops.slice(k, start_indices=[3], end_indices=[35])
    y = fd.ops.linear(t0, t1, b)
    fd.add_output(y)
    """
    feature = Feature(body, ((8, 32), (32, 32), (64,)), 1, 1, (2,) * wide)
    inputs = inputs_of(feature)
    (found,), (wanted,) = (
        wsched.execute(feature.text, inputs), interpret(record_text(feature.text), inputs)
    )  # fmt: skip
    assert found.equal(wanted)
    last = wsched.explain(feature.text, inputs).parts[-1]
    assert (last.runs, last.operations) == ("wsched", ("linear",))


def test_sizes_that_are_open_stay_whole() -> None:
    text = HALVES.text.replace("shape=[2, 24, 32]", "shape=[-1, -1, -1]")
    definition = record_text(text)
    assert products_of_parts(definition, infer(definition)) is definition


def test_parts_of_products_of_parts() -> None:
    """What is multiplied is a part, too, of one product in two."""
    body = """
    y = fd.ops.linear(t0, t1)
    a = fd.ops.slice(y, start_indices=[0, 0], end_indices=[8, 16])
    b = fd.ops.slice(y, start_indices=[0, 16], end_indices=[8, 32])
    z = fd.ops.matmul(a, t2)
    c = fd.ops.slice(z, start_indices=[0, 0], end_indices=[4, 24])
    d = fd.ops.relu(c)
    e = fd.ops.relu(b)
    fd.add_output(d)
    fd.add_output(e)
    """
    feature = Feature(body, ((8, 32), (32, 32), (16, 24)), 3, 2)
    inputs = inputs_of(feature)
    wanted = interpret(record_text(feature.text), inputs)
    for made in (interpret(parted(feature), inputs), wsched.execute(feature.text, inputs)):
        assert all(a.equal(b) for a, b in zip(made, wanted, strict=True))


def test_batches_and_rows() -> None:
    """Parts along every dimension of batches, of which the second operand has only some."""
    body = """
    y = fd.ops.matmul(t0, t1)
    a = fd.ops.slice(y, start_indices=[0, 1, 0, 8], end_indices=[2, 3, 8, 16])
    b = fd.ops.slice(y, start_indices=[1, 0, 8, 0], end_indices=[2, 1, 16, 8])
    p = fd.ops.relu(a)
    q = fd.ops.relu(b)
    fd.add_output(p)
    fd.add_output(q)
    """
    feature = Feature(body, ((2, 3, 16, 8), (3, 8, 16)), 2, 2)
    inputs = inputs_of(feature)
    made = parted(feature)
    assert made.node("y") is None
    for x, y in zip(
        interpret(made, inputs), interpret(record_text(feature.text), inputs), strict=True
    ):
        assert x.equal(y)
    for x, y in zip(wsched.execute(feature.text, inputs), interpret(made, inputs), strict=True):
        assert x.equal(y)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 63), min_size=1, max_size=3, unique=True),
    left_out=st.booleans(),
    op=st.sampled_from(["linear", "matmul"]),
)
def test_any_parts(cuts: list[int], left_out: bool, op: str) -> None:
    """At any place, also such that no tensor map may begin there."""
    ends = [0, *sorted(cuts), 64]
    parts = [*pairwise(ends)][left_out:]
    lines = [f"y = fd.ops.{op}(t0, t1)"]
    for at, (a, b) in enumerate(parts):
        lines.append(f"s{at} = fd.ops.slice(y, start_indices=[0, {a}], end_indices=[16, {b}])")
        lines += [f"r{at} = fd.ops.relu(s{at})", f"fd.add_output(r{at})"]
    weight = (64, 32) if op == "linear" else (32, 64)
    feature = Feature("\n".join(lines), ((16, 32), weight), 1, 1)
    inputs = inputs_of(feature)
    wanted = interpret(record_text(feature.text), inputs)
    for made in (interpret(parted(feature), inputs), wsched.execute(feature.text, inputs)):
        assert all(a.equal(b) for a, b in zip(made, wanted, strict=True))
