from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.nest.element import element_type
from wsched.fusion import DataType

HANDLED = {
    DataType.BFloat16: DType.BF16, DataType.Half: DType.F16, DataType.Float: DType.F32,
    DataType.Float8_e4m3fn: DType.E4M3, DataType.Float8_e5m2: DType.E5M2,
    DataType.Int8: DType.S8, DataType.UInt8: DType.U8, DataType.Int32: DType.S32,
    DataType.TF32: DType.TF32, DataType.UInt4: DType.U4, DataType.Bool: DType.BOOL,
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "element"), HANDLED.items())
def test_element_types(dtype: DataType, element: DType) -> None:
    assert element_type(dtype) is element


@pytest.mark.parametrize("dtype", [d for d in DataType if d not in HANDLED])
def test_a_type_that_kernels_do_not_handle(dtype: DataType) -> None:
    with pytest.raises(UnsupportedError) as error:
        element_type(dtype)
    assert str(error.value) == (
        f"dtype {dtype} is not supported; supported: BFloat16, Half, Float, Float8_e4m3fn, "
        "Float8_e5m2, Int8, UInt8, UInt4, Int32, TF32, Bool"
    )
