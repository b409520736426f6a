"""Calls that are not the definition's: refused where they have something of it, else open."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_spellings import X, body
from wsched.importer import Open, Ref, record_text


@pytest.mark.parametrize(
    "call", ["scale_of(z)", "torch.relu(z)", "scale_of(fd)", "z.dtype.of(z)", "torch.relu(2)"]
)
def test_calls_that_are_not_the_definitions(call: str) -> None:
    """Of what has a tensor nobody knows what it does to it."""
    head = "def gate(fd: FusionDefinition, z: nvfuser.TensorView, scale_of):\n"
    with pytest.raises(UnsupportedError) as error:
        record_text(f"{head}    return fd.ops.mul(z, {call})\n")
    assert error.value.what == f"line 2: `return fd.ops.mul(z, {call})`"


@pytest.mark.parametrize("what", ["x", "[x]", "xs", "[[1, xs]]", "fd", "relu"])
@pytest.mark.parametrize("statement", ["log({})", "y = log({})"])
def test_what_is_done_to_tensors_is_not_passed_over(what: str, statement: str) -> None:
    """By themselves or in lists; what has none is passed over."""
    lines = (f"x = {X}", "xs = [2, [x]]", "relu = fd.ops.relu", "ys = [2, [3]]")
    assert body(*lines, statement.format("ys"), "fd.add_output(x)").outputs == ("x",)
    with pytest.raises(UnsupportedError, match="the name log in"):
        body(*lines, statement.format(what), "fd.add_output(x)")


@pytest.mark.parametrize(
    "number",
    [
        "factor",
        "math.sqrt(factor)",
        "float(factor + 1)",
        "scale_of(factor)",
        "factor(2)",
        "factor.value",
        "factor[0]",
        "-factor",
    ],
)
def test_what_is_called_with_what_has_no_value_has_none(number: str) -> None:
    definition = record_text(
        "def gate(fd: FusionDefinition, z: nvfuser.TensorView, factor, scale_of):\n"
        f"    return fd.ops.mul(z, {number})\n"
    )
    assert definition.nodes[-1].operands == (Ref("z"), Open(number, 2))
