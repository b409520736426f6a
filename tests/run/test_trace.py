"""Traced kernels on the machine: who does what while who else does what, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from lowering.cuda.emit import emit_kernel
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Stamp
from lowering.kernel.visit import walk
from lowering.machine import run_kernel
from lowering.machine.adversary import Adversary, Order
from tests.epilogues import RESIDUAL
from tests.on_machine import NUMPY, Problem, exact, kernel, operands
from tests.run.test_epilogue_inputs import kernel as epilogue_kernel
from tests.rungs import kernel as rung
from tests.schedules import SCHEDULES, dynamic
from wsched.run.compiled import CompiledFusion
from wsched.schedule.matmul.params import MatmulParams
from wsched.trace.spans import Span
from wsched.trace.stamps import decode
from wsched.trace.timeline import Trace


def run(k: CompiledFusion, p: Problem, adversary: Adversary = "fair", seed: int = 0) -> Trace:
    """The traced kernel on the machine; its result is checked."""
    traced, extents = k.traced.kernel, {"M": p.m, "N": p.n, "K": p.k}
    a, b = operands(p, "bf16", seed, integer=True)
    d = np.full((p.m, p.n), np.nan, NUMPY["bf16"])
    grid = evaluate(traced.grid, extents | {"sms": p.sms})
    slots = traced.traces[0].slots
    records = np.zeros((grid, traced.threads // 32, 1 + slots, 2), np.int64)
    names = [binding.tensor for binding in (*k.fusion.inputs, *k.fusion.outputs)]
    arrays: dict[str, Any] = dict(zip(names, (a, b, d), strict=True))
    arrays[traced.traces[0].name] = records
    run_kernel(traced, arrays, extents, grid, seed=seed, adversary=adversary)
    assert np.array_equal(d, exact(a, b).astype(d.dtype))
    return decode(traced, records, on_machine=True)


def named(trace: Trace, name: str, **where: int) -> list[Span]:
    return [
        s for s in trace.spans
        if s.name == name and all(getattr(s, key) == value for key, value in where.items())
    ]  # fmt: skip


def disjoint(a: Span, b: Span) -> bool:
    return a.end < b.begin or b.end < a.begin


@pytest.mark.parametrize(("number", "ctas"), [(7, 1), (8, 1), (10, 2)])
def test_who_issues_products_has_a_line_of_its_own(number: int, ctas: int) -> None:
    """Sums in tensor memory: a warp beside those that load multiplies, of a pair that of the first
    CTA; another part reads the sums of a tile when that is told, and those of the tile before
    meanwhile.
    """
    trace = run(rung(number, "sm_100a"), Problem(512 * ctas, 128, 200, ctas))
    loops, loads = named(trace, "main_loop"), named(trace, "load")
    assert {s.role for s in loops} == {"compute"} and {s.role for s in loads} == {"load"}
    assert {s.cta for s in loops} == {0} and {s.cta for s in loads} == {*range(ctas)}
    assert trace.tracks()[0, "compute", 0] == tuple(loops)
    assert [s.tile for s in loops] == list(range(4 // ctas))
    for s in loops:
        load, *_ = named(trace, "load", cta=0, tile=s.tile)
        read = named(trace, "epilogue", cta=0, tile=s.tile)
        assert load.begin < s.end and read and all(s.end < x.end for x in read)
    assert "main_loop" in trace.table() and trace.epilogue_overlap()


PING_PONG = "pingpong_64x128"


@pytest.mark.parametrize("deal", [replace, dynamic])
@pytest.mark.parametrize("tiles", [1, 2, 3, 5])
def test_ping_pong_takes_turns(tiles: int, deal: Callable[[MatmulParams], MatmulParams]) -> None:
    """With any number of tiles: no two main loops at once, and epilogues under main loops."""
    trace = run(kernel(deal(SCHEDULES[PING_PONG])), Problem(64 * tiles, 128, 256, 1))
    for warp, (group, mine) in enumerate((g, t) for t in range(tiles) for g in [t % 2]):
        found = named(trace, "main_loop", tile=mine)
        assert {s.group for s in found} == {group} and len(found) == 4, warp
        for s in found:
            (turn,) = named(trace, "turn", tile=mine, warp=s.warp)
            (epilogue,) = named(trace, "epilogue", tile=mine, warp=s.warp)
            assert turn.begin < turn.end == s.begin < s.end < epilogue.begin
    loops = named(trace, "main_loop")
    assert all(disjoint(a, b) for a, b in combinations(loops, 2) if a.group != b.group)
    for before, after in pairwise(range(tiles)):
        end = max(s.end for s in named(trace, "epilogue", tile=before))
        assert min(s.begin for s in named(trace, "main_loop", tile=after)) < end
    assert [s.tile for s in named(trace, "load")] == list(range(tiles))


def test_one_stage_of_two_main_loops() -> None:
    """The tile of each main loop is known, though its stage is always the same."""
    trace = run(kernel(SCHEDULES["coop_1_stage"]), Problem(256, 128, 192, 1))
    assert [s.tile for s in named(trace, "main_loop", warp=0)] == [0, 1]


def test_a_group_without_a_tile_only_drains() -> None:
    trace = run(kernel(SCHEDULES[PING_PONG]), Problem(64, 128, 128, 1))
    assert {s.name for s in trace.spans if (s.role, s.group) == ("compute", 1)} == {"drain"}
    assert trace.epilogue_overlap() == 0


def test_epilogues_under_main_loops_only_in_ping_pong() -> None:
    """All but the last epilogue of five; warps of a cooperative kernel end their tiles together."""
    assert (
        run(kernel(SCHEDULES[PING_PONG]), Problem(320, 128, 512, 1)).epilogue_overlap() or 0
    ) > 0.6
    cooperative = run(kernel(SCHEDULES["coop_128x128"]), Problem(640, 128, 512, 1))
    assert (cooperative.epilogue_overlap() or 0) < 0.1
    assert len(named(cooperative, "epilogue", warp=0)) == 5
    assert not named(cooperative, "turn")


@pytest.mark.parametrize("name", ["coop_128x64", "cluster_tile_per_cta", "pipelined_tile_per_cta"])
def test_barriers_of_an_epilogue_without_chunks_are_no_turns(name: str) -> None:
    trace = run(kernel(SCHEDULES[name]), Problem(256, 64, 128, 2))
    assert not named(trace, "turn")
    assert named(trace, "epilogue")


@pytest.mark.parametrize("adversary", get_args(Order))
def test_main_loops_are_apart_whatever_the_timing(adversary: Adversary) -> None:
    for seed in range(3):
        trace = run(kernel(SCHEDULES[PING_PONG]), Problem(192, 128, 192, 1), adversary, seed)
        loops = named(trace, "main_loop")
        assert len(loops) == 12
        assert all(disjoint(a, b) for a, b in combinations(loops, 2) if a.group != b.group)


@pytest.mark.parametrize(
    ("name", "tiles"),
    [("coop_128x64", 3), ("pipelined", 3), ("tile_per_cta", 1), ("coop_3_groups", 2)],
)
def test_every_warp_of_other_kernels(name: str, tiles: int) -> None:
    k = kernel(SCHEDULES[name])
    tile = k.params.output_tile
    sms = 3 if tiles == 1 else 1
    trace = run(k, Problem(tile.m * max(tiles, sms), tile.n, 2 * tile.k, sms))
    assert {s.cta for s in named(trace, "cta")} == set(range(sms))
    warps = {s.warp for s in trace.spans if s.role == "compute"}
    assert len(warps) == tile.m // k.params.tile_sizes.warp_tile.m * 4
    for warp in warps:
        for name in ("main_loop", "epilogue"):
            found = named(trace, name, warp=warp, cta=0)
            assert [s.tile for s in found] == list(range(tiles))
    for first in (w for w in warps if w % 4 == 0):
        assert len(named(trace, "drain", warp=first, cta=0)) == 1
        assert named(trace, "store_wait", warp=first, cta=0)
    assert trace.dropped == 0


def test_no_stamp_without_a_trace() -> None:
    k = kernel(SCHEDULES[PING_PONG])
    assert not k.kernel.traces and "stamp" not in emit_kernel(k.kernel)
    assert "stamp" in emit_kernel(k.traced.kernel)
    assert not any(isinstance(s, Stamp) for s in walk(k.kernel.body))
    assert k.traced.kernel.name == f"{k.kernel.name}_traced"
    assert replace(k.traced, kernel=k.kernel, tile_level=k.tile_level, options=k.options) == k


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", ["coop_24_240", "pingpong_128x128", "pingpong_64x256", "pipelined_256", "cluster_2x1"]
)
def test_traced_kernels_compile_clean(name: str) -> None:
    """No spills, no stack, and no wgmma that ptxas serializes."""
    found = kernel(SCHEDULES[name]).traced.resources
    assert found.clean, str(found)


def test_tensors(tmp_path: Path) -> None:
    """``k.trace`` gives what a call gives, in ``out``, and a time line."""
    torch = pytest.importorskip("torch")
    k = kernel(SCHEDULES[PING_PONG])
    a, b = torch.randn(200, 128).bfloat16(), torch.randn(136, 128).bfloat16()
    out = torch.empty(200, 136).bfloat16()
    trace = k.trace(a, b, out=out)
    assert torch.equal(out, k(a, b)[0])
    assert (trace.unit, trace.kernel) == ("steps", k.traced.kernel.name)
    assert trace == k.trace(a, b)
    assert {s.cta for s in trace.spans} == {0, 1, 2, 3}
    assert k.trace(a[:0], b).spans == ()


def test_warps_take_turns_step_by_step() -> None:
    """Whatever else may happen on a machine: a time line is that of steps of the same length."""
    torch = pytest.importorskip("torch")
    k, p = kernel(SCHEDULES[PING_PONG]), Problem(200, 136, 128, 4)
    a, b = (torch.zeros(rows, p.k).bfloat16() for rows in (p.m, p.n))
    assert k.trace(a, b).spans == run(k, p, "fair").spans != run(k, p, "random").spans


@pytest.mark.parametrize("schedule", ["coop_128x128", "pingpong_64x128"])
def test_matrices_that_the_epilogue_reads(schedule: str) -> None:
    """A second warp loads them, and in ping-pong the epilogues take turns as well."""
    torch = pytest.importorskip("torch")
    k = epilogue_kernel(RESIDUAL, schedule)
    tile = k.params.output_tile
    torch.manual_seed(0)
    inputs = [
        torch.randn(tile.m * 9, 128),
        torch.randn(tile.n, 128),
        torch.randn(tile.m * 9, tile.n),
    ]
    inputs = [t.bfloat16() for t in inputs]
    out = torch.empty(tile.m * 9, tile.n).bfloat16()
    trace = k.trace(*inputs, out=out)
    assert torch.equal(out, k(*inputs)[0])
    load = [s for s in named(trace, "load", cta=0) if s.role == "load"]
    assert len({s.warp for s in load}) == 2
    for warp in {s.warp for s in load}:
        assert [s.tile for s in load if s.warp == warp] == [0, 1, 2]
    for epilogue in named(trace, "epilogue", cta=0):
        turns = [
            s for s in named(trace, "turn", cta=0, warp=epilogue.warp, tile=epilogue.tile)
            if epilogue.begin < s.begin < s.end < epilogue.end
        ]  # fmt: skip
        assert len(turns) == int(k.params.ping_pong)
    assert k.traced.resources.clean, str(k.traced.resources)


def bits(tensor: Any) -> Any:
    """A view of a bf16 or int64 tensor as the machine takes it."""
    import torch

    short = tensor.dtype is torch.bfloat16
    return tensor.view(torch.int16).numpy().view("uint16") if short else tensor.numpy()


class Device:
    """The kernel in the hands of a driver that runs it on the machine; counts launches."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.launches = kernel, 0

    def resident_ctas(self, device: int | None) -> int:
        return 2

    def prepare(self, tensors: Any, extents: dict[str, int], grid: int) -> Any:
        assert grid == 2

        def launch() -> None:
            self.launches += 1
            adversary: Adversary = "eager" if self.launches == 1 else "fair"
            arrays = {name: bits(t) for name, t in tensors.items()}
            run_kernel(self.kernel, arrays, extents, grid, adversary=adversary)

        return launch


def test_on_a_device_the_second_run_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    k = kernel(SCHEDULES[PING_PONG])
    device = Device(k.traced.kernel)
    monkeypatch.setitem(vars(k.traced), "loaded", device)
    monkeypatch.setitem(vars(k), "simulates", lambda where: False)
    a, b = torch.randn(256, 128).bfloat16(), torch.randn(128, 128).bfloat16()
    out = torch.empty(256, 128).bfloat16()
    trace = k.trace(a, b, out=out)
    assert device.launches == 2
    assert trace.unit == "ns"  # of a device whose timer and clocks both count the machine's steps
    assert torch.isfinite(out.float()).all()
    wanted = run(k, Problem(256, 128, 128, 2))
    assert [(s.name, s.warp, s.tile) for s in trace.spans] == [
        (s.name, s.warp, s.tile) for s in wanted.spans
    ]
