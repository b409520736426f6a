"""From the last rung to the choice, one legal decision after the other."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.rungs import kernel
from wsched.choose.gpus import GPUS, Gpu
from wsched.choose.heuristics import choose_params
from wsched.choose.learned.order import predicted
from wsched.choose.problem import Problem, demands
from wsched.choose.tuned.entry import Entry
from wsched.choose.tuned.lookup import VARIABLE, forget
from wsched.choose.tuned.table import add_entries
from wsched.front.known import import_fusion
from wsched.ladder.choice import params_of, to_choice
from wsched.ladder.rungs import DEFINITION, RUNGS
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import GemmTile, MatmulParams

FUSION = import_fusion(DEFINITION)
SHAPES = [(4096, 4096, 4096), (8192, 8192, 8192), (16, 4096, 4096), (300, 72, 1000)]


def problem(m: int, n: int, k: int, gpu: Gpu = GPUS["H200"]) -> Problem:
    extents = {"M": m, "N": n, "K": k}
    return Problem.of(FUSION, extents, gpu.sms, (), l2_bytes=gpu.l2_bytes, gpu=gpu.name)


def nameless(text: str) -> list[str]:
    """The words of a kernel, names by where they stand first."""
    known: dict[str, str] = {}
    words = re.findall(r"[A-Za-z_][\w.]*|\S", text.partition("\n")[2])
    return [known.setdefault(w, f"x{len(known)}") if w[0].isalpha() else w for w in words]


def test_the_last_rung_is_parameters() -> None:
    """The matmul scheduler makes the same kernel of them, but for the names of loops."""
    made = compile_fusion(FUSION, params_of(RUNGS[-1].decided))
    assert nameless(made.dump("kernel")) == nameless(kernel(RUNGS[-1].number).dump("kernel"))


def test_tables_of_measured_schedules_do_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = problem(512, 512, 512)
    other = params_of(RUNGS[-1].decided)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tuned.json"))
    forget()
    made = Entry(wanted, other, 9.5, None, "0.1.0", "2026-11-01T09:00:00+00:00")
    add_entries(tmp_path / "tuned.json", [made])
    assert choose_params(wanted) == other
    assert to_choice(512, 512, 512)[-1].params == choose_params(wanted, tuned=False) != other
    forget()


@pytest.mark.parametrize(("stages", "in_flight"), [(2, 0), (3, 1), (6, 2)])
def test_stages_of_a_rung(stages: int, in_flight: int) -> None:
    """Half of them are ahead; what is multiplied holds the others, one of them the last."""
    found = params_of(replace(RUNGS[-1].decided, stages=stages))
    buffer = found.circular_buffer_options
    assert buffer.smem_circular_buffer_stage == stages
    assert found.wgmma_in_flight == buffer.smem_circular_buffer_prefetch_gap - 1 == in_flight


@pytest.mark.parametrize("shape", SHAPES)
def test_the_way_ends_with_the_choice(shape: tuple[int, int, int]) -> None:
    turns, wanted = to_choice(*shape), problem(*shape)
    assert turns[0].params == params_of(RUNGS[-1].decided)
    assert turns[-1].params == choose_params(wanted, tuned=False)
    for before, after in pairwise(turns):
        assert before.params != after.params and after.decision
        require_legal_for(demands(wanted), after.params)


@pytest.mark.parametrize("gpu", [GPUS["H100 PCIe"], replace(GPUS["H200"], l2_bytes=2**20)])
def test_a_way_is_that_of_its_gpu(gpu: Gpu) -> None:
    """By its multiprocessors and its L2, in what is chosen and in what each schedule takes."""
    shape = (16384, 2048, 1024)
    turns, wanted = to_choice(*shape, gpu), problem(*shape, gpu)
    assert turns[-1].params == choose_params(wanted, tuned=False)
    assert [t.us for t in turns] == [predicted(wanted, t.params).us for t in turns]


def test_the_kernel_of_a_turn_is_that_of_its_parameters() -> None:
    first, *_, last = to_choice(512, 512, 512)
    assert first.kernel.kernel == compile_fusion(FUSION, first.params).kernel
    assert first.kernel.params.output_tile != last.kernel.params.output_tile
    assert last.kernel.params.output_tile == last.params.output_tile


def test_decisions() -> None:
    """Columns of a tile are those of the CTA, of the warpgroup and of the instruction."""
    found = [turn.decision for turn in to_choice(4096, 4096, 4096)]
    assert sorted(found) == [
        "", "circular_buffer_options.smem_circular_buffer_stage: 4 → 3", "cluster_dims.m: 2 → 1",
        "epilogue_columns: 0 → 128", "epilogue_stages: 1 → 2", "exchange_operands: False → True",
        "num_registers: [40, 232] → auto", "programmatic_dependent_launch: True → False",
        "tile_sizes.cta_tile.m: 256 → 128, tile_sizes.warp_tile.m: 128 → 64, "
        "tile_sizes.n: 128 → 256",
    ]  # fmt: skip
    wide = [turn.decision for turn in to_choice(8192, 8192, 8192)]
    assert wide[-1] == "tile_sizes.n: 128 → 192"


def test_each_turn_is_the_best_legal_one() -> None:
    first, second, *_ = to_choice(4096, 4096, 4096)
    goal = choose_params(problem(*SHAPES[0]), tuned=False)
    others = [replace(first.params, **{name: getattr(goal, name)})
              for name in ("num_registers", "buffering_loop_level")]  # fmt: skip
    assert all(second.us <= predicted(problem(*SHAPES[0]), p).us for p in others)


def test_decisions_that_are_legal_together_only() -> None:
    """Clusters of 2x4 have more CTAs than there are places."""
    words = [turn.decision for turn in to_choice(40, 2832, 3912)]
    assert "cluster_dims.m: 2 → 1, cluster_dims.n: 1 → 4" in words


def test_json() -> None:
    last = to_choice(4096, 4096, 4096)[-1]
    found = last.to_dict(4096, 4096, 4096, 200.0)
    assert MatmulParams.from_dict(found["params"]) == last.params
    assert found["measured_tflops"] == pytest.approx(2 * 4096**3 / 200e6)
    assert last.params.tile_sizes.warp_tile == GemmTile(64, 256, 64)
