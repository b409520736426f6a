"""cache_after, cache_before and set_memory_type: before, after, refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import ScheduleError
from tests.schedule.fusions import TMA, cached, linear
from wsched.fusion import LoadStoreOpType, MemoryType
from wsched.schedule import cache_after, cache_before, set_memory_type, split


def exprs(f: object) -> list[str]:
    return [f"{e.output} = {e}" for e in f.exprs]  # type: ignore[attr-defined]


def test_cache_after() -> None:
    f, name = cache_after(linear(), "T2", TMA)
    assert name == "T6"
    assert exprs(f) == [
        "T2 = broadcast(T0, flags = {false, true, false})",
        "T3 = broadcast(T1, flags = {true, false, false})",
        "T6 = CpAsyncBulkTensorTile(T2)",
        "T4 = mma(T6, T3)",
        "T5 = cast(T4)",
    ]
    assert str(f.tensor("T6")) == "T6_l___bfloat[ iS15{M}, bS16{1 ex N}, iS17{K} ]"
    assert str(f.history[0]) == "cache_after('T2', LoadStoreOpType.CpAsyncBulkTensorTile)"


def test_cache_after_of_an_accumulator_drops_the_reduction() -> None:
    f, name = cache_after(linear(), "T4")
    assert str(f.tensor(name)) == "T6_l_float[ iS15{M}, iS16{N} ]"


def test_cache_before() -> None:
    f, stored = cache_before(linear(), "T5", TMA)
    f, register = cache_before(f, stored, LoadStoreOpType.StMatrix)
    assert exprs(f)[2:] == [
        "T4 = mma(T2, T3)",
        "T7 = cast(T4)",
        "T6 = StMatrix(T7)",
        "T5 = CpAsyncBulkTensorTile(T6)",
    ]
    assert (stored, register) == ("T6", "T7")


def test_cache_before_of_an_accumulator_takes_the_reduction_over() -> None:
    f, name = cache_before(linear(cast="Float"), "T4", TMA)
    assert str(f.tensor("T4")) == "T4_g_float[ iS10{M}, iS11{N} ]"
    assert str(f.tensor(name)) == "T5_l_float[ iS13{M}, iS14{N}, rS15{K} ]"
    assert f.mmas[0].output == name


def test_set_memory_type() -> None:
    f, name = cache_after(linear(), "T2", TMA)
    assert set_memory_type(f, name, MemoryType.Shared).tensor(name).head == "T6_s___bfloat"


@pytest.mark.parametrize(
    ("tv", "op", "why"),
    [
        ("T5", LoadStoreOpType.Set, "nothing reads T5"),
        ("T4", TMA, "a TMA load reads global memory, T4 is in Local memory"),
        (
            "T2",
            LoadStoreOpType.StMatrix,
            "StMatrix writes shared memory from registers: use cache_before",
        ),
        ("T2", LoadStoreOpType.LdMatrix, "LdMatrix reads shared memory, T2 is in Global memory"),
    ],
)
def test_cache_after_refused(tv: str, op: LoadStoreOpType, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        cache_after(linear(), tv, op)
    assert (error.value.rule, error.value.why) == ("cache_after", why)


@pytest.mark.parametrize(
    ("tv", "op", "why"),
    [
        ("T0", TMA, "T0 is an input: nothing writes it"),
        ("T4", TMA, "a TMA store writes global memory, T4 is in Local memory"),
        ("T4", LoadStoreOpType.StMatrix, "StMatrix stores 16-bit elements, T4 has Float"),
        (
            "T4",
            LoadStoreOpType.LdMatrix,
            "LdMatrix reads shared memory into registers: use cache_after",
        ),
    ],
)
def test_cache_before_refused(tv: str, op: LoadStoreOpType, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        cache_before(linear(), tv, op)
    assert (error.value.rule, error.value.why) == ("cache_before", why)


def test_transformed_tensors_are_not_cached() -> None:
    f = split(split(linear(), "T5", 0, 2), "T2", 0, 2)
    with pytest.raises(ScheduleError) as error:
        cache_before(f, "T5", TMA)
    assert error.value.why == "T5 is transformed already: cache it first"
    with pytest.raises(ScheduleError) as error:
        cache_after(f, "T2", TMA)
    assert error.value.why == "T2 is transformed already: cache it first"


@pytest.mark.parametrize(
    ("tv", "memory", "why"),
    [
        (
            "T5",
            MemoryType.Shared,
            "T5 is an input, a view of one, or an output: it is in global memory",
        ),
        ("T6", MemoryType.Global, "a tensor inside the kernel has no global memory"),
        (
            "T4",
            MemoryType.Shared,
            "T4 is the accumulator of wgmma, which is in registers",
        ),
    ],
)
def test_set_memory_type_refused(tv: str, memory: MemoryType, why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        cached().set_memory_type(tv, memory)
    assert (error.value.rule, error.value.why) == ("memory", why)


def test_ldmatrix_reads_16_bit_elements_of_shared_memory() -> None:
    f = set_memory_type(linear(), "T4", MemoryType.Local)
    f, name = cache_after(f, "T4")
    f = set_memory_type(f, name, MemoryType.Shared)
    with pytest.raises(ScheduleError) as error:
        cache_after(f, name, LoadStoreOpType.LdMatrix)
    assert error.value.why == f"LdMatrix loads 16-bit elements, {name} has Float"
    f, name = cache_after(linear(), "T2", TMA)
    f = set_memory_type(f, name, MemoryType.Shared)
    f, copy = cache_after(f, name, LoadStoreOpType.LdMatrix)
    assert f"{copy} = LdMatrix({name})" in exprs(f)
