"""Stages of results: written, fenced and met before they are stored, free before they are written.

Words stand for statements: ``w0`` all warps write stage 0, ``f`` fences, ``b`` they meet, ``s0``
one thread stores stage 0 as a group, ``d1`` it waits until at most one group reads.
"""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.proof.agent import agents
from lowering.proof.obligation import Verdict
from lowering.proof.staging import staged

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
