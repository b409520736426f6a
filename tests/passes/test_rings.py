"""Rings of every kind from the tile level: on the machine at odd extents, and to machine code."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import MachineError
from lowering.machine.adversary import Adversary
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
Case = tuple[dict[str, Array], dict[str, Array], dict[str, int]]
"""Tensors of a launch, its results as they should be, and sizes."""


def wide(x: Array) -> Array:
    return x.astype(np.float32)


def operands(rng: np.random.Generator, m: int, n: int, k: int) -> tuple[dict[str, Array], Array]:
    """A, B and an unwritten D; A · Bᵀ in fp32, exact."""
    a, b = integers(rng, m, k), integers(rng, n, k)
    return {"A": a, "B": b, "D": unwritten(m, n)}, wide(a) @ wide(b).T


def one_stage(rng: np.random.Generator) -> Case:
    tensors, product = operands(rng, 136, 72, 200)
    return tensors, {"D": product.astype(BF16)}, {"M": 136, "N": 72, "K": 200}


def loaded_ahead(rng: np.random.Generator) -> Case:
    tensors, product = operands(rng, 136, 72, 456)
    return tensors, {"D": product.astype(BF16)}, {"M": 136, "N": 72, "K": 456}


def registers(rng: np.random.Generator) -> Case:
    tensors, _ = operands(rng, 150, 72, 200)
    bias = rng.integers(-2, 3, (1, 200)).astype(np.float32)
    left = np.maximum(wide(tensors["A"]) + bias, 0)
    tensors["bias"] = bias
    product = left @ wide(tensors["B"]).T
    return tensors, {"D": product.astype(BF16)}, {"M": 150, "N": 72, "K": 200}


def gathered(rng: np.random.Generator) -> Case:
    a, b = integers(rng, 37, 136), integers(rng, 72, 136)
    order = rng.integers(-1, 37, (150, 1)).astype(np.int32)
    rows = np.where(order < 0, 0, wide(a)[order[:, 0]])
    tensors = {"A": a, "B": b, "D": unwritten(150, 72), "order": order}
    product = rows @ wide(b).T
    return tensors, {"D": product.astype(BF16)}, {"R": 37, "M": 150, "N": 72, "K": 136}


def two_readers(rng: np.random.Generator) -> Case:
    tensors, product = operands(rng, 136, 72, 328)
    squares = (wide(tensors["A"]) ** 2).sum(1, keepdims=True)
    tensors["S"] = np.full_like(squares, np.nan)
    results = {"D": product.astype(BF16), "S": squares}
    return tensors, results, {"M": 136, "N": 72, "K": 328}


def two_rates(rng: np.random.Generator) -> Case:
    m, n, k = 136, 72, 328
    tensors, _ = operands(rng, m, n, k)
    tensors["C"] = scales = rng.integers(-1, 3, (3, m, n)).astype(np.float32)
    spans = (slice(i, i + 128) for i in range(0, k, 128))
    a, b = wide(tensors["A"]), wide(tensors["B"])
    product = sum(scale * (a[:, s] @ b[:, s].T) for scale, s in zip(scales, spans, strict=True))
    return tensors, {"D": np.asarray(product).astype(BF16)}, {"M": m, "N": n, "K": k}


def step_later(rng: np.random.Generator, n: int = 200) -> Case:
    q, k, v = integers(rng, 264, 64), integers(rng, n, 64), integers(rng, n, 64)
    scores = np.maximum(wide(q) @ wide(k).T, 0)
    product = scores @ wide(v)
    tensors = {"Q": q, "K": k, "V": v, "D": unwritten(264, 64)}
    return tensors, {"D": product.astype(BF16)}, {"M": 264, "N": n}


KINDS: tuple[Callable[[np.random.Generator], Case], ...] = (
    gathered, loaded_ahead, one_stage, registers, step_later, two_rates, two_readers,
)  # fmt: skip


def right(source: str, case: Case, adversary: Adversary, seed: int) -> bool:
    tensors, results, sizes = case
    execute(final(source), tensors, adversary=adversary, seed=seed, **sizes)
    return all(np.array_equal(tensors[name], result) for name, result in results.items())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adversary", ["random", "lazy", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: Callable[[np.random.Generator], Case], adversary: Adversary) -> None:
    """Several tiles a CTA, edges along each dimension, more and fewer steps than stages."""
    name = kind.__name__
    for seed in (1, 2):
        case = kind(np.random.default_rng(seed))
        assert right(text(name, "rings"), case, adversary, seed)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_machine_code(kind: Callable[[np.random.Generator], Case]) -> None:
    assert machine_code_is_clean(final(text(kind.__name__, "rings")))


@pytest.mark.sampled
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["gathered", "registers", "two_readers", "two_rates"])
def test_any_number_of_stages(name: str, stages: int) -> None:
    """As many stages as there may be in flight, and one more."""
    kind = next(k for k in KINDS if k.__name__ == name)
    source = re.sub(
        r"stages \d+( in_flight 1)?",
        f"stages {stages}" + (" in_flight 1" if stages > 1 else ""),
        text(name, "rings"),
    )
    assert right(source, kind(np.random.default_rng(stages)), "random", stages)


@pytest.mark.sampled
@pytest.mark.parametrize("n", [8, 64, 72, 136])
@pytest.mark.parametrize("stages", [(1, 1), (2, 3), (4, 1)])
def test_a_step_later_with_few_steps(stages: tuple[int, int], n: int) -> None:
    """One step has no loop, only what stands in front of it and behind."""
    source = text("step_later", "rings")
    for ring, count in zip(("keys(K_s)", "values(V_s)"), stages, strict=True):
        source = source.replace(f"{ring} stages 2", f"{ring} stages {count}")
    assert right(source, step_later(np.random.default_rng(n), n), "random", n)


FENCED = r"(\n *(?:stmatrix A_s|raw: ).*)\n *fence.proxy.async"
WAITED = r"(parity_k2)\n *fence.proxy.async"
FULL, EMPTY = (rf"(ring_{end}\[\w+\](?: arrivals|,)) \d+" for end in ("full", "empty"))


def broken(name: str, old: str, new: str) -> str:
    kernel = print_kernel(final(text(name, "rings")))
    changed = re.sub(old, new, kernel)
    assert changed != kernel
    return changed


def run(name: str, kernel: str) -> bool:
    """Whether the results are right."""
    tensors, results, sizes = next(k for k in KINDS if k.__name__ == name)(np.random.default_rng(3))
    execute(parse_kernel(kernel), tensors, adversary="lazy", **sizes)
    return all(np.array_equal(tensors[result], right) for result, right in results.items())


@pytest.mark.parametrize(("name", "fence"), [("registers", FENCED), ("gathered", WAITED)])
def test_wgmma_does_not_see_stores_without_a_fence(name: str, fence: str) -> None:
    """Of those who store; of those who read what ``cp.async`` has brought."""
    assert not run(name, broken(name, fence, r"\1"))


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("registers", FULL, r"\1 1", "1 arrivals at ring_full[0], which awaits 0 of its 1"),
        ("gathered", FULL, r"\1 1", "32 arrivals at ring_full[0], which awaits 0 of its 1"),
        ("two_readers", FENCED, r"\1",
         "a load overwrites what warp 7 may still be reading: no fence.proxy.async by all"),
        ("two_readers", EMPTY, r"\1 4", "nothing in flight can wake"),
    ],
)  # fmt: skip
def test_what_the_ends_say_is_needed(name: str, old: str, new: str, why: str) -> None:
    """With the arrivals of one end alone, or without a fence behind reads, the machine faults."""
    with pytest.raises(MachineError) as error:
        run(name, broken(name, old, new))
    assert error.value.what.startswith(why)
