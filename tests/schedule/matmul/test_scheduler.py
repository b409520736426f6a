"""The matmul scheduler: the loop nests it builds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.schedule.fusions import (
    CLASSES,
    COOPERATIVE,
    NON_PERSISTENT,
    PING_PONG,
    linear,
)
from wsched.fusion import Fusion, IterType, MemoryType, the_matmul
from wsched.schedule import (
    CircularBufferingStrategy,
    ClusterDims,
    MatmulParams,
    TileRasterizationOrder,
    plan_matmul,
    schedule_matmul,
)


def nests(f: Fusion) -> dict[str, str]:
    """Labels of each scheduled tensor's loops; those not serial with their parallel type."""
    return {
        t.head: " ".join(
            d.label if d.parallel.name == "Serial" else f"{d.label}/{d.parallel}" for d in t.loop
        )
        for t in f.tensors
        if t.transforms
    }


EPILOGUE = "cta/BIDx tile group/TIDy chunk m64 M/Mma N/Mma"


def test_cooperative() -> None:
    assert nests(schedule_matmul(linear(), COOPERATIVE)) == {
        "T4_l_float": "cta/BIDx tile group/TIDy k k16 m64 M/Mma Ni/Mma K/Mma",
        "T5_g___bfloat": "cta/BIDx tile group/TIDy chunk Mi/Bulk N/Bulk",
        "T6_s___bfloat": "cta/BIDx tile·k Mi/Bulk Ni/Bulk Ki/Bulk",
        "T7_s___bfloat": "cta/BIDx tile·k Mi/Bulk Ni/Bulk Ki/Bulk",
        "T8_s___bfloat": EPILOGUE,
        "T9_l___bfloat": EPILOGUE,
    }


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_a_stage_has_the_order_of_memory(layout: str) -> None:
    found = nests(schedule_matmul(linear(layout=layout), COOPERATIVE))
    k_major, mn_major = "Mi/Bulk Ni/Bulk Ki/Bulk", "Ki/Bulk Mi/Bulk Ni/Bulk"
    for tv, is_k_major in (("T6", layout[0] == "t"), ("T7", layout[1] == "n")):
        wanted = k_major if is_k_major else mn_major
        assert found[f"{tv}_s___bfloat"] == f"cta/BIDx tile·k {wanted}"


def test_a_result_by_columns_exchanges_the_operands() -> None:
    f = schedule_matmul(linear(by_columns=True), COOPERATIVE)
    assert f.result_axes == ("N", "M")
    assert [str(d.extent) for d in the_matmul(f).a.logical] == ["N", "K"]
    assert nests(f) == nests(schedule_matmul(linear(), COOPERATIVE))


def test_ping_pong() -> None:
    f = schedule_matmul(linear(), PING_PONG)
    assert nests(f)["T6_s___bfloat"] == "cta/BIDx tile·group·k Mi/Bulk Ni/Bulk Ki/Bulk"
    assert nests(f)["T4_l_float"] == "cta/BIDx tile group/TIDy k k16 m64 M/Mma Ni/Mma K/Mma"
    assert [str(d.extent) for d in f.tensor("T4").loop[2:6]] == ["2", "ceildiv(K, 64)", "4", "2"]


def test_non_persistent() -> None:
    f = schedule_matmul(linear(), NON_PERSISTENT)
    assert nests(f)["T6_s___bfloat"] == "cta/BIDx k Mi/Bulk Ni/Bulk Ki/Bulk"
    assert nests(f)["T4_l_float"] == "cta/BIDx group/TIDy k k16 m64 M/Mma Ni/Mma K/Mma"


def test_results_of_32_bits_are_stored_from_the_accumulator() -> None:
    f = schedule_matmul(linear(cast="Float"), COOPERATIVE)
    assert [f"{e.output} = {e}" for e in f.exprs[4:]] == [
        "T8 = mma(T5, T6)",
        "T7 = Set(T8)",
        "T4 = CpAsyncBulkTensorTile(T7)",
    ]
    assert str(f.tensor("T7").loop[-1].extent) == "32"


def test_results_from_registers() -> None:
    """No shared memory between, and the loops of a fragment instead of a box."""
    f = schedule_matmul(linear(), replace(COOPERATIVE, use_smem_epilogue=False))
    assert [f"{e.output} = {e}" for e in f.exprs[-2:]] == ["T8 = cast(T4)", "T5 = Set(T8)"]
    assert nests(f)["T5_g___bfloat"] == nests(f)["T8_l___bfloat"] == EPILOGUE
    assert {t.name for t in f.tensors if t.memory is MemoryType.Shared} == {"T6", "T7"}


def test_an_epilogue_that_is_not_built() -> None:
    with pytest.raises(UnsupportedError) as e:
        schedule_matmul(linear(), replace(COOPERATIVE, use_ldst_matrix=False))
    assert str(e.value) == "use_ldst_matrix=False is not supported; supported: use_ldst_matrix=True"


@pytest.mark.parametrize("dims", [ClusterDims(2, 1), ClusterDims(1, 2), ClusterDims(2, 2)])
@pytest.mark.parametrize("base", [COOPERATIVE, PING_PONG, NON_PERSISTENT])
def test_clusters_keep_the_nest(base: MatmulParams, dims: ClusterDims) -> None:
    plain = schedule_matmul(linear(), base)
    assert nests(schedule_matmul(linear(), replace(base, cluster_dims=dims))) == nests(plain)


@pytest.mark.parametrize(
    ("order", "factor", "merge"),
    [
        (TileRasterizationOrder.RowMajor, 1, "ceildiv(M, 128) * ceildiv(N, 256), 0"),
        (TileRasterizationOrder.RowMajor, 8, "ceildiv(M, 128) * ceildiv(N, 256), 8"),
        (TileRasterizationOrder.ColumnMajor, 4, "ceildiv(N, 256) * ceildiv(M, 128), 4"),
    ],
)
def test_tile_order(order: TileRasterizationOrder, factor: int, merge: str) -> None:
    params = replace(COOPERATIVE, cta_order=order, grid_traversal_factor=(factor, 1))
    f = schedule_matmul(linear(), params)
    made = next(s for s in f.tensor("T4").transforms if s.outputs[0].label == "tiles")
    assert f"{made.outputs[0].extent}, {getattr(made, 'traversal', None)}" == merge


@pytest.mark.parametrize("name", CLASSES)
def test_reductions_stay_on_the_accumulator(name: str) -> None:
    f = schedule_matmul(linear(), CLASSES[name])
    summed = {t.name for t in f.tensors if any(d.iter_type is IterType.Reduction for d in t.loop)}
    assert summed == {f.mmas[0].output}


def test_the_proof_runs_on_every_schedule() -> None:
    with pytest.raises(ScheduleError) as error:
        plan_matmul(
            linear(),
            replace(PING_PONG, circular_buffering_strategy=CircularBufferingStrategy.Pipelined),
        )
    assert error.value.rule == "role"
