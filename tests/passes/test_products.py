"""Lists of weights, pairs of operands, two accumulators, A and B swapped: on the machine."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import MachineError
from lowering.machine.adversary import Adversary
from passes.options import LoweringOptions
from passes.pipeline import steps
from tests.passes.products import (
    Array,
    execute,
    final,
    integers,
    machine_code_is_clean,
    text,
    unwritten,
)

BF16 = ml_dtypes.bfloat16
NAMES = ("gate", "lists", "lora", "prologue", "promoted", "rewritten", "swapped", "widths")


def product(x: Array, w: Array) -> Array:
    """X · Wᵀ in fp32, exact for small integers."""
    return x.astype(np.float32) @ w.astype(np.float32).T


@pytest.mark.parametrize("adversary", ["random", "lazy"])
def test_weights_of_different_widths(adversary: Adversary) -> None:
    rng = np.random.default_rng(1)
    m, k, widths = 150, 136, (136, 72, 8)
    x, weights = integers(rng, m, k), [integers(rng, n, k) for n in widths]
    results = [unwritten(m, n) for n in widths]
    tensors = {"X": x}
    for i, (w, d) in enumerate(zip(weights, results, strict=True)):
        tensors |= {f"W[{i}]": w, f"D[{i}]": d}
    sizes = {f"N{i}": n for i, n in enumerate(widths)}
    execute(final(text("lists")), tensors, adversary=adversary, M=m, K=k, **sizes)
    for w, d in zip(weights, results, strict=True):
        assert np.array_equal(d, product(x, w).astype(BF16))


@pytest.mark.sampled
@pytest.mark.parametrize("in_flight", [0, 1, 2])
def test_gate_and_up(in_flight: int) -> None:
    rng = np.random.default_rng(2)
    m, n, k = 200, 136, 200
    x, g, u = integers(rng, m, k), integers(rng, n, k), integers(rng, n, k)
    d = unwritten(m, n)
    kernel = final(text("gate").replace("in_flight 1", f"in_flight {in_flight}"))
    execute(kernel, {"X": x, "G": g, "U": u, "D": d}, seed=in_flight, M=m, N=n, K=k)
    a, b = product(x, g), product(x, u)
    with np.errstate(over="ignore"):
        silu = a * (np.float32(1) / (np.float32(1) + np.exp(-a)))
    assert np.array_equal(d, (silu * b).astype(BF16))


@pytest.mark.parametrize("rank", [8, 64, 72])
def test_pairs_of_operands_along_k(rank: int) -> None:
    rng = np.random.default_rng(rank)
    m, n, k = 136, 72, 200
    x, w = integers(rng, m, k), integers(rng, n, k)
    y, b = integers(rng, m, rank), integers(rng, n, rank)
    d = unwritten(m, n)
    tensors = {"X[0]": x, "X[1]": y, "W[0]": w, "W[1]": b, "D": d}
    execute(final(text("lora")), tensors, M=m, N=n, K=k, R=rank)
    assert np.array_equal(d, (product(x, w) + product(y, b)).astype(BF16))


@pytest.mark.parametrize("m", [5, 24, 50])
def test_a_and_b_swapped(m: int) -> None:
    rng = np.random.default_rng(m)
    n, k = 200, 136
    x, w, d = integers(rng, m, k), integers(rng, n, k), unwritten(m, n)
    execute(final(text("swapped")), {"X": x, "W": w, "D": d}, M=m, N=n, K=k)
    assert np.array_equal(d, product(x, w).astype(BF16))


def test_accumulators_of_different_widths() -> None:
    rng = np.random.default_rng(4)
    m, n, r, k = 130, 264, 40, 200
    x, w, v = integers(rng, m, k), integers(rng, n, k), integers(rng, r, k)
    d, e = unwritten(m, n), unwritten(m, r)
    kernel = final(text("widths"), epilogue_stages=2)
    execute(kernel, {"X": x, "W": w, "V": v, "D": d, "E": e}, M=m, N=n, K=k, R=r)
    assert np.array_equal(d, product(x, w).astype(BF16))
    assert np.array_equal(e, product(x, v).astype(BF16))


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["prologue", "rewritten"])
@pytest.mark.parametrize("adversary", ["random", "lazy", "eager"])
def test_a_computed_in_registers_or_by_another_warpgroup(name: str, adversary: Adversary) -> None:
    rng = np.random.default_rng(5)
    m, n, k = 136, 72, 200
    x, w, d = integers(rng, m, k), integers(rng, n, k), unwritten(m, n)
    scale = rng.integers(-1, 3, (m, 1)).astype(np.float32)
    tensors = {"X": x, "W": w, "D": d, "scale": scale}
    execute(final(text(name)), tensors, adversary=adversary, M=m, N=n, K=k)
    left = np.maximum(x.astype(np.float32) * scale, 0).astype(BF16)
    assert np.array_equal(d, product(left, w).astype(BF16))


def test_a_transposed_by_another_warpgroup() -> None:
    """X is [K, M]: rows of K that X does not have arrive as zeros, which the sums need."""
    source = text("rewritten")
    for old, new in (
        ("X: bf16[M, K]", "X: bf16[K, M]"), ("X[row, k * 64]", "X[k * 64, row]"),
        ("scale: f32[M, 1]", "scale: f32[1, M]"), ("scale[row1, 0]", "scale[0, row1]"),
        ("factor: frag<f32, 64x1>", "factor: frag<f32, 1x64>"),
        ("A_s[0, 0, 0], a\n", "A_s[0, 0, 0], a, trans=true\n"),
    ):  # fmt: skip
        assert source.count(old) == 1
        source = source.replace(old, new)
    rng = np.random.default_rng(8)
    m, n, k = 136, 72, 40  # fewer rows of K than a box has
    x, w, d = integers(rng, k, m), integers(rng, n, k), unwritten(m, n)
    scale = rng.integers(-1, 3, (1, m)).astype(np.float32)
    execute(final(source), {"X": x, "W": w, "D": d, "scale": scale}, M=m, N=n, K=k)
    left = np.maximum(x.astype(np.float32) * scale, 0).T.astype(BF16)
    assert np.array_equal(d, product(left, w).astype(BF16))


def test_a_piece_that_is_written_one_group_too_early() -> None:
    """The wait in front of the first piece leaves one group more: the machine sees the race."""
    text_ = print_kernel(final(text("prologue")))
    early = re.sub(r"(acc_next_before0: .*), 1\n", r"\1, 2\n", text_)
    assert early != text_
    rng = np.random.default_rng(6)
    x, w = integers(rng, 64, 200), integers(rng, 64, 200)
    tensors = {"X": x, "W": w, "D": unwritten(64, 64), "scale": np.ones((64, 1), np.float32)}
    with pytest.raises(MachineError) as error:
        execute(parse_kernel(early), tensors, adversary="lazy", M=64, N=64, K=200)
    assert error.value.what.startswith("fragment left_k0 is written while it may be read by: acc_")


def test_a_second_accumulator() -> None:
    """Sums of 128 of K are exact in fp32, and so is their sum, whatever wgmma itself adds with."""
    rng = np.random.default_rng(7)
    m, n, k = 72, 136, 328
    x, w, d = integers(rng, m, k), integers(rng, n, k), unwritten(m, n)
    execute(final(text("promoted")), {"X": x, "W": w, "D": d}, M=m, N=n, K=k)
    assert np.array_equal(d, product(x, w).astype(BF16))


@pytest.mark.parametrize("name", NAMES)
def test_every_pass_leaves_a_well_formed_kernel(name: str) -> None:
    *_, last = steps(parse_kernel(text(name)), LoweringOptions(epilogue_stages=1))
    assert last.kernel == final(text(name))


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_machine_code(name: str) -> None:
    assert machine_code_is_clean(final(text(name)))
