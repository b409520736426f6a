"""The sixty definitions of tests/data: which of them have kernels of wsched's, and why not all."""

from __future__ import annotations

from pathlib import Path

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.tiers import in_tiers
from wsched.bench.models.listed import Listed, listed, read_listed
from wsched.choose.gpus import GPUS
from wsched.front.cut.epilogues import Kernel, Take
from wsched.front.cut.route import call_of
from wsched.front.cut.segments import Cutter
from wsched.front.cut.verdict import verdict
from wsched.importer.ops import PRODUCTS

torch = pytest.importorskip("torch", reason="torch is not installed")

FOLDER = Path(__file__).parents[2] / "data" / "definitions"
ALL = {p.stem: p for p in listed(FOLDER)}

WITHOUT = {
    "nv_linear_slice": "fd.ops.linear of Float and Float",
    "nv_matmul_2d_3d": "fd.ops.matmul of Float and Float",
    "nv_transformer_forward": "fd.ops.uniform beside a matmul",
}
"""What stays nvFuser's, and the first words of the reason."""


def read(name: str) -> Listed:
    return read_listed(ALL[name])


def test_there_are_sixty_and_most_name_their_source() -> None:
    found = [read(name) for name in ALL]
    assert len(found) == 60
    assert sum(not x.source.startswith("none") for x in found) >= 40


@pytest.mark.parametrize("name", sorted(set(ALL) - set(WITHOUT)))
def test_every_matmul_has_a_kernel(name: str) -> None:
    definition = read(name).definition
    cut = Cutter(definition).all(Take.NONE)
    assert 0 < len(cut.kernels) == sum(n.op in PRODUCTS for n in definition.nodes)
    assert all(isinstance(k, Kernel) for k in cut.kernels)


@pytest.mark.parametrize("name", WITHOUT)
def test_what_has_none_and_why(name: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        Cutter(read(name).definition).all(Take.NONE)
    assert error.value.what == WITHOUT[name]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["th_llama4_router", "hf_qwen2_qkv", "nv_deepseek_linear_bwd"])
def test_explained_without_memory_and_what_install_does(name: str) -> None:
    """Inputs of hundreds of megabytes need not be there to be explained."""
    asked = read(name)
    found = wsched.explain(asked.text, asked.inputs("meta"), gpu="H200")
    assert found.route == "cut" and all(m.kernel for m in found.matmuls)
    left = "nvFuser runs it all, predicted to be no faster" if "router" in name else ""
    count = len({m.kernel for m in found.matmuls})
    assert found.installed.startswith(left or f"{count} kernel{'s' * (count > 1)} of wsched's")


LEFT = {"th_llama4_router": "topk"}
"""Calls that ``install`` leaves to nvFuser although the matmul has a kernel, and for what."""

QUICK = {
    "bench_llama4_down", "cpp_epilogue_gelu_aux", "cpp_mlp_horizontal", "hf_gemma2_logits",
    "hf_qwen2_qkv", "nv_issue2275", "old_front_end_mlp", "th_llama4_router", "th_nanogpt_mlp",
    "th_parallel_mlp",
}  # fmt: skip
"""Of each source, the cheaper ones."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(sorted(set(ALL) - set(WITHOUT)), QUICK))
def test_which_calls_install_takes(name: str) -> None:
    asked = read(name)
    cutter = Cutter(asked.definition)
    found = verdict(cutter, call_of(cutter, asked.inputs("meta"), GPUS["H200"]))
    assert bool(found.reason) is (name in LEFT)


def test_nothing_runs_without_memory() -> None:
    asked = read("hf_qwen2_qkv")
    with pytest.raises(UnsupportedError, match="running on meta is not supported"):
        wsched.execute(asked.text, asked.inputs("meta"))
