"""Pairs of CTAs as CUDA: cubins for sm_100a without spills, and what the instructions are told."""

from __future__ import annotations

import re

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from tests.pairs import CLUSTERS, PAIRS, V9, final


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*PAIRS, *CLUSTERS])
def test_cubin(name: str) -> None:
    kernel = final((PAIRS | CLUSTERS)[name])
    resources = read_resources(compile_cubin(emit_cuda(kernel), arch="sm_100a"), kernel.name)
    assert resources.clean, resources


def test_every_instruction_is_of_a_pair() -> None:
    """What a kernel mixes no GPU executes; copies alone may be of either."""
    text = emit_kernel(final())
    assert set(re.findall(r"cta_group::(\d)", text)) == {"2"}
    for form in (
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 64;",
        "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
        "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;",
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [%0], %1;",
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 64;",
        "shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2",
    ):
        assert form in text, form


def test_what_a_product_is_told() -> None:
    """256 rows and 256 columns of f16 kind, both K-major; its barrier is the even CTA's."""
    text = emit_kernel(final(V9)).split("__global__")[1]
    calls = re.findall(r"tcgen05_mma_f16\(\n(.*?)\);", text, re.DOTALL)
    (found,) = {int(call.split(",\n")[3], 16) for call in calls}
    assert (found >> 24 & 31) << 4 == 256  # M
    assert (found >> 17 & 63) << 3 == 256  # N
    assert text.count("map_shared(ring_full + stage_k2 * 8, 0)") == 2
