from __future__ import annotations

from functools import cache

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.machine.adversary import Order
from tests.explore.pages import compiled
from wsched.explore import film as module
from wsched.explore.data import Film
from wsched.explore.film import BARRIER_FIELDS, WARP_FIELDS, film_grid, film_of
from wsched.front.drawn import drawn_inputs, machine_arrays
from wsched.front.sizes import Extents

SHAPE = Extents.parse("384x128x256")


@cache
def film(name: str, adversary: Order = "random", seed: int = 0) -> Film:
    made = compiled(name)
    bound = machine_arrays(made, drawn_inputs(made.fusion, SHAPE, 0))
    rings = [r.name for r in made.tile_level.rings]
    return film_of(made.kernel, bound.arrays, bound.extents, rings, adversary, seed)


def states(film: Film) -> list[list[int]]:
    width = len(film.warps) * len(WARP_FIELDS) + len(film.barriers) * len(BARRIER_FIELDS)
    state, found = [0] * width, []
    for frame in film.frames:
        changes = frame[2:]
        for place, value in zip(changes[::2], changes[1::2], strict=True):
            assert state[place] != value  # only what is new
            state[place] = value
        found.append([*state])
    return found


def of_warp(film: Film, state: list[int], warp: int, field: str) -> int:
    return state[warp * len(WARP_FIELDS) + WARP_FIELDS.index(field)]


def of_barrier(film: Film, state: list[int], name: str, index: int, field: str) -> int:
    at = next(i for i, b in enumerate(film.barriers) if (b.array, b.index) == (name, index))
    start = len(film.warps) * len(WARP_FIELDS)
    return state[start + at * len(BARRIER_FIELDS) + BARRIER_FIELDS.index(field)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adversary", ["random", "fair", "lazy", "eager"])
def test_the_end(adversary: Order) -> None:
    """3 tiles of 4 steps on 6 stages: each is filled and freed twice, and was free at first."""
    shown = film("coop_128x128", adversary)
    last = states(shown)[-1]
    assert not shown.cut and shown.grid == 1
    for stage in range(6):
        assert of_barrier(shown, last, "ring_full", stage, "phase") == 2
        assert of_barrier(shown, last, "ring_empty", stage, "phase") == 3
        assert of_barrier(shown, last, "ring_full", stage, "missing") == 0
    computing = [i for i, w in enumerate(shown.warps) if w.role == "compute"]
    assert len(computing) == 8 and [shown.warps[i].group for i in computing] == [0] * 4 + [1] * 4
    for i in range(len(shown.warps)):
        assert of_warp(shown, last, i, "over") == 1
        assert of_warp(shown, last, i, "wait") == of_warp(shown, last, i, "line") == 0
    for i in computing:
        assert [of_warp(shown, last, i, f) for f in ("issued", "done", "seen")] == [48] * 3


def test_bytes_land_one_after_the_other() -> None:
    """128 x 64 of both operands are 32768 bytes of a phase, announced in the loops it is of."""
    shown = film("coop_128x128", "lazy")
    filling = set()
    for state in states(shown):
        announced, missing, what = (
            of_barrier(shown, state, "ring_full", 1, f) for f in ("announced", "missing", "what")
        )
        if announced:
            filling.add((announced, missing, shown.texts[what]))
    assert {(a, m) for a, m, _ in filling} == {(32768, 32768), (32768, 16384)}
    assert {w for *_, w in filling} == {"tile2 0, k2 1", "tile2 1, k2 3"}


def test_who_waits_says_for_what() -> None:
    shown = film("coop_128x128", "lazy")
    waits = {
        shown.texts[of_warp(shown, s, i, "wait")]
        for s in states(shown)
        for i, w in enumerate(shown.warps)
        if w.role == "compute"
    }
    lacking = "ring_full[0] parity 0: phase 0 lacks 0 of 1 arrivals and 16384 bytes"
    assert lacking in waits


def test_lines_are_those_of_the_kernel() -> None:
    shown, lines = (
        film("pingpong_128x128"),
        compiled("pingpong_128x128").dump("kernel").splitlines(),
    )
    seen: set[str] = set()
    for frame, state in zip(shown.frames, states(shown), strict=True):
        event, warp = shown.texts[frame[0]], frame[1]
        line = lines[of_warp(shown, state, warp, "line")].strip()
        seen.add(line)
        assert event.endswith(" takes effect") or not event or line.startswith(event)
    assert {"mbarrier.wait ring_full[stage_k], parity_k", "cta.sync"} <= seen


def test_stores_that_have_not_read_shared_memory() -> None:
    """Where they read as late as they may: one of the two stages, or both, and none at the end."""
    shown = film("coop_128x128", "lazy")
    committed = [
        of_warp(shown, state, frame[1], "stores")
        for frame, state in zip(shown.frames, states(shown), strict=True)
        if shown.texts[frame[0]] == "bulk.commit"
    ]
    assert set(committed) == {1, 2}
    last = states(shown)[-1]
    assert not any(of_warp(shown, last, i, "stores") for i in range(len(shown.warps)))


def test_named_barriers_count_threads() -> None:
    """The turns of ping-pong: half of the threads come, then the other half."""
    shown = film("pingpong_128x128")
    turns = [b for b in shown.barriers if b.named and b.array == "order"]
    assert {b.array for b in shown.barriers if not b.named} == {
        f"{b.ring}_{b.end}" for b in shown.barriers if b.ring
    }
    assert [b.index for b in turns] == [0, 1]
    arrived = {of_barrier(shown, s, "order", 0, "pending") for s in states(shown)}
    assert {0, 32, 64, 96, 128} <= arrived and max(arrived) < 256
    met = {b.index: of_barrier(shown, states(shown)[-1], "order", b.index, "phase") for b in turns}
    assert min(met.values()) > 0


@pytest.mark.slow
def test_a_cluster_is_shown_whole() -> None:
    shown = film("cluster_2x1")
    assert {w.cta for w in shown.warps} == {b.cta for b in shown.barriers} == {0, 1}
    assert all(of_warp(shown, states(shown)[-1], i, "over") for i in range(len(shown.warps)))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_film() -> None:
    first = film("coop_128x128")
    film.cache_clear()
    assert film("coop_128x128") == first
    assert film("coop_128x128", seed=1).frames != first.frames


def test_a_film_that_is_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FRAMES", 50)
    film.cache_clear()
    shown = film("coop_128x128")
    film.cache_clear()
    assert shown.cut and len(shown.frames) == 50


def test_what_would_take_too_long_is_refused_before_it_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first cluster alone runs, unless CTAs share counters."""
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "2")
    large = {"M": 2048, "N": 4096, "K": 4096}
    assert film_grid(compiled("coop_128x128").kernel, large) > 100
    for name, extents in (("coop_128x128", large | {"K": 1 << 20}), ("stream_k", large)):
        with pytest.raises(UnsupportedError, match=r"a run of \w+ on the machine that takes"):
            film_grid(compiled(name).kernel, extents)


def test_ctas_that_share_counters_all_run() -> None:
    shown = film("stream_k")
    assert shown.grid == 4 and {w.cta for w in shown.warps} == {0}
    assert all(of_warp(shown, states(shown)[-1], i, "over") for i in range(len(shown.warps)))
