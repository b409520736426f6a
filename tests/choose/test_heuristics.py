"""The candidates of the heuristic, and what it chooses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import ceil

import pytest

from lowering.cuda import nvrtc
from lowering.ground.errors import ScheduleError
from lowering.target.targets import DEFAULT
from tests.epilogues import GELU, RESIDUAL, SILU, WHERE
from tests.schedules import definition
from wsched.bench.reductions import definition as linear_with
from wsched.choose.cost_model import cost
from wsched.choose.epilogue_work import epilogue_work
from wsched.choose.gpus import GPUS, H200_SMS
from wsched.choose.heuristics import (
    TILES,
    Tile,
    candidates,
    choose_params,
    modelled,
    ranked,
)
from wsched.choose.problem import Problem, demands
from wsched.choose.tiles import CLUSTERS, exchanged_tiles, parts_for, splits
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.fusion import DataType
from wsched.importer.linear import LINEAR
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import ClusterDims, GemmTile, MatmulParams
from wsched.schedule.matmul.tiles import fit_stages, with_tile

BF16 = DataType.BFloat16
SHAPES = [(8192, 8192, 8192), (2048, 2048, 2048), (4096, 3584, 512), (16, 4096, 4096)]
IN_PARTS = (200, 8192, 28672)
"""Of which the operands are exchanged and K is in two parts."""


def problem(m: int, n: int, k: int, work: int = 0) -> Problem:
    return Problem(m, n, k, BF16, (BF16,), 132, work=work)


def priced(asked: Problem, like: MatmulParams) -> Iterator[tuple[float, MatmulParams]]:
    """What each tile, cluster, launch and number of parts of K costs, the rest as another has it:
    all that is legal, none left out for what it is predicted to cost.

    Clusters are of large tiles, one for each CTA; all parts have a place and four steps.
    """
    for tile, cluster in product(TILES + exchanged_tiles(asked), CLUSTERS):
        base = replace(like, cluster_dims=cluster, exchange_operands=tile.exchanged)
        size = GemmTile(tile.m, tile.n, tile.k)
        tiled = with_tile(base, size, tile.warpgroups, tile.ping_pong, tile.across)
        fitting = fit_stages(tiled, BF16, (BF16,), ())
        across = (asked.n, asked.m) if tile.exchanged else (asked.m, asked.n)
        down, along = ceil(across[0] / tile.m), ceil(across[1] / tile.n)
        if cluster != ClusterDims(1, 1) and (
            tile.m * tile.n < 128 * 128 or down < cluster.m or along < cluster.n
        ):
            continue
        for parts, dependent in product((1, *parts_for(asked.sms)), (True, False)):
            beside = parts * 4 * tile.k <= asked.k and parts * down * along <= asked.sms
            if fitting is None or (parts > 1 and not beside):
                continue
            found = replace(fitting, splitk_factor=parts, programmatic_dependent_launch=dependent)
            with suppress(ScheduleError):
                require_legal_for(demands(asked), found)
                yield cost(asked, found).us, found


@pytest.mark.usefixtures("by_laws")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [*SHAPES, IN_PARTS], ids=str)
def test_the_parameters_are_those_of_the_best(shape: tuple[int, int, int]) -> None:
    asked = problem(*shape)
    chosen = choose_params(asked)
    found = list(priced(asked, chosen))
    least = min(us for us, _ in found)
    assert chosen in [params for us, params in found if us == least]
    assert chosen.splitk_factor == (2 if shape == IN_PARTS else 1)
    assert chosen.exchange_operands or shape != IN_PARTS


@pytest.mark.parametrize("name", ["H200", "H100 PCIe", "B200"])
def test_parts_fill_the_gpu(name: str) -> None:
    """Of few tiles there are as many as it has places for; the rest are the same on each."""
    sms = GPUS[name].sms
    for tiles in (2, 3, 4, 5):
        assert splits(sms, tiles, sms, 10_000)[-1] == sms // tiles
    assert len({*parts_for(sms)} - {*parts_for(H200_SMS)}) <= 4
    assert parts_for(sms) == tuple(sorted({*parts_for(sms)})) and parts_for(1)[0] == 2


def test_parts_of_an_h200() -> None:
    """Those that its choices were measured with."""
    assert parts_for(H200_SMS) == (
        2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 22, 24, 26, 28, 32, 33, 44, 66,
    )  # fmt: skip


@pytest.mark.usefixtures("by_laws")
def test_candidates_are_ranked_by_what_they_cost() -> None:
    asked = problem(2048, 2048, 2048)
    ranks = ranked(asked)
    assert [us for us, _ in ranks] == sorted(cost(asked, p).us for _, p in ranks)
    assert [p for _, p in ranks] == [c.params for c in candidates(asked)]


def test_every_tile_is_a_candidate_once_for_each_cluster() -> None:
    found = [c.params for c in candidates(problem(8192, 8192, 8192))]
    alone = [p for p in found if p.cluster_dims == ClusterDims(1, 1) and not p.exchange_operands]
    usual = [t for t in TILES if not (t.chunk or t.apart)]
    assert len([p for p in alone if _usual(p)]) == len(usual)
    assert len(alone) - len(usual) <= len(TILES) - len(usual)  # shared memory has room for most
    keys = [
        (p.tile_sizes, p.ping_pong, p.cluster_dims, p.exchange_operands, p.epilogue_columns,
         p.epilogue_stages)
        for p in found
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)


def _usual(p: MatmulParams) -> bool:
    """Whether the epilogue has chunks that a power of two leaves, with at most two buffers."""
    return p.epilogue_columns == 0 and p.epilogue_stages <= 2


def test_no_cluster_is_larger_than_the_problem() -> None:
    found = [c.params for c in candidates(problem(64, 8192, 512))]
    along_n, along_m = ClusterDims(1, 2), ClusterDims(2, 1)
    clusters = {(p.exchange_operands, p.cluster_dims) for p in found}
    assert {(False, along_n), (True, along_m)} < clusters
    assert not {(False, along_m), (True, along_n)} & clusters


def test_an_epilogue_moves_the_choice_to_ping_pong() -> None:
    """Where its cost shows: there the other group's main loop hides it."""
    shape = (4096, 8192, 1024)
    for text in (GELU, RESIDUAL):
        work = epilogue_work(import_fusion(text))
        assert choose_params(problem(*shape, work)).ping_pong


def test_work() -> None:
    assert epilogue_work(import_fusion(GELU)) >= 20
    assert epilogue_work(import_fusion(RESIDUAL)) == 9


def test_products_that_are_summed_are_no_work_beside_the_sum() -> None:
    rows, squares = (linear_with(name) for name in ("rows", "squares"))
    stored = squares.replace("fd.add_output(s)", "fd.add_output(q)\n    fd.add_output(s)")
    assert stored != squares
    found = [epilogue_work(import_fusion(text)) for text in (rows, squares, stored)]
    assert found[0] == found[1] < found[2]


@pytest.mark.parametrize(
    "text",
    [LINEAR, GELU, RESIDUAL, SILU, WHERE, definition("bf16", "f16"), definition("bf16", "f32"),
     definition("bf16", "f32", rounded=True), linear_with("rows"), linear_with("amax")],
)  # fmt: skip
def test_a_problem_demands_what_its_fusion_does(text: str) -> None:
    """Else a schedule is chosen that is refused: parts of K of what is rounded and widened."""
    fusion = import_fusion(text)
    assert demands(Extents(256, 256, 8192).problem(fusion, H200_SMS)) == Demands.of(fusion)


@pytest.mark.slow
@pytest.mark.parametrize("text", [LINEAR, GELU, RESIDUAL], ids=["linear", "gelu", "residual"])
@pytest.mark.parametrize("tile", [Tile(128, 192, 2, True), Tile(128, 160, 2, True)], ids=str)
def test_the_widest_tiles_compile_clean(text: str, tile: Tile) -> None:
    """The candidates leave out a tile whose accumulators leave an epilogue too few registers."""
    if nvrtc.nvrtc_version() is None:
        pytest.skip("needs NVRTC")
    fusion = import_fusion(text)
    inputs = (BF16,) if text == RESIDUAL else ()
    asked = replace(problem(4096, 4096, 4096, epilogue_work(fusion)), inputs=inputs)
    shapes = {(c.params.output_tile.m, c.params.output_tile.n, c.params.ping_pong): c.params
              for c in reversed(candidates(asked))}  # fmt: skip
    params = shapes.get((tile.m, tile.n, tile.ping_pong))
    if params is None:
        assert tile.n == 192 and asked.work
    else:
        assert compile_clean(fusion, params).resources.clean


def test_as_many_stages_as_fit() -> None:
    for shape in SHAPES:
        for _, params in ranked(problem(*shape)):
            assert 3 <= params.circular_buffer_options.smem_circular_buffer_stage <= 8


@pytest.mark.slow
def test_results_without_room() -> None:
    """Tile by tile: results from registers, inputs by threads; small ones have room for both."""
    many = Problem(512, 512, 512, BF16, (DataType.Float,) * 12, 132)
    loading = replace(many, results=(DataType.Float,) * 2, inputs=(DataType.Float,) * 3)

    def ways(of: Problem, m: int, n: int) -> set[tuple[bool, bool]]:
        sizes = ((p.output_tile, p) for _, p in ranked(of) if not p.stores_parts)
        found = (p for tile, p in sizes if (tile.m, tile.n) == (m, n))
        return {(p.use_smem_epilogue, p.epilogue_input_stages > 0) for p in found}

    assert ways(many, 128, 128) == {(False, True)} and ways(many, 64, 16) == {(True, True)}
    assert ways(replace(many, results=(BF16,)), 128, 128) == {(True, True)}
    assert ways(loading, 128, 256) == {(True, False)} and ways(loading, 64, 64) == {(True, True)}


@pytest.mark.parametrize(
    ("n", "kind", "smem", "vector"),
    [(1000, BF16, True, 2), (1004, BF16, False, 2), (1004, DataType.Float, True, 2),
     (1001, BF16, False, 1), (1002, DataType.Float, False, 2)],
)  # fmt: skip
def test_rows_that_tma_does_not_store(n: int, kind: DataType, smem: bool, vector: int) -> None:
    """Multiples of 16 bytes go through shared memory, an even number of elements by pairs."""
    params = choose_params(Problem(512, n, 512, BF16, (kind,), 132))
    assert params.use_smem_epilogue is smem
    assert params.supported_vec_size.epilogue == vector


@pytest.mark.usefixtures("by_laws")
def test_stages_take_what_the_epilogue_leaves() -> None:
    """Ping-pong 128x128: of 226 KiB 64 KiB are four buffers of the epilogue, a stage has 32."""
    plain = Problem(4096, 4096, 4096, BF16, (BF16,), 132)
    stages = [
        next(p.circular_buffer_options.smem_circular_buffer_stage for _, p in ranked(problem)
             if p.ping_pong and p.output_tile.m == p.output_tile.n == 128)
        for problem in (plain, replace(plain, smem_epilogue=False))
    ]  # fmt: skip
    assert stages == [5, 7]


def test_the_width_of_inputs() -> None:
    plain = Problem(512, 1024, 512, BF16, (BF16,), 132)
    assert choose_params(replace(plain, pairs=False)).supported_vec_size.epilogue == 1
    assert choose_params(replace(plain, pairs=False)).use_smem_epilogue


def test_candidates_are_for_the_target_of_the_problem() -> None:
    """With half the shared memory there are fewer stages, and no schedule that wants more."""
    small = replace(DEFAULT, shared_bytes=DEFAULT.shared_bytes // 2)
    usual = problem(8192, 8192, 8192)
    asked = replace(usual, target=small)
    require_legal_for(demands(asked), modelled(asked))
    with pytest.raises(ScheduleError) as error:
        require_legal_for(demands(asked), modelled(usual))
    assert error.value.rule == "smem" and error.value.why.endswith(", limit 113.5 KiB")


def test_kernels_with_reductions_are_launched_dependently() -> None:
    """Also where the laws have the same schedule launched behind the grid in front first."""
    beside = Problem(8192, 4096, 512, BF16, (BF16,), 132, over_columns=1, of_sums=True)
    first = candidates(beside)[0].params
    assert not first.programmatic_dependent_launch
    assert modelled(beside) == replace(first, programmatic_dependent_launch=True)
