"""Operands that the L2 is asked for before the grid in front has ended: a hint and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.nodes import GridDepWait, Roles, TmaLoad, TmaPrefetch
from lowering.kernel.visit import walk
from tests.computed import cast, fusion, tile
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.proofs import proved
from tests.schedules import SCHEDULES, cooperative, definition, ping_pong, split_k
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.early import launched
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, TilingStrategy

ODD = Problem(200, 168, 136, 4)
SMALL = cooperative(128, 64, stages=3)
WAYS = {
    "cooperative": SMALL,
    "ping-pong": ping_pong(64, 64, stages=3),
    "cluster": replace(SMALL, cluster_dims=ClusterDims(2, 1)),
    "one tile": replace(SMALL, tiling_strategy=TilingStrategy.OneTilePerCTA),
    "exchanged": replace(SMALL, exchange_operands=True),
}


def early(base: MatmulParams, steps: int = 2) -> MatmulParams:
    return replace(base, prefetched_steps=steps)


@pytest.mark.sampled
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("layout", ["tn", "tt"])
def test_right_proved_and_without_spills(name: str, layout: str) -> None:
    made = kernel(early(WAYS[name]), layout=layout)
    seen = [type(s) for s in walk(made.kernel.body) if isinstance(s, TmaPrefetch | GridDepWait)]
    assert seen.index(TmaPrefetch) < len(seen) - 1 - seen[::-1].index(GridDepWait)
    x, w = operands(ODD, "bf16", 0, integer=True)
    assert np.array_equal(run(made, ODD, x, w, "bf16", races=True).astype("f4"), exact(x, w))
    proved(made.kernel, made.plan)
    assert made.resources.clean


def test_the_source_asks_for_boxes() -> None:
    source = kernel(early(SMALL)).source
    assert "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" in source
    assert source.count("tma_prefetch_2d(&") == 2
    assert "prefetch.tensor." not in kernel(SMALL).source


def test_weights_that_threads_widen_are_asked_for() -> None:
    """They alone, by the warp that loads them: all CTAs want the same rows."""
    f = fusion(cast("Int8"))
    made = compile_fusion(f, early(tile(f, 128, 40).params))
    hints = [s.src.map for s in walk(made.kernel.body) if isinstance(s, TmaPrefetch)]
    loads = [s.src.map for s in walk(made.kernel.body) if isinstance(s, TmaLoad)]
    assert set(hints) == {"T1"} and set(loads) == {"T0", "T1"}
    role = next(r for s in made.kernel.body if isinstance(s, Roles) for r in s.roles[1:])
    seen = [type(s) for s in walk(role.body) if isinstance(s, TmaPrefetch | GridDepWait | TmaLoad)]
    assert seen[:2] == [TmaPrefetch, GridDepWait]
    proved(made.kernel, made.plan)


def test_a_trace_has_none() -> None:
    """It starts when the grid in front has ended."""
    stamped = kernel(early(SMALL)).traced.kernel
    assert not any(isinstance(s, TmaPrefetch | GridDepWait) for s in walk(stamped.body))


def test_launched_otherwise() -> None:
    apart = launched(early(SMALL), False)
    assert (apart.prefetched_steps, apart.programmatic_dependent_launch) == (0, False)
    assert launched(early(SMALL), True) == early(SMALL)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (early(SMALL, -1), "prefetched_steps=-1: 0 means none"),
        (
            early(replace(SMALL, programmatic_dependent_launch=False)),
            "prefetched_steps=2: a kernel that starts when the grid in front has ended "
            "(programmatic_dependent_launch=False) waits for none",
        ),
    ],
)
def test_what_is_illegal(params: MatmulParams, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        compile_fusion(import_fusion(definition()), params)
    assert error.value.why == why


@pytest.mark.parametrize(
    "base", [split_k(SMALL, 2), SCHEDULES["pipelined"]], ids=["split", "pipelined"]
)
def test_what_has_no_kernel(base: MatmulParams) -> None:
    with pytest.raises(UnsupportedError) as error:
        compile_fusion(import_fusion(definition()), early(base))
    assert str(error.value) == (
        "prefetched_steps=2 where memory tells a CTA its tiles, or no warp of its own loads "
        "operands by TMA is not supported; supported: prefetched_steps=0"
    )
