"""What blocks of models compute: a table of numbers, each of small ones with fixed weights."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Golden

torch = pytest.importorskip("torch")

MADE: dict[str, tuple[Any, ...]] = {
    "GeluMlp": (16, 24),
    "GatedMlp": (16, 24),
    "Attention": (16, 4),
    "AttentionByHand": (16, 4),
    "GptBlock": (16, 4),
    "LlamaBlock": (16, 4, 2, 24),
    "LoraLinear": (16, 24, 4),
    "Experts": (16, 24, 4, 2),
}


def made(name: str) -> Any:
    """In fp64, weights that repeat nothing."""
    from wsched.bench.models import blocks

    block = getattr(blocks, name)(*MADE[name]).double()
    with torch.no_grad():
        for number, parameter in enumerate(block.parameters()):
            count = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_(torch.sin(count * 0.7 + number).reshape(parameter.shape))
    return block


@pytest.mark.parametrize("name", MADE)
def test_numbers(name: str, golden: Golden) -> None:
    count = torch.arange(2 * 5 * 16, dtype=torch.float64)
    found = made(name)(torch.cos(count * 0.3).reshape(2, 5, 16))
    rows = found.reshape(-1, found.shape[-1])[:, ::5].tolist()
    assert "\n".join(" ".join(f"{x + 0.0:.4f}" for x in row) for row in rows) == golden


def test_both_ways_of_attention() -> None:
    x = torch.linspace(-1, 1, 2 * 5 * 16, dtype=torch.float64).reshape(2, 5, 16)
    one, other = (made(name)(x) for name in ("Attention", "AttentionByHand"))
    assert torch.allclose(one, other)
