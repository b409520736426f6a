"""A cut as a program: one of one kernel, and what is put together between several."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.epilogues import epilogue
from tests.front.cut.features import Feature, inputs_of
from tests.schedules import definition
from wsched.doors.fallback import interpret
from wsched.front.cut.program import make
from wsched.front.cut.route import chosen_cut, cut_route, cutter_of
from wsched.front.cut.segments import Segment
from wsched.importer import record_text

torch: Any = pytest.importorskip("torch")


def test_a_kernel_that_would_be_refused_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that whoever asked can go another way."""
    inputs = [torch.zeros(64, 64, dtype=torch.bfloat16) for _ in range(2)]
    cutter = cutter_of(record_text(definition()))
    segments = chosen_cut(cutter, inputs).cut.segments
    assert segments[0].is_plain(("x", "w")) and len(segments) == 1

    nobody: Any = None  # runs the rest: there is none

    def made() -> Any:
        return make(cutter.definition, cutter.graph.types, segments, inputs, nobody)

    assert len(made().kernels) == 1
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.0001")
    with pytest.raises(UnsupportedError, match="on the machine that takes about"):
        made()


SUMS = {
    "kernel": """
        s = fd.ops.sum(f, dims=[0])
        b = fd.ops.broadcast(s, is_broadcast_dim=[True, False])
        u = fd.ops.linear(t0, t2)
        n = fd.ops.add(u, b)
    """,
    "sweep": """
        s = fd.ops.sum(f, dims=[1])
        b = fd.ops.broadcast(s, is_broadcast_dim=[False, True])
        n = fd.ops.mul(f, b)
        fd.add_output(s)
    """,
    "summary": """
        s = fd.ops.sum(f, dims=[1])
        n = fd.ops.sum(s, dims=[0])
    """,
    "summary, sweep": """
        s = fd.ops.sum(f, dims=[1])
        e = fd.ops.add(s, 1.0)
        b = fd.ops.broadcast(s, is_broadcast_dim=[False, True])
        n = fd.ops.mul(f, b)
        fd.add_output(e)
    """,
    "rest": """
        s = fd.ops.sum(f, dims=[1])
        n = fd.ops.erfinv(s)
    """,
}
"""Who reads a sum: the segments behind the kernel that makes it."""


def kind(segment: Segment) -> str:
    """What a segment is run by."""
    found = {
        "kernel": segment.matmul, "sweep": segment.sweep is not None, "summary": segment.summary,
    }  # fmt: skip
    return next((name for name, is_one in found.items() if is_one), "rest")


@pytest.mark.parametrize("readers", SUMS)
def test_a_sum_that_a_kernel_stores_in_parts_is_put_together_for_its_readers(readers: str) -> None:
    """What puts it together may compute what follows from it, and makes the sum, too, where the
    next segment reads it.
    """
    body = (
        f"y = fd.ops.linear(t0, t1)\n f = fd.ops.cast(y, dtype=DataType.Float)\n{SUMS[readers]}"
        "\n fd.add_output(n)"
    )
    feature = Feature(body, ((72, 64), (64, 64), (64, 64))[: 3 if readers == "kernel" else 2], 1, 1)
    recorded, inputs = record_text(feature.text), inputs_of(feature)
    first, *behind = chosen_cut(cutter_of(recorded), inputs).cut.segments
    assert first.matmul and "s" in first.outputs
    assert [kind(s) for s in behind] == readers.split(", ")
    found = cut_route(recorded, inputs, ()).run(None, inputs)
    for made, wanted in zip(found, interpret(recorded, inputs), strict=True):
        torch.testing.assert_close(made, wanted, equal_nan=True)


@pytest.mark.parametrize("outputs", ["d e", "e d"])
@pytest.mark.parametrize(
    "lines",
    [
        ("d = fd.ops.linear(x, w)",),
        (
            "v: [-1, -1]", "y = fd.ops.linear(x, w)", "z = fd.ops.linear(x, v)",
            "d = fd.ops.mul(y, z)",
        ),
    ],
    ids=["a product", "two products"],
)  # fmt: skip
def test_a_result_of_other_extents_beside_products(lines: tuple[str, ...], outputs: str) -> None:
    text = epilogue("c: [-1, -1]", *lines, "e = fd.ops.relu(c)", outputs=outputs)
    shapes = ((16, 64), (24, 64), (7, 9), (24, 64))[: 3 if len(lines) == 1 else 4]
    inputs = inputs_of(Feature("", shapes, 1, 1))
    found, wanted = wsched.execute(text, inputs), interpret(record_text(text), inputs)
    assert [t.shape for t in found] == [{"d": (16, 24), "e": (7, 9)}[n] for n in outputs.split()]
    assert all(map(torch.equal, found, wanted))
    assert wsched.explain(text, inputs).route == "cut"


def test_a_sum_of_longer_rows_than_those_of_the_result() -> None:
    """What adds it to a product is no sweep with the sum in it: that has rows of one length."""
    text = epilogue(
        "u: [-1, -1]", "y = fd.ops.linear(x, w)", "f = fd.ops.cast(u, dtype=DataType.Float)",
        "b = fd.ops.sum(f, dims=[1], keepdim=True)", "d = fd.ops.add(y, b)", outputs="d",
    )  # fmt: skip
    inputs = inputs_of(Feature("", ((40, 64), (48, 64), (40, 80)), 1, 1))
    (found,), (wanted,) = wsched.execute(text, inputs), interpret(record_text(text), inputs)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("contiguity", ["None, True", "True, None"])
def test_an_extent_that_only_a_repeated_tensor_tells(contiguity: str) -> None:
    text = "\n    ".join((
        "def nvfuser_fusion(fd : FusionDefinition) -> None :",
        f"x = fd.define_tensor(shape=[-1, -1], contiguity=[{contiguity}], dtype=DataType.BFloat16)",
        "w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)",
        "y = fd.ops.linear(x, w)", "z = fd.ops.linear(y, w)", "fd.add_output(z)",
    ))  # fmt: skip
    whole, w = torch.randint(-4, 5, (40, 48)).bfloat16(), torch.randint(-4, 5, (48, 48)).bfloat16()
    x = (whole[:1] if contiguity.startswith("None") else whole[:, :1]).expand(40, 48)
    (found,), (wanted,) = wsched.execute(text, [x, w]), interpret(record_text(text), [x, w])
    torch.testing.assert_close(found, wanted)
