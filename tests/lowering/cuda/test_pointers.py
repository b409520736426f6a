"""Plain tensors of a launch: what is passed for them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.cuda.pointers import pointer_of
from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import GlobalTensor
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.fake_driver import Tensor

(BIAS,) = parse_kernel(
    "kernel k threads 128 cluster 1 grid 1 { param N: i32 global T: bf16[1, N] align 4 }"
).globals


def of(tensor: Tensor, g: GlobalTensor = BIAS) -> tuple[int, int]:
    return pointer_of(g, tensor)  # type: ignore[arg-type]


def test_address_and_stride_in_elements() -> None:
    assert of(Tensor()) == (4096, 128)
    assert of(Tensor(strides=(0, 1))) == (4096, 0)


def test_any_number_of_elements() -> None:
    assert of(Tensor(shape=(1 << 16, 1 << 16), strides=(1 << 16, 1))) == (4096, 1 << 16)


def test_strides_of_single_rows_and_columns_mean_nothing() -> None:
    assert of(Tensor(shape=(1, 10), strides=(3, 1))) == (4096, 0)
    assert of(Tensor(shape=(10, 1), strides=(7, 5)), replace(BIAS, align=1)) == (4096, 7)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor(shape=(8,), strides=(1,)),
         "T: 1-D torch.bfloat16 on cuda is not supported; "
         "supported: a 2-D CUDA tensor of torch.bfloat16"),
        (Tensor(dtype="torch.float32"),
         "T: 2-D torch.float32 on cuda is not supported; "
         "supported: a 2-D CUDA tensor of torch.bfloat16"),
        (Tensor(is_cuda=False),
         "T: 2-D torch.bfloat16 on cpu is not supported; "
         "supported: a 2-D CUDA tensor of torch.bfloat16"),
        (Tensor(shape=(1 << 31, 8), strides=(8, 1)),
         "T: 2147483648 x 8 elements is not supported; "
         "supported: at most 2147483647 along each dimension"),
        (Tensor(strides=(1, 128)),
         "T: stride 128 between columns is not supported; "
         "supported: contiguous columns (stride 1)"),
        (Tensor(address=4098),
         "T: an address of 4098 bytes is not supported; supported: multiples of 4 bytes"),
        (Tensor(strides=(129, 1)),
         "T: a stride of 258 bytes is not supported; supported: multiples of 4 bytes"),
        (Tensor(shape=(1, 127)),
         "T: a row length of 254 bytes is not supported; supported: multiples of 4 bytes"),
    ],
)  # fmt: skip
def test_unsupported_tensor_is_rejected(tensor: Tensor, text: str) -> None:
    with pytest.raises(UnsupportedError) as e:
        of(tensor)
    assert str(e.value) == text
