"""Which kernels sum along K in the fixed order, and what contradicts a promise of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import CLASSES
from wsched.front.known import import_fusion
from wsched.importer.linear import LINEAR
from wsched.run.kernel_name import kernel_name
from wsched.schedule.matmul.k_order import fixed_k_order
from wsched.schedule.matmul.kernel_options import kernel_options
from wsched.schedule.matmul.limits import require_legal
from wsched.schedule.matmul.params import GemmTile, MatmulParams, MmaMacro, TilingStrategy
from wsched.schedule.matmul.tiles import with_tile

SLICES = with_tile(MatmulParams(), GemmTile(64, 64, 128), 2, ping_pong=False, along_k=2)
"""Of which each of two warpgroups sums a half."""

STAGES = TilingStrategy.DistributeStagesAcrossSMs


@pytest.mark.parametrize("name", CLASSES)
def test_every_kernel_that_does_not_split_k(name: str) -> None:
    assert fixed_k_order(CLASSES[name])
    require_legal(import_fusion(LINEAR), replace(CLASSES[name], batch_invariant=True))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (MatmulParams(splitk_factor=2), "splitk_factor=2"),
        (MatmulParams(tiling_strategy=STAGES), "tiling_strategy=DistributeStagesAcrossSMs"),
        (MatmulParams(mma_macro=MmaMacro(k=32)), "mma_macro=Hopper_64_256_32"),
        (SLICES, "cta_tile=64x64x128, warp_tile=64x64x64"),
        (
            replace(SLICES, splitk_factor=2),
            "cta_tile=64x64x128, warp_tile=64x64x64, splitk_factor=2",
        ),
    ],
)
def test_a_contradiction(params: MatmulParams, said: str) -> None:
    assert not fixed_k_order(params)
    with pytest.raises(ScheduleError) as error:
        require_legal(import_fusion(LINEAR), replace(params, batch_invariant=True))
    assert str(error.value) == (
        f"ScheduleError[params]: MatmulParams(batch_invariant=True, {said}): "
        "with K split, among CTAs or warpgroups, or another wgmma the bits of a row would depend "
        "on the schedule, and that on M\n"
        "  legal here: one CTA, and in it one warpgroup, that sums all of K of an element, with "
        "k16 wgmmas; batch_invariant=False"
    )


def test_the_promise_makes_no_other_kernel() -> None:
    fusion = import_fusion(LINEAR)
    promised = MatmulParams(batch_invariant=True)
    assert kernel_name(fusion, promised) == kernel_name(fusion, MatmulParams())


def test_slices_of_warpgroups_have_the_registers_that_are_asked_for() -> None:
    """They change hands where the slices are made; else the rings of the schedule say it."""
    fusion, pair = import_fusion(LINEAR), (40, 232)
    found = [
        kernel_options(fusion, replace(params, num_registers=pair))
        for params in (SLICES, MatmulParams())
    ]
    asked = [(options.slice_groups, options.slice_registers) for options in found]
    assert asked == [(2, pair), (1, None)]
