from __future__ import annotations

import pytest

from passes.clip_boxes import clip_boxes
from tests.passes.texts import full, lowered, unchanged

MAPS = """
param M: i32
param N: i32
param K: i32
tensormap A: bf16[M, K] box 64x64 swizzle 128
tensormap B: bf16[N, K] box 64x64 swizzle 128
tensormap R: bf16[M, N] box 64x64 swizzle 128
tensormap D: bf16[M, N]
shared A_s: bf16[1][64x64] swizzle 128
shared B_s: bf16[1][64x64] swizzle 128
shared R_s: bf16[1][64x64] swizzle 128
"""
BODY = """
tma.load A_s[0, 0, 0], A[0, 0]
tma.load B_s[0, 0, 0], B[0, 0]
tma.load R_s[0, 0, 0], R[0, 0]
acc: frag<f32, 64x64> = frag.fill 0.0
out: frag<f32, 64x64> = mma.tile acc, A_s[0, 0, 0], B_s[0, 0, 0], 64, true
r: frag<bf16, 64x64> = ldmatrix R_s[0, 0, 0]
sum: frag<f32, 64x64> = frag.pointwise add, out, r
store.tile D[0, 0], sum
"""
B_BY_K = ("B: bf16[N, K]", "B: bf16[K, N]")
READ_BY_K = ("64, true", "64, true, trans_b=true")


def clipped(text: str, *names: str) -> str:
    """The text with these tensor maps clipped."""
    lines = text.splitlines()
    marked = tuple(f"tensormap {name}:" for name in names)
    return "\n".join(
        line.replace("box 64x64", "box 64x64 clipped") if line.startswith(marked) else line
        for line in lines
    )


def test_rows_of_m_and_n_are_clipped() -> None:
    """Both operands and the epilogue's matrix; what is only stored has no box yet."""
    assert lowered(clip_boxes, MAPS + BODY) == full(clipped(MAPS + BODY, "A", "B", "R"))


def test_rows_of_k_stay_whole() -> None:
    text = MAPS.replace(*B_BY_K) + BODY.replace(*READ_BY_K)
    assert lowered(clip_boxes, text) == full(clipped(text, "A", "R"))
    text = MAPS.replace("A: bf16[M, K]", "A: bf16[K, M]") + BODY.replace(
        "64, true", "64, true, trans_a=true"
    )
    assert lowered(clip_boxes, text) == full(clipped(text, "B", "R"))


def test_columns_that_another_product_sums_over_stay_whole() -> None:
    """B's rows are columns of A of the second product, also where a loop carries them to it."""
    tail = """
next: frag<bf16, 64x64> = frag.cast out
zero: frag<f32, 64x64> = frag.fill 0.0
again: frag<f32, 64x64> = mma.tile zero, next, B_s[0, 0, 0], 64, true
"""
    assert lowered(clip_boxes, MAPS + BODY + tail) == full(clipped(MAPS + BODY + tail, "A", "R"))
    loop = """
for k in 0 .. 2 carry (was: frag<f32, 64x64> = out -> last, acc2: frag<f32, 64x64> = zero -> end) {
  left: frag<bf16, 64x64> = frag.cast was
  acc3: frag<f32, 64x64> = mma.tile acc2, left, B_s[0, 0, 0], 64, true
  yield was, acc3
}
"""
    tail = "zero: frag<f32, 64x64> = frag.fill 0.0\n" + loop
    body = lowered(clip_boxes, MAPS + BODY + tail)
    assert [line.split()[1] for line in body.splitlines() if "clipped" in line] == ["A:", "R:"]


@pytest.mark.parametrize(("store", "names"), [("next", "AR"), ("next, trans=true", "BR")])
def test_a_product_that_threads_store_as_an_operand(store: str, names: str) -> None:
    """Its columns are K there, or, transposed, its rows."""
    tail = f"""
next: frag<bf16, 64x64> = frag.cast out
stmatrix T_s[0, 0, 0], {store}
zero: frag<f32, 64x64> = frag.fill 0.0
again: frag<f32, 64x64> = mma.tile zero, T_s[0, 0, 0], B_s[0, 0, 0], 64, true
"""
    text = MAPS + "shared T_s: bf16[1][64x64] swizzle 128\n" + BODY + tail
    assert lowered(clip_boxes, text) == full(clipped(text, *names))


def test_one_tensor_whose_rows_are_m_and_k() -> None:
    """Its map has one box."""
    text = MAPS + BODY.replace(*READ_BY_K).replace("], B[", "], A[")
    assert lowered(clip_boxes, text) == full(clipped(text, "R"))


REWRITTEN = """
shared T_s: bf16[1][64x64] swizzle 128
tma.load A_s[0, 0, 0], A[0, 0]
tma.load B_s[0, 0, 0], B[0, 0]
a: frag<bf16, 64x64> = ldmatrix A_s[0, 0, 0]
stmatrix T_s[0, 0, 0], a
acc: frag<f32, 64x64> = frag.fill 0.0
out: frag<f32, 64x64> = mma.tile acc, T_s[0, 0, 0], B_s[0, 0, 0], 64, true
"""


@pytest.mark.parametrize(
    ("store", "product", "names"),
    [
        ("a", "true", "AB"), ("a, trans=true", "true", "B"),
        ("a", "true, trans_a=true", "B"), ("a, trans=true", "true, trans_a=true", "AB"),
    ],
)  # fmt: skip
def test_what_threads_read_and_store_as_an_operand(store: str, product: str, names: str) -> None:
    """Its rows are K where either is transposed, not both."""
    _, declaration, body = REWRITTEN.split("\n", 2)
    body = body.replace("T_s[0, 0, 0], a\n", f"T_s[0, 0, 0], {store}\n")
    body = body.replace("64, true", f"64, {product}")
    text = f"{MAPS}{declaration}\n{body}"
    assert lowered(clip_boxes, text) == full(clipped(text, *names))


def test_without_loads_nothing_changes() -> None:
    assert unchanged(clip_boxes, "tensormap D: bf16[512, 512] box 64x64\ncta.sync")


def test_a_batch_is_clipped_in_each_matrix() -> None:
    text = MAPS.replace("A: bf16[M, K] box 64x64", "A: bf16[M, M, K] box 1x64x64")
    body = BODY.replace("A[0, 0]", "A[M, 0, 0]")
    whole = full(clipped(text + body, "B", "R"))
    assert lowered(clip_boxes, text + body) == whole.replace("1x64x64", "1x64x64 clipped")


def test_boxes_of_several_matrices_and_of_none_stay_whole() -> None:
    """With fewer rows in each, the second matrix would land elsewhere."""
    assert unchanged(
        clip_boxes,
        """
param M: i32
tensormap P: f32[2, M, 32] box 2x64x32 swizzle 128
tensormap V: f32[M] box 64
shared P_s: f32[1][128x32] swizzle 128
shared V_s: f32[1][64]
tma.load P_s[0, 0, 0], P[0, 0, 0]
tma.load V_s[0, 0], V[0]
""",
    )


@pytest.mark.parametrize("name", ["A[2]", "A[2] device", "A device"])
def test_lists_and_descriptors_in_device_memory_stay_whole(name: str) -> None:
    text = MAPS.replace("tensormap A:", f"tensormap {name}:")
    body = BODY.replace("A[0, 0]", "A[1][0, 0]") if "[" in name else BODY
    assert lowered(clip_boxes, text + body) == full(clipped(text + body, "B", "R"))
