"""Stages of results: written, fenced and met before they are stored, free before they are written.

Words stand for statements: ``w0`` all warps write stage 0, ``f`` fences, ``b`` they meet, ``s0``
one thread stores stage 0 as a group, ``d1`` it waits until at most one group reads.
"""

from __future__ import annotations

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.proof.agent import agents
from lowering.proof.obligation import Verdict
from lowering.proof.staging import alike, staged

WORDS = {
    "w": "stmatrix S[{n}, 0, 0], v",
    "f": "fence.proxy.async",
    "b": "bar.sync all[0]",
    "s": "on %warp 0 {{ elect {{ tma.store T[0, 0], S[{n}, 0, 0]\nbulk.commit }} }}",
    "o": "on %warp 0 {{ elect {{ tma.store T[0, 0], S[{n}, 0, 0] }} }}",
    "c": "on %warp 0 {{ elect {{ bulk.commit }} }}",
    "d": "on %warp 0 {{ elect {{ bulk.wait {n}, read=true }} }}",
    "r": "x{n}: frag<bf16, 64x64> = ldmatrix S[{n}, 0, 0]",
    "t": "copy.tile S[{n}, 0, 0], G[0, 0], 64, 64",
    "k": "bar.sync few[0]",
    "a": "cta.sync",
}
EARLY = "stage {} is stored before all warps have written, fenced and met"
READ = "stage {} is written while a store may read it, or may for a warp"
OPEN = "a store may read when its thread has ended"


def said(words: str) -> list[str]:
    body = "\n".join(WORDS[w[0]].format(n=w[1:]) for w in words.split())
    kernel = parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          tensormap T: bf16[64, 64] box 64x64 swizzle 128
          global G: bf16[64, 64] align 16
          shared S: bf16[3][64x64] swizzle 128 at 0
          named_barrier all[1] id 1 threads 128
          named_barrier few[1] id 2 threads 64
          v: frag<bf16, 64x64> = frag.fill 0.0
          {body}
        }}
        """
    )
    found = staged(kernel, agents(kernel), frozenset())
    return sorted({o.why for o in found if o.verdict is not Verdict.PROVED})


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("w0 f b s0 d0", ""),
        ("w0 f a s0 d0", ""),
        ("w0 f b o0 c d0", ""),
        ("w0 b s0 d0", EARLY.format(0)),
        ("w0 f s0 d0", EARLY.format(0)),
        ("w0 f k s0 d0", EARLY.format(0)),
        ("w0 f b w0 s0 d0", EARLY.format(0)),
        ("w0 f w0 b s0 d0", EARLY.format(0)),
        ("w0 f b s1 d0", EARLY.format(1)),
        ("w0 f b s0", OPEN),
        ("w0 f b o0 d0", OPEN),
        ("w0 f b s0 d1", OPEN),
        ("w0 f b s0 w0 f b s0 d0", READ.format(0)),
        ("w0 f b s0 d0 w0 f b s0 d0", READ.format(0)),
        ("w0 f b s0 d0 b w0 f b s0 d0", ""),
        ("w0 f b s0 d0 k w0 f b s0 d0", READ.format(0)),
        ("w0 f b s0 w1 f b s1 d1 b w0 f b s0 d0", ""),
        ("w0 f b s0 w1 f b s1 d1 b w1 f b s1 d0", READ.format(1)),
        ("w0 f b s0 w1 f b s1 d2 b w0 f b s0 d0", READ.format(0)),
        ("w0 f b s0 w1 f b s1 d3 b w0 f b s0 d0", READ.format(0)),
        ("w0 f b s0 w1 f b s1 d2 b w2 f b s2 d1 b w0 f b s0 d0", ""),
        ("w0 f b s0 w1 f b s1 w2 f b s2 d1 b w1 f b s1 d0", ""),
        ("w0 f b s0 w1 f b s1 w2 f b s2 d1 b w2 f b s2 d0", READ.format(2)),
        ("w0 f b o0 w1 f b o1 c d0", ""),
        ("r0", "ldmatrix reads S"),
        ("t0", "copy.tile reads S"),
    ],
)
def test_orders(words: str, why: str) -> None:
    assert said(words) == ([why] if why else [])


APART = "CTA 0, group {}: warps execute different statements"
MEETS = "bar.sync all[0]"
STORES = "stmatrix S[0, 0, 0], v"
ONE = "on %warpgroup.warp 0 {{ {} }}"
OTHERS = " ".join(f"on %warpgroup.warp {n} {{{{ {{0}} }}}}" for n in (1, 2, 3))


def kernel_of_roles(*bodies: str, each: int = 4) -> Kernel:
    """Roles of some warps each, without a group's index."""
    roles = "\n".join(
        f"role r{n} warps {each * n} .. {each * n + each} {{ {body} }}"
        for n, body in enumerate(bodies)
    )
    return parse_kernel(
        f"""
        kernel k threads {32 * each * len(bodies)} cluster 1 grid 1 {{
          tensormap T: bf16[64, 64] box 64x64 swizzle 128
          shared S: bf16[1][64x64] swizzle 128 at 0
          named_barrier all[1] id 1 threads 128
          roles {{ {roles} }}
        }}
        """
    )


@pytest.mark.parametrize(
    ("bodies", "why"),
    [
        (["{stores} {fence} {meets}"], ""),
        (["{stores} {one_fences} {meets}"], APART.format(0)),
        (["{others_meet} {stores} {fence} {one_meets}"], APART.format(0)),
        (["{one_meets}", "{stores} {fence} {meets}"], ""),
        (["{fence}", "{one_meets} {stores} {fence} {others_meet}"], APART.format(1)),
        (["{one_fences} {others_meet}"], ""),
        (["{registers} {one_fences} {others_meet}", "{registers} {fence}"], ""),
    ],
)
def test_warps_of_a_role_without_an_index(bodies: list[str], why: str) -> None:
    """All of a group do the same where any of them does what takes all."""
    words = {
        "stores": f"v: frag<bf16, 64x64> = frag.fill 0.0 {STORES}",
        "fence": WORDS["f"],
        "registers": "setmaxnreg dec, 40",
        "meets": MEETS,
        "one_fences": ONE.format(WORDS["f"]),
        "one_meets": ONE.format(MEETS),
        "others_meet": OTHERS.format(MEETS),
    }
    kernel = kernel_of_roles(*(b.format(**words) for b in bodies))
    found = alike(kernel, agents(kernel))
    assert found.name == "warps of a group are alike"
    assert (found.verdict is Verdict.REFUTED) == bool(why)
    assert (f"{found.subject}: {found.why}" if found.open else "") == why


def test_a_stage_of_two_groups_of_one_program() -> None:
    """Warpgroups of a role without an index execute the same, so they write the same stage."""
    store = f"v: frag<bf16, 64x64> = frag.fill 0.0 {STORES}"
    for each, why in ((4, []), (8, ["S[0] is of several warpgroups"])):
        kernel = kernel_of_roles(store, each=each)
        found = staged(kernel, agents(kernel), frozenset())
        assert [o.why for o in found if o.open] == why
