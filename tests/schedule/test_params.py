"""MatmulParams as data and as text."""

from __future__ import annotations

import json

import pytest

from lowering.errors import ScheduleError
from tests.schedule.fusions import CLASSES, PING_PONG
from wsched.schedule import ClusterDims, GemmTile, MatmulParams


@pytest.mark.parametrize("name", CLASSES)
def test_dict_round_trip(name: str) -> None:
    params = CLASSES[name]
    assert MatmulParams.from_dict(json.loads(json.dumps(params.to_dict()))) == params


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
