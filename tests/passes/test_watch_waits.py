"""Waits with a bound: a declaration more, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.cuda.emit import emit_kernel
from lowering.kernel.kernel import Watch
from lowering.kernel.waits import sites
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from passes.watch_waits import watch_waits
from tests.lowering.nest.kernels import SMALL, final, tile_level

WATCHED = LoweringOptions(watchdog=5_000_000)


@pytest.mark.parametrize("name", SMALL)
def test_only_the_declaration_is_new(name: str) -> None:
    kernel = run_passes(tile_level(name), WATCHED)
    assert kernel.watch == Watch("stuck", 5_000_000)
    assert kernel.undeclare(Watch) == final(name)


def test_nothing_without_the_option() -> None:
    kernel = tile_level(next(iter(SMALL)))
    assert watch_waits(kernel, LoweringOptions()) is kernel


def test_a_name_that_is_taken() -> None:
    kernel = tile_level(next(iter(SMALL)))
    kernel = replace(kernel, params=(replace(kernel.params[0], name="stuck"), *kernel.params[1:]))
    assert watch_waits(kernel, WATCHED).watch == Watch("stuck2", 5_000_000)


@pytest.mark.parametrize("name", SMALL)
def test_every_wait_is_emitted_with_its_number(name: str) -> None:
    kernel = run_passes(tile_level(name), WATCHED)
    text = emit_kernel(kernel)
    body = text[text.index('extern "C"') :]
    numbers = [line.split(", stuck, ")[1].split(",")[0] for line in body.splitlines()
               if "watched_" in line]  # fmt: skip
    assert numbers == [str(n) for n in range(len(sites(kernel)))]
    assert "ptx::mbarrier_wait" not in body
    assert "ptx::counter_wait" not in body
    assert "5000000ull" in text
    assert "u64* stuck" in body
