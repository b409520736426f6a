"""What a text declares: a definition by an annotation, a type by a tensor, a vector by a count."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer import Open, record_text


@pytest.mark.parametrize("form", ["nvf.FusionDefinition", "'nvf.FusionDefinition'", "Definition"])
def test_an_annotation_tells_the_definition(form: str) -> None:
    """Whatever the argument is called, and in whichever place."""
    text = (
        f"def build(n: int, d: {form}) -> None:\n"
        "    x = d.define_tensor(shape=[-1, -1], dtype=DataType.Half)\n"
        "    d.add_output(d.ops.relu(x))\n"
    )
    if form != "Definition":
        assert [n.op for n in record_text(text).nodes] == ["define_tensor", "relu"]
        return
    with pytest.raises(UnsupportedError, match="text with 0 fusion definitions"):
        record_text(text)


def test_a_type_that_a_tensor_tells_is_open() -> None:
    definition = record_text(
        "def gate(fd: FusionDefinition, z: nvfuser.TensorView):\n"
        "    return fd.ops.cast(z, dtype=z.dtype())\n"
    )
    assert definition.nodes[-1].get("dtype") == Open("z.dtype()", 2)


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("x", DataType.BFloat16),
        ("fd.define_tensor(shape=[-1])", DataType.Float),
        ("fd.ops.cast(x, dtype=DataType.Half)", DataType.Half),
        ("fd.ops.linear(x, x)", DataType.BFloat16),
        ("fd.ops.mul(x, x)", DataType.Float),
        ("fd.ops.gt(x, 0.0)", DataType.Bool),
        ("fd.ops.add(fd.ops.cast(x, DataType.Int), fd.ops.size(x, 0))", DataType.Int),
        ("fd.ops.add(fd.ops.cast(x, DataType.Int), fd.define_scalar(2.0))", DataType.Float),
        ("fd.ops.full([4], 1.0, dtype=DataType.Double)", DataType.Double),
    ],
)
def test_a_type_that_the_text_tells(made: str, wanted: DataType) -> None:
    """As a helper function of a script asks for the type that it is to give back."""
    definition = record_text(
        "def back(fd, y, kind):\n"
        "    return fd.ops.cast(y, dtype=kind)\n"
        "def f(fd: FusionDefinition):\n"
        "    x = fd.define_tensor(shape=[4, 4], dtype=DataType.BFloat16)\n"
        f"    y = {made}\n"
        "    fd.add_output(back(fd, x, y.dtype()))\n"
    )
    assert definition.nodes[-1].get("dtype") == wanted


@pytest.mark.parametrize("count", [0, 1, 64, 65, -1, 2.0, True, "'a'"])
def test_a_vector_of_so_many(count: object) -> None:
    text = f"    v = fd.define_vector({count})\n    x = fd.ops.add(1, 2)\n"
    text = f"def nvfuser_fusion(fd: FusionDefinition) -> None:\n{text}"
    if type(count) is int and 0 <= count <= 64:
        made = [n for n in record_text(text).nodes if n.op == "define_scalar"]
        assert [n.results for n in made] == [(f"v[{at}]",) for at in range(count)]
        return
    with pytest.raises(UnsupportedError) as error:
        record_text(text)
    assert str(error.value) == (
        f"line 2: a vector of {str(count).strip(chr(39))} in `v = fd.define_vector({count})` is "
        "not supported; supported: a list of at most 64"
    )


@pytest.mark.parametrize(
    "block",
    ["FusionDefinition()", "FusionDefinition() as fds[0]", "FusionDefinition() as (fd, n)",
     "Other() as fd"],
)  # fmt: skip
def test_blocks_that_define_nothing(block: str) -> None:
    """They are none, and stand in the way of none."""
    text = (
        f"with {block}:\n    x = fd.define_tensor(shape=[-1])\n    fd.add_output(fd.ops.neg(x))\n"
    )
    with pytest.raises(UnsupportedError, match="text with 0 fusion definitions"):
        record_text(text)
    with_one = text + text.replace(block, "open('a') as f, nvf.FusionDefinition() as fd")
    assert [n.op for n in record_text(with_one).nodes] == ["define_tensor", "neg"]


@pytest.mark.parametrize(
    "statement",
    [
        "while n:\n        pass",
        "try:\n        pass\n    finally:\n        pass",
        "for i in [1]:\n        pass\n    else:\n        pass",
        "match n:\n        case 1:\n            pass",
        "with f() as g:\n        pass",
        "class A:\n        pass",
        "async def f():\n        pass",
        *("del x", "raise E", "x.y += 1", "break", "y: int", "x.y: int = 3"),
    ],
)
def test_statements_that_no_definition_is_written_with(statement: str) -> None:
    text = (
        "def build(fd: FusionDefinition, n: int) -> None:\n"
        "    x = fd.define_tensor(shape=[-1, -1], dtype=DataType.Half)\n"
        f"    {statement}\n"
        "    fd.add_output(fd.ops.relu(x))\n"
    )
    with pytest.raises(UnsupportedError) as error:
        record_text(text)
    assert error.value.what == f"line 3: `{statement.splitlines()[0]}`"


def test_older_constants_are_scalars_with_a_value() -> None:
    head = "def f(fd: FusionDefinition):\n"
    lines = "    S0 = fd.define_constant(2.0)\n    S1 = fd.define_constant(True)\n"
    definition = record_text(head + lines)
    assert [(n.op, n.operands) for n in definition.nodes] == [
        ("define_scalar", (2.0,)), ("define_scalar", (True,)),
    ]  # fmt: skip
    assert not definition.inputs
    with pytest.raises(UnsupportedError, match=r"is not supported; supported: a number"):
        record_text(f"{head}    S0 = fd.define_constant()\n")
