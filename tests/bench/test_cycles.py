"""Cycles between two points of a stream: what is read, what is told, and a product on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.cuda.nvrtc import compile_cubin
from lowering.ground.errors import UnsupportedError
from wsched.bench.method import cycles
from wsched.bench.method.cycles import Counted, CycleCounter, counted, cycles_of, elapsed, told
from wsched.choose.step import FLOPS_PER_CYCLE

torch = pytest.importorskip("torch")


def test_counters_that_were_read_twice() -> None:
    """A multiprocessor that a reading did not come to has 0."""
    assert elapsed([5, 0, 7, 100], [9, 8, 0, 106]) == 5.0


def test_counters_of_which_none_was_read_twice() -> None:
    with pytest.raises(UnsupportedError, match="none was read twice"):
        elapsed([0, 3], [4, 0])


def test_ways_take_turns() -> None:
    ran: list[str] = []
    ways: dict[str, Callable[[], object]] = {
        name: lambda name=name: ran.append(name) for name in ("a", "b")
    }

    def count(way: Callable[[], object], calls: int) -> float:
        for _ in range(calls):
            way()
        return 10.0 * len(ran)

    found = cycles_of(ways, count, 2, 3, "seed")
    assert sorted(ran) == ["a"] * 8 + ["b"] * 8  # a round more than count
    assert set(found) == {"a", "b"} and all(v > 40 for v in found.values())


def test_what_is_told() -> None:
    assert counted({"a": lambda: None}, None, 10, "seed") == {} and told({}) == ""
    found = {"torch": Counted(7.3e6, 0.73), "wsched": Counted(5.663e6, 0.9432)}
    assert told(found) == (
        "; Mcycles (of the tensor cores' peak): torch 7.300 (0.730)  wsched 5.663 (0.943)"
    )


def test_the_text_compiles() -> None:
    assert compile_cubin(cycles._TEXT, arch="sm_90").cubin


@pytest.mark.gpu
def test_a_product_takes_what_tensor_cores_take() -> None:
    """A product of cuBLAS: the same cycles twice, more than the tensor cores' least."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    ways = {"one": lambda: a @ a, "again": lambda: a @ a}
    flops, counter = 2 * 4096**3, CycleCounter()
    found = counted(ways, counter, flops, "seed")
    assert 0.5 < found["one"].share < 1.0
    assert found["again"].cycles == pytest.approx(found["one"].cycles, rel=0.02)
    assert found["one"].cycles * counter.sms * FLOPS_PER_CYCLE > flops
