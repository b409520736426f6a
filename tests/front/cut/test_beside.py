"""What kernels make beside their results, and what they do not."""

from __future__ import annotations

import pytest

import wsched
from tests.front.cut.features import FEATURES, Feature, inputs_of
from wsched.front.cut.epilogues import Kernel, Take
from wsched.front.cut.segments import Cut, Cutter
from wsched.importer import record_text

BACKWARD = FEATURES["made_beside"]


def takes(cutter: Cutter, take: Take) -> tuple[Take, ...]:
    return (take,) * len(cutter.matmuls)


def beside(feature: Feature, take: Take = Take.ALL) -> Cut | None:
    cutter = Cutter(record_text(feature.text))
    return cutter.beside(takes(cutter, take))


def with_lines(*shapes: tuple[int, ...], **lines: str) -> Feature:
    """The backward pass with other lines for some of its names, and further inputs."""
    body = BACKWARD.body
    for name, new in lines.items():
        (old,) = (x.strip() for x in body.splitlines() if x.strip().startswith(f"{name} = "))
        body = body.replace(old, new)
    return Feature(body, (*BACKWARD.shapes, *shapes), 3, 3)


def test_what_the_epilogue_reads_anyway() -> None:
    """The kernel with the derivative makes what the first product multiplies, and runs first."""
    cut = beside(BACKWARD)
    assert cut is not None
    assert [(s.inputs, s.outputs) for s in cut.segments] == [
        (("t0", "t1", "t2"), ("g", "z")),
        (("t1", "g"), ("w",)),
        (("t3", "z"), ("v",)),
    ]
    assert all(s.matmul for s in cut.segments)
    first, second, _ = cut.kernels
    assert isinstance(first, Kernel) and isinstance(second, Kernel)
    assert [cut.runs.index(first), cut.runs.index(second)] == [1, 0]


def test_an_output_of_the_definition() -> None:
    given = BACKWARD.body + "fd.add_output(g)"
    cut = beside(Feature(given, BACKWARD.shapes, 3, 3))
    assert cut is not None and cut.segments[0].outputs == ("g", "z")


def test_a_kernel_without_an_epilogue_reads_nothing() -> None:
    assert beside(BACKWARD, Take.NONE) is None


MORE = """i = fd.ops.mul(a, t4)
        g = fd.ops.cast(i, dtype=DataType.BFloat16)"""
WAITS = """c = fd.ops.sum(w, dims=[0], dtype=DataType.Float)
        b = fd.ops.broadcast(c, is_broadcast_dim=[True, False])
        s = fd.ops.mul(a, b)"""
SUMMED = """i = fd.ops.mul(t4, t5)
        j = fd.ops.mul(i, t6)
        k = fd.ops.add(j, f)
        l = fd.ops.sum(k, dims=[0, 1], dtype=DataType.Float)
        fd.add_output(l)
        a = fd.ops.tanh(k)"""
READS_ALL = """m = fd.ops.mul(t4, t5)
        n = fd.ops.mul(t6, f)
        s = fd.ops.mul(m, n)"""


@pytest.mark.parametrize(
    "feature",
    [
        pytest.param(with_lines((24, 32), g=MORE), id="reads more"),
        pytest.param(with_lines(s=WAITS), id="would wait for its reader"),
        pytest.param(
            with_lines(*[(24, 32)] * 3, a=SUMMED, s=READS_ALL), id="what is in front is read, too"
        ),
        pytest.param(with_lines((24, 32), s="s = fd.ops.mul(t4, t4)"), id="not read behind"),
    ],
)
def test_not_beside(feature: Feature) -> None:
    assert beside(feature) is None


def test_explain_names_the_kernel_of_each_matmul() -> None:
    """Kernels run in another order than the definition has their matmuls in."""
    found = wsched.explain(BACKWARD.text, inputs_of(BACKWARD))
    made = {n: p.kernel.kernel for p in found.parts for n in p.writes if p.kernel is not None}
    assert [p.writes for p in found.parts] == [("g", "z"), ("w",), ("v",)]
    assert {m.result: m.kernel for m in found.matmuls} == {
        "w": made["w"], "d": made["z"], "v": made["v"],
    }  # fmt: skip
