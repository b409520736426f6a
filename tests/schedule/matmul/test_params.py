"""MatmulParams as data and as text."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import CLASSES, PING_PONG
from tests.schedules import SCHEDULES
from wsched.schedule import ClusterDims, GemmTile, MatmulParams
from wsched.schedule.matmul.params import CircularBufferOptions


@pytest.mark.parametrize("name", CLASSES)
def test_dict_round_trip(name: str) -> None:
    params = CLASSES[name]
    assert MatmulParams.from_dict(json.loads(json.dumps(params.to_dict()))) == params


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_that_split_come_back(name: str) -> None:
    params = SCHEDULES[name]
    assert MatmulParams.from_dict(json.loads(json.dumps(params.to_dict()))) == params
    kind = (params.persistent, params.stream_k, params.combines)
    first = name.removeprefix("exchanged_").split("_")[0]
    assert kind == {
        "split": (name != "split_tile_per_cta", False, True), "stream": (True, True, True),
    }.get(first, (params.persistent, False, False))  # fmt: skip


def test_partial_dict_keeps_defaults() -> None:
    data = {"cluster_dims": {"m": 2}, "tiling_strategy": "OneTilePerCTA", "num_registers": None}
    params = MatmulParams.from_dict(data)
    assert params.cluster_dims == ClusterDims(2, 1)
    assert (params.persistent, params.num_registers) == (False, None)


def test_text(golden: object) -> None:
    assert str(MatmulParams()) == golden


def test_derived() -> None:
    assert (MatmulParams().warpgroups, MatmulParams().output_tile) == (2, GemmTile(128, 256, 64))
    assert (PING_PONG.warpgroups, PING_PONG.output_tile) == (2, GemmTile(128, 128, 64))


def test_refused() -> None:
    with pytest.raises(ScheduleError) as error:
        MatmulParams.from_dict({"cluster_dims": {"z": 2}})
    assert str(error.value) == (
        "ScheduleError[params]: MatmulParams.cluster_dims.z: there is no field z\n"
        "  legal here: m; n"
    )
    with pytest.raises(ScheduleError) as error:
        MatmulParams.from_dict({"cta_order": "Hilbert"})
    assert str(error.value) == (
        "ScheduleError[params]: MatmulParams.cta_order='Hilbert': there is no "
        "TileRasterizationOrder.Hilbert\n"
        "  legal here: RowMajor; ColumnMajor"
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: MatmulParams(num_registers=(40.0, "240")),  # type: ignore[arg-type]
            "MatmulParams(num_registers=(40.0, '240')): num_registers takes a tuple (int, int) or "
            "'auto' or None\n  legal here: num_registers='auto'",
        ),
        (
            lambda: MatmulParams(grid_traversal_factor=8),  # type: ignore[arg-type]
            "MatmulParams(grid_traversal_factor=8): grid_traversal_factor takes a tuple (int, int)"
            "\n  legal here: grid_traversal_factor=(1, 1)",
        ),
        (
            lambda: CircularBufferOptions(smem_circular_buffer_stage="4"),  # type: ignore[arg-type]
            "CircularBufferOptions(smem_circular_buffer_stage='4'): smem_circular_buffer_stage "
            "takes an int\n  legal here: smem_circular_buffer_stage=4",
        ),
        (
            lambda: MatmulParams(cluster_dims=(2, 1)),  # type: ignore[arg-type]
            "MatmulParams(cluster_dims=(2, 1)): cluster_dims takes a ClusterDims\n"
            "  legal here: cluster_dims=ClusterDims(m=1, n=1)",
        ),
        (
            lambda: MatmulParams(cta_order="RowMajor"),  # type: ignore[arg-type]
            "MatmulParams(cta_order='RowMajor'): cta_order takes a TileRasterizationOrder\n"
            "  legal here: cta_order=TileRasterizationOrder.RowMajor; "
            "cta_order=TileRasterizationOrder.ColumnMajor",
        ),
        (
            lambda: MatmulParams(num_registers=[40, 232]),  # type: ignore[arg-type]
            "MatmulParams(num_registers=[40, 232]): num_registers takes a tuple (int, int) or "
            "'auto' or None\n  legal here: num_registers='auto'",
        ),
        (lambda: GemmTile(64, 128, True), "GemmTile(k=True): k takes an int"),
    ],
)
def test_values_of_another_type(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ScheduleError) as error:
        make()
    assert str(error.value) == f"ScheduleError[params]: {text}"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            {"cluster_dims": [2, 1]},
            "MatmulParams.cluster_dims=[2, 1]: a ClusterDims is written as a dict of its fields\n"
            '  legal here: {"m": 1, "n": 1}',
        ),
        (
            {"tile_sizes": {"cta_tile": "128x16x64"}},
            "MatmulParams.tile_sizes.cta_tile='128x16x64': a GemmTile is written as a dict of its "
            'fields\n  legal here: {"m": 128, "n": 256, "k": 64}',
        ),
        (
            {"mma_macro": "Blackwell1CTA_128_16_16"},
            "MatmulParams.mma_macro='Blackwell1CTA_128_16_16': a MmaMacro is written as a dict of "
            'its fields\n  legal here: {"m": 64, "n": 256, "k": 16, "arch": "Hopper"}',
        ),
        (
            {"cta_order": [1]},
            "MatmulParams.cta_order=[1]: there is no TileRasterizationOrder.[1]\n"
            "  legal here: RowMajor; ColumnMajor",
        ),
        (
            {"num_registers": [40, 232, 1]},
            "MatmulParams(num_registers=(40, 232, 1)): num_registers takes a tuple (int, int) or "
            "'auto' or None\n  legal here: num_registers='auto'",
        ),
    ],
)
def test_data_of_another_shape(data: dict[str, object], text: str) -> None:
    with pytest.raises(ScheduleError) as error:
        MatmulParams.from_dict(data)
    assert str(error.value) == f"ScheduleError[params]: {text}"
