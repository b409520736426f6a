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
    "the statements of a definition: x = fd.define_tensor(...), x = fd.define_scalar(...), "
    "x = fd.ops.NAME(...) and fd.add_output(x), with literal arguments and names defined above"
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
    ("statement", "message"),
    [
        ("x = __import__('os')", SUPPORTED),
        ("x = fd.ops.add(tv0, open('f'))", SUPPORTED),
        ("x = fd.ops.add(tv0, tv9)", SUPPORTED),
        ("x = fd.ops.add(tv0, **{})", SUPPORTED),
        ("x = fd.execute(tv0)", SUPPORTED),
        ("x.y = fd.ops.relu(tv0)", SUPPORTED),
        ("fd.add_output(tv0, tv0)", SUPPORTED),
        ("for i in range(3): pass", SUPPORTED),
        (
            "x = fd.ops.cast(tv0, dtype=DataType.Octonion)",
            "DataType.{BFloat16, Half, Float, Double, Float8_e4m3fn, Float8_e5m2, Int, Int32, "
            "Index, Bool}",
        ),
    ],
)
def test_refused_statement(statement: str, message: str) -> None:
    text = (
        f"def f(fd: FusionDefinition):\n    tv0 = fd.define_tensor(shape=[-1])\n    {statement}\n"
    )
    with pytest.raises(UnsupportedError) as error:
        record_text(text)
    assert str(error.value) == f"line 3: `{statement}` is not supported; supported: {message}"


def test_refused_texts() -> None:
    with pytest.raises(UnsupportedError) as error:
        record_text("def f(:\n")
    assert str(error.value) == "line 1: `def f(:` is not supported; supported: Python"
    with pytest.raises(UnsupportedError) as error:
        record_text("x = 1\n")
    assert str(error.value) == (
        "text with 0 fusion definitions is not supported; supported: text with one, a function "
        "with an argument `fd: FusionDefinition` or the body of `with FusionDefinition() as fd:`"
    )
    with pytest.raises(UnsupportedError, match=r"^text with 2 fusion definitions is not"):
        record_text(PRINTED + PRINTED)
