"""Modules become cubins: no spills, no wgmma that ptxas serializes, no operation twice."""

from __future__ import annotations

import re
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from lowering.cuda.nvrtc import CompileError, compile_ptx
from lowering.cuda.resources import read_resources
from lowering.mlir import toolchain
from lowering.mlir.emit import emit_mlir
from lowering.mlir.toolchain import compile_mlir, lowered, ptxas_version
from tests.epilogues import GELU, RESIDUAL, WHERE
from tests.lowering.cuda.kernels import copy_kernel
from tests.ways import made, of_both_ways
from wsched.run.compiled import CompiledFusion

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

FAMILIES = (
    "coop_128x256", "coop_1_group_2_rows", "coop_3_groups", "across_2x2", "tile_per_cta",
    "cluster_2x2", "cluster_pingpong", "pipelined_256", "pingpong_128x128", "pingpong_64x256",
    "dynamic_cluster", "dynamic_pingpong", "exchanged_boxes", "split_2", "stream_k_pingpong",
)  # fmt: skip

COUNTED = (
    "wgmma.mma_async", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", "elect.sync",
    "mbarrier.try_wait", "mbarrier.arrive.", "mbarrier.init", "cp.async.bulk.tensor",
    "setmaxnreg", "stmatrix",
)  # fmt: skip
"""Instructions of which PTX has as many in both ways: none was duplicated, none dropped."""


def require_clean(kernel: CompiledFusion) -> None:
    text, name = kernel.dump("mlir"), kernel.kernel.name
    compiled = compile_mlir(text, name, kernel.kernel.target.arch)
    found = read_resources(compiled, name)
    assert found.clean, found
    assert found.registers <= kernel.resources.registers + 32


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    require_clean(made(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [("coop_128x128", GELU), ("pingpong_128x128", RESIDUAL), ("pingpong_64x256", WHERE)],
)
def test_epilogues(name: str, text: str) -> None:
    require_clean(made(name, text))


@pytest.mark.slow
def test_fp32_results() -> None:
    require_clean(made("coop_128x128", result="f32"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coop_128x256", "pingpong_128x128", "dynamic_cluster"])
def test_loops_are_those_of_the_cuda_way(name: str) -> None:
    cuda, mlir = of_both_ways(made(name))
    assert (mlir.moves, mlir.meets, mlir.sleeps) == (0, 0, 0)
    assert mlir.mma <= cuda.mma + 1
    assert mlir.load <= cuda.load + 8  # a cluster's: addresses of each trip
    assert mlir.all <= 1.02 * cuda.all


@pytest.mark.parametrize("name", ["coop_128x128", "dynamic_pingpong"])
def test_ptx_has_the_instructions_of_the_cuda_way(name: str) -> None:
    kernel = made(name)
    arch = kernel.kernel.target.arch
    ours = lowered(kernel.dump("mlir"), name, arch)
    theirs = compile_ptx(kernel.source, name, arch=arch)

    def counts(ptx: str) -> dict[str, int]:
        return {word: len(re.findall(rf"\b{re.escape(word)}", ptx)) for word in COUNTED}

    assert counts(ours) == counts(theirs)


def test_the_parameters_lie_where_the_launcher_puts_them() -> None:
    kernel = made("split_2")
    arch = kernel.kernel.target.arch

    def parameters(ptx: str) -> list[tuple[str, str]]:
        entry = ptx[ptx.index(".visible .entry") :]
        head = entry[: entry.index(")")]
        sizes = re.findall(r"\.param( \.align 64)? \.(\w+).*?(\[\d+\])?,?$", head, re.MULTILINE)
        return [(kind.replace("b", "u"), many) for _, kind, many in sizes]

    ours = parameters(lowered(kernel.dump("mlir"), "k", arch))
    theirs = parameters(compile_ptx(kernel.source, "k", arch=arch))
    assert ours == theirs
    assert len(ours) == 9


def test_a_module_that_is_wrong_is_refused() -> None:
    text = emit_mlir(copy_kernel()).replace("mbarrier.init %", "mbarrier.begin %")
    with pytest.raises(CompileError, match=r"copy does not compile \(MLIR\)"):
        lowered(text, "copy", "sm_90a")


def test_shared_addresses_have_32_bits() -> None:
    """With 64 they are widened in front of each use, which takes registers for nothing."""
    ptx = lowered(emit_mlir(copy_kernel()), "copy", "sm_90a")
    assert "cvt.u64.u32" not in ptx


def test_the_release_of_ptxas() -> None:
    assert ptxas_version() >= (12, 8)


@pytest.mark.parametrize(
    ("said", "version"), [("Cuda compilation tools, release 12.9, V12.9.86", (12, 9)), ("", (0, 0))]
)
def test_version_of_ptxas(
    said: str, version: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout=said))
    assert ptxas_version.__wrapped__() == version
