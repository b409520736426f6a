"""Numbers that a definition computes of constants: as Python does, and what has no value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import UnsupportedError
from wsched.importer import Ref, record_text
from wsched.importer.constants import Numbers, number

OPS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "cast": lambda x: x,
    "where": lambda c, x, y: x if c else y,
    "div": lambda x, y: x / y,
    "truediv": lambda x, y: x / y,
    "reciprocal": lambda x: 1 / x,
    "lt": lambda x, y: float(x < y),
    "le": lambda x, y: float(x <= y),
    "gt": lambda x, y: float(x > y),
    "ge": lambda x, y: float(x >= y),
}
ARITY = {"neg": 1, "cast": 1, "reciprocal": 1, "where": 3}


def text(*lines: str) -> str:
    body = ("n = fd.define_scalar(None, dtype=DataType.Double)", *lines)
    x = "x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)"
    lines = (x, *body, "y = fd.ops.mul(x, 1.0)", "fd.add_output(y)")
    return "def nvfuser_fusion(fd: FusionDefinition) -> None:\n    " + "\n    ".join(lines) + "\n"


@given(st.data())
def test_what_python_computes(data: st.DataObject) -> None:
    """Operations in a row, of numbers and of what has been computed before."""
    values = st.sampled_from([-3.0, -1.5, -1.0, 0.25, 0.5, 1.0, 2.0, 7.0])
    known, lines = dict[str, float](), list[str]()
    for at in range(data.draw(st.integers(1, 2))):
        known[f"c{at}"] = value = data.draw(values)
        lines.append(f"c{at} = fd.define_scalar({value}, dtype=DataType.Double)")
    for at in range(data.draw(st.integers(1, 6))):
        op = data.draw(st.sampled_from(sorted(OPS)))
        names = [data.draw(st.sampled_from(sorted(known)))]
        for _ in range(ARITY.get(op, 2) - 1):
            names.append(data.draw(st.sampled_from(sorted(known)) | values.map(str)))
        operands = [known.get(n, 0.0) if n in known else float(n) for n in names]
        if op in ("div", "truediv", "reciprocal") and operands[-1] == 0:
            continue
        known[f"v{at}"] = OPS[op](*operands)
        more = ", dtype=DataType.Double" if op == "cast" else ""
        lines.append(f"v{at} = fd.ops.{op}({', '.join(names)}{more})")
    definition = record_text(text(*lines))
    numbers = Numbers(definition)
    for name, wanted in known.items():
        assert numbers.of(Ref(name)) == wanted == number(definition, Ref(name))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("v = fd.ops.div(1.0, c)", "fd.ops.div of [1.0, 0.0]"),
        ("v = fd.ops.reciprocal(c)", "fd.ops.reciprocal of [0.0]"),
        ("v = fd.ops.erfinv(c)", "line 5: fd.ops.erfinv of constants alone"),
    ],
)
def test_what_has_no_value(line: str, what: str) -> None:
    definition = record_text(text("c = fd.define_scalar(0.0, dtype=DataType.Double)", line))
    with pytest.raises(UnsupportedError) as error:
        number(definition, Ref("v"))
    assert error.value.what == what


@pytest.mark.parametrize(
    ("value", "what"),
    [("nobody", "the operand nobody"), (True, "the operand True"), ((1, 2), "the operand [1, 2]")],
)
def test_what_is_no_number(value: object, what: str) -> None:
    operand = Ref(value) if isinstance(value, str) else value
    with pytest.raises(UnsupportedError) as error:
        number(record_text(text()), operand)  # type: ignore[arg-type]
    assert (error.value.what, error.value.supported) == (what, "tensors and numbers")
