"""Enumerated tiles: each is legal for the scheduler, or refused by it for the reason given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.nest.lower import lower
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.epilogues import GELU, RESIDUAL, TWO_OUTPUTS
from tests.schedule.fusions import linear
from tests.schedules import SCHEDULES
from wsched.fusion import DataType, Fusion
from wsched.importer import build_fusion, record_text
from wsched.schedule import ClusterDims, GemmTile, MatmulParams, make_plan
from wsched.schedule.matmul.chunks import chunk_columns, pieces
from wsched.schedule.matmul.limits import register_candidates, settled
from wsched.schedule.matmul.reductions import Reductions
from wsched.schedule.matmul.scheduler import schedule_matmul
from wsched.schedule.matmul.tiles import (
    PARTITIONS,
    TILE_K,
    TILE_M,
    TILE_N,
    TileChoice,
    fit_stages,
    tile_choice,
    tile_choices,
    with_tile,
)

FUSIONS = {
    "plain": linear(),
    "fp32": linear(cast="Float", layout="nt"),
    "columns": linear("Half", layout="tt", by_columns=True),
    **{
        name: build_fusion(record_text(text))
        for name, text in {"gelu": GELU, "residual": RESIDUAL, "two": TWO_OUTPUTS}.items()
    },
}
BASE = MatmulParams()


def choice(
    m: int,
    n: int,
    k: int,
    groups: int,
    ping_pong: bool = False,
    across: int = 1,
    fusion: str = "plain",
) -> TileChoice:
    return tile_choice(FUSIONS[fusion], BASE, GemmTile(m, n, k), groups, ping_pong, across)


def agrees(fusion: Fusion, found: TileChoice) -> None:
    """What is legal is lowered by all passes, what is not is refused in the same words."""
    if found.legal:
        scheduled = schedule_matmul(fusion, found.params)
        options = LoweringOptions(found.params.epilogue_stages)
        run_passes(lower(make_plan(scheduled), "k"), options)
        return
    with pytest.raises((ScheduleError, UnsupportedError)) as error:
        schedule_matmul(fusion, found.params)
    assert found.reason in str(error.value)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(FUSIONS)),
    st.sampled_from(TILE_M),
    st.sampled_from(TILE_N),
    st.sampled_from(TILE_K),
    st.sampled_from(PARTITIONS),
    st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 4), (4, 1), (1, 4)]),
    st.integers(0, 2),
)
def test_the_scheduler_agrees(
    name: str,
    m: int,
    n: int,
    k: int,
    way: tuple[int, bool, int],
    cluster: tuple[int, int],
    in_flight: int,
) -> None:
    base = replace(BASE, cluster_dims=ClusterDims(*cluster), wgmma_in_flight=in_flight)
    tile = GemmTile(m, n * way[-1], k)
    agrees(FUSIONS[name], tile_choice(FUSIONS[name], base, tile, *way))


@pytest.mark.slow
def test_all_tiles_of_a_linear() -> None:
    found = list(tile_choices(FUSIONS["plain"], BASE))
    assert len(found) == len(TILE_M) * len(TILE_N) * len(TILE_K) * len(PARTITIONS)
    assert all(c.params.register_pair or c.params.num_registers is None for c in found if c.legal)
    pairs = {(c.warpgroups, c.params.num_registers) for c in found if c.legal}
    assert pairs == {
        (1, None),
        (2, (40, 232)),
        (2, (24, 240)),
        (3, (40, 152)),
        (4, (40, 104)),
        (4, (32, 112)),
    }


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (choice(64, 64, 64, 2), "the warp tile's m 32 is no multiple of wgmma's 64"),
        (choice(64, 64, 64, 3), "the CTA tile's m 64 is no multiple of the warp tile's 21"),
        (choice(256, 216, 32, 2), "216 accumulators and 32 other registers a thread exceed 240"),
        (
            choice(192, 128, 64, 2, True),
            "192 accumulators and 52 registers for this epilogue a thread exceed 240",
        ),
        (
            choice(256, 192, 64, 2, fusion="gelu"),
            "192 accumulators and 60 registers for this epilogue a thread exceed 240",
        ),
        (
            choice(64, 64, 64, 3, True),
            "ping-pong over 3 compute warpgroups is not supported; supported: two warpgroups",
        ),
        (
            choice(256, 200, 128, 2),
            "2 stages of 114 KiB + epilogue 4 KiB + barriers 1 KiB = 233 KiB, limit 227 KiB",
        ),
        (
            choice(128, 320, 64, 2, across=2, fusion="fp32"),
            "the warp tile's n 160 is no multiple of 64: side by side in an N-major operand each "
            "begins with a swizzle span of 128 bytes",
        ),
        (
            choice(128, 320, 64, 4, across=2),
            "Hopper_64_160_16 has 80 accumulators a thread, but 640 threads start with 96 "
            "registers, 32 of them for other use",
        ),
        (
            choice(64, 24, 64, 1, fusion="fp32"),
            "the tile's n 24 is no multiple of 16: an N-major operand is stored in swizzle spans "
            "of at least 32 bytes",
        ),
    ],
)
def test_reasons(found: TileChoice, reason: str) -> None:
    assert found.reason == reason
    beside = f", {found.across} side by side" if found.across > 1 else ""
    assert str(found).endswith(f"{found.warpgroups} compute{beside}: {reason}")


def test_reasons_of_a_cluster() -> None:
    base = replace(BASE, cluster_dims=ClusterDims(4, 1))
    found = tile_choice(FUSIONS["plain"], base, GemmTile(64, 24, 32), 1, False)
    assert not found.reason
    found = tile_choice(FUSIONS["plain"], base, GemmTile(64, 24, 16), 1, False)
    assert found.reason == (
        "the tile's n 24, loaded by 4 CTAs together: each would load 6 rows, and a slice is whole "
        "rows and multiples of 128 bytes"
    )


def test_more_buffers_than_chunks() -> None:
    params = choice(128, 24, 64, 2).params
    schedule_matmul(FUSIONS["plain"], replace(params, epilogue_stages=3))
    with pytest.raises(ScheduleError) as error:
        schedule_matmul(FUSIONS["plain"], replace(params, epilogue_stages=4))
    assert error.value.why == (
        "epilogue_stages=4: a tile has 3 epilogue chunks, no more buffers than that are used"
    )


def test_stages() -> None:
    """As many as fit, two buffers where that leaves three; fewer stages rather than none."""
    options = {
        name: (p.circular_buffer_options.smem_circular_buffer_stage, p.epilogue_stages)
        for name, p in {
            "wide": choice(128, 256, 64, 2).params,
            "small": choice(64, 64, 32, 1).params,
            "odd": choice(128, 24, 64, 2).params,
            "deep": choice(128, 256, 128, 2).params,
        }.items()
    }
    assert options == {"wide": (4, 2), "small": (8, 1), "odd": (8, 1), "deep": (2, 2)}
    plain = FUSIONS["plain"].outputs[0].dtype
    assert fit_stages(choice(128, 256, 128, 2).params, plain, (plain,), (), 3) is None
    reduced = [
        fit_stages(choice(128, 24, 64, 2).params, plain, (plain,), (), reductions=r)
        for r in (Reductions(), Reductions(over_rows=1), Reductions(over_columns=1))
    ]
    assert [p and p.epilogue_stages for p in reduced] == [1, 2, 2]


def test_registers_left_open() -> None:
    def candidates(name: str, tile: GemmTile, groups: int) -> tuple[tuple[int, int] | None, ...]:
        return register_candidates(FUSIONS[name], with_tile(BASE, tile, groups, False))

    assert candidates("plain", GemmTile(128, 256, 64), 2) == ((40, 232), (24, 240))
    assert candidates("plain", GemmTile(256, 200, 64), 2) == ((40, 232), (24, 240))  # 200 + 32
    assert candidates("plain", GemmTile(256, 192, 64), 2) == ((24, 240),)
    assert candidates("plain", GemmTile(192, 128, 64), 3) == ((40, 152), (32, 160))
    assert candidates("plain", GemmTile(64, 256, 64), 1) == (None,)
    given = replace(BASE, num_registers=(24, 240))
    assert settled(FUSIONS["plain"], given) == given
    assert settled(FUSIONS["plain"], BASE) == replace(BASE, num_registers=(40, 232))
    assert BASE.matches(settled(FUSIONS["plain"], BASE)) and not given.matches(BASE)


@pytest.mark.parametrize(
    ("name", "stored", "by_threads"),
    [
        ("coop_256x128", (128, 64), (64, 64)),
        ("across_128x256", (128, 64), (64, 64)),
        ("across_128x384", (128, 128), (64, 128)),  # no more than four pieces of a tile
        ("exchanged_boxes", (64, 48), (64, 48)),
        ("coop_128x64", (64, 64), (64, 64)),
    ],
)
def test_pieces_of_a_tile_that_several_tensors_share(
    name: str, stored: tuple[int, int], by_threads: tuple[int, int]
) -> None:
    """TMA stores all rows of a warpgroup at once, and threads those of a wgmma."""
    params = SCHEDULES[name]
    columns = chunk_columns(params, DataType.BFloat16)
    assert pieces(params, columns) == stored
    assert pieces(replace(params, use_smem_epilogue=False), columns) == by_threads
