"""The table of data types against those who own the names."""

from __future__ import annotations

import importlib

import ml_dtypes
import numpy as np
import pytest

from lowering.cuda.elements import moved, pack, register_type, unpack
from lowering.ground.dtypes import STORED, DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.types import FragmentType
from lowering.machine.fragment import from_float32, held_type, to_float32
from wsched.fusion import DataType

C_BYTES = {
    "unsigned char": 1, "signed char": 1, "unsigned short": 2, "int": 4, "float": 4,
    "long long": 8, "double": 8,
}  # fmt: skip


def numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("dtype", STORED)
def test_sizes(dtype: DType) -> None:
    assert numpy_type(dtype.numpy).itemsize == np.dtype(dtype.raw).itemsize == dtype.bytes
    assert dtype.register_bits == dtype.bits == 8 * C_BYTES[dtype.cuda]
    assert FragmentType(dtype, 64, 8).registers == 4 * dtype.bits // 32


@pytest.mark.parametrize("dtype", STORED)
def test_names_exist_in_torch(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    assert getattr(torch, dtype.torch).itemsize == dtype.bytes


@pytest.mark.parametrize("dtype", STORED)
def test_names_exist_in_the_driver(dtype: DType) -> None:
    driver = importlib.import_module("cuda.bindings.driver")
    assert f"CU_TENSOR_MAP_DATA_TYPE_{dtype.driver}" in dir(driver.CUtensorMapDataType)


@pytest.mark.parametrize("dtype", [d for d in DataType if d.is_stored])
def test_a_fusion_type_and_its_element(dtype: DataType) -> None:
    torch = pytest.importorskip("torch")
    assert getattr(torch, dtype.element.torch).itemsize == dtype.bytes


def test_a_predicate_takes_a_register() -> None:
    assert DType.PRED not in STORED
    assert FragmentType(DType.PRED, 64, 8).registers == 4
    assert register_type(DType.PRED) == "bool"


KNOWN = "bf16, f16, f32, f64, tf32, e4m3, e5m2, s8, u8, s32, s64"


@pytest.mark.parametrize(
    ("dtype", "column", "message"),
    [
        (DType.PRED, "bits", f"dtype pred in memory is not supported; supported: {KNOWN}, bool"),
        (DType.PRED, "raw", f"dtype pred in memory is not supported; supported: {KNOWN}, bool"),
        (DType.PRED, "cuda", f"dtype pred in memory is not supported; supported: {KNOWN}, bool"),
        (DType.PRED, "numpy", f"dtype pred in NumPy is not supported; supported: {KNOWN}, bool"),
        (DType.PRED, "torch", f"dtype pred in torch is not supported; supported: {KNOWN}, bool"),
        (DType.PRED, "driver",
         f"dtype pred in a tensor map is not supported; supported: {KNOWN}, bool"),
        (DType.BOOL, "ptx",
         f"dtype bool as an operand in PTX is not supported; supported: {KNOWN}"),
    ],
)  # fmt: skip
def test_what_a_type_does_not_have(dtype: DType, column: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        getattr(dtype, column)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("dtype", "register", "move"),
    [
        (DType.BF16, "unsigned", "b16"),
        (DType.F16, "unsigned", "b16"),
        (DType.F32, "float", "f32"),
    ],
)
def test_names_in_cuda(dtype: DType, register: str, move: str) -> None:
    assert (register_type(dtype), moved(dtype)) == (register, move)


def test_registers_of_integers_and_small_floats() -> None:
    assert [register_type(d) for d in (DType.S32, DType.E4M3)] == ["int", "unsigned"]


@pytest.mark.parametrize("convert", [pack, unpack])
def test_no_conversion_in_cuda(convert: object) -> None:
    with pytest.raises(UnsupportedError) as error:
        convert(DType.E4M3)  # type: ignore[operator]
    assert str(error.value) == (
        "arithmetic on e4m3 in CUDA is not supported; supported: bf16, f16, f32"
    )


def test_no_moves_in_cuda() -> None:
    with pytest.raises(UnsupportedError) as error:
        moved(DType.S8)
    assert str(error.value) == (
        "threads that move s8 in CUDA is not supported; supported: 16-bit types, f32, s32"
    )


def test_what_the_machine_holds() -> None:
    assert [held_type(d) for d in (DType.BF16, DType.E5M2, DType.F32, DType.S32)] == [
        "uint16", "uint8", "float32", "int32",
    ]  # fmt: skip


@pytest.mark.parametrize("convert", [to_float32, from_float32])
def test_no_arithmetic_on_the_machine(convert: object) -> None:
    with pytest.raises(UnsupportedError) as error:
        convert(np.zeros(1, np.float32), DType.S32)  # type: ignore[operator]
    assert str(error.value) == (
        "arithmetic on s32 on the machine is not supported; supported: bf16, f16, f32"
    )
