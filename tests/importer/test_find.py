"""Where in a script the definition is, and what the names around it stand for."""

from __future__ import annotations

import ast

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_spellings import X
from wsched.importer import Open, record_text
from wsched.importer.text.statements import imported

LINES = (f"t = {X}", "fd.add_output(fd.ops.mul(t, {}))")


def script(head: str, factor: str = "2.0", before: str = "") -> str:
    """A definition behind these lines, with a factor by name."""
    lines = (*head.splitlines(), *(f"    {line.format(factor)}" for line in LINES))
    return "\n".join((*before.splitlines(), *lines)) + "\n"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("with FusionDefinition() as fd:", "fd"),
        ("with nvfuser_direct.FusionDefinition(3) as fusion:", "fusion"),
        ("with lock, FusionDefinition() as f:", "f"),
        ("with lock as held, FusionDefinition() as f:", "f"),
        ("def f(fd: FusionDefinition):", "fd"),
        ("def f(it: 'nvfuser_direct.FusionDefinition', *, more=1):", "it"),
        ("def f(size, *, it: nvfuser.FusionDefinition):", "it"),
        ("def f(it: FusionDefinition, fd):", "it"),
        ("def f(fd):", "fd"),
        ("def f(fd, x):", "fd"),
        ("def nvfuser_fusion_id3(it):", "it"),
    ],
)
def test_a_definition_object_and_its_name(head: str, name: str) -> None:
    definition = record_text(script(head).replace("fd.", f"{name}."))
    assert [n.op for n in definition.nodes] == ["define_tensor", "mul"]


@pytest.mark.parametrize(
    "head",
    [
        "with open('fd') as fd:",
        "with FusionDefinition():",
        "with FusionDefinition as fd:",
        "with FusionDefinition() as (fd, _):",
        "def f(fusion):",
        "def nvfuser_fusion(fusion, more):",
        "def f(x, fd):",
    ],
)
def test_what_is_none(head: str) -> None:
    with pytest.raises(UnsupportedError, match=r"^text with 0 fusion definitions is not supported"):
        record_text(script(head))


def test_one_that_calls_nothing() -> None:
    with pytest.raises(UnsupportedError) as error:
        record_text("x = 1\nwith FusionDefinition() as fd:\n    pass\n")
    assert error.value.what == "line 2: a definition that calls nothing of fd"


@pytest.mark.parametrize(
    ("before", "factor", "value"),
    [
        ("half = 0.5", "half", 0.5),
        ("one, half = 1.0, 0.5", "half", 0.5),
        ("[one, half] = (1.0, 0.5)", "half", 0.5),
        ("a = [1.0, 0.5]", "a[-1]", 0.5),
        ("a = 0.25\nb = a * 2", "b", 0.5),
        ("import math as m", "math.inf", float("inf")),
        ("def half():\n    return 0.5", "half()", 0.5),
    ],
)
def test_names_in_front_of_it(before: str, factor: str, value: float) -> None:
    definition = record_text(script("with FusionDefinition() as fd:", factor, before))
    assert definition.nodes[-1].operands[1] == value


@pytest.mark.parametrize(
    "before",
    [
        "a = 0.5\na = 0.25",
        "a, b = 0.5, 1.0\nb = a = 1.0",
        "for a in (0.5, 0.25):\n    pass",
        "a, b = read()",
        "if read():\n    a = 0.5",
    ],
)
def test_what_is_not_told_stays_open(before: str) -> None:
    """Assigned more than once, in a branch or by a loop, or to what nobody sees."""
    definition = record_text(script("with FusionDefinition() as fd:", "a", before))
    with pytest.raises(UnsupportedError, match="`a`, which the text gives no value"):
        definition.check_complete()


def test_an_argument_of_the_function_around_it_is_open() -> None:
    body = script("with FusionDefinition() as fd:", "half")
    text = "half = 0.5\ndef test(half):\n" + "".join(f"    {x}\n" for x in body.splitlines())
    with pytest.raises(UnsupportedError, match="`half`, which the text gives no value"):
        record_text(text).check_complete()
    assert record_text(text.replace("test(half)", "test()")).nodes[-1].operands[1] == 0.5


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("import a", {"a": "a"}),
        ("import a.b", {"a": "a"}),
        ("import a.b as c", {"c": "a.b"}),
        ("import a as b, c.d", {"b": "a", "c": "c"}),
        ("from a import b", {"b": "a.b"}),
        ("from a.b import c as d, e", {"d": "a.b.c", "e": "a.b.e"}),
        ("from . import a", {"a": "a"}),
    ],
)
def test_names_of_imports(line: str, names: dict[str, str]) -> None:
    (s,) = ast.parse(line).body
    assert isinstance(s, ast.Import | ast.ImportFrom)
    assert {name: str(getattr(of, "path", of)) for name, of in imported(s).items()} == names


CLASS = """\
import torch
from nvfuser import DataType, FusionDefinition

inputs = [torch.randn(4, 8, dtype=torch.float16), torch.randn(6, 8, dtype=torch.float16)]

class Model(FusionDefinition):
    def __init__(self, rows, given):
        super().__init__()
        self.rows, self.given = rows, given

    def definition(self):
        self.x = self.define_tensor([-1, 8], dtype=DataType.Half)
        self.w = self.define_tensor([6, 8], dtype=DataType.Half)
        self.add_output(self.ops.linear(self.x, self.w))

    def schedule(self):
        self.sched.split(self.x, 0, 2)

fd = Model(4, inputs)
fd.execute(inputs)
"""
"""The class of the older front end; what ``schedule`` says changes no results."""


def test_a_class_of_the_older_front_end() -> None:
    found = record_text(CLASS)
    found.check_complete()
    assert [n.results for n in found.nodes] == [("x",), ("w",), ("linear",)]
    assert found.outputs == ("linear",)


def test_a_class_knows_its_object_by_its_name_too() -> None:
    """As methods that are written in a test function do, which are closed over it."""
    text = CLASS.replace("self.define", "fd.define").replace("self.ops", "fd.ops")
    text = text.replace("self.add", "fd.add")
    assert [n.op for n in record_text(text).nodes] == ["define_tensor", "define_tensor", "linear"]


def test_what_a_class_is_made_with_is_open() -> None:
    text = CLASS.replace("self.define_tensor([-1, 8], dtype=DataType.Half)",
                         "self.from_pytorch(self.given[0])")  # fmt: skip
    text = text.replace("[6, 8]", "[self.rows, 8]")
    found = record_text(text)
    assert found.nodes[0].get("shape") == Open("self.given[0].shape", 12)
    assert found.nodes[1].get("shape") == (Open("self.rows", 13), 8)


def test_a_class_that_shards_is_read_and_not_run() -> None:
    found = record_text(CLASS.replace("def schedule", "def multidevice_schedule"))
    assert [n.op for n in found.nodes] == ["define_tensor", "define_tensor", "linear"]
    with pytest.raises(UnsupportedError) as error:
        found.check_complete()
    assert str(error.value) == (
        "line 16: `def multidevice_schedule(self):` is not supported; supported: tensors that "
        "nobody has sharded or scheduled"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("Model(FusionDefinition)", "Model(Other)"), ("def definition(self)", "def define(self)"),
     ("def definition(self)", "def definition(self, rows)")],
)  # fmt: skip
def test_classes_that_define_nothing(old: str, new: str) -> None:
    with pytest.raises(UnsupportedError, match="text with 0 fusion definitions"):
        record_text(CLASS.replace(old, new))
