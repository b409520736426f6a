"""Weights, rows and results that are put together are read and stored where they lie."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wsched
from tests.front.cut.features import Feature, inputs_of
from wsched.doors.fallback import interpret
from wsched.front.cut.infer import infer
from wsched.front.cut.together import apart
from wsched.importer import Node, record_text
from wsched.importer.definition import text_of

X, V, W = (24, 32), (16, 32), (32, 32)
BF16 = "dtype=DataType.BFloat16"


def feature(*lines: str, shapes: tuple[tuple[int, ...], ...]) -> Feature:
    return Feature("\n".join([*lines, "fd.add_output(y)"]), shapes, 1, 1)


def weights(*lines: str, shapes: tuple[tuple[int, ...], ...] = (X, V, W)) -> Feature:
    """A linear of t0 by t1 and t2, and what follows."""
    return feature("c = fd.ops.cat([t1, t2], dim=0)", *lines, shapes=shapes)


FORMS = {
    "weights": (
        weights("y = fd.ops.linear(t0, c)"),
        "y@cat0 = linear(t0, t1); y@cat1 = linear(t0, t2); y = cat([y@cat0, y@cat1], dim=1)",
    ),
    "rows": (
        feature("c = fd.ops.cat([t0, t1], dim=-2)", "y = fd.ops.linear(c, t2)", shapes=(X, V, W)),
        "y@cat0 = linear(t0, t2); y@cat1 = linear(t1, t2); y = cat([y@cat0, y@cat1], dim=0)",
    ),
    "results": (
        feature("a = fd.ops.linear(t0, t1)", "b = fd.ops.linear(t0, t2)",
                "y = fd.ops.cat([a, b], dim=-1)", shapes=(X, V, W)),
        "a = linear(t0, t1); b = linear(t0, t2); y = cat([a, b], dim=1)",
    ),
    "along_k": (
        feature("c = fd.ops.cat([t0, t1], dim=1)", "w = fd.ops.cat([t2, t3], dim=1)",
                "y = fd.ops.linear(c, w)", shapes=(X, (24, 16), W, (32, 16))),
        "y@k0 = linear(t0, t2); y@k0@wide = cast(y@k0, dtype=Float); "
        "y@k1 = linear(t1, t3); y@k1@wide = cast(y@k1, dtype=Float); "
        "y@sum = add(y@k0@wide, y@k1@wide); y = cast(y@sum, dtype=BFloat16)",
    ),
    "slices_of_k": (
        feature("c = fd.ops.cat([t0, t1], dim=1)", "y = fd.ops.linear(c, t2, t3)",
                shapes=(X, (24, 16), (32, 48), (32,))),
        "t2@1from0to32 = slice(t2, from=[0, 0]); t2@1from32to48 = slice(t2, from=[0, 32]); "
        "y@k0 = linear(t0, t2@1from0to32, t3); y@k0@wide = cast(y@k0, dtype=Float); "
        "y@k1 = linear(t1, t2@1from32to48); y@k1@wide = cast(y@k1, dtype=Float); "
        "y@sum = add(y@k0@wide, y@k1@wide); y = cast(y@sum, dtype=BFloat16)",
    ),
    "epilogue": (
        weights("m = fd.ops.linear(t0, c, t3)", "a = fd.ops.add(m, t4)",
                "r = fd.ops.relu(a)", f"y = fd.ops.cast(r, {BF16})",
                shapes=(X, V, W, (48,), (24, 48))),
        "t3@0from0to16 = slice(t3, from=[0]); t3@0from16to48 = slice(t3, from=[16]); "
        "m@cat0 = linear(t0, t1, t3@0from0to16); m@cat1 = linear(t0, t2, t3@0from16to48); "
        "t4@1from0to16 = slice(t4, from=[0, 0]); t4@1from16to48 = slice(t4, from=[0, 16]); "
        "a@cat0 = add(m@cat0, t4@1from0to16); a@cat1 = add(m@cat1, t4@1from16to48); "
        "r@cat0 = relu(a@cat0); r@cat1 = relu(a@cat1); "
        "y@cat0 = cast(r@cat0, dtype=BFloat16); y@cat1 = cast(r@cat1, dtype=BFloat16); "
        "y = cat([y@cat0, y@cat1], dim=1)",
    ),
    "repeated": (
        weights("m = fd.ops.linear(t0, c)",
                "b = fd.ops.broadcast_in_dim(t3, shape=[24, 48], broadcast_dims=[1])",
                "y = fd.ops.add(m, b)", shapes=(X, V, W, (48,))),
        "m@cat0 = linear(t0, t1); m@cat1 = linear(t0, t2); "
        "t3@0from0to16 = slice(t3, from=[0]); "
        "b@1from0to16 = broadcast_in_dim(t3@0from0to16, shape=[24, 16], broadcast_dims=[1]); "
        "t3@0from16to48 = slice(t3, from=[16]); "
        "b@1from16to48 = broadcast_in_dim(t3@0from16to48, shape=[24, 32], broadcast_dims=[1]); "
        "y@cat0 = add(m@cat0, b@1from0to16); y@cat1 = add(m@cat1, b@1from16to48); "
        "y = cat([y@cat0, y@cat1], dim=1)",
    ),
    "transposed": (
        weights("w = fd.ops.permute(c, dims=[1, 0])", "y = fd.ops.matmul(t0, w)"),
        "w@cat0 = permute(t1, dims=[1, 0]); w@cat1 = permute(t2, dims=[1, 0]); "
        "y@cat0 = matmul(t0, w@cat0); y@cat1 = matmul(t0, w@cat1); "
        "y = cat([y@cat0, y@cat1], dim=1)",
    ),
    "slices_of_the_result": (
        weights("m = fd.ops.linear(t0, c)",
                "p = fd.ops.slice(m, start_indices=[0, 0], end_indices=[24, 16], strides=[1, 1])",
                "q = fd.ops.slice(m, start_indices=[0, 16], end_indices=[24, 48], strides=[1, 1])",
                "z = fd.ops.relu(p)", "fd.add_output(z)", "y = fd.ops.relu(q)"),
        "m@cat0 = linear(t0, t1); m@cat1 = linear(t0, t2); z = relu(m@cat0); y = relu(m@cat1)",
    ),
}  # fmt: skip
"""A definition, and what becomes of it."""


def said(node: Node) -> str:
    """An operation in few words."""
    if node.op == "slice":
        inner = f"{node.refs[0]}, from={text_of(node.get('start_indices'))}"
    else:
        named = (f"{k}={text_of(v)}" for k, v in node.kwargs)
        inner = ", ".join([*map(text_of, node.operands), *named]).replace("DataType.", "")
        inner = inner.replace("<", "").replace(">", "")
    return f"{node.results[0]} = {node.op}({inner})"


def form(text: str) -> str:
    """What a definition is in the other form; empty where there is none."""
    definition = record_text(text)
    found = apart(definition, infer(definition))
    nodes = () if found is None else found.definition.nodes
    return "; ".join(said(n) for n in nodes if not n.is_input)


def opened(text: str, *shapes: tuple[int, int]) -> str:
    """A definition that does not say the sizes of these inputs."""
    for shape in shapes:
        text = text.replace(f"shape={list(shape)}", "shape=[-1, -1]")
    return text


@pytest.mark.parametrize("name", FORMS)
def test_what_it_is_in_parts(name: str) -> None:
    definition, wanted = FORMS[name]
    assert form(definition.text) == wanted


STAY = {
    "three_along_k": feature(
        "c = fd.ops.cat([t0, t0, t1], dim=1)", "y = fd.ops.linear(c, t2)",
        shapes=(X, (24, 16), (32, 80)),
    ),
    "inputs": feature("y = fd.ops.cat([t1, t2], dim=0)", "z = fd.ops.linear(t0, t1)",
                      "fd.add_output(z)", shapes=(X, V, W)),
    "other_zeros": feature(
        "a = fd.ops.pad(t1, pad_widths=[0, 0, 0, 32], value=1.0)",
        "b = fd.ops.pad(t2, pad_widths=[0, 0, 16, 0], value=0.0)",
        "c = fd.ops.cat([a, b], dim=0, manual_padding=True)", "y = fd.ops.linear(t0, c)",
        shapes=(X, V, W),
    ),
    "other_places": feature(
        "a = fd.ops.pad(t1, pad_widths=[0, 0, 0, 32], value=0.0)",
        "b = fd.ops.pad(t2, pad_widths=[0, 0, 8, 8], value=0.0)",
        "c = fd.ops.cat([a, b], dim=0, manual_padding=True)", "y = fd.ops.linear(t0, c)",
        shapes=(X, V, W),
    ),
    "with_itself": feature("c = fd.ops.cat([t0, t1], dim=0)", "y = fd.ops.linear(c, c)",
                           shapes=(X, V)),
}  # fmt: skip
"""What has no such form."""


@pytest.mark.parametrize("name", STAY)
def test_what_stays_as_it_is(name: str) -> None:
    """More pairs than a kernel takes, a sum of what is no pair, nothing that a matmul has to do
    with, tensors that are not behind each other, and a product of what is put together with itself,
    of which a part would be one of both.
    """
    assert form(STAY[name].text) == ""


def test_pairs_along_k_are_known_to_be_as_long() -> None:
    text = FORMS["along_k"][0].text
    assert form(text) and not form(opened(text, X, (24, 16), W, (32, 16)))


def test_what_is_read_whole_is_sliced_there() -> None:
    """A result that is a slice shares memory with the whole; so nothing is a part of its own."""
    sliced = FORMS["slices_of_the_result"][0]
    text = sliced.text + "    fd.add_output(m)\n"
    found = form(text)
    assert "m = cat([m@cat0, m@cat1], dim=1); p = slice(m, from=[0, 0])" in found
    assert found.count("cat(") == 1


@pytest.mark.parametrize(
    "gap",
    ["start_indices=[0, 0], end_indices=[24, 31], strides=[1, 2]",
     "start_indices=[0, 0], end_indices=[24, 31], strides=[1, two]",
     "start_indices=[0, -48], end_indices=[24, -32], strides=[1, 1]"],
)  # fmt: skip
def test_slices_that_are_no_parts(gap: str) -> None:
    """Every second column, and what is counted from the end, which stays for others to read."""
    sliced = FORMS["slices_of_the_result"][0].text
    plain = "start_indices=[0, 0], end_indices=[24, 16], strides=[1, 1]"
    text = sliced.replace(f"p = fd.ops.slice(m, {plain})", f"two = fd.define_scalar(2)\n    p = "
                          f"fd.ops.slice(m, {gap})")  # fmt: skip
    assert text != sliced and "p = slice(m, from=" in form(text)


def test_zeros_around_tensors_as_nvfuser_writes_them() -> None:
    pads = feature(
        "n = fd.ops.size(t1, dim=0)", "k = fd.ops.size(t2, dim=0)", "a = fd.ops.add(n, k)",
        "m = fd.ops.neg(n)", "e = fd.ops.add(a, m)", "zero = fd.define_scalar(0.0)",
        "f = fd.ops.pad(t1, pad_widths=[0, 0, 0, e], value=zero)",
        "g = fd.ops.pad(t2, pad_widths=[0, 0, n, 0], value=zero)",
        "c = fd.ops.cat([f, g], dim=0, manual_padding=True)", "y = fd.ops.linear(t0, c)",
        shapes=(X, V, W),
    )  # fmt: skip
    for text in (pads.text, opened(pads.text, V, W)):
        assert form(text).endswith(FORMS["weights"][1])


# --- what runs --------------------------------------------------------------------------------

RUNS = {name: definition for name, (definition, _) in FORMS.items()} | {
    "open_sizes": feature("c = fd.ops.cat([t1, t2], dim=0)", "y = fd.ops.linear(t0, c)",
                          shapes=(X, (20, 32), (12, 32))),
    "other_rows": feature(
        "a = fd.ops.linear(t0, t2)", "b = fd.ops.linear(t1, t3)", "r = fd.ops.relu(b)",
        f"d = fd.ops.cast(r, {BF16})", "y = fd.ops.cat([a, d], dim=0)",
        shapes=(X, (16, 48), W, (32, 48)),
    ),
    "batches": feature(
        "c = fd.ops.cat([t1, t2], dim=-1)", "y = fd.ops.matmul(t0, c)",
        shapes=((2, 24, 32), (2, 32, 16), (2, 32, 24)),
    ),
    "three_dimensions": weights("y = fd.ops.linear(t0, c)", shapes=((2, 12, 32), V, W)),
    "rows_of_batches": feature(
        "c = fd.ops.cat([t0, t1], dim=0)", "y = fd.ops.linear(c, t2)",
        shapes=((2, 12, 32), (1, 12, 32), W),
    ),
    "rows_of_batches_and_more": feature(
        "c = fd.ops.cat([t0, t1], dim=0)", "m = fd.ops.linear(c, t2)", "a = fd.ops.add(m, t3)",
        f"y = fd.ops.cast(a, {BF16})", shapes=((2, 12, 32), (1, 12, 32), W, (3, 12, 32)),
    ),
    "read_by_another": weights(
        "m = fd.ops.linear(t0, c)", "y = fd.ops.linear(m, t3)", shapes=(X, V, W, (16, 48)),
    ),
    "into_an_input": weights(
        "m = fd.ops.linear(t0, c)", "y = fd.ops.add(m, t3)", f"d = fd.ops.cast(y, {BF16})",
        "fd.add_output(d, t3)", shapes=(X, V, W, (24, 48)),
    ),
}  # fmt: skip


def parts(text: str) -> str:
    """What ``explain`` says of the parts."""
    return text.partition("\nparts")[2].partition("\nmatmuls:")[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_results(name: str) -> None:
    """All of it is kernels that store where it belongs; bits and strides are those of torch."""
    text, inputs = RUNS[name].text, inputs_of(RUNS[name])
    if name == "open_sizes":
        text = opened(text, (20, 32), (12, 32))
    explained = parts(str(wsched.explain(text, inputs)))
    assert "wsched: " in explained and "torch: " not in explained
    assert "copied" not in explained and "copy" not in explained
    wanted = interpret(record_text(text), [t.clone() for t in inputs])
    into = [t.clone() for t in inputs]
    for found, exact in zip(wsched.execute(text, into), wanted, strict=True):
        assert torch.equal(found, exact)
        assert found.shape == exact.shape and found.stride() == exact.stride()


@pytest.mark.parametrize("rows", [(16, 16), (24, 8)], ids=str)
@pytest.mark.parametrize("behind", ["set", "relu"])
def test_a_product_with_itself(rows: tuple[int, int], behind: str) -> None:
    shapes = tuple((n, 32) for n in rows)
    lines = "c = fd.ops.cat([t0, t1], dim=0)", "x = fd.ops.linear(c, c)"
    other = feature(*lines, f"y = fd.ops.{behind}(x)", shapes=shapes)
    inputs = inputs_of(other)
    wanted = interpret(record_text(other.text), inputs)
    for found, exact in zip(wsched.execute(other.text, inputs), wanted, strict=True):
        assert torch.equal(found, exact)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    apart=st.booleans(),
    rows=st.integers(1, 40),
)
def test_any_widths(widths: list[int], apart: bool, rows: int) -> None:
    """Parts begin where TMA cannot store: threads do, in one kernel or in several."""
    count = len(widths)
    weights = [f"t{at}" for at in range(1, count + 1)]
    if apart:
        lines = [f"p{at} = fd.ops.linear(t0, {w})" for at, w in enumerate(weights)]
        lines[-1] = f"q = fd.ops.relu(fd.ops.linear(t0, {weights[-1]}))"
        lines.append(f"p{count - 1} = fd.ops.cast(q, {BF16})")
        made = ", ".join(f"p{at}" for at in range(count))
        lines.append(f"y = fd.ops.cat([{made}], dim=1)")
    else:
        lines = [f"c = fd.ops.cat([{', '.join(weights)}], dim=0)", "y = fd.ops.linear(t0, c)"]
    drawn = feature(*lines, shapes=((rows, 32), *((n, 32) for n in widths)))
    inputs = inputs_of(drawn)
    (found,) = wsched.execute(drawn.text, inputs)
    (exact,) = interpret(record_text(drawn.text), inputs)
    assert torch.equal(found, exact) and found.stride() == exact.stride()


# --- what is said -----------------------------------------------------------------------------


@pytest.mark.slow
def test_explain_says_who_stores_what() -> None:
    explained = str(wsched.explain(RUNS["weights"].text, inputs_of(RUNS["weights"])))
    assert "nothing is put together: y@cat0 stored there, y@cat1 stored there" in explained
    assert "; t1 of fd.ops.cat c is read where it lies\n" in explained


@pytest.mark.slow
def test_explain_says_what_is_read_of_a_bias() -> None:
    explained = str(wsched.explain(RUNS["epilogue"].text, inputs_of(RUNS["epilogue"])))
    assert "t3@0from16to48 is t3 by slice from [16]" in explained
    assert "t4@1from16to48 is t4 by slice from [0, 16]" in explained


MIXED = feature("a = fd.ops.linear(t0, t1)", "y = fd.ops.cat([a, t2], dim=1)",
                shapes=(X, V, (24, 32)))  # fmt: skip


@pytest.mark.slow
def test_what_no_kernel_makes_is_copied_there() -> None:
    inputs = inputs_of(MIXED)
    explained = str(wsched.explain(MIXED.text, inputs))
    assert "nothing is put together: a stored there, t2 copied there" in explained
    (found,), (exact,) = (
        wsched.execute(MIXED.text, inputs),
        interpret(record_text(MIXED.text), inputs),
    )
    assert torch.equal(found, exact)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (
            STAY["three_along_k"],
            "c is a copy: parts are multiplied of two along K, and where the definition tells the "
            "sizes of what is read with them",
        ),
        (STAY["inputs"], "y is a copy: no matmul makes or multiplies a part of it"),
        (
            feature("a = fd.ops.linear(t0, t1)", "z = fd.ops.cat([a, a, a], dim=1)",
                    "fd.add_output(z)", "y = fd.ops.neg(a)", shapes=(X, V)),
            "z is a copy: its parts where they lie are predicted to be no faster",
        ),
    ],
)  # fmt: skip
def test_explain_says_why_something_is_a_copy(definition: Feature, reason: str) -> None:
    inputs = inputs_of(definition)
    explained = str(wsched.explain(definition.text, inputs))
    assert reason in explained
    wanted = interpret(record_text(definition.text), inputs)
    for found, exact in zip(wsched.execute(definition.text, inputs), wanted, strict=True):
        assert torch.equal(found, exact)
