"""Inputs as outputs, and outputs that are listed twice."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from wsched.doors.fallback import interpret
from wsched.front.cut.route import cutter_of
from wsched.importer import record_text
from wsched.importer.definition import definition_text

torch: Any = pytest.importorskip("torch")

LINEAR = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[32, 64], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[64, 64], contiguity=True, dtype=DataType.BFloat16)
    y = fd.ops.linear(x, w)
"""
SECOND = f"{LINEAR}    z = fd.ops.linear(fd.ops.relu(y), w)\n    fd.add_output(z)\n"


def given() -> list[Any]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randint(-2, 3, s, generator=draw).bfloat16() for s in ((32, 64), (64, 64))]


@pytest.mark.parametrize("text", [LINEAR, SECOND], ids=["one", "two"])
@pytest.mark.parametrize(
    "outputs",
    [("x", "y"), ("y", "x"), ("y", "w", "y", "x", "x"), ("y, x", "y", "y"), ("y, x", "w")],
    ids=str,
)
def test_given_back(text: str, outputs: tuple[str, ...]) -> None:
    """In the order of the definition, an input as the tensor that it is."""
    whole = text + "".join(f"    fd.add_output({o})\n" for o in outputs)
    inputs, others = given(), given()
    wanted = interpret(record_text(whole), others)
    assert wsched.explain(whole, inputs).route == "cut"
    for _ in range(3):
        inputs = given()
        found = wsched.execute(whole, inputs)
        for made, right in zip(found, wanted, strict=True):
            torch.testing.assert_close(made, right, rtol=2**-7, atol=2**-7)
        torch.testing.assert_close(inputs[0], others[0], rtol=2**-7, atol=2**-7)
    names = [o for o in outputs if "," not in o]
    for name, made in zip(names, found[-len(names) :], strict=True):
        assert name == "y" or made is inputs["xw".index(name)]


def test_an_output_given_twice() -> None:
    whole = f"{SECOND}    fd.add_output(y)\n    fd.add_output(y)\n"
    found, wanted = (
        f(whole, given()) for f in (wsched.execute, lambda t, x: interpret(record_text(t), x))
    )
    assert wsched.explain(whole, given()).route == "cut"
    for made, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(made, right, rtol=2**-7, atol=2**-7)


def test_what_is_computed() -> None:
    """Once each; what is written into an input stays, and so does the text."""
    whole = f"{LINEAR}    fd.add_output(y, x)\n    fd.add_output(w)\n    fd.add_output(y)\n"
    definition = record_text(whole)
    made = definition.computed
    assert made.outputs == ("y",) and made.returned == definition.returned
    assert made.computed is made and cutter_of(definition).definition.returned == made.returned
    plain = record_text(f"{LINEAR}    fd.add_output(y)\n")
    assert plain.computed is plain
    assert record_text(definition_text(definition)).returned == definition.returned


def test_an_input_that_is_written_into_is_not_given_back_as_it_was() -> None:
    whole = f"{LINEAR}    fd.add_output(y, x)\n    fd.add_output(x)\n"
    said = wsched.explain(whole, given())
    assert said.route == "torch"
    assert "line 5: x, which y is written into, as output is not supported" in str(said)
