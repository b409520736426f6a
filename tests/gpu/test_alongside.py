"""Products beside the statistics in front of them, behind kernels that write what both read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import wsched
from lowering.target.hopper import HOPPER
from tests.epilogues import epilogue
from tests.lowering.summary.summaries import rms
from tests.schedules import cooperative, ping_pong
from wsched.run.alongside import leaving_registers
from wsched.run.on_device import ALONGSIDE
from wsched.run.summary import compiled_summary
from wsched.schedule.matmul.params import MatmulParams

pytestmark = pytest.mark.gpu

SCALED = epilogue(
    "r: [-1, 1] Float", "y = fd.ops.linear(x, w)", "f = fd.ops.cast(y, dtype=DataType.Float)",
    "u = fd.ops.mul(f, r)", "v = fd.ops.cast(u, dtype=DataType.BFloat16)", outputs="v",
)  # fmt: skip
WAYS = {
    "ping-pong": ((2048, 1024, 1024), ping_pong(128, 128)),
    "more rows than the first tiles last": ((16384, 1024, 512), ping_pong(128, 160)),
    "cooperative, edges": ((1000, 776, 520), cooperative(128, 128)),
}


def operands(m: int, n: int, k: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of very different sizes, so that statistics of other rows would be seen."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    x, w = (torch.randn(rows, k, generator=generator, device="cuda") for rows in (m, n))
    sizes = torch.logspace(-1, 1, m, device="cuda").roll(97 * seed)
    return (x * sizes[:, None]).bfloat16(), (w * k**-0.5).bfloat16()


def right(found: Any, x: Any, w: Any) -> bool:
    """Each row, by fp64."""
    wide = x.double()
    wanted = (wide * (wide.pow(2).sum(1, keepdim=True) * 0.01 + 0.5).rsqrt()) @ w.double().T
    errors = (found.double() - wanted).norm(dim=1) / wanted.norm(dim=1)
    return float(errors.max()) < 2**-7


def pair(x: Any, w: Any, params: MatmulParams) -> Callable[[Any], Any]:
    """A function of x: both kernels, one launched behind the other."""
    import torch

    start = torch.full((1,), 0.5, device="cuda")
    statistics = compiled_summary(rms(2, (1,)), alongside=True)
    inputs = [x, w, torch.empty(len(x), 1, device="cuda")]
    leaving = next(leaving_registers(params, HOPPER))
    product = wsched.compile(SCALED, inputs, params=leaving).alongside.following
    assert product.kernel.name.endswith(ALONGSIDE) and product.kernel.registers == 152

    def run(given: Any) -> Any:
        rows = torch.empty(len(given), device="cuda")
        made = torch.empty(len(given), len(w), dtype=torch.bfloat16, device="cuda")
        statistics(start, given, out=[rows])
        product(given, w, rows.view(-1, 1), out=[made])
        return made

    return run


@pytest.mark.parametrize("name", WAYS)
def test_what_is_written_directly_in_front(name: str) -> None:
    """By calls and by replays of a graph, many in a row."""
    import torch

    shape, params = WAYS[name]
    x, w = operands(*shape)
    run = pair(x, w, params)
    given = [operands(*shape, seed)[0] for seed in range(6)]
    results = []
    for new in given:
        x.copy_(new)
        results.append(run(x))
    assert all(right(y, new, w) for y, new in zip(results, given, strict=True))
    torch.cuda.synchronize()
    graph, results = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for new in given:
            x.copy_(new)
            results.append(run(x))
    for seed in (10, 20):
        for at, new in enumerate(given):
            new.copy_(operands(*shape, seed + at)[0])
        graph.replay()
        assert all(right(y, new, w) for y, new in zip(results, given, strict=True))


def test_by_itself_behind_who_writes_its_operand() -> None:
    """A kernel of ours that lets the next grid start before it has written."""
    import torch

    x, w = operands(2048, 1024, 1024)
    ones = torch.ones(2048, 1, device="cuda")
    leaving = next(leaving_registers(ping_pong(128, 128), HOPPER))
    product = wsched.compile(SCALED, [x, w, ones], params=leaving).alongside
    square = torch.eye(1024, device="cuda").bfloat16()
    made = torch.empty_like(x)
    writer = wsched.compile(SCALED, [x, square, ones], params=ping_pong(128, 128))
    for seed in range(20):
        x.copy_(operands(2048, 1024, 1024, seed)[0])
        made.zero_()
        writer(x, square, ones, out=[made])
        (found,) = product(made, w, ones)
        wanted = x.double() @ w.double().T
        assert (found.double() - wanted).norm() < 2**-7 * wanted.norm()


def test_behind_itself() -> None:
    """Its result is what the next statistics and product read."""
    x, w = operands(2048, 1024, 1024)
    run = pair(x, w, ping_pong(128, 128))
    for _ in range(3):
        made = [x]
        for _ in range(8):
            made.append(run(made[-1]))
        assert all(right(y, before, w) for before, y in pairwise(made))
