"""The lower bound that a choice prunes by: below every prediction, and close enough to prune."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import pytest

from tests.choose.test_unaligned import planned
from wsched.choose import heuristics
from wsched.choose.bound import least_in_parts, least_us
from wsched.choose.bound_tile import held_by
from wsched.choose.combine import added_us
from wsched.choose.gpus import GPUS
from wsched.choose.heuristics import Candidate, candidates
from wsched.choose.problem import Problem, row_alignment
from wsched.choose.shape import Shape
from wsched.choose.stored_parts import stored_in_parts
from wsched.choose.tiles import CLUSTERS, Tile, tiles_for
from wsched.choose.ways import Way
from wsched.fusion import DataType
from wsched.schedule.matmul.computed import Computed
from wsched.schedule.matmul.params import MatmulParams

PROBLEMS = {
    "square": planned("4096x4096x4096 tn"),
    "rows of 16 bytes": planned("3320x6544x3784 tt"),
    "parts of K": planned("512x408x8760 tn"),
    "N-major": planned("784x2624x5960 tt"),
    "one row of tiles": planned("16x4608x3584 tn"),
    "exchanged": planned("200x8192x28672 tn"),
    "one step": planned("7416x8784x16 nn"),
    "batch": replace(planned("512x512x512 tn"), batch=12),
    "batch-invariant": replace(planned("512x408x8760 tn"), batch_invariant=True),
    "two products": replace(planned("1024x2048x1024 tn"), b_count=2),
    "fp32 results": replace(planned("2048x2048x256 nn"), results=(DataType.Float,) * 2, work=30),
}


@pytest.mark.sampled
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_no_candidate_costs_less_than_its_bound_and_the_choice_is_the_best(
    problem: Problem,
) -> None:
    hold(problem)


@pytest.mark.sampled
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_each_tile_has_the_stages_that_a_bound_says(problem: Problem) -> None:
    """Where nothing of the epilogue is loaded or reduced, which may leave room for fewer."""
    rooms = {
        False: room_of(problem, problem),
        True: room_of(problem, stored_in_parts(problem)),
    }
    for c in candidates(problem):
        stages = c.params.circular_buffer_options.smem_circular_buffer_stage
        assert stages == rooms[c.params.stores_parts][known_by(c.params)], c.params


def room_of(problem: Problem, stored: Problem) -> dict[tuple[object, ...], int]:
    """The stages of each tile of a problem by its bound, where what another one has is stored."""
    room = {}
    for exchanged in {t.exchanged for t in tiles_for(problem)}:
        tiles = [t for t in tiles_for(problem) if t.exchanged is exchanged]
        of = stored.exchanged if exchanged else stored
        held = held_by(of, Shape.of_all([(t, CLUSTERS[0]) for t in tiles], exchanged))
        room |= zip(map(known_by, tiles), held.stages.tolist(), strict=True)
    return room


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["square", "parts of K", "one row of tiles", "batch", "two products", "fp32 results"]
)
def test_a_tile_without_room_is_one_without_a_schedule(name: str) -> None:
    """Registers and shared memory are all that refuses a tile of these, and refuse the same."""
    tiles = [t for t in tiles_for(PROBLEMS[name]) if not t.exchanged]
    held = held_by(PROBLEMS[name], Shape.of_all([(t, CLUSTERS[0]) for t in tiles], False))
    room = {known_by(t) for t, legal in zip(tiles, held.legal, strict=True) if legal}
    found = [c.params for c in candidates(PROBLEMS[name])]
    assert 0 < len(room) < len(tiles)
    assert room == {known_by(p) for p in found if not p.exchange_operands}


@pytest.mark.parametrize("sizes", [(0, 0, 136), (0, 512, 136), (512, 0, 136), (512, 512, 0)])
def test_of_empty_matrices(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    hold(replace(planned("512x512x136 tn"), m=m, n=n, k=k))


@pytest.mark.parametrize("side", ["m", "n"])
def test_of_empty_ones_side_by_side(side: str) -> None:
    hold(replace(planned("4096x4096x512 tn"), **{side: 0, f"{side}_entries": (0, 0)}))


def test_of_sizes_whose_steps_no_64_bits_hold() -> None:
    problem = replace(planned("4096x4096x4096 tn"), m=2**30, n=2**30, k=2**30)
    assert all(us > 0 for us in least_us(problem, [(t, CLUSTERS[0]) for t in tiles_for(problem)]))


def known_by(of: Tile | MatmulParams) -> tuple[object, ...]:
    """What tells tiles of a problem apart."""
    if isinstance(of, MatmulParams):
        tile, exchanged = of.output_tile, of.exchange_operands
        chunk, apart = of.epilogue_columns, of.epilogue_stages > 2
        way = of.warpgroups, of.ping_pong, of.across
        return tile.m, tile.n, tile.k, *way, exchanged, chunk, apart
    way = of.warpgroups, of.ping_pong, of.across
    return of.m, of.n, of.k, *way, of.exchanged, of.chunk, of.apart


def hold(problem: Problem) -> None:
    """Compare what each candidate costs with its bound, in as many parts, and the choice with the
    best of them.
    """
    tried = [(t, c) for t in tiles_for(problem) for c in CLUSTERS]
    parted, every = least_in_parts(problem, tried)
    least = {
        (known_by(t), c): dict(zip(parted, row, strict=True))
        for (t, c), row in zip(tried, every.tolist(), strict=True)
    }
    found = candidates(problem)
    for c in found:
        of_tile = least[known_by(c.params), c.params.cluster_dims]
        assert 0 < of_tile[c.params.splitk_mode, c.params.splitk_factor] <= c.cost.by_laws
    assert least_us(problem, tried) == [min(of_tile.values()) for of_tile in least.values()]
    assert heuristics._searched.__wrapped__(problem)[0].params == found[0].params, problem


PRICED = {"one row of tiles": 2, "one step": 3, "fp32 results": 4, "batch-invariant": 4}
"""Tiles that are made and priced, where it is not one; of some 280 to 3080."""


@pytest.mark.usefixtures("by_laws")
@pytest.mark.parametrize("name", PROBLEMS)
def test_next_to_nothing_is_made_and_priced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of what a first choice takes, which no other work on a machine changes."""
    made = counted(PROBLEMS[name], monkeypatch)
    assert 0 < made <= PRICED.get(name, 1)


def counted(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many tiles in clusters a choice makes and prices."""
    made, priced = [], heuristics._priced

    def count(problem: Problem, tile: Tile, *others: Any) -> list[Candidate]:
        made.append(tile)
        return priced(problem, tile, *others)

    with monkeypatch.context() as patched:
        patched.setattr(heuristics, "_priced", count)
        heuristics._searched.__wrapped__(problem)
    return len(made)


def test_most_numbers_of_parts_are_not_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tiles that a choice prices, beside pricing them in all parts."""
    priced, ways, made, asked, of_all = heuristics._priced, heuristics.ways, list[int](), 0, 0

    def counted_ways(*of: Any) -> list[Way]:
        found = ways(*of)
        made.append(len(found))
        return found

    def both(problem: Problem, tile: Tile, *of: Any) -> list[Candidate]:
        nonlocal asked, of_all
        priced(problem, tile, of[0])
        of_all += sum(made)
        made.clear()
        found = priced(problem, tile, *of)
        asked += sum(made)
        made.clear()
        return found

    monkeypatch.setattr(heuristics, "ways", counted_ways)
    monkeypatch.setattr(heuristics, "_priced", both)
    heuristics._searched.__wrapped__(planned("256x256x65536 tn"))
    assert 1000 < asked < of_all / 2


KINDS: tuple[dict[str, Any], ...] = (
    {}, {}, {"work": 22}, {"results": (DataType.BFloat16, DataType.Float), "work": 3},
    {"matrices": (DataType.BFloat16,), "inputs": (DataType.BFloat16,), "work": 9},
    {"matrices": (DataType.BFloat16,), "inputs": None, "work": 9}, {"batch": 5},
    {"batch_invariant": True}, {"over_columns": 1, "work": 2}, {"b_count": 2, "work": 6},
    {"operand": DataType.Float8_e4m3fn, "promotion": 128}, {"m_major": True, "n_major": True},
    {"computed": Computed("b", DataType.Int8, 9.0)}, {"sms": 4}, {"gpu": GPUS["H100"].name},
)  # fmt: skip


def drawn(seed: int) -> Problem:
    """A problem of any size and alignment, of one of the kinds."""
    draw = random.Random(seed)
    m, n, k = (draw.choice((1, 8, 8, 64)) * draw.randint(1, 130) for _ in "mnk")
    named = {"operand": DataType.BFloat16, "results": (DataType.BFloat16,), "sms": 132}
    made = Problem(m, n, k, **named | KINDS[seed % len(KINDS)])  # type: ignore[arg-type]
    rows = ((m if made.m_major else k), (n if made.n_major else k))
    a, b = (row_alignment(row * made.operand.bytes) for row in rows)
    entries = (n, 8 * draw.randint(1, 99)) if seed % 7 == 0 and made.products == 1 else ()
    made = replace(made, align_a=a, align_b=b, n_entries=entries, n=sum(entries) or n)
    return replace(made, pairs=not any(x % 2 for x in (n, *entries)))


@pytest.mark.parametrize(
    "seeds", [range(5), pytest.param(range(5, 65), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_the_choice_is_that_of_pricing_all(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    priced = []
    for problem in map(drawn, seeds):
        hold(problem)
        priced.append(counted(problem, monkeypatch))
    assert median(priced) <= 2


def test_parts_of_a_result_with_more_bytes_than_64_bits_count() -> None:
    """Integers of 64 bits overflowed, or turned negative and were the cheapest."""
    side = 2_130_706_431
    problem = Problem(side, side, side, DataType.BFloat16, (DataType.BFloat16,), 132)
    parts = np.array([1, 2, 66])
    assert added_us(problem, parts)[1:] == pytest.approx([added_us(problem, n) for n in (2, 66)])
    assert np.diff(added_us(problem, parts)).min() > 0
    assert candidates(problem)
