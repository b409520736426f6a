"""Kernels whose CTAs add up parts of tiles, on the machine: right, reproducible, each step once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, get_args

import numpy as np
import pytest

import wsched
from lowering.machine import run_kernel
from lowering.machine.adversary import Adversary, Order
from lowering.machine.run import RunResult
from tests.on_machine import NUMPY, Problem, exact, kernel, operands
from tests.run.test_epilogue import CASES as EPILOGUES
from tests.run.test_epilogue import K, M, N, W, X, check
from tests.schedule.relation import load_relation
from tests.schedules import cooperative, definition, ping_pong, split_k, stream_k
from wsched.run.compiled import CompiledFusion
from wsched.schedule.loops import side_by_side
from wsched.schedule.matmul.params import MatmulParams

TILED: dict[str, MatmulParams] = {
    "cooperative": cooperative(128, 16, 16, stages=3),
    "one_group": cooperative(64, 16, 16, stages=2, groups=1, registers=None, in_flight=0),
    "ping_pong": ping_pong(64, 16, 16, stages=3),
    "cluster": cooperative(64, 16, 16, stages=3, groups=1, registers=None, cluster=(2, 1)),
    "ping_pong_cluster": ping_pong(64, 16, 16, stages=3, cluster=(1, 2)),
}
SPLIT: dict[str, MatmulParams] = {
    **{f"stream_k-{name}": stream_k(params) for name, params in TILED.items()},
    **{
        f"split_{parts}-{name}": split_k(TILED[name], parts)
        for parts, name in ((2, "cooperative"), (3, "ping_pong"), (4, "one_group"), (2, "cluster"))
    },
    "split_3-tile_per_cta": split_k(cooperative(128, 16, 16, stages=3, persistent=False), 3),
}
ADVERSARIES: tuple[Adversary, ...] = get_args(Order)


@dataclass(frozen=True, slots=True)
class Case:
    """A problem of ``tiles`` rows and columns of tiles, and how it is run."""

    tiles: tuple[int, int]
    steps: int
    clusters: int

    def problem(self, params: MatmulParams, rng: Random | None) -> Problem:
        """With tails that ``rng`` draws, or whole tiles and steps."""
        t, c = params.output_tile, params.cluster_dims
        cut = (0, 0, 0) if rng is None else (rng.randrange(t.m), *rng.choices((0, 8), k=2))
        k = max(self.steps * t.k - cut[2], 0)
        m, n = self.tiles[0] * t.m - cut[0], self.tiles[1] * t.n - cut[1]
        return Problem(m, n, k, self.clusters * c.m * c.n)


CASES = tuple(
    Case(*c) for c in product(product((1, 2, 3), (1, 2)), range(6), range(1, 7))
)  # fmt: skip


def run(
    compiled: CompiledFusion, p: Problem, a: Any, b: Any, grid: int, **options: Any
) -> tuple[Any, RunResult]:
    """D and what happened, on ``grid`` CTAs along x; D is poisoned before."""
    d = np.full((p.m, p.n), np.nan, NUMPY["bf16"])
    names = [binding.tensor for binding in (*compiled.fusion.inputs, *compiled.fusion.outputs)]
    sizes = {"M": p.m, "N": p.n, "K": p.k}
    tensors = dict(zip(names, (a, b, d), strict=True))
    return d, run_kernel(compiled.kernel, tensors, sizes, grid, **options)


def grid_of(compiled: CompiledFusion, case: Case, p: Problem) -> int:
    """CTAs along x: those of the case, or one per tile."""
    if compiled.params.persistent:
        return p.sms
    return case.tiles[0] * case.tiles[1]


@pytest.fixture(scope="module", params=SPLIT)
def split(request: pytest.FixtureRequest) -> CompiledFusion:
    return kernel(SPLIT[request.param])


@pytest.mark.slow
def test_small_problems(split: CompiledFusion, request: pytest.FixtureRequest) -> None:
    """All of them: CTAs without a step, that begin and end within tiles, parts without a step."""
    rng = Random(request.node.name)
    for case in CASES:
        p = case.problem(split.params, rng)
        how: dict[str, Any] = {"seed": rng.random(), "adversary": rng.choice(ADVERSARIES)}
        how["resident"] = rng.choice((None, 1, 2))
        a, b = operands(p, "bf16", 0, integer=True)
        d, _ = run(split, p, a, b, grid_of(split, case, p), **how)
        assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), (case, p, how)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["stream_k-ping_pong", "stream_k-cluster", "split_2-cluster",
                                  "split_3-tile_per_cta"])  # fmt: skip
def test_clusters_may_start_in_any_order(name: str) -> None:
    """One at a time: who waited for one that has not started would wait for ever."""
    compiled, case, rng = kernel(SPLIT[name]), Case((2, 1), 5, 4), Random(name)
    p = case.problem(compiled.params, rng)
    a, b = operands(p, "bf16", 0, integer=True)
    grid = grid_of(compiled, case, p)
    clusters = compiled.kernel.ctas(grid, {"M": p.m, "N": p.n, "K": p.k}) // compiled.kernel.cluster
    orders = [list(range(clusters))[::-1], *(rng.sample(range(clusters), clusters) for _ in "12")]
    for order in orders:
        d, _ = run(compiled, p, a, b, grid, resident=1, order=order)
        assert np.array_equal(d, exact(a, b).astype(NUMPY["bf16"])), order


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["stream_k-cooperative", "stream_k-ping_pong",
                                  "split_3-ping_pong", "split_4-one_group"])  # fmt: skip
def test_always_the_same_bits(name: str) -> None:
    """Parts are added in the order of their slots, whoever is first."""
    compiled, case = kernel(SPLIT[name]), Case((2, 1), 5, 5)
    p = case.problem(compiled.params, None)
    a, b = operands(p, "bf16", 0, integer=False)
    found = {
        run(compiled, p, a, b, p.sms, seed=seed, adversary=adversary)[0].tobytes()
        for adversary, seed in (*((a, 0) for a in ADVERSARIES), ("random", 1), ("random", 2))
    }
    assert len(found) == 1


def events(compiled: CompiledFusion, case: Case) -> list[str]:
    """What each CTA's load role and groups did, in their order."""
    p = case.problem(compiled.params, None)
    a, b = operands(p, "bf16", 0, integer=True)
    _, result = run(
        compiled, p, a, b, grid_of(compiled, case, p), trace=True, adversary="lazy", resident=1
    )
    t, k = compiled.params.output_tile, compiled.kernel
    left, right, out = (m.name for m in k.tensor_maps)
    full = next(bar.name for bar in k.mbarriers if bar.name.endswith("full"))
    (parts,) = (w.name for w in k.workspaces)
    wanted = [("mbarrier.wait", full), ("tma.load", left), ("tma.load", right), ("tma.store", out)]
    wanted += [(f"frag.{what}_partial", parts) for what in ("store", "add")]
    lines, row = [], 0
    for r in result.visits(*wanted):
        who = f"cta {r.cta} {f'group {r.group}' if r.role == 'compute' else 'load':<7}"
        what = f"{r.op} {r.target}[{r.index}]"
        if r.op == "mbarrier.wait":
            what = f"step    stage {r.index} parity {r.parity}"
        elif r.target == left:
            row = r.row // t.m
            continue
        elif r.target == right:
            what = f"loads   (m {row}, n {r.row // t.n}) k {r.col // t.k}"
        elif r.op == "tma.store":
            what = f"stores  (m {r.row // t.m}, n {r.col // t.n})"
        lines.append(f"{who}  {what}")
    return lines


@pytest.mark.parametrize("name", ["cooperative", "ping_pong"])
def test_a_share_from_within_a_tile_to_within_another(name: str, golden: object) -> None:
    """12 steps for 5 clusters: 3 each, the first CTA none; each tile has steps of two CTAs."""
    text = "\n".join(events(kernel(SPLIT[f"stream_k-{name}"]), Case((3, 1), 4, 5)))
    assert text == golden


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", [n for n, params in SPLIT.items() if params.cluster_dims == wsched.ClusterDims(1, 1)]
)
def test_every_step_is_loaded_and_every_tile_stored_once(name: str) -> None:
    """With split-K all parts have as many steps; those behind the end of K are zeros."""
    compiled = kernel(SPLIT[name])
    parts = compiled.params.splitk_factor
    for case in Random(name).sample(CASES, 6):
        steps = -(-case.steps // parts) * parts
        found = Counter(line.split("  ", 1)[1].strip() for line in events(compiled, case))
        tiles = [f"(m {m}, n {n})" for m in range(case.tiles[0]) for n in range(case.tiles[1])]
        loads = {what: count for what, count in found.items() if what.startswith("loads")}
        assert loads == {f"loads   {t} k {k}": 1 for t in tiles for k in range(steps)}, case
        groups = 1 if compiled.params.ping_pong else compiled.params.warpgroups
        stores = {what: count for what, count in found.items() if what.startswith("stores")}
        assert stores == {f"stores  {t}": groups for t in tiles}, case
        given = sum(n for what, n in found.items() if what.startswith("frag.store_partial"))
        added = sum(n for what, n in found.items() if what.startswith("frag.add_partial"))
        assert given == added, case
        consumed = sum(n for what, n in found.items() if what.startswith("step "))
        assert consumed == len(loads) * groups, case


@pytest.mark.parametrize("name", ["split_2-cooperative", "stream_k-cooperative",
                                  "stream_k-ping_pong", "stream_k-cluster"])  # fmt: skip
def test_loop_nests(name: str, golden: object) -> None:
    compiled = kernel(SPLIT[name])
    assert side_by_side(compiled.fusion) + "\n" + str(load_relation(compiled.fusion)) == golden


@pytest.mark.sampled
@pytest.mark.parametrize("how", ["stream_k", "split_k"])
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name: str, how: str) -> None:
    """Computed once for a tile, of the sum of its parts."""
    text, inputs, wanted = EPILOGUES[name]
    tiled = cooperative(128, 24, 16)
    params = stream_k(tiled) if how == "stream_k" else split_k(tiled, 2)
    assert (M // 128, N % 24, K % 16) == (1, 0, 8)
    check(wsched.execute(text, [X, W, *inputs], params=params), *wanted)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["split_2-cooperative", "stream_k-one_group",
                                  "stream_k-ping_pong"])  # fmt: skip
def test_a_trace_numbers_tiles_alike_on_both_sides(name: str) -> None:
    compiled = kernel(SPLIT[name])
    found = wsched.compile(definition(), [X, W], params=compiled.params).trace(X, W)
    tiles: dict[str, Counter[tuple[int, int]]] = {"load": Counter(), "main_loop": Counter()}
    for span in found.spans:
        if span.name in tiles and span.tile is not None:
            tiles[span.name][span.cta, span.tile] += 1
    groups = 1 if compiled.params.ping_pong else compiled.params.warpgroups
    warps = 4 * groups
    assert tiles["main_loop"] == Counter({at: warps * n for at, n in tiles["load"].items()})
    assert {cta for cta, _ in tiles["load"]} == {0, 1, 2, 3}, "of the machine's four SMs"
