from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError
from passes.expect_tx import expect_tx
from tests.passes.texts import full, lowered, unchanged

HEAD = """
param s: i32
param k: i32
tensormap A: bf16[512, 512] box 128x64 swizzle 128
tensormap B: f32[512, 512] box 256x32 swizzle 128
shared A_s: bf16[4][128x128] swizzle 128
shared B_s: f32[4][256x32] swizzle 128
mbarrier full[4] arrivals 1
"""
TWO_STEPS = """
if k < 1 {
  mbarrier.expect_tx full[s]
  tma.load A_s[s, 0, 0], A[0, k], bar=full[s]
  tma.load A_s[s, 0, 64], A[0, k + 64], bar=full[s]
  mbarrier.expect_tx full[s + 1]
  tma.load B_s[s, 0, 0], B[0, k], bar=full[s]
  tma.load B_s[s, 0, 0], B[0, k], bar=full[s + 1]
}
"""


def test_bytes_of_each_barrier_are_counted_apart() -> None:
    """Two boxes of 16 KiB and one of 32 KiB; then one of 32 KiB."""
    after = TWO_STEPS.replace("expect_tx full[s]", "expect_tx full[s], bytes=65536")
    after = after.replace("expect_tx full[s + 1]", "expect_tx full[s + 1], bytes=32768")
    assert lowered(expect_tx, HEAD + TWO_STEPS) == full(HEAD + after)


def test_what_peers_multicast_into_this_cta_counts_too() -> None:
    """Mask 5: this CTA and the one two ranks away each send 16 KiB to both."""
    mask = "5 << %cluster.ctarank - 1, ctas=2"
    load = f"tma.load A_s[s, 0, 0], A[0, k], bar=full[s], multicast={mask}\n"
    before = HEAD + "mbarrier.expect_tx full[s]\n" + load
    assert lowered(expect_tx, before) == full(
        HEAD + "mbarrier.expect_tx full[s], bytes=32768\n" + load
    )


CLIPPED = """
param M: i32
param N: i32
param k: i32
tensormap A: bf16[M, 512] box 128x64 clipped swizzle 128
tensormap B: bf16[N, 512] box 256x64 clipped swizzle 128
tensormap C: f32[512, 512] box 64x32 clipped swizzle 128
shared A_s: bf16[2][128x128] swizzle 128
shared B_s: bf16[2][256x64] swizzle 128
shared C_s: f32[2][64x32] swizzle 128
mbarrier full[2] arrivals 1
"""
FILLS = """
for s in 0 .. 2 {
  mbarrier.expect_tx full[s]
  tma.load A_s[s, 0, 0], A[0, k], bar=full[s]
  tma.load A_s[s, 0, 64], A[0, k + 64], bar=full[s]
  tma.load B_s[s, 0, 0], B[0, k], bar=full[s], multicast=3 << %cluster.ctarank, ctas=2
  tma.load C_s[s, 0, 0], C[0, k], bar=full[s]
}
"""


def test_clipped_boxes_are_counted_once_in_front_of_everything() -> None:
    """Two boxes of A, two senders of B; C has more rows than its box, so nothing is clipped."""
    bound = "let step_bytes: i32 = min(M, 128) * 256 + min(N, 256) * 256 + 8192 once\n"
    after = FILLS.replace("full[s]\n", "full[s], bytes=step_bytes\n", 1)
    assert lowered(expect_tx, CLIPPED + FILLS) == full(CLIPPED + bound + after)


def test_equal_numbers_of_bytes_have_one_name() -> None:
    """The same copies twice, and others."""
    other = "mbarrier.expect_tx full[0]\ntma.load A_s[0, 0, 0], A[0, k], bar=full[0]\n"
    twice = FILLS.replace("for s", "for t").replace("[s", "[t")
    before = CLIPPED + FILLS + twice + other
    after = before.replace("full[s]\n", "full[s], bytes=step_bytes\n", 1)
    after = after.replace("full[t]\n", "full[t], bytes=step_bytes\n", 1)
    after = after.replace("full[0]\n", "full[0], bytes=step_bytes2\n", 1)
    lets = (
        "let step_bytes: i32 = min(M, 128) * 256 + min(N, 256) * 256 + 8192 once\n"
        "let step_bytes2: i32 = min(M, 128) * 128 once\n"
    )
    assert lowered(expect_tx, before) == full(after.replace(CLIPPED, CLIPPED + lets))


def test_without_copies_nothing_changes() -> None:
    assert unchanged(expect_tx, "for k in 0 .. 4 { cta.sync }")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("tma.load A_s[s, 0, 0], A[0, k]", "no expect_tx before: tma.load A_s[s, 0, 0], A[0, k]"),
        ("mbarrier.expect_tx full[s]\ntma.load A_s[s, 0, 0], A[0, k], bar=full[k]",
         "no expect_tx before: tma.load A_s[s, 0, 0], A[0, k], bar=full[k]"),
        ("mbarrier.expect_tx full[s]\n"
         "for i in 0 .. 2 { tma.load A_s[s, 0, 0], A[0, k], bar=full[s] }",
         "no expect_tx before: tma.load A_s[s, 0, 0], A[0, k], bar=full[s]"),
        ("for i in 0 .. 2 { mbarrier.expect_tx full[i] }",
         "nothing lands on: mbarrier.expect_tx full[i]"),
    ],
)  # fmt: skip
def test_a_copy_without_its_announcement(body: str, why: str) -> None:
    with pytest.raises(InternalError) as error:
        lowered(expect_tx, HEAD + body)
    assert str(error.value) == (
        f"expect_tx: {why}\nThis is a defect of wsched, please report it with the dump."
    )


def test_lines_of_all_matrices_count() -> None:
    """Two matrices of 4 KiB; of a clipped box the rows of its one matrix."""
    head = """
param M: i32
tensormap P: bf16[M, M, M] box 2x32x64 swizzle 128
tensormap C: bf16[M, M, M] box 1x32x64 clipped swizzle 128
shared P_s: bf16[1][2x32x64] swizzle 128
mbarrier full[1] arrivals 1
"""
    bound = "let step_bytes: i32 = min(M, 32) * 128 + 8192 once\n"
    loads = """
tma.load P_s[0, 0, 0, 0], P[0, 0, 0], bar=full[0]
tma.load P_s[0, 0, 0, 0], C[M, 0, 0], bar=full[0]
"""
    before = "mbarrier.expect_tx full[0]\n" + loads
    after = "mbarrier.expect_tx full[0], bytes=step_bytes\n" + loads
    assert lowered(expect_tx, head + before) == full(head + bound + after)
