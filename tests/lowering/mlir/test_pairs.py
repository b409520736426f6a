"""Pairs of CTAs in MLIR: modules become cubins with the instructions of the CUDA way."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_ptx
from lowering.cuda.resources import read_resources
from lowering.kernel.memory import TmaLoad
from lowering.kernel.visit import rewrite
from lowering.mlir.emit import emit_mlir
from lowering.mlir.toolchain import compile_mlir, lowered
from tests.pairs import CLUSTERS, PAIRS, final

ARCH = "sm_100a"
WORDS = (
    "tcgen05.alloc", "tcgen05.relinquish", "tcgen05.dealloc", "tcgen05.mma", "tcgen05.commit",
    "cta_group::1", "cta_group::2", "multicast::cluster", "mapa", "cp.async.bulk.tensor",
)  # fmt: skip

with_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


@pytest.mark.sampled
@with_triton
@pytest.mark.parametrize("name", ["tma", "v10", "2x2-alone", "4x2-pairs"])
def test_cubin(name: str) -> None:
    kernel = final((PAIRS | CLUSTERS)[name])
    resources = read_resources(compile_mlir(emit_mlir(kernel), kernel.name, ARCH), kernel.name)
    assert resources.clean, resources


@pytest.mark.sampled
@with_triton
@pytest.mark.parametrize("name", ["v9", "2x2-alone", "4x1-pairs"])
def test_ptx_has_the_instructions_of_the_cuda_way(name: str) -> None:
    kernel = final((PAIRS | CLUSTERS)[name])
    ours = lowered(emit_mlir(kernel), kernel.name, ARCH)
    theirs = compile_ptx(emit_cuda(kernel), kernel.name, arch=ARCH)

    def counts(ptx: str) -> dict[str, int]:
        return {w: len(re.findall(rf"{re.escape(w)}", ptx)) for w in WORDS}

    assert counts(ours) == counts(theirs)
    other = "cta_group::1" if kernel.cta_group.several else "cta_group::2"
    assert not counts(ours)[other]


@with_triton
@pytest.mark.parametrize("cache", ["evict_normal", "evict_first"])
def test_what_a_copy_is_told(cache: str) -> None:
    """Its barrier is that of the even CTA, which ``mapa`` finds."""
    kernel = final()
    body = rewrite(
        kernel.body, lambda s: (replace(s, cache=cache),) if isinstance(s, TmaLoad) else None
    )
    ptx = lowered(emit_mlir(replace(kernel, body=body)), kernel.name, ARCH)
    copies = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared\S+", ptx)
    assert len(copies) == 2
    assert {"L2::cache_hint" in copy for copy in copies} == {cache != "evict_normal"}
    assert all("cta_group::2" in copy for copy in copies)
