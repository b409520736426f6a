"""CTAs of a launch: those along y, which the kernel counts from its parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.cuda.launch import LoadedKernel
from lowering.cuda.launch_block import LaunchAttribute, LaunchConfig
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Var, ceildiv
from tests.lowering.cuda.fake_driver import Driver, Tensor
from tests.lowering.cuda.kernels import copy_kernel


def test_an_attribute_is_the_only_one() -> None:
    config = LaunchConfig()
    for number in (4, 6):
        config.add(LaunchAttribute(id=number))
    assert (config.numAttrs, config.attrs[0].id) == (1, 6)


def test_ctas_along_y_are_counted_by_the_kernel(driver: Driver) -> None:
    k = LoadedKernel(replace(copy_kernel(), grid_y=ceildiv(Var("M"), 64)), b"")
    tensors = {"A": Tensor(), "D": Tensor()}
    for m in (0, 65, 64 * 65535):
        k.launch(tensors, {"M": m, "N": 7}, 2)  # type: ignore[arg-type]
    launched = [blocks[:3] for _, blocks, *_ in driver.named("launch")]
    assert launched == [[2, 2, 1], [2, 65535, 1]]
    with pytest.raises(UnsupportedError) as e:
        k.launch(tensors, {"M": 64 * 65535 + 1, "N": 7}, 2)  # type: ignore[arg-type]
    assert str(e.value) == (
        "copy on 2 x 65536 CTAs is not supported; supported: at most 65535 along y. Take larger "
        "tiles, or run the loop on BIDx"
    )
