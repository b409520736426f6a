from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from passes.allocate_shared import allocate_shared
from tests.passes.texts import full, kernel, lowered, unchanged

BEFORE = """
tensormap A: bf16[512, 512] box 128x64 swizzle 128
shared A_s: bf16[4][128x64] swizzle 128{a}
shared B_s: bf16[4][256x64] swizzle 128{b}
shared D_s: bf16[4][64x64] swizzle 128{d}
mbarrier full[4] arrivals 1{full}
mbarrier empty[4] arrivals 8{empty}
elect {{
  tma.load A_s[0, 0, 0], A[0, 0], bar=full[0]
  tma.load B_s[0, 0, 0], A[0, 0], bar=full[0]
}}
"""
TILE_LEVEL = BEFORE.format(a="", b="", d="", full="", empty="")
PLACED = BEFORE.format(
    a=" at 0", b=" at 65536", d=" at 196608", full=" at 229376", empty=" at 229408"
)


def test_tiles_first_then_barriers() -> None:
    assert lowered(allocate_shared, TILE_LEVEL) == full(PLACED)
    assert kernel(PLACED).shared_bytes == 229440


def test_placed_again_nothing_changes() -> None:
    assert unchanged(allocate_shared, PLACED)
    assert unchanged(allocate_shared, "cta.sync")


def test_a_stage_that_breaks_the_alignment() -> None:
    with pytest.raises(UnsupportedError) as error:
        lowered(allocate_shared, "shared A_s: bf16[4][100x64] swizzle 128")
    assert str(error.value) == (
        "a shared tile A_s of 100x64 bf16, 12800 bytes a stage, is not supported; supported: "
        "stages of a multiple of 1024 bytes, which each begin with a swizzle's pattern"
    )


def test_stages_lie_as_close_as_their_swizzle_allows() -> None:
    """24 rows of 64 bytes are three patterns of 512; the next buffer starts on 1024 again."""
    before = "shared B_s: bf16[3][24x32] swizzle 64{}\nshared D_s: bf16[1][64x64] swizzle 128{}"
    text = lowered(allocate_shared, before.format("", ""))
    assert text == full(before.format(" at 0", " at 5120"))


def test_more_than_a_cta_may_have() -> None:
    """Only the operands' stages can be given up, not the epilogue's buffers."""
    five = TILE_LEVEL.replace("bf16[4][128x64]", "bf16[5][128x64]")
    with pytest.raises(ScheduleError) as error:
        lowered(allocate_shared, five.replace("bf16[4][256x64]", "bf16[5][256x64]"))
    assert str(error.value) == (
        "ScheduleError[smem]: circular_buffer(A_s, B_s, stages=5): "
        "A_s 80 + B_s 160 + D_s 32 + mbarriers = 272.1 KiB, limit 227 KiB\n"
        "  legal here: stages=1 (80.02 KiB); stages=2 (128 KiB); stages=3 (176 KiB); "
        "stages=4 (224.1 KiB)"
    )


@pytest.mark.parametrize(
    ("prefetch", "least", "legal"),
    [
        (2, 1, ("1, prefetch=0 (80.02", "2, prefetch=1 (128", "3 (176", "4 (224.1")),
        (4, 2, ("2, prefetch=1 (128", "3, prefetch=2 (176", "4, prefetch=3 (224.1")),
    ],
)
def test_what_fits_is_as_legal_as_the_prefetch(
    prefetch: int, least: int, legal: tuple[str, ...]
) -> None:
    """And its size does not depend on how many stages, of how many barriers, were asked for."""
    text = TILE_LEVEL.replace("A_s: bf16[4]", "A_s: bf16[40]")
    text = text.replace("B_s: bf16[4]", "B_s: bf16[40]").replace("full[4]", "full[40]")
    text = text.replace("empty[4]", "empty[40]")
    with pytest.raises(ScheduleError) as error:
        lowered(allocate_shared, text, prefetched=(("A_s", prefetch, least),))
    assert error.value.legal == tuple(f"stages={n} KiB)" for n in legal)


def test_the_largest_of_several_rings() -> None:
    """The other one keeps its stages."""
    text = """
    tensormap A: bf16[512, 512] box 128x64 swizzle 128
    shared A_s: bf16[2][128x64] swizzle 128
    shared B_s: bf16[13][128x64] swizzle 128
    mbarrier A_full[2] arrivals 1
    mbarrier B_full[13] arrivals 1
    mbarrier B_empty[13] arrivals 1
    elect {
      tma.load A_s[0, 0, 0], A[0, 0], bar=A_full[0]
      tma.load B_s[0, 0, 0], A[0, 0], bar=B_full[0]
    }
    """
    with pytest.raises(ScheduleError) as error:
        lowered(allocate_shared, text, prefetched=(("A_s", 1, 1), ("B_s", 10, 2)))
    assert str(error.value).startswith(
        "ScheduleError[smem]: circular_buffer(B_s, stages=13): A_s 32 + B_s 208 + mbarriers"
    ), str(error.value)
    assert error.value.legal[-2:] == ("stages=11 (208.2 KiB)", "stages=12 (224.2 KiB)")


def test_more_than_a_cta_may_have_with_two_stages() -> None:
    text = TILE_LEVEL.replace("bf16[4][64x64]", "bf16[20][64x64]")
    text = text.replace("bf16[4]", "bf16[2]")
    with pytest.raises(ScheduleError) as error:
        lowered(allocate_shared, text)
    assert str(error.value) == (
        "ScheduleError[smem]: circular_buffer(A_s, B_s, stages=2): "
        "A_s 32 + B_s 64 + D_s 160 + mbarriers = 256.1 KiB, limit 227 KiB\n"
        "  legal here: stages=1 (208 KiB)"
    )


def test_words_behind_the_barriers() -> None:
    text = "shared tile: s32[2][1]{}\nmbarrier full[4] arrivals 1{}\n"
    text += "shared last: s32[1][1]{}\ncta.sync"
    after = text.format(" at 32", " at 0", " at 40")
    assert lowered(allocate_shared, text.format("", "", "")) == full(after)
    assert kernel(after).shared_bytes == 44
