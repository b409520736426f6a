"""Texts that nvFuser would not have taken: refused by their line, whoever reads them."""

from __future__ import annotations

import re

import pytest

from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.front.known import recorded

A = "[-1, -1], contiguity=[True, True]"


def refused(old: str, new: str) -> str:
    text = definition()
    assert old in text
    with pytest.raises(UnsupportedError) as e:
        recorded(text.replace(old, new, 1))
    return str(e.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("add(d)", "add of 1 operands is not supported; supported: of 2"),
        ("where(d, 1.0)", "where of 2 operands is not supported; supported: of 3"),
        ("mul(d, 'a')", "mul of 'a' is not supported; supported: tensors and numbers"),
        ("add(d, [1])", "add of [1] is not supported; supported: tensors and numbers"),
        ("sub(None, d)", "sub of None is not supported; supported: tensors and numbers"),
        (
            "broadcast(d)",
            "broadcast without is_broadcast_dim is not supported; supported: calls with arg, "
            "is_broadcast_dim",
        ),
        ("expand(d)", "expand without shape is not supported; supported: calls with arg, shape"),
        ("cumsum(d)", "cumsum without dim is not supported; supported: calls with arg, dim"),
        (
            "embedding_fwd(d)",
            "embedding_fwd without weight is not supported; supported: calls with input, weight",
        ),
        (
            "shape(d)",
            "shape as an output is not supported; supported: tensors and numbers",
        ),
        (
            "max(d, dims=[])",
            "max of 2 dimensions with dims=[] is not supported; supported: one dimension or more, "
            "or no dims for all of them",
        ),
    ],
)
def test_calls_without_what_they_need(call: str, message: str) -> None:
    made = f"e = fd.ops.{call}\n    fd.add_output(e)\n    fd.add_output(d)"
    assert re.search(
        rf"line \d+: fd\.ops\.{re.escape(message)}$", refused("fd.add_output(d)", made)
    )


@pytest.mark.parametrize("call", ["addcmul(d, d, d)", "clamp(d, None, 1.0)", "sum(d)", "triu(d)"])
def test_what_need_not_be_said(call: str) -> None:
    recorded(definition().replace("fd.add_output(d)", f"fd.add_output(fd.ops.{call})"))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            "[-1, -2], contiguity=[True, True]",
            "with shape=[-1, -2] is not supported; supported: a list of extents, -1 where one is "
            "symbolic",
        ),
        (
            "[-1, 'a'], contiguity=[True, True]",
            "with shape=[-1, 'a'] is not supported; supported: a list of extents, -1 where one is "
            "symbolic",
        ),
        (
            "[-1, 1.0], contiguity=[True, True]",
            "with shape=[-1, 1.0] is not supported; supported: a list of extents, -1 where one is "
            "symbolic",
        ),
        (
            "[-1, -1], contiguity=[True]",
            "of shape [-1, -1] with contiguity=[True] is not supported; supported: a list of 2 of "
            "True, False and None",
        ),
        (
            "[-1, -1], contiguity=[True, 'no']",
            "of shape [-1, -1] with contiguity=[True, 'no'] is not supported; supported: a list of "
            "2 of True, False and None",
        ),
        (
            "None, sizes=[4, 5], strides=[5]",
            "of shape [4, 5] with strides=[5] is not supported; supported: an integer for each of "
            "the sizes",
        ),
        (
            "[-1, -1], contiguity=[True, True], stride_order=[1, 1]",
            "of shape [-1, -1] with stride_order=[1, 1] is not supported; supported: the numbers "
            "[0, 1] in some order",
        ),
        (
            "[-1, -1], contiguity=[True, True], stride_order=[2, 1, 0]",
            "of shape [-1, -1] with stride_order=[2, 1, 0] is not supported; supported: the "
            "numbers [0, 1] in some order",
        ),
    ],
)
def test_an_input_that_contradicts_itself(new: str, message: str) -> None:
    text = definition()
    line = next(n for n, x in enumerate(text.splitlines(), 1) if A in x)
    name = text.splitlines()[line - 1].split()[0]
    assert refused(A, new) == f"line {line}: {name} {message}"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fd.ops.linear(x)", "of 1 operands is not supported; supported: of two"),
        (
            "fd.ops.linear(x, 3.0)",
            "of 3.0, which is no tensor, is not supported; supported: tensors",
        ),
        ("fd.ops.linear(fd.define_scalar(3.0), w)", "of scalar, which is no tensor,"),
        ("fd.ops.linear(x, fd.ops.size(w, dim=0))", "of size, which is no tensor,"),
        ("fd.ops.linear(x, fd.ops.neg(fd.define_scalar(2.0)))", "of neg, which is no tensor,"),
    ],
)
def test_a_product_of_no_tensors(call: str, message: str) -> None:
    old = next(x for x in definition().splitlines() if "fd.ops.linear" in x).partition(" = ")[2]
    found = refused(old, call)
    assert found.partition(": ")[2].startswith(f"fd.ops.linear {message}"), found


@pytest.mark.parametrize("op", ["sum", "permute", "max"])
def test_what_is_done_to_tensors_alone(op: str) -> None:
    found = refused("    fd.add_output", f"    e = fd.ops.{op}(2.0, dims=[0])\n    fd.add_output")
    assert f"fd.ops.{op} of 2.0, which is no tensor, is not supported; supported: tensors" in found


def test_numbers_beside_tensors_are_no_numbers() -> None:
    text = definition().replace("fd.ops.linear(x, w)", "fd.ops.linear(fd.ops.mul(x, 2.0), w)")
    assert len(recorded(text).nodes) == len(recorded(definition()).nodes) + 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("cast(d, 0.5)", "cast with dtype=0.5|a type, as DataType.Float"),
        ("cast(d, dtype=x)", "cast with dtype=x|a type, as DataType.Float"),
        ("cast(d)", "cast with dtype=None|a type, as DataType.Float"),
        ("sum(d, [0], dtype=w)", "sum with dtype=w|a type, as DataType.Float"),
        (
            "broadcast(d, [False, True])",
            "broadcast of 2 dimensions with is_broadcast_dim=[False, True]|a list of True and 2 "
            "times False",
        ),
        (
            "broadcast(d, [0, 'no', 1])",
            "broadcast of 2 dimensions with is_broadcast_dim=[False, 'no', True]|a list of True "
            "and 2 times False",
        ),
        (
            "broadcast_in_dim(d, [4, 4, 4], [0, 3])",
            "broadcast_in_dim of 2 dimensions with broadcast_dims=[0, 3]|2 of 3 dimensions",
        ),
        (
            "broadcast_in_dim(d, [4, 4, 4], [0])",
            "broadcast_in_dim of 2 dimensions with broadcast_dims=[0]|2 of 3 dimensions",
        ),
        ("expand(d, [4])", "expand of 2 dimensions with shape=[4]|2 sizes or more"),
        ("pad(d, [1])", "pad of 2 dimensions with pad_widths=[1]|pairs for 2 or fewer"),
        (
            "pad(d, [1, 1, 1, 1, 1, 1])",
            "pad of 2 dimensions with pad_widths=[1, 1, 1, 1, 1, 1]|pairs for 2 or fewer",
        ),
        (
            "permute(d, [1, 1])",
            "permute of 2 dimensions with dims=[1, 1]|dimensions of 2, each of them once",
        ),
        (
            "permute(d, [0, 2, 1])",
            "permute of 2 dimensions with dims=[0, 2, 1]|dimensions of 2, each of them once",
        ),
        (
            "stride_order(d, [0])",
            "stride_order of 2 dimensions with stride_order=[0]|dimensions of 2, each of them once",
        ),
        (
            "slice(d, [0], [1, 1])",
            "slice of 2 dimensions with start_indices=[0]|2 numbers",
        ),
        (
            "slice(d, [0, 0], [1, 1], [1, 1, 1])",
            "slice of 2 dimensions with strides=[1, 1, 1]|2 numbers",
        ),
        (
            "reshape(d, [-1, 4, -1])",
            "reshape of 2 dimensions with new_shape=[-1, 4, -1]|sizes, of which one may be -1",
        ),
        (
            "reshape(d, [-2, 4])",
            "reshape of 2 dimensions with new_shape=[-2, 4]|sizes, of which one may be -1",
        ),
        ("squeeze(d, [2])", "squeeze of 2 dimensions with dims=[2]|dimensions of 2, each once"),
        ("sum(d, [1, -1])", "sum of 2 dimensions with dims=[1, -1]|dimensions of 2, each once"),
        ("max(d, dim=-3)", "max of 2 dimensions with dims=-3|dimensions of 2, each once"),
        ("sum(fd.ops.sum(d), [0])", "sum of 0 dimensions with dims=[0]|tensors with dimensions"),
        ("sum(d, [0], 'no')", "sum with keepdim='no'|True or False"),
        ("cat([d, 3], 0)", "cat of 3, which is no tensor,|tensors"),
        (
            "cat([d, fd.ops.sum(d, [0])], 0)",
            "cat of 1 and 2 dimensions|tensors of as many dimensions each",
        ),
        ("cat([d, d], 2)", "cat of 2 dimensions with dim=2|a dimension of 2"),
        ("cumsum(d, -3)", "cumsum of 2 dimensions with dim=-3|a dimension of 2"),
        (
            "topk(fd.ops.sum(d, [1], True), 1, 5)",
            "topk of 2 dimensions with dim=5|a dimension of 2",
        ),
        (
            "linear(fd.ops.sum(x), w)",
            "linear of sum, which has no dimensions,|vectors, matrices and batches of them",
        ),
    ],
)
def test_dimensions_that_there_are_not(call: str, message: str) -> None:
    text = definition()
    (name,) = (x.split()[0] for x in text.splitlines() if "fd.ops.linear" in x)
    made = re.sub(r"\bd\b", name, call)
    found = refused("    fd.add_output", f"    e = fd.ops.{made}\n    fd.add_output")
    what, supported = message.split("|")
    expected = rf"line \d+: fd\.ops\.{re.escape(what)} is not supported; supported: "
    assert re.fullmatch(expected + re.escape(supported), found), found


@pytest.mark.parametrize(
    "call",
    [
        "neg(fd.ops.sum(d))", "sum(d, [-2, -1])", "add(d, fd.ops.sum(d, [0]))",
        "expand(d, [2, -1, -1])", "reshape(d, [-1])", "reshape(d, [2, 0, -1])",
        "broadcast(fd.ops.sum(d, [0, 1]), [True])", "size(d, -1)", "sum(d, [-1], keepdim=False)",
        "squeeze(fd.ops.max(d, [0], True), [0])",
        "matmul(fd.ops.sum(x, [0]), fd.ops.permute(w, [1, 0]))",
        "linear(fd.ops.linear(x, fd.ops.sum(w, [0])), w)",
        "broadcast(fd.ops.matmul(fd.ops.sum(x, [0]), fd.ops.sum(w, [0])), [True])",
    ],
)  # fmt: skip
def test_dimensions_that_there_are(call: str) -> None:
    (name,) = (x.split()[0] for x in definition().splitlines() if "fd.ops.linear" in x)
    made = re.sub(r"\bd\b", name, call)
    text = definition().replace("    fd.add_output", f"    e = fd.ops.{made}\n    fd.add_output")
    assert recorded(text).node("e") is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ops.mul(d, 9223372036854775808000)", "ops.mul with 9223372036854775808000"),
        (f"ops.mul(d, {'9' * 400})", "ops.mul with an integer of 1329 bits"),
        (f"ops.mul(d, 0x{'f' * 5000})", "ops.mul with an integer of 20000 bits"),
        ("ops.reshape(d, [18446744073709551616, 4])", "ops.reshape with 18446744073709551616"),
        ("define_scalar(-9223372036854775809)", "define_scalar with -9223372036854775809"),
    ],
)
def test_integers_that_nobody_holds(call: str, message: str) -> None:
    (name,) = (x.split()[0] for x in definition().splitlines() if "fd.ops.linear" in x)
    made = re.sub(r"\bd\b", name, call)
    found = refused("    fd.add_output", f"    e = fd.{made}\n    fd.add_output")
    assert (
        found.partition(": ")[2] == f"fd.{message} is not supported; supported: integers of 64 bits"
    )


@pytest.mark.parametrize("shape", ["[1099511627776, 1099511627776]", "[9223372036854775807, 1]"])
def test_a_tensor_that_is_nowhere(shape: str) -> None:
    """Torch does not count its bytes, not even of one without memory."""
    found = refused(A, f"{shape}, contiguity=[True, True]")
    assert found.endswith(
        f" with shape={shape} is not supported; supported: fewer than 576460752303423488 elements"
    )


@pytest.mark.parametrize("value", ["18446744073709551615", "-9223372036854775808", "True", "1e300"])
def test_numbers_that_somebody_holds(value: str) -> None:
    new = f"    e = fd.define_scalar({value})\n    fd.add_output"
    node = recorded(definition().replace("    fd.add_output", new)).node("e")
    assert node is not None


def test_a_scalar_is_a_number() -> None:
    found = refused("    fd.add_output", "    e = fd.define_scalar('a')\n    fd.add_output")
    assert found.partition(": ")[2] == (
        "fd.define_scalar of 'a' is not supported; supported: a number, or None for an input"
    )
