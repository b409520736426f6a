"""Layers of experts: how many rows each has, what is asked for and what is printed."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from typer.testing import CliRunner

from wsched.bench.cli import app
from wsched.bench.experts import ADDED, COMPILED, TORCH, WSCHED, whole_of
from wsched.bench.method.operands import relative_error
from wsched.bench.moe import (
    LAYERS,
    ROUTINGS,
    TOLERANCE,
    Layer,
    Row,
    choices_of,
    report,
    rows_of,
)

SMALL = Layer(6, 2, 64, 32)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_every_token_has_as_many_rows(routing: str) -> None:
    found = rows_of(routing, SMALL, 50, 3)
    assert (len(found), sum(found), min(found) >= 0) == (6, 100, True)
    assert routing == "one" or max(found) <= 50  # of an expert once for each token
    assert found == rows_of(routing, SMALL, 50, 3)


def test_routings() -> None:
    layer = LAYERS["qwen3-235b"]
    uniform, skewed, one = (rows_of(r, layer, 512, 0) for r in ROUTINGS)
    assert max(uniform) < 3 * 512 * layer.chosen / layer.experts
    assert skewed[0] > 4 * sum(skewed[64:]) / 64
    assert one[:2] == [512 * layer.chosen, 0]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("routing", ROUTINGS)
def test_a_layer_as_a_whole(routing: str) -> None:
    """Both ways compute the same of the same tokens."""
    torch.manual_seed(0)
    shapes = [(6, 32, 64), (6, 32, 64), (6, 64, 32)]
    weights = [torch.randn(s).mul(s[2] ** -0.5).bfloat16().mT for s in shapes]
    (layer,) = whole_of(choices_of(routing, SMALL, 20, 1), weights, 0)
    assert (layer.name, layer.flops) == ("layer", 6 * 40 * 64 * 32)
    assert set(layer.ways) == {TORCH, COMPILED, WSCHED, ADDED}
    assert relative_error(layer.ways[WSCHED](), layer.ways[TORCH]().float()) < TOLERANCE


def test_tokens_are_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else was drawn in the process."""
    monkeypatch.setattr(torch.compiler, "reset", lambda: None)
    monkeypatch.setattr(torch, "compile", lambda of, **_: of)

    def result(state: int, seed: int) -> torch.Tensor:
        torch.manual_seed(state)
        weights = [torch.ones(s).bfloat16().mT for s in ((6, 32, 64), (6, 32, 64), (6, 64, 32))]
        (layer,) = whole_of(choices_of("uniform", SMALL, 20, 1), weights, seed)
        return cast(torch.Tensor, layer.ways[TORCH]())

    found = result(0, 7)
    assert torch.equal(found, result(1, 7)) and not torch.equal(found, result(0, 8))


def test_the_ratio_is_to_the_fastest_other_way() -> None:
    row = Row("m", "one", "layer", 8, 1, 9, {"torch": 3.0, "compile": 2.4, "wsched": 2.0}, 0.0)
    assert row.ratio == pytest.approx(1.2)
    assert report(row).endswith("TFLOP/s, 1.500 as fast as torch, 1.200 as fast as compile")


def test_a_line() -> None:
    row = Row("m", "one", "up", 8, 1, 2_000_000, {"torch": 3.0, "wsched": 2.0}, 0.5)
    assert report(row) == (
        "m one, 8 rows of 1 experts, up: torch      3.0 us    1  wsched      2.0 us    1 TFLOP/s, "
        "1.500 as fast as torch  WRONG: off by 5.0e-01"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--layers", "gpt"], "--layers gpt is not supported; supported: of mixtral-8x7b, "
         "llama-4-scout, deepseek-v3, qwen3-235b"),
        (["--routings", ","], "--routings , is not supported; supported: of uniform, skewed, one"),
        ([], "wsched bench moe here (torch.cuda finds no GPU) is not supported; "
         "supported: a CUDA GPU with torch"),
    ],
)  # fmt: skip
def test_refused(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, ["moe", *arguments])
    assert result.exit_code == 2
    assert text in result.output.replace("\n", "")
