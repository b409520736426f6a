"""Modules and definitions as the model bench makes them: small ones, on the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.doors.dropin.spy import Spy, nvfuser
from wsched.bench.models import cases, modules
from wsched.bench.models.cases import DefinitionCase, ModuleCase, told_of
from wsched.bench.models.dot import to_dot
from wsched.bench.models.listed import read_listed
from wsched.bench.models.measure import COMPILE, EAGER, NVFUSER, OWN, THUNDER, THUNDER_NVFUSER
from wsched.bench.models.modules import MODULES, make
from wsched.bench.peers.systems import Skip
from wsched.doors.dropin.patch import enabled
from wsched.doors.dropin.report import report

torch = pytest.importorskip("torch", reason="torch is not installed")

__all__ = ["nvfuser"]

SMALL = {
    "gpt2": (64, (2,)), "llama": (64, (4, 2, 96)), "gelu-mlp": (64, (128,)),
    "gated-mlp": (64, (96,)), "attention": (64, (2,)), "mlp-training": (64, (128,)),
    "lora": (64, (96, 4)), "moe": (64, (96, 4, 2)),
}  # fmt: skip

MATMULS = {
    "gpt2": 2 * 64 * (3 + 1 + 4 + 4) * 64, "llama": 2 * 64 * (64 * 2 + 32 * 2 + 3 * 96),
    "gelu-mlp": 2 * 64 * 128 * 2, "gated-mlp": 2 * 64 * 96 * 3,
    "attention": 2 * 64 * 4 * 64 + 2 * 2 * 8 * 64, "mlp-training": 2 * 64 * 128 * 5,
    "lora": 2 * 64 * (96 + 4) + 2 * 4 * 96, "moe": 2 * 64 * 4 + 4 * 3 * 2 * 64 * 96,
}  # fmt: skip
"""Operations of the matmuls for a token, those of attention for rows of eight tokens; the input of
a module that trains has no gradient."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        name: replace(MODULES[name], width=width, sizes=sizes, context=8)
        for name, (width, sizes) in SMALL.items()
    }
    monkeypatch.setattr(modules, "MODULES", made)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_in_eager_mode(name: str, small: None) -> None:
    case = ModuleCase(make(name, 16, "cpu"))
    way = case.way(EAGER)
    result, *gradients = way.call()
    assert result.shape == (2, 8, 96 if name == "lora" else 64)
    assert result.dtype is torch.bfloat16 and result.isfinite().all()
    assert len(gradients) == (4 if name == "mlp-training" else 0)
    error = case.error([result, *gradients])
    assert 0 < error < case.limit() == 2 * error  # of experts it is far above that of a rounding
    assert not case.error([result * 2, *gradients]) < 0.5
    told = case.told(way)
    assert told["flops"] == 16 * MATMULS[name]
    assert (told["own"], told["reasons"]) == (0, {"not handed to nvFuser": told["flops"]})


def test_wsched_is_asked_in_its_own_way_alone(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three ways that thunder runs two are of the same definitions, which are made once."""
    options: list[dict[str, Any]] = []

    def jit(module: Any, **given: Any) -> Any:
        options.append(given)
        return module

    monkeypatch.setattr(cases, "_module", lambda name: SimpleNamespace(jit=jit))
    case = ModuleCase(make("gelu-mlp", 16, "cpu"))
    ways = [case.way(name) for name in (THUNDER, THUNDER_NVFUSER, OWN)]
    assert [way.around is enabled for way in ways] == [False, False, True]
    assert [sorted(given) for given in options] == [[], ["nv_enable_linear", "nv_enable_matmul"]]


def test_a_layer_of_a_small_rank_is_scaled_by_alpha_over_it(small: None) -> None:
    """LoRA's W x + B A x * alpha / r, of the alpha that Llama's recipes have."""
    module = make("lora", 8, "cpu").module.float()
    x = torch.ones(3, 64)
    w, a, b = (layer.weight for layer in (module.layer, module.down, module.up))
    assert a.shape[0] == 4
    torch.testing.assert_close(module(x), x @ (w + b @ a * (32 / 4)).T)


def test_the_published_sizes() -> None:
    """Nothing is allocated."""
    counts = {}
    for name, found in MODULES.items():
        with torch.device("meta"):
            module = getattr(modules.import_module(modules.BLOCKS), found.block)(
                found.width, *found.sizes
            )
        counts[name] = sum(p.numel() for p in module.parameters())
    assert counts["gpt2"] == 19_677_440  # 36 of them, and the embeddings, are 774 million
    assert counts["llama"] == 218_112_000
    assert counts["moe"] == 8 * 3 * 4096 * 14336 + 8 * 4096


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # thunder's own, of torch
@pytest.mark.parametrize("name", [NVFUSER, THUNDER])
def test_ways_that_a_module_has_not(name: str, small: None) -> None:
    case = ModuleCase(make("lora", 8, "cpu"))
    if name == THUNDER:
        pytest.importorskip("thunder", reason="lightning-thunder is not installed")
        assert case.error(case.way(name).call()) < 2e-2
        return
    with pytest.raises(Skip, match="a module is no definition"):
        case.way(name)


TEXT = """\
# Two layers
# inputs: 16x32:bf16 24x32:bf16 16x24:bf16
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    h = fd.ops.linear(x, w)
    g = fd.ops.relu(h)
    o = fd.ops.linear(g, v)
    fd.add_output(o)
"""


@pytest.fixture
def found(tmp_path: Path) -> Any:
    path = tmp_path / "two.txt"
    path.write_text(TEXT)
    return read_listed(path)


def test_a_definition(found: Any, nvfuser: Spy) -> None:
    inputs = found.inputs("cpu")
    case = DefinitionCase(found, inputs)
    assert case.error(case.way(EAGER).call()) == 0.0
    assert case.error(case.way(NVFUSER).call()) == 0.0 and len(nvfuser.calls) == 1
    way = case.way(OWN)
    with way.around():
        assert case.error(way.call()) < 1e-2
    told = case.told(way)
    assert told["flops"] == 2 * (16 * 24 * 32 + 16 * 16 * 24)
    assert told["own"] == told["flops"] and told["calls"] == told["taken"] == 1
    assert len(nvfuser.calls) == 1
    (cut,) = told["cuts"]
    assert cut["dot"].count("subgraph") == 2 and cut["dot"].count('"linear"') == 2
    with pytest.raises(Skip, match="a definition is no module"):
        case.way(COMPILE)


def test_the_picture_of_a_cut(found: Any, nvfuser: Spy) -> None:
    case = DefinitionCase(found, found.inputs("cpu"))
    way = case.way(OWN)
    with way.around():
        report(clear=True)
        way.call()
        (line,) = report().lines
    text = to_dot('a "b"', line.segments)
    assert (
        text
        == """\
digraph cut {
  label="a \\"b\\""; labelloc=t; rankdir=TB;
  node [shape=box, style=rounded, fontname=monospace];
  subgraph cluster0 { label="0: wsched"; style=filled; color=palegreen;
    s0n2 [label="linear"];
    s0n3 [label="relu"];
  }
  "tv0" [shape=ellipse];
  "tv0" -> s0n2;
  "tv1" [shape=ellipse];
  "tv1" -> s0n2;
  s0n2 -> s0n3;
  subgraph cluster1 { label="1: wsched"; style=filled; color=palegreen;
    s1n2 [label="linear"];
  }
  s0n3 -> s1n2 [label="tv4", style=dashed];
  "tv2" [shape=ellipse];
  "tv2" -> s1n2;
}
"""
    )


def test_what_is_told_of_no_calls() -> None:
    report(clear=True)
    told = told_of(report(), 10)
    assert (told["flops"], told["own"], told["reasons"]) == (10, 0, {"not handed to nvFuser": 10})
