"""Warpgroups that have nothing of a group's last tile: what they do, and what they leave out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

import wsched
from lowering.kernel.nodes import Consume, FragFill, If, MmaTile
from lowering.kernel.visit import walk
from lowering.machine import MachineError
from tests.grouped import GATE, check_rows, gated, given, grouped
from tests.run.test_grouped import SMALL, run
from tests.schedules import cooperative, dynamic
from wsched.run.arguments import bind
from wsched.run.compiled import CompiledFusion
from wsched.run.cpu import run_on_cpu
from wsched.run.results import add_outputs


def kernel(name: str = "two groups") -> CompiledFusion:
    return wsched.compile(grouped(), given((1,), 8, 8), params=dynamic(SMALL[name]))


def counted(sizes: tuple[int, ...]) -> Counter[str]:
    """How often each kind of statement is executed."""
    k, inputs = kernel(), given(sizes, 16, 64)
    arguments = bind(k.fusion, inputs, k.vector)
    d = torch.empty(sum(sizes), 16, dtype=torch.bfloat16)
    add_outputs(k.fusion, k.kernel, k.vector, arguments, [d], "")
    return Counter(run_on_cpu(k.kernel, arguments).counts)


def branches(k: CompiledFusion) -> list[If]:
    """Branches on whether a warpgroup has something of a tile."""
    stmts = walk(k.tile_level.body)
    return [
        s for s in stmts if isinstance(s, If) and any(isinstance(x, MmaTile) for x in walk(s.then))
    ]


def test_they_take_the_steps_and_do_nothing_else() -> None:
    (branch,) = branches(kernel())
    done = {type(s).__name__ for s in walk(branch.other)}
    assert done == {"For", "Consume"}
    steps = [
        [s.ring for s in walk(b) if isinstance(s, Consume)] for b in (branch.then, branch.other)
    ]
    assert steps[0] == steps[1] != []
    assert isinstance(branch.then[0], FragFill)


@pytest.mark.parametrize(
    ("sizes", "warpgroups"), [((128,), 2), ((64,), 1), ((65,), 2), ((129, 1, 0, 192), 7)]
)
def test_so_many_multiply(sizes: tuple[int, ...], warpgroups: int) -> None:
    """Each 64 rows of a group are one's; K has two steps of two wgmmas."""
    assert counted(sizes)["wgmma"] == 4 * warpgroups


@pytest.mark.parametrize("name", ["cooperative", "ping-pong", "exchanged"])
def test_who_has_rows_of_every_tile_does_not_ask(name: str) -> None:
    assert branches(kernel(name)) == []


@pytest.mark.slow
def test_three_warpgroups_of_a_cluster() -> None:
    """Two of three idle in both CTAs, which release what is sent to both."""
    params: Any = dynamic(
        cooperative(192, 16, 32, stages=2, groups=3, registers=None, cluster=(2, 1))
    )
    inputs = given((3, 70, 0, 200, 400), 40, 96)
    made = wsched.compile(grouped(), inputs, params=params)
    assert len(branches(made)) == 1
    for seed in range(3):
        check_rows(run(made, inputs, seed=seed), *inputs)


def test_two_products_of_a_tile() -> None:
    """Gate and up read the same steps, once in the loop that multiplies."""
    x, w, ends = given((3, 70, 0, 129), 40, 96)
    made = wsched.compile(GATE, [x, w, ends, w.flip(0)], params=dynamic(SMALL["two groups"]))
    assert len(branches(made)) == 1
    (d,) = made(x, w, ends, w.flip(0))
    assert torch.equal(d, gated(x, w, w.flip(0), ends))


def test_without_their_steps_the_loads_wait_for_ever() -> None:
    from dataclasses import replace

    from lowering.kernel.visit import rewrite
    from passes.pipeline import run_passes

    k = kernel()

    def without(stmt: Any) -> Any:
        return (replace(stmt, other=()),) if isinstance(stmt, If) and stmt.other else None

    body = rewrite(k.tile_level.body, without)
    broken = replace(k, kernel=run_passes(replace(k.tile_level, body=body), k.options))
    inputs = given((64, 64, 64), 64, 96)
    with pytest.raises(MachineError, match="deadlock"):
        run(broken, inputs)
