"""Sizes that are asked of what a definition computes."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.asked import asked_of_inputs
from wsched.front.cut.epilogues import Take
from wsched.front.cut.infer import infer
from wsched.front.cut.segments import Cutter
from wsched.importer import Definition, Ref, record_text
from wsched.importer.definition import Value

HEAD = """def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, 64], contiguity=[True, True, True], dtype=DataType.Half)
    w = fd.define_tensor(shape=[32, 64], contiguity=[True, True], dtype=DataType.Half)
    y = fd.ops.linear(x, w)
"""


def asked(body: str) -> Definition:
    lines = "".join(f"    {x.strip()}\n" for x in body.strip().splitlines())
    definition = record_text(HEAD + lines)
    return asked_of_inputs(definition, infer(definition))


def test_a_size_of_a_result_is_one_of_an_input() -> None:
    definition = asked("n = fd.ops.size(y, 1)\nm = fd.ops.size(y, 2)\nfd.add_output(y)")
    n, m = definition.node("n"), definition.node("m")
    assert n is not None and (n.op, n.operands) == ("size", (Ref("x"), 1))
    assert m is not None and (m.op, m.operands) == ("define_scalar", (32,))


def test_a_shape_is_a_list_of_numbers() -> None:
    definition = asked(
        """
        s = fd.ops.shape(y)
        r = fd.ops.reshape(y, [s[0], s[1], 4, 8])
        e = fd.ops.broadcast_in_dim(w, s, [1, 2])
        fd.add_output(r)
        """
    )
    r, e = definition.node("r"), definition.node("e")
    assert r is not None and r.get("new_shape") == (Ref("s[0]"), Ref("s[1]"), 4, 8)
    assert e is not None and e.get("shape") == (Ref("s[0]"), Ref("s[1]"), Ref("s[2]"))
    assert "shape" not in [n.op for n in definition.nodes]


@pytest.mark.parametrize(
    ("at", "what"),
    [
        ("0", Ref("s[0]")),
        ("-1", Ref("s[2]")),
        ("-3", Ref("s[0]")),
        ("3", None),
        ("-4", None),
        ("q", None),
    ],
)
def test_an_element_of_a_shape(at: str, what: Value) -> None:
    """What is no element of it, or not known to be one, is left to whoever runs it."""
    definition = asked(
        f"""
        q = fd.define_scalar(None, dtype=DataType.Int)
        s = fd.ops.shape(y)
        n = fd.ops.at(s, {at})
        m = fd.ops.mul(n, 2)
        fd.add_output(y)
        """
    )
    m = definition.node("m")
    assert m is not None and m.operands[0] == (what or Ref("n"))


@pytest.mark.parametrize("asks", ["y", "y, 3", "y, -4", "dim=1"])
def test_a_size_at_no_place_is_left_as_it_is(asks: str) -> None:
    """It is nvFuser's to refuse."""
    n = asked(f"n = fd.ops.size({asks})\nfd.add_output(y)").node("n")
    assert n is not None and n.op == "size" and Ref("x") not in n.arguments


def test_what_asks_inputs_alone_is_left_as_it_is() -> None:
    definition = record_text(HEAD + "    n = fd.ops.size(x, 0)\n    fd.add_output(y)\n")
    assert asked_of_inputs(definition, infer(definition)) is definition


def test_a_number_that_no_input_has_does_not_cross() -> None:
    definition = record_text(
        HEAD
        + """
    z = fd.ops.reshape(y, [-1])
    n = fd.ops.size(z, 0)
    v = fd.define_tensor(shape=[-1, 64], contiguity=[True, True], dtype=DataType.Half)
    p = fd.ops.linear(v, w)
    r = fd.ops.reshape(p, [n])
    q = fd.ops.reshape(fd.ops.neg(y), [n])
    fd.add_output(q)
    fd.add_output(r)
"""
    )
    with pytest.raises(UnsupportedError, match="the number n between segments is not supported"):
        Cutter(definition).all(Take.NONE)
