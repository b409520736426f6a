"""Views in front of a rest: strides of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import wsched
from tests.front.cut.features import Feature, inputs_of
from wsched.doors.fallback import interpret, rebuild
from wsched.front.cut.epilogues import Take
from wsched.front.cut.leading import with_views_in_front
from wsched.front.cut.program import make
from wsched.front.cut.segments import Cutter, Segment
from wsched.importer import Definition, record_text
from wsched.program.prepare import Function

torch = pytest.importorskip("torch", reason="torch is not installed")

ROTATED = Feature(
    """
    y = fd.ops.linear(t0, t1)
    a = fd.ops.reshape(y, new_shape=[1, 8, 4, 16])
    q = fd.ops.permute(a, dims=[0, 2, 1, 3])
    h = fd.ops.slice(q, start_indices=[0, 0, 0, 8], end_indices=[1, 4, 8, 16])
    l = fd.ops.slice(q, start_indices=[0, 0, 0, 0], end_indices=[1, 4, 8, 8])
    n = fd.ops.neg(h)
    b = fd.ops.cast(n, dtype=DataType.BFloat16)
    c = fd.ops.cat([b, l], dim=3)
    fd.add_output(c)
    """,
    ((1, 8, 32), (64, 32)), 1, 1,
)  # fmt: skip
"""A half of each head negative in front of the other one."""


def seen(feature: Feature) -> tuple[Definition, list[str]]:
    """The rest behind the matmul as it is run."""
    cutter = Cutter(record_text(feature.text))
    rest = cutter.all(Take.NONE).segments[-1]
    given = [n.results[0] for n in cutter.definition.inputs]
    made, looks = with_views_in_front(rest.definition, cutter.graph.types, given)
    assert (made is rest.definition) is (looks == ())
    return made, [f"{k.name}: {k.source}" for k in looks]


def test_heads_are_strides_of_an_input() -> None:
    made, looks = seen(ROTATED)
    assert looks == ["q: y"] and [n.results[0] for n in made.inputs] == ["q"]
    (node,) = made.inputs
    assert node.get("shape") == (1, 4, 8, 16)
    assert node.get("contiguity") == (None, True, True, True)
    assert node.get("stride_order") == (3, 1, 2, 0)
    rebuild(made)  # nvFuser takes it for a definition


def test_who_runs_the_rest_gets_them_so() -> None:
    inputs, cutter = inputs_of(ROTATED), Cutter(record_text(ROTATED.text))
    got: list[Any] = []

    def rest(segment: Segment, _: Any) -> Function:
        def run(values: Sequence[Any]) -> Any:
            got.extend(values)
            return interpret(segment.definition, values)

        return run

    segments = cutter.all(Take.NONE).segments
    made = make(cutter.definition, cutter.graph.types, segments, inputs, rest)
    (found,) = made.run(inputs, None)
    (wanted,) = interpret(record_text(ROTATED.text), inputs)
    assert found.equal(wanted) and found.stride() == wanted.stride()
    (q,) = got
    assert (q.shape, q.stride()[1:]) == ((1, 4, 8, 16), (16, 64, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q = fd.ops.permute(a, dims=[0, 2, 1, 3])", "d = fd.ops.neg(a)\n"
         "    e = fd.ops.cast(d, dtype=DataType.BFloat16)\n"
         "    q = fd.ops.permute(e, dims=[0, 2, 1, 3])"),
    ],
)  # fmt: skip
def test_a_view_behind_something_else_is_nvfusers(old: str, new: str) -> None:
    """What is in front of that is the rest's own input still, in the shape that it is read in."""
    made, looks = seen(Feature(ROTATED.body.replace(old, new), ROTATED.shapes, 1, 1))
    assert looks == ["a: y"] and made.node("q") is not None


def test_views_of_what_the_caller_passes_are_nvfusers() -> None:
    body = ROTATED.body.replace("reshape(y,", "reshape(t2,") + "    fd.add_output(y)\n"
    feature = Feature(body, (*ROTATED.shapes, (1, 8, 64)), 1, 1)
    cutter = Cutter(record_text(feature.text))
    given = [n.results[0] for n in cutter.definition.inputs]
    for segment in cutter.all(Take.NONE).segments:
        if not segment.own:
            made, looks = with_views_in_front(segment.definition, cutter.graph.types, given)
            assert made is segment.definition and looks == ()


def test_what_execute_makes() -> None:
    inputs: list[Any] = inputs_of(ROTATED)
    (found,) = wsched.execute(ROTATED.text, inputs)
    (wanted,) = interpret(record_text(ROTATED.text), inputs)
    assert found.equal(wanted) and found.stride() == wanted.stride()
