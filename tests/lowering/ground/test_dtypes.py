"""The table of data types against those who own the names."""

from __future__ import annotations

import importlib

import ml_dtypes
import numpy as np
import pytest

from lowering.cuda.elements import moved, pack, register_type, value
from lowering.ground.dtypes import NUMBERS_OF_8_BITS, STORED, DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.types import FragmentType
from lowering.machine.fragment import (
    add_products,
    convert,
    from_float32,
    held_type,
    operand_values,
    rounded_to_tf32,
    to_float32,
)
from wsched.fusion import DataType

C_BYTES = {
    "unsigned char": 1, "signed char": 1, "unsigned short": 2, "int": 4, "float": 4,
    "long long": 8, "double": 8,
}  # fmt: skip


def numpy_type(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("dtype", [d for d in STORED if d.packed == 1])
def test_sizes(dtype: DType) -> None:
    assert numpy_type(dtype.numpy).itemsize == np.dtype(dtype.raw).itemsize == dtype.bytes
    assert dtype.register_bits == dtype.bits == 8 * C_BYTES[dtype.cuda]
    assert FragmentType(dtype, 64, 8).registers == 4 * dtype.bits // 32


@pytest.mark.parametrize("dtype", STORED)
def test_names_exist_in_torch(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    assert getattr(torch, dtype.torch).itemsize == dtype.stored.bytes


@pytest.mark.parametrize("dtype", STORED)
def test_names_exist_in_the_driver(dtype: DType) -> None:
    driver = importlib.import_module("cuda.bindings.driver")
    assert f"CU_TENSOR_MAP_DATA_TYPE_{dtype.driver}" in dir(driver.CUtensorMapDataType)


@pytest.mark.parametrize("dtype", [d for d in DataType if d.is_stored])
def test_a_fusion_type_and_its_element(dtype: DataType) -> None:
    torch = pytest.importorskip("torch")
    assert getattr(torch, dtype.element.torch).itemsize == dtype.element.stored.bytes


def test_a_predicate_takes_a_register() -> None:
    assert DType.PRED not in STORED
    assert FragmentType(DType.PRED, 64, 8).registers == 4
    assert register_type(DType.PRED) == "bool"


KNOWN = "bf16, f16, f32, f64, tf32, e4m3, e5m2, s8, u8, s32, u4, s64"


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
    assert [register_type(d) for d in (DType.S32, DType.E4M3, DType.TF32)] == [
        "int", "unsigned", "unsigned",
    ]  # fmt: skip


def test_values_in_cuda() -> None:
    assert [value(d, "r") for d in (DType.F32, DType.S32)] == ["r", "__int2float_rn(r)"]
    assert value(DType.F16, "r", 1) == "ptx::cvt_f32_f16<1>(r)"


def test_no_conversion_in_cuda() -> None:
    with pytest.raises(UnsupportedError) as error:
        pack(DType.E4M3)
    known = "arithmetic on e4m3 in CUDA is not supported; supported: bf16, f16, f32"
    assert str(error.value) == known
    with pytest.raises(UnsupportedError) as error:
        value(DType.E4M3, "r")
    assert str(error.value) == f"{known}, s32"


def test_no_moves_in_cuda() -> None:
    with pytest.raises(UnsupportedError) as error:
        moved(DType.S8)
    assert str(error.value) == (
        "threads that move s8 in CUDA is not supported; supported: 16-bit types, f32, s32, "
        "e4m3, e5m2"
    )


def test_what_the_machine_holds() -> None:
    assert [held_type(d) for d in (DType.BF16, DType.E5M2, DType.F32, DType.S32)] == [
        "uint16", "uint8", "float32", "int32",
    ]  # fmt: skip


def test_no_arithmetic_on_the_machine() -> None:
    known = "arithmetic on s8 on the machine is not supported; supported: bf16, f16, f32"
    with pytest.raises(UnsupportedError) as error:
        from_float32(np.zeros(1, np.float32), DType.S8)
    assert str(error.value) == f"{known}, e4m3, e5m2"
    with pytest.raises(UnsupportedError) as error:
        to_float32(np.zeros(1, np.int64), DType.S64)
    known = known.replace("s8 on", "s64 on")
    assert str(error.value) == f"{known}, e4m3, e5m2, s8, u8, s32"


@pytest.mark.parametrize(
    ("dtype", "most", "tie"), [(DType.E4M3, 448.0, 2.0**-10), (DType.E5M2, 57344.0, 2.0**-17)]
)
def test_what_is_rounded_to_8_bits_ends_at_the_largest_number(
    dtype: DType, most: float, tie: float
) -> None:
    """To nearest even, infinities too; only NaN is NaN, the one that ``cvt`` makes."""
    given = [most, 1.01 * most, 1e38, np.inf, -np.inf, -1e9, tie, 1.01 * tie, -0.0, 1.3125]
    found = from_float32(np.array([*given, np.nan, -np.nan], np.float32), dtype)
    assert found.dtype == np.uint8 and found[-2:].tolist() == [0x7F, 0x7F]
    wide = [most, most, most, most, -most, -most, 0.0, 2 * tie, -0.0, 1.25]
    assert to_float32(found[:-2], dtype).tolist() == wide
    assert found[-4] == 0x80


def test_numbers_of_8_bits_are_exact_in_bf16() -> None:
    bits = np.arange(256, dtype=np.uint8)
    for dtype in NUMBERS_OF_8_BITS:
        wide = to_float32(bits, dtype)
        again = convert(convert(bits, dtype, DType.BF16), DType.BF16, DType.F32)
        assert np.array_equal(again, wide, equal_nan=True) and len({*wide[~np.isnan(wide)]}) > 200


def test_integers_are_rounded_as_fp32() -> None:
    found = to_float32(np.array([2**24 + 1, 2**24 + 3, -7], np.int32), DType.S32)
    assert found.tolist() == [2**24, 2**24 + 4, -7]


def test_what_the_tensor_core_reads() -> None:
    """Of tf32 10 bits of the mantissa, cut off; of the others all."""
    tf32 = np.array([1 + 2**-10, 1 + 2**-10 + 2**-11, -(2 - 2**-23)], np.float32)
    found = operand_values(tf32, DType.TF32)
    assert found.tolist() == [1 + 2**-10, 1 + 2**-10, -(2 - 2**-10)]
    for dtype, bits, number in (
        (DType.E4M3, 0x7E, 448.0), (DType.E5M2, 0x7B, 57344.0), (DType.S8, 0x80, -128.0),
        (DType.U8, 0x80, 128.0), (DType.F16, 0x3C01, 1 + 2**-10), (DType.BF16, 0x3F81, 1 + 2**-7),
    ):  # fmt: skip
        assert operand_values(np.array([bits], dtype.raw), dtype).tolist() == [number]


def test_what_tma_makes_of_tf32() -> None:
    """To nearest even, carried into the exponent; of subnormal numbers as well, and NaN is one."""
    bits = {
        0x3F800000: 0x3F800000, 0x3F800FFF: 0x3F800000, 0x3F801000: 0x3F800000,
        0x3F801001: 0x3F802000, 0x3F803000: 0x3F804000, 0xBF803000: 0xBF804000,
        0x3FFFF000: 0x40000000, 0x00001001: 0x00002000, 0x80003000: 0x80004000,
        0x7F7FFFFF: 0x7F800000, 0x7F800000: 0x7F800000, 0xFF800000: 0xFF800000,
        0x7F800001: 0x7FC00000, 0xFFFFFFFF: 0xFFFFE000, 0x00000000: 0, 0x80000000: 0x80000000,
    }  # fmt: skip
    found = rounded_to_tf32(np.array(list(bits), np.uint32))
    assert found.dtype == np.uint32
    assert found.tolist() == list(bits.values())


def test_how_accumulators_add() -> None:
    """s32 wraps, f16 rounds to nearest even and overflows, and without a sum before all begin."""
    ends = np.array([2**31 - 1], np.int32)
    assert add_products(ends, np.array([2.0], np.float32), DType.S32).tolist() == [-(2**31) + 1]
    assert add_products(None, np.array([-3.0], np.float32), DType.S32).tolist() == [-3]
    for before, product, after in ((2048, 1, 2048), (2048, 3, 2052), (65504, 16, np.inf)):
        held = np.array([before], np.float16).view(np.uint16)
        found = add_products(held, np.array([product], np.float32), DType.F16)
        assert found.view(np.float16).tolist() == [after]
    assert add_products(ends.astype(np.float32), np.float32([1]), DType.F32).tolist() == [2**31]


def test_stored() -> None:
    """What others read of a tensor: of tf32 fp32, of u4 words, of everything else itself."""
    others = {d: d.stored for d in DType if d.stored is not d}
    assert others == {DType.TF32: DType.F32, DType.U4: DType.S32}


def test_what_tma_rounds() -> None:
    """The one type whose map's name says so, so that the driver is asked for it."""
    assert [d for d in STORED if d.rounded_by_tma] == [DType.TF32]
    assert DType.TF32.driver == "TFLOAT32" and DType.F32.driver == "FLOAT32"


def test_elements_that_share_a_byte() -> None:
    """Two of 4 bits do, and who asks for bytes of one is told so."""
    assert [d for d in STORED if d.packed > 1] == [DType.U4] and DType.U4.packed == 2
    assert (DType.U4.size(24), DType.U4.count(16), DType.U4.raw) == (12, 32, "uint8")
    assert (DType.BF16.size(24), DType.BF16.count(16)) == (48, 8)
    assert DType.U4.stored is DType.S32
    with pytest.raises(UnsupportedError) as e:
        _ = DType.U4.bytes
    assert str(e.value) == (
        "bytes of one element of u4 is not supported; supported: those of several"
    )
