"""Definitions are written anew where that puts both matmuls of a sum into one kernel."""

from __future__ import annotations

import pytest

import wsched
from tests.front.cut.features import FEATURES, inputs_of
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.front.cut.sums import arranged, partners
from wsched.importer import Definition, record_text

FP32 = "dtype=DataType.Float"
LOW_RANK = FEATURES["low_rank"].text
BIASED = LOW_RANK.replace("linear(t, t3)", "linear(t, t3, bias=t4)")


def recorded(text: str) -> Definition:
    return record_text(text)


def order(definition: Definition) -> list[str]:
    return [n.results[0] for n in definition.nodes if not n.is_input]


def test_the_first_matmul_stands_behind_the_factor_of_the_second() -> None:
    found = arranged(recorded(LOW_RANK))
    assert order(found) == [
        "t", "t@wide8", "t@times8", "t@scaled8", "y", "u", "f", "g", "s", "z",
    ]  # fmt: skip
    u, times = found.node("u"), found.node("t@times8")
    assert u is not None and u.refs == ("t@scaled8", "t3")
    assert times is not None and times.operands[1] == 0.25
    nodes = [n.results[0] for n in found.nodes]
    assert partners(found) == {nodes.index("y"): nodes.index("u")}


@pytest.mark.parametrize(
    "text",
    [
        LOW_RANK.replace("0.25", "0.3"),
        LOW_RANK.replace("0.25", "0.0"),
        LOW_RANK.replace("0.25", "131072.0"),
        LOW_RANK.replace("BFloat16", "Half"),
        LOW_RANK.replace("mul(g, 0.25)", "mul(g, f)"),
        LOW_RANK.replace("    fd.add_output(z)", "    fd.add_output(h)\n    fd.add_output(z)"),
        LOW_RANK.replace("linear(t, t3)", "linear(t0, t1)"),
    ],
)
def test_what_stays_as_it_is(text: str) -> None:
    """Factors that change bits, values that others read, a second operand that is an input."""
    definition = recorded(text)
    assert arranged(definition) == definition


def test_a_sum_without_a_factor() -> None:
    lines = LOW_RANK.replace("add(f, h)", "add(f, g)").splitlines()
    text = "".join(f"{line}\n" for line in lines if "fd.ops.mul" not in line)
    assert order(arranged(recorded(text))) == ["t", "y", "u", "f", "g", "s", "z"]


def test_a_factor_that_has_moved_behind_stays_there() -> None:
    """Of a sum in fp32 it would be moved in front again."""
    lines = LOW_RANK.replace("t0, t1)", f"t0, t1, {FP32})").replace("t, t3)", f"t, t3, {FP32})")
    lines = lines.replace("mul(g, ", "mul(u, ").replace("add(f, ", "add(y, ")
    text = "".join(f"{x}\n" for x in lines.splitlines() if "cast(y" not in x and "cast(u" not in x)
    cutter = Cutter(recorded(text))
    moved = cutter.with_moved(cutter.moves)
    assert cutter.moves and moved.graph.definition == moved.definition
    assert all(k.why is None for k in moved.all(Take.ALL).runs)


def test_a_weight_that_is_transposed() -> None:
    """Its type is that of what it is transposed from."""
    text = LOW_RANK.replace(
        "t = fd.ops.linear(t0, t2)",
        "t4 = fd.ops.permute(t2, dims=[1, 0])\n    t = fd.ops.matmul(t0, t4)",
    )
    found = arranged(recorded(text))
    assert [name.partition("@")[0] for name in order(found)] == [
        "t4", "t", "t", "t", "t", "y", "u", "f", "g", "s", "z",
    ]  # fmt: skip


def test_bits_are_those_of_the_definition() -> None:
    """A kernel for t with its factor, one for the sum."""
    torch = pytest.importorskip("torch")
    given = inputs_of(FEATURES["low_rank"])
    found = wsched.explain(LOW_RANK, given)
    assert [p.runs for p in found.parts] == ["wsched", "wsched"]
    (z,) = wsched.execute(LOW_RANK, given)
    x, w, a, b = (t.double() for t in given)
    t = (x @ a.T).bfloat16().double()
    assert torch.equal(z, (x @ w.T + 0.25 * (t @ b.T)).bfloat16())
