"""Statistics beside products, as they are predicted: what runs is what is priced."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from tests.front.cut.features import sizes_of
from tests.front.cut.norms import COMMUTE
from wsched.bench.norms import definition
from wsched.bench.problem import Shape
from wsched.front import kernels
from wsched.front.cut.choose import Chosen, least
from wsched.front.cut.hidden import hidden_us, statistics
from wsched.front.cut.predict import SegmentsCost, segment_us
from wsched.front.cut.segments import Cutter, Segment
from wsched.importer import record_text
from wsched.run.alongside import beside, read_us

torch: Any = pytest.importorskip("torch")

LARGE = (8192, 4096, 4096)
SHAPES = {
    LARGE: True,
    (8192, 1280, 8192): True,
    (2048, 4096, 4096): True,
    (16384, 640, 4096): False,  # longer than the first tiles
    (200, 24, 64): False,
}


@lru_cache
def chosen(shape: tuple[int, int, int]) -> Chosen:
    """The cut of a norm without a weight whose factor is behind the product."""
    cutter = Cutter(record_text(definition(Shape(*shape), weight=False)))
    cutter = cutter.with_moved(cutter.moves)
    return least(cutter, sizes_of(cutter), may_leave=False)


def pair(shape: tuple[int, int, int]) -> tuple[Segment, Segment]:
    ((summary, product),) = statistics(chosen(shape).cut.segments)
    return summary, product


def test_without_statistics_no_kernel_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    (product,) = (s for s in chosen((200, 24, 64)).cut.segments if s.matmul)
    monkeypatch.setattr("wsched.front.cut.hidden.import_fusion", None)
    assert [*statistics([product])] == []


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_priced_is_what_runs(shape: tuple[int, int, int]) -> None:
    (m, n, k), (summary, product), call = shape, pair(shape), chosen(shape).call
    costs = segment_us(summary, call), segment_us(product, call)
    hidden = hidden_us(summary, product, call, costs)
    assert (hidden > 0) is SHAPES[shape]
    alone, behind = (c.gpu_us for c in costs)
    assert chosen(shape).cost.gpu_us == pytest.approx(alone + behind - hidden)
    assert hidden == pytest.approx(alone if SHAPES[shape] else 0)  # the product takes longer

    def compiled(**options: Any) -> Any:
        return kernels.compile(product.definition, inputs, **options)

    made = {"x": (m, k), "w": (n, k)}
    inputs = [
        torch.empty(made[name], dtype=torch.bfloat16, device="meta") if name in made
        else torch.empty(m, 1, device="meta")
        for name in product.reads
    ]  # fmt: skip
    found = beside(compiled(), inputs, 2 * m * k, lambda params: compiled(params=params))
    assert (found is not None) is SHAPES[shape]


def test_the_longer_one_counts() -> None:
    """Beside a product statistics take longer than alone."""
    summary, product = pair(LARGE)
    costs = SegmentsCost(20.0, 0.0), SegmentsCost(60.0, 0.0)
    read = read_us(2 * LARGE[0] * LARGE[2])
    assert read > 60
    assert hidden_us(summary, product, chosen(LARGE).call, costs) == pytest.approx(80 - read)


@pytest.mark.parametrize("name", COMMUTE)
def test_who_is_paired(name: str) -> None:
    """A summary whose result the next product's epilogue reads, and no operand."""
    cutter = Cutter(record_text(COMMUTE[name].text))
    first = least(cutter, sizes_of(cutter), may_leave=False)
    assert not [*statistics(first.cut.segments)]  # normalised in front: it is an operand
    moved = cutter.with_moved(cutter.moves)
    cut = least(moved, sizes_of(moved), may_leave=False).cut
    made = [s for s in cut.segments if s.summary]
    assert [summary for summary, _ in statistics(cut.segments)] == made
