"""Weights that are put into aligned rows once."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.front.test_execute import integers, product
from tests.schedules import definition
from wsched.importer.input_error import InputError
from wsched.run.copies import tma_reads, unreadable

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("shape", [(24, 33), (3, 24, 33), (24, 3)])
def test_values_and_order_stay(shape: tuple[int, ...], by_columns: bool) -> None:
    given = torch.arange(float(torch.Size(shape).numel())).reshape(shape).to(torch.bfloat16)
    given = given.mT if by_columns else given
    made = wsched.aligned_rows(given)
    assert made is not given and torch.equal(made, given)
    assert tma_reads(made, len(shape) - (2 if by_columns else 1))
    assert all(s * 2 % 128 == 0 for s in made.stride() if s != 1)
    assert wsched.aligned_rows(made) is made


@pytest.mark.parametrize(
    "given",
    [
        torch.zeros(8, 16, dtype=torch.bfloat16),
        torch.zeros(16, 8, dtype=torch.bfloat16).t(),
        torch.zeros(0, 7, dtype=torch.bfloat16),
    ],
)
def test_what_is_read_as_it_lies_stays(given: Any) -> None:
    assert wsched.aligned_rows(given) is given


def test_a_kernel_copies_no_more() -> None:
    x, w = integers(20, 33), integers(24, 33, seed=1)
    kernel = wsched.compile(definition(), [x, w])
    assert unreadable(kernel.fusion, [x, w]) == (0, 1)
    x, w = wsched.aligned_rows(x), wsched.aligned_rows(w)
    assert unreadable(kernel.fusion, [x, w]) == ()
    (d,) = kernel(x, w)
    assert torch.equal(d, product(x, w, "bf16"))


def test_columns_that_are_apart() -> None:
    given = torch.arange(80.0).reshape(4, 20).to(torch.bfloat16)[:, ::2]
    made = wsched.aligned_rows(given)
    assert torch.equal(made, given) and made.stride() == (64, 1)


def test_a_vector_has_no_rows() -> None:
    with pytest.raises(UnsupportedError) as caught:
        wsched.aligned_rows(torch.zeros(7))
    assert str(caught.value) == (
        "rows of a tensor of 1 dimensions is not supported; supported: 2 or 3"
    )


def test_the_copy_is_on_the_device_of_the_tensor() -> None:
    given = torch.empty(24, 33, dtype=torch.bfloat16, device="meta")
    made = wsched.aligned_rows(given)
    assert (made.device, made.shape, made.stride()) == (given.device, given.shape, (64, 1))


def test_what_is_no_array() -> None:
    nothing: Any = [1]
    with pytest.raises(InputError, match=r"tensor is a list, not a torch\.Tensor"):
        wsched.aligned_rows(nothing)
    with pytest.raises(InputError, match=r"tensor is a tensor of layout torch\.sparse_coo"):
        wsched.aligned_rows(torch.eye(8).to_sparse())
