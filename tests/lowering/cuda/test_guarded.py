"""Shorter texts of operations: where they are used, that they are the same function, no spills."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.guarded import guarded
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import FragPointwise
from lowering.kernel.text import parse_kernel

F = np.float32


def kernel(op: str, kind: str = "128x64", by: str = "") -> Kernel:
    """An operation on a fragment that a kernel loads and stores."""
    divisor = f"b: frag<f32, {by}> = frag.load_global y[0, 0]" if "x" in by else ""
    argument = ", b" if "x" in by else f", {by}" if by else ""
    return parse_kernel(
        f"""kernel k threads 128 cluster 1 grid 1 {{
          global x: f32[128, 64] align 16
          global y: f32[128, 64] align 16
          global out: f32[128, 64] align 16
          a: frag<f32, {kind}> = frag.load_global x[0, 0]
          {divisor}
          d: frag<f32, {kind}> = frag.pointwise {op}, a{argument}
          frag.store_global out[0, 0], d
        }}
        """
    )


def fma(a: Any, b: Any, c: Any) -> Any:
    """Products of fp32 are exact in fp64; the sum is rounded there, too, which shows in one of
    2**28.
    """
    return (
        np.asarray(a, np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)
    ).astype(F)


def numbers(rng: np.random.Generator, low: int, high: int, count: int) -> Any:
    """Of both signs, of any exponent, every fourth near a power of two."""
    found = np.exp2(rng.uniform(low, high, count)) * rng.choice([-1, 1], count)
    found[::4] = np.exp2(np.round(np.log2(np.abs(found[::4])))) * (1 - 2.0**-24)
    return found.astype(F)


def few_turns(x: Any, more: int) -> Any:
    moved = fma(x, F(0.63661977), F(12582912))
    turns = moved - F(12582912)
    r = fma(turns, F(4.371139e-8), fma(turns, F(-1.5707964), x))
    r, q = fma(turns, F(1.7151245e-15), r), moved.view(np.int32) + more
    s = r * r
    cosine = F(-2.7557319e-7)
    for c in (2.4801587e-5, -1.3888889e-3, 4.1666668e-2, -0.5, 1.0):
        cosine = fma(s, cosine, F(c))
    sine = F(2.7557319e-6)
    for c in (-1.9841270e-4, 8.3333333e-3, -0.16666667):
        sine = fma(s, sine, F(c))
    value = np.where(q & 1, cosine, fma(r * s, sine, r))
    return np.where(q & 2, -value, value)


@pytest.mark.parametrize("more", [0, 1])
def test_sines_of_few_turns(more: int) -> None:
    """And close to multiples of a quarter turn, where least is left."""
    rng = np.random.default_rng(more)
    near = (np.arange(1, 41700) * (np.pi / 2)).astype(F)
    x = np.concatenate([numbers(rng, -10, 16, 1 << 21), near, np.nextafter(near, F(0))])
    x = x[np.abs(x) < 65536]
    wanted = (np.cos if more else np.sin)(x.astype(np.float64))
    ulp = np.spacing(np.abs(wanted).astype(F)).astype(np.float64)
    assert (np.abs(few_turns(x, more) - wanted) / ulp).max() < 1.5


@pytest.mark.parametrize(
    ("op", "kind", "by", "shorter"),
    [
        ("div", "128x64", "128x1", False),
        ("sin", "128x64", "", True),
        ("exp", "128x64", "", False),
    ],
)
def test_where_there_is_a_shorter_text(op: str, kind: str, by: str, shorter: bool) -> None:
    made = kernel(op, kind, by)
    (step,) = (s for s in made.body if isinstance(s, FragPointwise))
    assert (guarded(step) is not None) == shorter
    text = emit_kernel(made)
    assert text.count("if (plain) {") == shorter
    writes = len(re.findall(r"\bd\[.*\] = ", text))
    assert writes == (2 if shorter else 1) * len(re.findall(r"\bd\[.*\] = ", emit_kernel(
        kernel("neg", kind))))  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("op", "by"), [("div", "128x1"), ("sin", ""), ("cos", "")])
def test_no_local_memory(op: str, by: str) -> None:
    text = emit_cuda(kernel(op, by=by))
    assert read_resources(compile_cubin(text, "k.cu"), "k").clean
