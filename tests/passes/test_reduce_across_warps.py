from __future__ import annotations

import pytest

from passes.reduce_across_warps import reduce_across_warps
from tests.passes.texts import full, lowered, unchanged

DECLARED = """
SHARED
roles {
  role compute warps 0 .. 8 as wg {
    x: frag<f32, 64x32> = frag.fill 1.0
"""
LOOP = """
    for c in 0 .. 4 unroll {
      none: frag<f32, 1x32> = frag.fill 0.0
      STMTS
    }
  }
  role load warps 8 .. 12 {
  }
}
"""
ROWS = "sums: frag<f32, 1x32> = frag.reduce_rows sum, none, x"


def test_two_buffers_in_turn() -> None:
    """Of an even number of trips: one barrier for each."""
    at = "sums_s[wg * 2 + c % 2, 0, 0]"
    after = f"""frag.reduce_to_shared sum, {at}, x
      bar.sync rows[wg]
      sums: frag<f32, 1x32> = frag.reduce_from_shared sum, none, {at}, 4"""
    before = DECLARED.replace("SHARED", "") + LOOP.replace("STMTS", ROWS)
    declared = "shared sums_s: f32[4][4x32]\nnamed_barrier rows[2] threads 128"
    wanted = DECLARED.replace("SHARED", declared) + LOOP.replace("STMTS", after)
    assert lowered(reduce_across_warps, before) == full(wanted)


@pytest.mark.parametrize("loop", ["0 .. 3 unroll", "0 .. 4"])
def test_one_buffer(loop: str) -> None:
    """Of any other number: the next store waits until all have read."""
    after = """bar.sync rows[wg]
      frag.reduce_to_shared sum, sums_s[wg, 0, 0], x, below=inside
      bar.sync rows[wg]
      sums: frag<f32, 1x32> = frag.reduce_from_shared sum, none, sums_s[wg, 0, 0], 4"""
    body = "    inside: frag<pred, 64x1> = frag.below 9\n" + LOOP.replace("0 .. 4 unroll", loop)
    masked = f"{ROWS}, below=inside"
    before = DECLARED.replace("SHARED", "") + body.replace("STMTS", masked)
    declared = "shared sums_s: f32[2][4x32]\nnamed_barrier rows[2] threads 128"
    wanted = DECLARED.replace("SHARED", declared) + body.replace("STMTS", after)
    assert lowered(reduce_across_warps, before) == full(wanted)


STORE = "frag.store_global T[i, n + c * 32], sums"


def lines(*statements: str) -> str:
    """A loop over four chunks with a fill and these."""
    return LOOP.replace("STMTS", "\n      ".join(statements))


@pytest.mark.parametrize("trips", ["0 .. 4 unroll", "0 .. 5 unroll"])
def test_what_chunks_store_side_by_side_meets_once(trips: str) -> None:
    """Behind the loop, in a buffer of all chunks."""
    columns = 32 * (4 if "4" in trips else 5)
    before = _declared("") + lines(ROWS, STORE).replace("0 .. 4 unroll", trips)
    loop = LOOP.replace("STMTS", "frag.reduce_to_shared sum, sums_s[wg, 0, c * 32], x")
    head, _, tail = loop.replace("0 .. 4 unroll", trips).partition("    }\n")
    behind = f"""    bar.sync rows[wg]
    frag.store_reduced sum, T[i, n], sums_s[wg, 0, 0], 4, {columns}
"""
    declared = f"shared sums_s: f32[2][4x{columns}]\nnamed_barrier rows[2] threads 128"
    wanted = _declared(declared) + "    bar.sync rows[wg]\n" + head + "    }\n" + behind + tail
    assert lowered(reduce_across_warps, before) == full(wanted)


@pytest.mark.parametrize(
    ("store", "loop"),
    [
        ("frag.store_global T[c, n], sums", "0 .. 4 unroll"),
        ("frag.store_global T[i, n + c * 64], sums", "0 .. 4 unroll"),
        (STORE, "0 .. 4"),
    ],
    ids=["one_below_the_other", "apart", "no_chunks"],
)
def test_what_lies_apart_is_stored_by_each_trip(store: str, loop: str) -> None:
    place = store.removeprefix("frag.store_global ").removesuffix(", sums")
    before = _declared("") + lines(ROWS, store).replace("0 .. 4 unroll", loop)
    after = lines(
        "bar.sync rows[wg]",
        "frag.reduce_to_shared sum, sums_s[wg, 0, 0], x",
        "bar.sync rows[wg]",
        f"frag.store_reduced sum, {place}, sums_s[wg, 0, 0], 4, 32",
    ).replace("0 .. 4 unroll", loop)
    wanted = _declared("shared sums_s: f32[2][4x32]\nnamed_barrier rows[2] threads 128") + after
    assert lowered(reduce_across_warps, before) == full(wanted)


def test_what_is_read_twice_goes_into_registers() -> None:
    more = "more: frag<f32, 1x32> = frag.pointwise mul, sums, 2.0"
    before = _declared("") + lines(ROWS, more, STORE)
    assert "frag.reduce_from_shared" in lowered(reduce_across_warps, before)


def _declared(shared: str) -> str:
    """With a tensor to store to, and where."""
    inputs = "param i: i32\nparam n: i32\nglobal T: f32[i, n]\n"
    return inputs + DECLARED.replace("SHARED", shared)


def test_without_reductions_nothing_changes() -> None:
    empty = LOOP.replace("STMTS", "")
    assert unchanged(reduce_across_warps, DECLARED.replace("SHARED", "") + empty)
