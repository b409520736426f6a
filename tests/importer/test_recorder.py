"""Definitions from text."""

from __future__ import annotations

import math

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer import Definition, Node, Ref, record_text

PRINTED = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1], contiguity=[None], dtype=DataType.Half, is_cpu=True)
    c1 = fd.define_scalar(None, dtype=DataType.Double)
    tv2 = fd.ops.linear(tv0, tv0)
    tv3, tv4 = fd.ops.var_mean(tv2, dims=[0])
    tv5 = fd.ops.mul(tv3, -1.50000e-09)
    tv6 = fd.ops.mul(tv5, c1)
    fd.add_output(tv6)
    fd.add_output(tv4)
"""
BODY = "\n".join(PRINTED.splitlines()[2:])

SUPPORTED = (
    "what a definition is written with: fd.define_tensor, fd.define_scalar, fd.define_vector, "
    "fd.from_pytorch, fd.ops.NAME and fd.add_output on literals and names defined above"
)


def test_printed_text() -> None:
    assert record_text(PRINTED) == Definition(
        (
            Node(
                "define_tensor",
                ("tv0",),
                (),
                (
                    ("shape", (-1,)),
                    ("contiguity", (None,)),
                    ("dtype", DataType.Half),
                    ("is_cpu", True),
                ),
                3,
            ),
            Node("define_scalar", ("c1",), (None,), (("dtype", DataType.Double),), 4),
            Node("linear", ("tv2",), (Ref("tv0"), Ref("tv0")), (), 5),
            Node("var_mean", ("tv3", "tv4"), (Ref("tv2"),), (("dims", (0,)),), 6),
            Node("mul", ("tv5",), (Ref("tv3"), -1.5e-09), (), 7),
            Node("mul", ("tv6",), (Ref("tv5"), Ref("c1")), (), 8),
        ),
        ("tv6", "tv4"),
    )


def test_bug_report_around_the_definition() -> None:
    report = (
        "import torch\nfrom nvfuser import FusionDefinition, DataType\n"
        + PRINTED
        + "\nwith FusionDefinition() as fd:\n    nvfuser_fusion(fd)\n"
        + "inputs = [torch.testing.make_tensor((4, 4), device='cuda:0')]\nfd.execute(inputs)\n"
    )
    assert record_text(report).outputs == record_text(PRINTED).outputs


def test_body_of_with() -> None:
    text = "with nvfuser_direct.FusionDefinition(id=3) as f:\n" + BODY.replace("fd.", "f.")
    assert [n.op for n in record_text(text).nodes] == [n.op for n in record_text(PRINTED).nodes]


def test_a_name_may_be_assigned_again() -> None:
    text = (
        "def f(fd: FusionDefinition):\n"
        "    d = fd.define_tensor(shape=[-1])\n"
        "    d = fd.ops.relu(d)\n"
        "    d = fd.ops.neg(d)\n"
        "    fd.add_output(d)\n"
    )
    definition = record_text(text)
    assert [(n.results, n.operands) for n in definition.nodes] == [
        (("d",), ()),
        (("d@3",), (Ref("d"),)),
        (("d@4",), (Ref("d@3"),)),
    ]
    assert definition.outputs == ("d@4",)


def test_nothing_is_executed(tmp_path: object) -> None:
    text = f"open('{tmp_path}/written', 'w')\n" + PRINTED
    record_text(text)
    assert not list(tmp_path.iterdir())  # type: ignore[attr-defined]


def test_non_finite_scalars() -> None:
    text = (
        "def f(fd: FusionDefinition):\n"
        "    t = fd.define_tensor(shape=[-1])\n"
        "    a = fd.ops.where(t, -inf, float('nan'))\n"
    )
    low, nan = record_text(text).nodes[1].operands[1:]
    assert low == -math.inf
    assert nan != nan


@pytest.mark.parametrize(
    ("statement", "what", "supported"),
    [
        (
            "x = fd.ops.add(tv0, open('f'))",
            "the name open in `x = fd.ops.add(tv0, open('f'))`",
            "names defined above it",
        ),
        (
            "x = fd.ops.add(tv0, tv9)",
            "the name tv9 in `x = fd.ops.add(tv0, tv9)`",
            "names defined above it. Did you mean tv0?",
        ),
        ("x = fd.ops.add(tv0, **{})", "`x = fd.ops.add(tv0, **{})`", SUPPORTED),
        ("x = fd.ops.add(tv0, {})", "`x = fd.ops.add(tv0, {})`", SUPPORTED),
        ("x = fd.execute(tv0)", "`x = fd.execute(tv0)`", SUPPORTED),
        ("x.y = fd.ops.relu(tv0)", "`x.y = fd.ops.relu(tv0)`", SUPPORTED),
        ("x, y = fd.ops.relu(tv0), 3, 4", "`x, y = fd.ops.relu(tv0), 3, 4`", SUPPORTED),
        (
            "fd.add_output(tv0, 3)",
            "`fd.add_output(tv0, 3)`",
            "a tensor of the definition to write into",
        ),
        ("fd.add_output(3)", "`fd.add_output(3)`", "a tensor or scalar of the definition"),
        ("while True: pass", "`while True: pass`", SUPPORTED),
        ("x = torch.relu(tv0)", "`x = torch.relu(tv0)`", SUPPORTED),
        ("x = tv0 + 1", "`x = tv0 + 1`", "sums and products of numbers and lists"),
        (
            "for x in range(10 ** 9): pass",
            "`for x in range(10 ** 9): pass`",
            "lists of at most 10000",
        ),
        (
            "x = fd.ops.linear(tv0, tv0, tv0, tv0)",
            "fd.ops.linear with 4 arguments in `x = fd.ops.linear(tv0, tv0, tv0, tv0)`",
            "arg1, arg2, bias",
        ),
        (
            "x = fd.ops.linear(tv0, arg1=tv0)",
            "two arguments arg1 of fd.ops.linear in `x = fd.ops.linear(tv0, arg1=tv0)`",
            "one",
        ),
        (
            "x = fd.ops.cast(tv0, dtyp=DataType.Half)",
            "the argument dtyp of fd.ops.cast in `x = fd.ops.cast(tv0, dtyp=DataType.Half)`",
            "arg, dtype. Did you mean dtype?",
        ),
        (
            "x = fd.define_tensor(shape=[2], dtpe=DataType.Half)",
            "the argument dtpe of fd.define_tensor in "
            "`x = fd.define_tensor(shape=[2], dtpe=DataType.Half)`",
            "shape, contiguity, dtype, is_cpu, stride_order. Did you mean dtype?",
        ),
        (
            "x = fd.ops.cast(tv0, dtype=DataType.Doubel)",
            "DataType.Doubel in `x = fd.ops.cast(tv0, dtype=DataType.Doubel)`",
            "DataType.{BFloat16, Half, Float, Double, Float8_e4m3fn, Float8_e5m2, Int, Int32, "
            "Int8, UInt8, UInt4, TF32, Index, Bool, Float8_e8m0fnu, Float4_e2m1fn, "
            "Float4_e2m1fn_x2, "
            "UInt64, ComplexFloat, ComplexDouble}. Did you mean Double?",
        ),
    ],
)
def test_refused_statement(statement: str, what: str, supported: str) -> None:
    text = (
        f"def f(fd: FusionDefinition):\n    tv0 = fd.define_tensor(shape=[-1])\n    {statement}\n"
    )
    with pytest.raises(UnsupportedError) as error:
        record_text(text)
    assert str(error.value) == f"line 3: {what} is not supported; supported: {supported}"


def test_what_has_nothing_to_do_with_the_definition_is_passed_over() -> None:
    text = PRINTED.replace("    tv2 =", "    x = __import__('os')\n    print(x)\n    tv2 =")
    assert record_text(text).outputs == record_text(PRINTED).outputs


def test_refused_texts() -> None:
    with pytest.raises(UnsupportedError) as error:
        record_text("def f(:\n")
    assert str(error.value) == "line 1: `def f(:` is not supported; supported: Python"
    with pytest.raises(UnsupportedError) as error:
        record_text("x = 1\n")
    assert str(error.value) == (
        "text with 0 fusion definitions is not supported; supported: text with one, a function "
        "with an argument `fd: FusionDefinition`, the body of `with FusionDefinition() as fd:` or "
        "`definition(self)` of a class of them"
    )
    with pytest.raises(UnsupportedError, match=r"^text with 2 fusion definitions is not"):
        record_text(PRINTED + PRINTED)


def shown(line: str) -> str:
    """How a refusal has a line of a definition."""
    head = "def f(fd: FusionDefinition):\n    t = fd.define_tensor(shape=[-1])\n"
    with pytest.raises(UnsupportedError) as error:
        record_text(f"{head}    {line}\n")
    return error.value.what


@pytest.mark.parametrize("beyond", [0, 1, 100])
def test_a_long_line_is_cut_in_messages(beyond: int) -> None:
    line = f"x = fd.execute({'1' * (160 + beyond - len('x = fd.execute()'))})"
    assert shown(line) == f"line 3: `{line[:160]}{'...' if beyond else ''}`"


def test_a_message_has_nothing_that_a_terminal_obeys() -> None:
    assert shown('x = fd.execute("\x1b[2J\u202e")') == r'line 3: `x = fd.execute("\x1b[2J\u202e")`'
