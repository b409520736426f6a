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


@with_triton
@pytest.mark.parametrize("name", ["tma", "v10", "2x2-alone", "4x2-pairs"])
def test_cubin(name: str) -> None:
    kernel = final((PAIRS | CLUSTERS)[name])
    resources = read_resources(compile_mlir(emit_mlir(kernel), kernel.name, ARCH), kernel.name)
    assert resources.clean, resources


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


@pytest.mark.parametrize(("cache", "last"), [("evict_normal", "[$2]"), ("evict_first", "[$2], $5")])
def test_what_a_copy_is_told(cache: str, last: str) -> None:
    """Its barrier is that of the even CTA, which ``mapa`` finds."""
    kernel = final()
    body = rewrite(
        kernel.body, lambda s: (replace(s, cache=cache),) if isinstance(s, TmaLoad) else None
    )
    text = emit_mlir(replace(kernel, body=body))
    form = "shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2"
    hint = ".L2::cache_hint" * (cache != "evict_normal")
    assert f"cp.async.bulk.tensor.2d.{form}{hint} [$0], [$1, {{$3, $4}}], {last};" in text
