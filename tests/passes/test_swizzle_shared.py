from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.types import Swizzle
from passes.swizzle_shared import swizzle_shared, widest_swizzle
from tests.passes.texts import full, kernel, lowered, unchanged

BEFORE = """
param k: i32
tensormap A: bf16[512, 512]
shared A_s: bf16[1][128x128]
load.tile A_s[0, 0, 0], A[k, k]
"""


READ_BY_WGMMA = """
shared B_s: bf16[1][64x64]
acc: frag<f32, 64x8> = frag.fill 0.0
wgmma.fence
next: frag<f32, 64x8, async> = wgmma acc, B_s[0, 0, 0], A_s[0, 0, 0], trans_b=true
wgmma.commit
"""

N_MAJOR = """
tensormap A: bf16[512, 512]
tensormap B: bf16[512, 512]
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][64x160]
acc: frag<f32, 64x160> = frag.fill 0.0
load.tile A_s[0, 0, 0], A[0, 0]
load.tile B_s[0, 0, 0], B[0, 160]
next: frag<f32, 64x160> = mma.tile acc, A_s[0, 0, 0], B_s[0, 0, 0], 64, true, trans_b=true
"""


def test_a_box_is_as_wide_as_the_swizzle() -> None:
    assert lowered(swizzle_shared, BEFORE) == full("""
param k: i32
tensormap A: bf16[512, 512] box 128x64 swizzle 128
shared A_s: bf16[1][128x128] swizzle 128
tma.load A_s[0, 0, 0], A[k, k]
tma.load A_s[0, 0, 64], A[k, k + 64]
""")


@pytest.mark.parametrize(("rows", "box"), [(256, 256), (384, 192), (264, 88), (512, 256), (8, 8)])
def test_boxes_fill_the_tile_exactly(rows: int, box: int) -> None:
    """At most 256 rows each, and none hangs over the end of the stage."""
    text = lowered(swizzle_shared, BEFORE.replace("[128x128]", f"[{rows}x64]"))
    loads = [line.strip() for line in text.splitlines() if "tma.load" in line]
    assert f"A: bf16[512, 512] box {box}x64 swizzle 128" in text
    assert loads[1:] == [
        f"tma.load A_s[0, {r}, 0], A[k + {r}, k]" for r in range(box, rows, box)
    ]  # fmt: skip


def test_one_tensor_for_two_tiles_of_different_height() -> None:
    """Its map has one box, which has to fit both."""
    two = """
param k: i32
tensormap A: bf16[512, 512]
shared A_s: bf16[1][128x64]
shared B_s: bf16[1][192x64]
load.tile A_s[0, 0, 0], A[k, 0]
load.tile B_s[0, 0, 0], A[k, 0]
"""
    assert lowered(swizzle_shared, two) == full("""
param k: i32
tensormap A: bf16[512, 512] box 64x64 swizzle 128
shared A_s: bf16[1][128x64] swizzle 128
shared B_s: bf16[1][192x64] swizzle 128
tma.load A_s[0, 0, 0], A[k, 0]
tma.load A_s[0, 64, 0], A[k + 64, 0]
tma.load B_s[0, 0, 0], A[k, 0]
tma.load B_s[0, 64, 0], A[k + 64, 0]
tma.load B_s[0, 128, 0], A[k + 128, 0]
""")


SHARED_BY_TWO = """
param k: i32
tensormap A: bf16[512, 512]
shared A_s: bf16[1][128x64]
ring ring(A_s) stages 2 shares 2x2
load.tile A_s[0, 0, 0], A[k, 0]
"""


def test_a_tile_that_a_cluster_shares_is_loaded_in_slices() -> None:
    text = lowered(swizzle_shared, SHARED_BY_TWO)
    assert "tensormap A: bf16[512, 512] box 64x64 swizzle 128" in text
    (load,) = (line.strip() for line in text.splitlines() if "tma.load" in line)
    mine = "%cluster.ctarank // 2 % 2"
    assert load == (
        f"tma.load A_s[0, {mine} * 64, 0], A[k + {mine} * 64, 0], "
        f"multicast=5 << %cluster.ctarank - {mine} * 2, ctas=2"
    )


def test_slices_are_whole_boxes_where_their_number_allows_it() -> None:
    """Four boxes for two CTAs: two copies each, of the full height."""
    text = lowered(swizzle_shared, SHARED_BY_TWO.replace("128x64", "64x256"))
    assert "tensormap A: bf16[512, 512] box 64x64 swizzle 128" in text
    loads = [line.strip() for line in text.splitlines() if "tma.load" in line]
    mine = "%cluster.ctarank // 2 % 2"
    mask = f"multicast=5 << %cluster.ctarank - {mine} * 2, ctas=2"
    assert loads == [
        f"tma.load A_s[0, 0, {mine} * 128], A[k, {mine} * 128], {mask}",
        f"tma.load A_s[0, 0, {mine} * 128 + 64], A[k, {mine} * 128 + 64], {mask}",
    ]


def test_an_operand_that_threads_fill() -> None:
    """No load says its layout, the product does; what has a swizzle keeps it."""
    text = """
shared A_s: bf16[1][64x64]
shared B_s: bf16[1][64x32]
shared C_s: bf16[1][64x64] swizzle 32
zero: frag<f32, 64x64> = frag.fill 0.0
one: frag<f32, 64x64> = mma.tile zero, A_s[0, 0, 0], B_s[0, 0, 0], 32, true
two: frag<f32, 64x64> = mma.tile one, A_s[0, 0, 0], C_s[0, 0, 0], 32, true
"""
    after = text.replace("[64x64]\n", "[64x64] swizzle 128\n")
    assert lowered(swizzle_shared, text) == full(after.replace("64x32]", "64x32] swizzle 64"))


def test_slices_of_rows_where_boxes_cannot_be_shared_out() -> None:
    text = lowered(swizzle_shared, SHARED_BY_TWO.replace("128x64", "64x192"))
    assert "tensormap A: bf16[512, 512] box 32x64 swizzle 128" in text
    loads = [line.strip() for line in text.splitlines() if "tma.load" in line]
    mine = "%cluster.ctarank // 2 % 2"
    assert [line.split(", multicast")[0] for line in loads] == [
        f"tma.load A_s[0, {mine} * 32, {c}], A[k + {mine} * 32, {c}]" for c in (0, 64, 128)
    ]


def test_without_tile_loads_nothing_changes() -> None:
    assert unchanged(
        swizzle_shared,
        "tensormap A: bf16[64, 64]\nshared A_s: bf16[1][64x64]\ntma.load A_s[0, 0, 0], A[0, 0]",
    )


def test_rows_that_no_swizzle_divides() -> None:
    with pytest.raises(UnsupportedError) as error:
        lowered(swizzle_shared, BEFORE.replace("128x128", "128x36"))
    assert str(error.value) == (
        "a shared tile A_s of 36 bf16 columns, rows of 72 bytes, is not supported; supported: "
        "rows of a multiple of 32 bytes, as a swizzle needs: 16 columns"
    )


@pytest.mark.parametrize("rows", [4, 100])
def test_rows_within_the_pattern_of_a_swizzle(rows: int) -> None:
    with pytest.raises(UnsupportedError) as error:
        lowered(swizzle_shared, BEFORE.replace("128x128", f"{rows}x128"))
    assert str(error.value) == (
        f"a shared tile A_s of {rows} rows is not supported; supported: a multiple of 8 rows, "
        "after which the pattern of a swizzle repeats"
    )


def test_rows_of_16_bytes_only_where_wgmma_does_not_read_them() -> None:
    narrow = BEFORE.replace("128x128", "128x8")
    text = lowered(swizzle_shared, narrow)
    assert "tensormap A: bf16[512, 512] box 128x8\n" in text
    assert "shared A_s: bf16[1][128x8]\n" in text
    shared, _, rest = READ_BY_WGMMA.strip().partition("\n")
    with pytest.raises(UnsupportedError) as error:
        lowered(swizzle_shared, narrow.replace("load.tile", f"{shared}\nload.tile") + rest)
    assert error.value.what == "a shared tile A_s of 8 bf16 columns, rows of 16 bytes,"


def test_an_n_major_tile_is_filled_up_to_whole_spans() -> None:
    """Of 160 columns two and a half boxes are read; nobody reads the rest of the third."""
    text = lowered(swizzle_shared, N_MAJOR)
    assert "tensormap B: bf16[512, 512] box 64x64 swizzle 128\n" in text
    assert "shared B_s: bf16[1][64x192] swizzle 128\n" in text
    loads = [line.strip() for line in text.splitlines() if "tma.load B_s" in line]
    assert loads == [
        "tma.load B_s[0, 0, 0], B[0, 160]",
        "tma.load B_s[0, 0, 64], B[0, 224]",
        "tma.load B_s[0, 0, 128], B[0, 288]",
    ]


def test_slices_that_begin_within_the_pattern_of_a_swizzle() -> None:
    text = lowered(swizzle_shared, SHARED_BY_TWO.replace("128x64", "72x64"))
    assert "tensormap A: bf16[512, 512] box 36x64 swizzle 128" in text


def test_a_tile_that_cannot_be_sliced() -> None:
    """18 lines of 32 bytes are no multiple of 128."""
    with pytest.raises(UnsupportedError) as error:
        lowered(swizzle_shared, SHARED_BY_TWO.replace("128x64", "72x16").replace("2x2", "4x1"))
    assert str(error.value) == (
        "a shared tile A_s of 72 rows, loaded by 4 CTAs together (each would load 18 rows, and a "
        "slice is whole rows and multiples of 128 bytes), is not supported; supported: a multiple "
        "of 16 rows"
    )


@pytest.mark.parametrize(
    ("dtype", "cols", "swizzle"),
    [
        (DType.BF16, 64, Swizzle.B128),
        (DType.BF16, 32, Swizzle.B64),
        (DType.F16, 96, Swizzle.B64),
        (DType.F16, 16, Swizzle.B32),
        (DType.F32, 32, Swizzle.B128),
        (DType.F32, 24, Swizzle.B32),
    ],
)
def test_widest(dtype: DType, cols: int, swizzle: Swizzle) -> None:
    assert widest_swizzle("t", dtype, cols) is swizzle


def test_buffers_that_are_not_loaded_keep_their_layout() -> None:
    other = BEFORE.replace("load.tile", "shared D_s: bf16[1][64x64]\nload.tile")
    assert kernel(other).buffer("D_s").swizzle is Swizzle.NONE
    assert "shared D_s: bf16[1][64x64]\n" in lowered(swizzle_shared, other)


def test_a_tile_of_a_batch() -> None:
    """A box of one matrix, whose dimensions in front vanish in shared memory."""
    batched = """
param b: i32
tensormap A: bf16[8, 512, 512]
shared A_s: bf16[1][64x128]
load.tile A_s[0, 0, 0], A[b, 64, 0]
"""
    assert lowered(swizzle_shared, batched) == full("""
param b: i32
tensormap A: bf16[8, 512, 512] box 1x64x64 swizzle 128
shared A_s: bf16[1][64x128] swizzle 128
tma.load A_s[0, 0, 0], A[b, 64, 0]
tma.load A_s[0, 0, 64], A[b, 64, 64]
""")


def test_several_matrices_are_loaded_one_by_one() -> None:
    pair = """
param b: i32
tensormap A: bf16[3, 8, 512, 512]
shared A_s: bf16[1][2x64x64]
load.tile A_s[0, 0, 0, 0], A[1, b, 64, 0]
"""
    assert lowered(swizzle_shared, pair) == full("""
param b: i32
tensormap A: bf16[3, 8, 512, 512] box 1x1x64x64 swizzle 128
shared A_s: bf16[1][2x64x64] swizzle 128
tma.load A_s[0, 0, 0, 0], A[1, b, 64, 0]
tma.load A_s[0, 1, 0, 0], A[1, b + 1, 64, 0]
""")


@pytest.mark.parametrize(("first", "legal"), [("64", True), ("g * 128", True), ("g * 80", False)])
def test_parts_of_an_n_major_tile_begin_with_a_span(first: str, legal: bool) -> None:
    text = N_MAJOR.replace("tensormap A", "param g: i32\ntensormap A", 1)
    text = text.replace("B_s[0, 0, 0], 64", f"B_s[0, 0, {first}], 64").replace("64x160", "64x192")
    text = text.replace("frag<f32, 64x192>", "frag<f32, 64x64>")
    if legal:
        assert f"B_s[0, 0, {first}], 64" in lowered(swizzle_shared, text)
        return
    with pytest.raises(UnsupportedError) as error:
        lowered(swizzle_shared, text)
    assert str(error.value) == (
        "a wgmma that reads B_s from column g * 80 on, stored by columns in swizzle spans of 64, "
        "is not supported; supported: operands that begin with a span: parts of a multiple of 64 "
        "columns"
    )


def test_spans_that_are_asked_for() -> None:
    """Of 16 bytes: boxes of 8 columns, whose eight rows are a core matrix."""
    narrow = BEFORE.replace("128x128", "64x16")
    assert lowered(swizzle_shared, narrow, smem_swizzles=(("A", Swizzle.B16),)) == full("""
param k: i32
tensormap A: bf16[512, 512] box 64x8 swizzle 16
shared A_s: bf16[1][64x16] swizzle 16
tma.load A_s[0, 0, 0], A[k, k]
tma.load A_s[0, 0, 8], A[k, k + 8]
""")
    found = lowered(swizzle_shared, N_MAJOR, smem_swizzles=(("B", Swizzle.B64),))
    assert "shared B_s: bf16[1][64x160] swizzle 64" in found
    assert "tensormap A: bf16[512, 512] box 64x64 swizzle 128" in found


@pytest.mark.parametrize(
    ("asked", "text", "why"),
    [
        (("B", Swizzle.B64), BEFORE, "smem_swizzles: B 64: no TMA loads B\n  legal here: A"),
        (
            ("A", Swizzle.B128),
            BEFORE.replace("128x128", "64x48"),
            "smem_swizzles: spans of 128 bytes in A_s: its rows have 96 bytes\n"
            "  legal here: 16; 32",
        ),
        (
            ("A", Swizzle.B16),
            f"{BEFORE}x: frag<bf16, 64x16> = ldmatrix A_s[0, 0, 0]\n",
            "smem_swizzles: A 16: threads access A_s themselves, and do so in the widest swizzle "
            "that fits",
        ),
    ],
)
def test_spans_that_cannot_be_had(asked: tuple[str, Swizzle], text: str, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(swizzle_shared, text, smem_swizzles=(asked,))
    assert str(error.value) == f"ScheduleError[smem-swizzle]: {why}"
