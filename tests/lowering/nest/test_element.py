from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.nest.element import element_type
from wsched.fusion import DataType


@pytest.mark.parametrize(
    ("dtype", "element"),
    [(DataType.BFloat16, DType.BF16), (DataType.Half, DType.F16), (DataType.Float, DType.F32)],
)
def test_element_types(dtype: DataType, element: DType) -> None:
    assert element_type(dtype) is element


def test_a_type_that_kernels_do_not_handle() -> None:
    with pytest.raises(UnsupportedError) as error:
        element_type(DataType.Double)
    assert str(error.value) == (
        "dtype Double is not supported; supported: BFloat16, Half, Float, Float8_e4m3fn, "
        "Float8_e5m2, Int8, UInt8, Int32"
    )
