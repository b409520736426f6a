from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError
from passes.chunk_epilogue import chunk_epilogue
from passes.swizzle_shared import store_swizzle
from tests.passes.texts import full, lowered, unchanged

HEAD = """
param row: i32
tensormap D: bf16[512, 512]{box}
{shared}named_barrier other[2] id 1 threads 256
{barrier}
"""
BEFORE = """
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. row {
      out: frag<bf16, 128x64> = frag.fill 0.0
      for c in 0 .. 4 unroll {
        store.tile D[row, c * 64], out
      }
    }
  }
  role load warps 8 .. 12 {
  }
}
"""
AFTER = """
roles {
  role compute warps 0 .. 8 as wg {
    for t in 0 .. row {
      out: frag<bf16, 128x64> = frag.fill 0.0
      for c in 0 .. 4 unroll {
        on %warpgroup.warp 0 {
          elect {
            bulk.wait 1, read=true
          }
        }
        bar.sync D_store[wg]
        stmatrix D_s[wg * 2 + c % 2, 0, 0], out
        fence.proxy.async
        bar.sync D_store[wg]
        on %warpgroup.warp 0 {
          elect {
            tma.store D[row, c * 64], D_s[wg * 2 + c % 2, 0, 0]
            bulk.commit
          }
        }
      }
    }
    on %warpgroup.warp 0 {
      elect {
        bulk.wait 0, read=true
      }
    }
  }
  role load warps 8 .. 12 {
  }
}
"""
TILE_LEVEL = HEAD.format(box="", shared="", barrier="")


def head(stages: int) -> str:
    return HEAD.format(
        box=" box 128x64 swizzle 128",
        shared=f"shared D_s: bf16[{stages}][128x64] swizzle 128\n",
        barrier="named_barrier D_store[2] threads 128",
    )


def test_two_buffers_in_turn() -> None:
    """Two buffers and a barrier of its own for each of the two warpgroups."""
    assert lowered(chunk_epilogue, TILE_LEVEL + BEFORE) == full(head(4) + AFTER)


def test_one_buffer() -> None:
    """The wait leaves nothing pending, and there is no turn to take."""
    after = AFTER.replace("wait 1,", "wait 0,").replace("wg * 2 + c % 2", "wg")
    assert lowered(chunk_epilogue, TILE_LEVEL + BEFORE, epilogue_stages=1) == full(head(2) + after)


def test_fp32_goes_by_vector_stores_into_a_narrower_box() -> None:
    before = (TILE_LEVEL + BEFORE).replace("bf16", "f32").replace("128x64", "128x32")
    text = lowered(chunk_epilogue, before)
    assert "tensormap D: f32[512, 512] box 128x32 swizzle 128" in text
    assert "shared D_s: f32[4][128x32] swizzle 128" in text
    assert "st.shared D_s[wg * 2 + c % 2, 0, 0], out" in text
    assert "stmatrix" not in text


def test_8_bits_go_by_stores_of_pairs_into_a_box_of_half_the_width() -> None:
    text = lowered(chunk_epilogue, (TILE_LEVEL + BEFORE).replace("bf16", "e4m3"))
    assert "tensormap D: e4m3[512, 512] box 128x64 swizzle 64" in text
    assert "shared D_s: e4m3[4][128x64] swizzle 64" in text
    assert "st.shared D_s[wg * 2 + c % 2, 0, 0], out" in text
    assert "stmatrix" not in text


def test_a_store_outside_a_chunk_loop_uses_one_buffer() -> None:
    before = """
roles {
  role compute warps 0 .. 4 {
    out: frag<bf16, 128x64> = frag.fill 0.0
    store.tile D[row, 0], out
  }
}
"""
    text = lowered(chunk_epilogue, TILE_LEVEL + before, epilogue_stages=1)
    assert "stmatrix D_s[0, 0, 0], out" in text
    assert "bar.sync D_store[0]" in text


@pytest.mark.parametrize("loop", ["for c in 0 .. 4 {", "for c in 0 .. row {"])
def test_trips_that_are_not_unrolled_use_one_buffer(loop: str) -> None:
    """However many buffers may be had, and whether or not it is known how many trips there are."""
    before = TILE_LEVEL + BEFORE.replace("for c in 0 .. 4 unroll {", loop)
    text = lowered(chunk_epilogue, before, epilogue_stages=4)
    assert "stmatrix D_s[wg, 0, 0], out" in text
    assert text == lowered(chunk_epilogue, before, epilogue_stages=1)


def test_without_a_store_nothing_changes() -> None:
    assert unchanged(chunk_epilogue, "roles { role load warps 0 .. 4 { cta.sync } }")


DIRECT = "frag.store_global E[row, c * 64], out\n"


def test_stores_of_threads_stay() -> None:
    """Alone, and behind those of a result that TMA stores."""
    head = TILE_LEVEL.replace("tensormap", "global E: bf16[512, 512]\ntensormap")
    store = "store.tile D[row, c * 64], out\n"
    assert unchanged(chunk_epilogue, head + BEFORE.replace(store, DIRECT))
    text = lowered(chunk_epilogue, head + BEFORE.replace(store, store + DIRECT))
    assert text.count("tma.store D[row, c * 64]") == text.count(DIRECT) == 1
    assert text.index("bulk.commit") < text.index(DIRECT) < text.index("bulk.wait 0")


def test_buffers_that_do_not_divide_the_chunks() -> None:
    """The first chunk of a tile may have the buffer of the last one of the tile before."""
    wait = """
        on %warpgroup.warp 0 {{
          elect {{
            bulk.wait {}, read=true
          }}
        }}
"""
    inner = wait.replace("\n        ", "\n          ").removeprefix("\n").removesuffix("        ")
    ways = f"{{\n{inner.format(0)}        }} else {{\n{inner.format(2)}        }}\n"
    first = f"\n        if c == 0 {ways}"
    after = AFTER.replace(wait.format(1), first).replace("[wg * 2 + c % 2", "[wg * 3 + c % 3")
    assert after.count("% 3") == 2 and "bulk.wait 2" in after
    text = lowered(chunk_epilogue, TILE_LEVEL + BEFORE, epilogue_stages=3)
    assert text == full(head(6) + after)


def test_a_store_needs_a_buffer() -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(chunk_epilogue, TILE_LEVEL + BEFORE, epilogue_stages=0)
    assert str(error.value) == (
        "ScheduleError[epilogue-stages]: epilogue_stages=0: a store needs a buffer\n"
        "  legal here: epilogue_stages=1; epilogue_stages=2"
    )


def test_no_more_buffers_than_chunks() -> None:
    of_a_chunk_each = lowered(chunk_epilogue, TILE_LEVEL + BEFORE, epilogue_stages=4)
    assert lowered(chunk_epilogue, TILE_LEVEL + BEFORE, epilogue_stages=8) == of_a_chunk_each
    one = BEFORE.replace("0 .. 4 unroll", "0 .. 1 unroll")
    default = lowered(chunk_epilogue, TILE_LEVEL + one)
    assert one != BEFORE
    assert default == lowered(chunk_epilogue, TILE_LEVEL + one, epilogue_stages=1)


def test_a_chunk_wider_than_a_swizzle_is_stored_in_several_boxes() -> None:
    text = lowered(chunk_epilogue, TILE_LEVEL + BEFORE.replace("128x64", "128x128"))
    assert "tensormap D: bf16[512, 512] box 128x64 swizzle 128\n" in text
    assert "shared D_s: bf16[4][128x128] swizzle 128\n" in text
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("span: frag<bf16, 128x64> = frag.columns out, 0")
    assert lines[at + 1 : at + 4] == [
        "stmatrix D_s[wg * 2 + c % 2, 0, 0], span",
        "span2: frag<bf16, 128x64> = frag.columns out, 64",
        "stmatrix D_s[wg * 2 + c % 2, 0, 64], span2",
    ]
    assert [line for line in lines if line.startswith("tma.store")] == [
        "tma.store D[row, c * 64], D_s[wg * 2 + c % 2, 0, 0]",
        "tma.store D[row, c * 64 + 64], D_s[wg * 2 + c % 2, 0, 64]",
    ]


def test_a_chunk_that_no_swizzle_divides() -> None:
    with pytest.raises(UnsupportedError) as error:
        store_swizzle("D", DType.E4M3, 40)
    assert str(error.value) == (
        "a shared tile D of 40 e4m3 columns, rows of 40 bytes, is not supported; supported: "
        "rows of a multiple of 32 bytes, as a swizzle needs: 32 columns"
    )


@pytest.mark.parametrize("columns", [8, 40])
def test_a_chunk_of_an_odd_number_of_16_bytes_has_no_swizzle(columns: int) -> None:
    text = lowered(chunk_epilogue, TILE_LEVEL + BEFORE.replace("128x64", f"128x{columns}"))
    assert f"tensormap D: bf16[512, 512] box 128x{columns}\n" in text
    assert f"shared D_s: bf16[4][128x{columns}]\n" in text


SECOND = "tensormap E: f32[512, 512]\n"
TWO = """
roles {
  role compute warps 0 .. 8 as wg {
    out: frag<bf16, 128x32> = frag.fill 0.0
    wide: frag<f32, 128x32> = frag.fill 0.0
    for c in 0 .. 4 unroll {
      store.tile D[row, c * 32], out
      store.tile E[row, c * 32], wide
    }
  }
}
"""


def test_two_results_share_barriers_and_bulk_groups(golden: object) -> None:
    """Each result has buffers of its own; a chunk waits, synchronizes and commits once."""
    head = TILE_LEVEL.replace("named_barrier other", f"{SECOND}named_barrier other")
    assert lowered(chunk_epilogue, head + TWO) == golden


STORE = "store.tile D[row, c * 64], out"


def test_a_result_is_stored_once_in_a_chunk() -> None:
    with pytest.raises(InternalError) as error:
        lowered(chunk_epilogue, TILE_LEVEL + BEFORE.replace(STORE, f"{STORE}\n{STORE}"))
    assert str(error.value) == (
        "chunk_epilogue: role compute stores a tensor twice in a chunk\n"
        "This is a defect of wsched, please report it with the dump."
    )


def test_stores_in_two_places() -> None:
    parted = f"{STORE}\ncta: frag<bf16, 128x64> = frag.fill 0.0\n{STORE}"
    with pytest.raises(InternalError) as error:
        lowered(chunk_epilogue, TILE_LEVEL + BEFORE.replace(STORE, parted))
    assert str(error.value) == (
        "chunk_epilogue: role compute stores in 2 places\n"
        "This is a defect of wsched, please report it with the dump."
    )


TRANSPOSED = BEFORE.replace("128x64", "64x32").replace(
    STORE, "store.tile D[c * 32, row], out, trans=true"
)


def test_columns_of_a_transposed_chunk_are_lines() -> None:
    text = lowered(chunk_epilogue, TILE_LEVEL + TRANSPOSED)
    assert "tensormap D: bf16[512, 512] box 32x64 swizzle 128\n" in text
    assert "shared D_s: bf16[4][32x64] swizzle 128\n" in text
    assert "stmatrix D_s[wg * 2 + c % 2, 0, 0], out, trans=true\n" in text
    assert "tma.store D[c * 32, row], D_s[wg * 2 + c % 2, 0, 0]\n" in text


def test_a_transposed_chunk_of_many_rows_is_stored_in_several_boxes() -> None:
    text = lowered(chunk_epilogue, TILE_LEVEL + TRANSPOSED.replace("64x32", "128x32"))
    assert "shared D_s: bf16[4][32x128] swizzle 128\n" in text
    assert "span2: frag<bf16, 64x32> = frag.rows out, 64\n" in text
    assert "stmatrix D_s[wg * 2 + c % 2, 0, 64], span2, trans=true\n" in text
    assert "tma.store D[c * 32, row + 64], D_s[wg * 2 + c % 2, 0, 64]\n" in text


def test_a_transposed_chunk_of_wide_elements() -> None:
    text = (TILE_LEVEL + TRANSPOSED).replace("D: bf16", "D: f32").replace("frag<bf16", "frag<f32")
    with pytest.raises(UnsupportedError) as error:
        lowered(chunk_epilogue, text)
    assert str(error.value) == (
        "a transposed store of f32 is not supported; supported: 16-bit types"
    )
