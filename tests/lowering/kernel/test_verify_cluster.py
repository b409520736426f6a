"""What ``verify`` demands of accesses to the shared memory of a peer."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify

KERNEL = """kernel k threads 128 cluster 2 grid 2 {{
  param n: i64
  tensormap A: f32[64, 16] box 64x16 swizzle 64
  shared tile: f32[2][64x16] swizzle 64
  shared flat: f32[2][64x16]
  shared tiny: f32[1][2]
  mbarrier full[1] arrivals 1
  roles {{ role all warps 0 .. 4 {{
    value: frag<f32, 64x16> = frag.fill 0.0
    half: frag<bf16, 64x16> = frag.fill 0.0
    whole: frag<s32, 64x16> = frag.fill 0.0
    row: frag<f32, 1x16> = frag.fill 0.0
    {0}
  }} }}
}}"""


def problems(body: str) -> list[str]:
    return verify(parse_kernel(KERNEL.format(body)))


def test_well_formed() -> None:
    body = """st.async tile[0, 0, 0], value, full[0], 1
    st.shared tile[0, 0, 0], value, cta=1
    back: frag<f32, 64x16> = ld.shared tile[0, 0, 0], cta=1 - %cluster.ctarank
    elect { bulk.copy tile[0, 0, 0], tile[1, 0, 0], full[0], 0 }"""
    assert problems(body) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("st.async tile[0, 0, 0], value, full[0], 2", "rank 2 is not in a cluster of 2"),
        ("st.shared tile[0, 0, 0], value, cta=n", "rank n is i64, not i32"),
        ("back: frag<f32, 64x16> = ld.shared tile[0, 0, 0], cta=2",
         "rank 2 is not in a cluster of 2"),
        ("st.async tile[0, 0, 0], whole, full[0], 1", "whole is s32, tile holds f32"),
        ("st.async tile[0, 0, 0], row, full[0], 1", "st.async takes whole tiles, not 1x16"),
        ("st.async tile[0, 0, 0], value, empty[0], 1", "no storage named empty"),
        ("elect { st.async tile[0, 0, 0], value, full[0], 1 }", "st.async under elect"),
        ("bulk.copy tile[0, 0, 0], tile[1, 0, 0], full[0], 0", "bulk.copy outside elect"),
        ("elect { bulk.copy tile[0, 0, 0], tile[1, 8, 0], full[0], 0 }",
         "a bulk.copy is of whole stages, not of tile from [8, 0] on"),
        ("elect { bulk.copy flat[0, 0, 0], tile[1, 0, 0], full[0], 0 }",
         "a bulk.copy of f32[64x16] swizzle 64 to f32[64x16] swizzle 0"),
        ("elect { bulk.copy tiny[0, 0], tiny[0, 0], full[0], 0 }",
         "a bulk.copy of 8 bytes, no multiple of 16"),
        ("elect { tma.load tile[0, 0, 0], A[0, 0], bar=full[0], multicast=3 }",
         "multicast mask 0b11 of a copy to 1 CTAs"),
        ("elect { tma.load tile[0, 0, 0], A[0, 0], bar=full[0], ctas=2 }",
         "a copy to 2 CTAs without a mask of them"),
    ],
)  # fmt: skip
def test_problems(body: str, problem: str) -> None:
    last = body.removeprefix("elect { ").removesuffix(" }")
    assert problems(body) == [f"{problem}, in: {last}"]


def test_elements_of_16_bits() -> None:
    assert problems("st.async tile[0, 0, 0], half, full[0], 1")[0] == (
        "st.async takes 32-bit elements, not bf16, in: st.async tile[0, 0, 0], half, full[0], 1"
    )
