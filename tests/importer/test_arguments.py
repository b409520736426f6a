"""Arguments of calls: the operands of any operation by place or by name, and nothing left over."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_spellings import X, body, nodes
from wsched.importer import Ref


@pytest.mark.parametrize(
    "call", ["x, w, b", "arg0=x, arg1=w, arg2=b", "arg2=b, arg0=x, arg1=w", "x, arg2=b, arg1=w"]
)
def test_operands_of_pointwise_operations_have_an_order(call: str) -> None:
    definition = body(f"x = {X}", f"w = {X}", f"b = {X}", f"t = fd.ops.where({call})")
    assert nodes(definition, "where") == [(("t",), (Ref("x"), Ref("w"), Ref("b")), {})]


@pytest.mark.parametrize(
    ("call", "what", "supported"),
    [
        ("neg(x, x)", "fd.ops.neg with 2 arguments", "arg0"),
        ("add(x, arg2=x)", "the argument arg2 of fd.ops.add", "arg0, arg1"),
        ("add(x, arg0=x)", "two arguments arg0 of fd.ops.add", "one"),
        ("linear(x, x, x, x)", "fd.ops.linear with 4 arguments", "arg1, arg2, bias"),
        ("linear(x, w=x)", "the argument w of fd.ops.linear", "arg1, arg2, bias"),
    ],
)
def test_arguments_that_a_call_does_not_have(call: str, what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        body(f"x = {X}", f"y = fd.ops.{call}")
    assert error.value.what == f"line 3: {what} in `y = fd.ops.{call}`"
    assert error.value.supported == supported
