from __future__ import annotations

from textwrap import indent

import pytest

from passes.reduce_behind_stores import reduce_behind_stores
from tests.passes.texts import full, lowered, unchanged

DECLARED = """
global T: f32[2, 128]
tensormap D: f32[64, 128] box 64x32 swizzle 128
shared D_s: f32[1][64x32] swizzle 128
shared sums_s: f32[1][4x128]
named_barrier D_store[1] threads 128
named_barrier rows[1] threads 128
x: frag<f32, 64x128> = frag.fill 1.0
"""

ROWS = """bar.sync rows[0]
for c in 0 .. 4 unroll {
  part: frag<f32, 64x32> = frag.columns x, c * 32
  frag.reduce_to_shared sum, sums_s[0, 0, c * 32], part
}
"""

MEET = """bar.sync rows[0]
frag.store_reduced sum, T[0, 0], sums_s[0, 0, 0], 4, 128
"""

STORES = """for d in 0 .. 4 unroll {
  out: frag<f32, 64x32> = frag.columns x, d * 32
  on %warp 0 {
    elect {
      bulk.wait 0, read=true
    }
  }
  bar.sync D_store[0]
  st.shared D_s[0, 0, 0], out
  fence.proxy.async
  bar.sync D_store[0]
  on %warp 0 {
    elect {
      tma.store D[0, d * 32], D_s[0, 0, 0]
      bulk.commit
    }
  }
"""

BEFORE = DECLARED + ROWS + MEET + STORES + "}\n"

LAST = """out2: frag<f32, 64x32> = frag.columns x, 96
on %warp 0 {
  elect {
    bulk.wait 0, read=true
  }
}
bar.sync D_store[0]
st.shared D_s[0, 0, 0], out2
fence.proxy.async
bar.sync D_store[0]
on %warp 0 {
  elect {
    tma.store D[0, 96], D_s[0, 0, 0]
    bulk.commit
  }
}
"""

BUT_LAST = STORES.replace("0 .. 4", "0 .. 3")

AFTER = f"""{DECLARED}{BUT_LAST}  part: frag<f32, 64x32> = frag.columns x, d * 32
  frag.reduce_to_shared sum, sums_s[0, 0, d * 32], part
}}
part2: frag<f32, 64x32> = frag.columns x, 96
frag.reduce_to_shared sum, sums_s[0, 0, 96], part2
{MEET}{LAST}"""

CARRIED = f"""{DECLARED}
start: frag<f32, 64x8> = frag.fill 0.0
for c in 0 .. 4 carry (so_far: frag<f32, 64x8> = start -> lanes) unroll {{
  part: frag<f32, 64x32> = frag.columns x, c * 32
  inside: frag<pred, 1x32> = frag.below 100 - c * 32
  next: frag<f32, 64x8> = frag.reduce sum, so_far, part, below=inside
  yield next
}}
none: frag<f32, 64x1> = frag.fill 0.0
total: frag<f32, 64x1> = frag.reduce sum, none, lanes
frag.store_global T[0, 0], total, trans=true
{STORES}}}
"""

CARRYING = "carry (so_far: frag<f32, 64x8> = start -> lanes_but_last) unroll"

LATE = f"""{DECLARED}
start: frag<f32, 64x8> = frag.fill 0.0
{BUT_LAST.replace("unroll", CARRYING)}
  part: frag<f32, 64x32> = frag.columns x, d * 32
  inside: frag<pred, 1x32> = frag.below 100 - d * 32
  next: frag<f32, 64x8> = frag.reduce sum, so_far, part, below=inside
  yield next
}}
part2: frag<f32, 64x32> = frag.columns x, 96
inside2: frag<pred, 1x32> = frag.below 4
lanes: frag<f32, 64x8> = frag.reduce sum, lanes_but_last, part2, below=inside2
none: frag<f32, 64x1> = frag.fill 0.0
total: frag<f32, 64x1> = frag.reduce sum, none, lanes
frag.store_global T[0, 0], total, trans=true
{LAST}"""

NUMBER = """below: frag<pred, 64x1> = frag.below 50
bar.sync rows[0]
frag.reduce_to_shared sum, sums_s[0, 0, 0], total, below=below
bar.sync rows[0]
frag.store_reduced sum, T[0, 0], sums_s[0, 0, 0], 4, 1
"""


def test_rows_of_warps() -> None:
    """The barrier in front goes; the one behind is between the stores of rows and their reads."""
    assert lowered(reduce_behind_stores, BEFORE) == full(AFTER)


def test_what_a_loop_carries() -> None:
    """Nothing was in front of it that would go."""
    assert lowered(reduce_behind_stores, CARRIED) == full(LATE)


def test_a_number_of_the_tile() -> None:
    """Warps meet once more; the barrier in front of their rows goes."""
    store = "frag.store_global T[0, 0], total, trans=true\n"
    met = NUMBER.replace("bar.sync rows[0]\n", "", 1)
    before, after = CARRIED.replace(store, NUMBER), LATE.replace(store, met)
    assert lowered(reduce_behind_stores, before) == full(after)


def test_a_barrier_of_others_stays() -> None:
    """What keeps results from stages that are still read is no barrier of rows."""
    other = BEFORE.replace(ROWS, ROWS.replace("bar.sync rows[0]", "bar.sync D_store[0]", 1))
    text = lowered(reduce_behind_stores, other)
    assert text == full(AFTER.replace(BUT_LAST, f"bar.sync D_store[0]\n{BUT_LAST}", 1))


def of_blocks(stores: str, blocks: int) -> str:
    """The trips of a loop of stores with a loop of as many blocks of rows in each."""
    head, body = stores.split("\n", 1)
    return f"{head}\n  for e in 0 .. {blocks} unroll {{\n{indent(body, '  ')}  }}\n"


def test_chunks_of_several_blocks() -> None:
    """As transposed ones are, of which each block of rows is a box: all stores of a chunk are in
    front of its reduction, but of the last chunk the last one, behind which nothing is left.
    """
    front, last = (
        f"for e2 in 0 .. 2 unroll {{\n{indent(LAST, '  ')}}}\n",
        LAST.replace("out2", "out22"),
    )
    before = BEFORE.replace(STORES, of_blocks(STORES, 3))
    after = AFTER.replace(BUT_LAST, of_blocks(BUT_LAST, 3)).replace(LAST, last)
    after = after.replace("part2: frag", f"{front}part2: frag")
    assert lowered(reduce_behind_stores, before) == full(after)
    one = BEFORE.replace(STORES, of_blocks(STORES, 1))
    assert "for e2 in 0 .. 1 unroll" in lowered(reduce_behind_stores, one).split("part2: frag")[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for c in 0 .. 4 unroll", "for c in 0 .. 4"),
        ("for c in 0 .. 4 unroll", "for c in 0 .. 2 unroll"),
        ("  frag.reduce_to_shared", "  bar.sync rows[0]\n  frag.reduce_to_shared"),
        (MEET, f"{MEET}st.shared D_s[0, 0, 0], x\n"),
        ("      tma.store D[0, d * 32], D_s[0, 0, 0]\n", ""),
        ("  bar.sync D_store[0]\n", ""),
        (STORES, of_blocks(STORES, 0)),
        (STORES, of_blocks(STORES, 3).replace("3 unroll", "3")),
    ],
    ids=[
        "no_chunks", "other_chunks", "meets_in_each", "something_between", "no_store",
        "nobody_meets", "no_blocks", "blocks_that_are_counted",
    ],
)  # fmt: skip
def test_what_stays(old: str, new: str) -> None:
    assert old in BEFORE
    assert unchanged(reduce_behind_stores, BEFORE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows[1] threads 128", "rows[1] threads 64"),
        ("D_store[1] threads 128", "D_store[1] threads 64"),
    ],
)
def test_barriers_of_other_warps(old: str, new: str) -> None:
    """Of what the stores' barriers do not meet, somebody could still read rows of the tile before;
    so of a number of the tile, of which the barrier stands between the loops.
    """
    number = CARRIED.replace("frag.store_global T[0, 0], total, trans=true\n", NUMBER)
    for text in (BEFORE, number):
        assert not unchanged(reduce_behind_stores, text)
        assert unchanged(reduce_behind_stores, text.replace(old, new))
    assert not unchanged(reduce_behind_stores, CARRIED.replace(old, new))  # has no such barrier


def test_barriers_of_another_number() -> None:
    """Two warpgroups have one each: that of the other one keeps nobody of this one."""
    two = BEFORE.replace("rows[1]", "rows[2]").replace("D_store[1]", "D_store[2]")
    assert not unchanged(reduce_behind_stores, two)
    assert unchanged(reduce_behind_stores, two.replace("sync D_store[0]", "sync D_store[1]"))


def test_what_the_stores_read() -> None:
    """A total that each chunk of the result needs is there before the first."""
    read = "  out: frag<f32, 64x32> = frag.pointwise add, part_of, total\n"
    stores = STORES.replace(
        "out: frag<f32, 64x32> = frag.columns", "part_of: frag<f32, 64x32> = frag.columns"
    )
    stores = stores.replace("  on %warp 0", f"{read}  on %warp 0", 1)
    assert unchanged(reduce_behind_stores, CARRIED.replace(STORES, stores))
