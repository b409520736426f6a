"""Products beside the statistics in front of them, of whose program they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.front.cut.features import Feature, inputs_of
from wsched.bench.norms import definition
from wsched.bench.problem import Shape
from wsched.doors.fallback import interpret
from wsched.front.cut.choose import least
from wsched.front.cut.predict import Call
from wsched.front.cut.program import Made, make
from wsched.front.cut.route import rest_by
from wsched.front.cut.segments import Cutter
from wsched.front.cut.sizes import bind_extents
from wsched.importer import record_text
from wsched.program.prepare import Kernel, prepare
from wsched.program.program import Program
from wsched.run.on_device import ALONGSIDE, OnDevice

torch: Any = pytest.importorskip("torch")

FOLDED = """
    b = fd.ops.broadcast_in_dim(t2, shape=[24, 64], broadcast_dims=[1])
    w = fd.ops.mul(t1, b)
    c = fd.ops.cast(w, dtype=DataType.BFloat16)
    y = fd.ops.linear(t0, c)
    fd.add_output(y)
"""
SHAPES = ((40, 64), (24, 64), (64,))

SCALED = """
    f{at} = fd.ops.cast({x}, dtype=DataType.Float)
    q{at} = fd.ops.mul(f{at}, f{at})
    s{at} = fd.ops.sum(q{at}, dims=[1], keepdim=True, dtype=DataType.Null)
    r{at} = fd.ops.rsqrt(s{at})
    n{at} = fd.ops.mul(f{at}, r{at})
    c{at} = fd.ops.cast(n{at}, dtype=DataType.BFloat16)
    y{at} = fd.ops.linear(c{at}, {w})
    fd.add_output(y{at})
"""

Programs = list[Program]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """The programs that have been made, of which each lets those kernels start early that it runs
    beside others.
    """
    found = Programs()

    def spied(program: Program, kernels: Mapping[str, Kernel], *args: Any) -> Any:
        found.append(program)
        own = {n: k.follows for n, k in kernels.items() if isinstance(k, OnDevice)}
        assert own == {name: name.endswith(ALONGSIDE) for name in own}
        return prepare(program, kernels, *args)

    monkeypatch.setattr("wsched.front.cut.program.prepare", spied)
    return found


def run(text: str, inputs: list[Any], constants: tuple[str, ...] = ()) -> Made:
    """A definition with its factors behind the product, twice; its results are checked."""
    cutter = Cutter(record_text(text))
    cutter = cutter.with_moved(cutter.moves)
    tensors = cutter.graph.types
    given = dict(zip((n.results[0] for n in cutter.definition.inputs), inputs, strict=True))
    sizes, cpu = bind_extents(cutter.definition, tensors, inputs), inputs[0].device
    call = Call(tensors, sizes, given=given, device=cpu, constants=frozenset(constants))
    segments = least(cutter, call, False).cut.segments
    made = make(cutter.definition, tensors, segments, inputs, lambda s, d: rest_by(s, d)[1])
    for _ in range(2):
        found = made.run(inputs, None)
        for result, wanted in zip(found, interpret(record_text(text), inputs), strict=True):
            assert (result.double() - wanted).norm() < 2**-7 * wanted.double().norm()
    return made


def norm(k: int, weight: bool) -> tuple[str, list[Any]]:
    torch.manual_seed(0)
    shapes = ((200, k), (640, k), (k,))[: 2 + weight]
    return definition(Shape(200, 640, k), weight), [torch.randn(s).bfloat16() for s in shapes]


def steps(program: Program) -> list[str]:
    """The words of its steps, and whether they run beside others."""
    words = [str(s).split()[0] for s in program.steps]
    names = [getattr(s, "kernel", "") for s in program.steps]
    return [w + " alongside" * n.endswith(ALONGSIDE) for w, n in zip(words, names, strict=True)]


def test_statistics_in_front(programs: Programs) -> None:
    """They read what the product reads, and write what its epilogue waits for."""
    made = run(*norm(64, weight=False))
    assert [steps(p) for p in programs] == [["summary alongside", "kernel alongside"]]
    assert [k.follows for k in made.kernels] == [False]  # whoever calls it by itself


@pytest.mark.parametrize("rows", [200, 136], ids=["alike", "another shape"])
def test_of_two_products_each_has_its_own(programs: Programs, rows: int) -> None:
    """Statistics of one shape are one kernel, beside the first product that reads it."""
    torch.manual_seed(0)
    body = SCALED.format(at=0, x="t0", w="t1") + SCALED.format(at=1, x="t2", w="t3")
    feature = Feature(body, ((200, 64), (1280, 64), (rows, 64), (1280, 64)), 2, 2)
    run(feature.text, inputs_of(feature))
    beside = ["summary alongside", "kernel alongside"]
    assert [steps(p) for p in programs] == [[*beside, "kernel"] if rows == 200 else beside * 2]


def test_few_columns_would_wait_for_the_statistics(programs: Programs) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(s).bfloat16() for s in ((200, 64), (24, 64))]
    run(definition(Shape(200, 24, 64), weight=False), inputs)
    assert [steps(p) for p in programs] == [["summary", "kernel"]]


def test_what_makes_an_operand_is_in_front_of_the_statistics(programs: Programs) -> None:
    run(*norm(64, weight=True))
    assert [steps(p) for p in programs] == [["sweep", "summary alongside", "kernel alongside"]]


def test_an_operand_that_is_kept(programs: Programs) -> None:
    """What makes it is in front of the statistics, or of nothing in later calls."""
    run(*norm(64, weight=True), constants=("w", "g"))
    run(Feature(FOLDED, SHAPES, 1, 1).text, inputs_of(Feature(FOLDED, SHAPES, 1, 1)), ("t1", "t2"))
    assert [steps(p) for p in programs] == [
        ["call", "summary alongside", "kernel alongside"], ["call", "kernel"],
    ]  # fmt: skip


def test_an_operand_that_is_copied(programs: Programs) -> None:
    """The copy is a grid of its own, directly in front."""
    run(*norm(63, weight=False))
    assert [steps(p) for p in programs] == [["summary", "kernel"]]
