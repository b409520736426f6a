"""Memory for buffers: what the inputs' shapes say, tensors within other memory, and new ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import as_expr, ceildiv
from tests.program.programs import K, M, N, buffer, torch
from wsched.importer.input_error import InputError
from wsched.program.memory import (
    allocator,
    device_of,
    extents_of,
    new_tensor,
    spanned_bytes,
    within,
)
from wsched.program.program import Buffer

PITCHED = buffer("a", M, K, strides=(ceildiv(K, 8) * 8, as_expr(1)))
"""Rows that TMA can read."""


def empty(*shape: int) -> Any:
    return torch.empty(shape, device="meta")


def test_extents() -> None:
    """A number, or a tensor of any shape, says nothing; a size may be more than one symbol."""
    buffers = (buffer("x", M, K), Buffer("s"), buffer("y", K + 1, 3))
    assert extents_of(buffers, [empty(5, 7), 2.5, empty(8, 3)]) == {"M": 5, "K": 7}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([empty(5, 7)], "1 inputs, the definition has 2"),
        ([empty(5, 7), empty(8)], "input 1 has shape [8], the definition has 2 dimensions"),
        ([empty(5, 7), empty(7, 3)], "dimension 0 of input 1 is 7, the definition says 8"),
        ([empty(5, 7), empty(8, 4)], "dimension 1 of input 1 is 4, the definition says 3"),
    ],
)
def test_inputs_of_other_sizes(inputs: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        extents_of((buffer("x", M, K), buffer("y", K + 1, 3)), inputs)


def test_the_device_is_that_of_the_first_tensor() -> None:
    assert device_of([2.5, empty(3), torch.empty(3)]).type == "meta"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_new_tensor_lies_as_its_buffer(device: str) -> None:
    made = new_tensor(PITCHED, {"M": 3, "K": 13}, torch.device(device))
    assert (made.shape, made.stride()) == ((3, 13), (16, 1))
    assert (made.dtype, made.device.type) == (torch.bfloat16, device)


def test_buffers_within_memory() -> None:
    """Each has its own bytes, and no more; the memory may be a part of other memory itself."""
    whole = torch.zeros(16 + 1024, dtype=torch.uint8)
    sizes = {"M": 3, "N": 5, "K": 13}
    a = within(whole[16:], 256, PITCHED, sizes)
    b = within(whole[16:], 512, buffer("b", N, dtype=DType.F32), sizes)
    assert (a.shape, a.stride(), a.dtype) == ((3, 13), (16, 1), torch.bfloat16)
    assert (b.shape, b.stride(), b.dtype) == ((5,), (1,), torch.float32)
    for made in (a, b):
        made.fill_(1 / 3)  # no byte of it is 0
    rows = {272 + 32 * row + at for row in range(3) for at in range(2 * 13)}
    wanted = rows | {528 + at for at in range(4 * 5)}
    assert {at for at, byte in enumerate(whole.tolist()) if byte} == wanted


@pytest.mark.parametrize(
    ("shape", "strides", "wanted"),
    [((3, 5), (5, 1), 30), ((3, 5), (8, 1), 42), ((5, 3), (1, 8), 42), ((0, 5), (8, 1), 0)],
)
def test_bytes_from_first_to_last(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: int
) -> None:
    assert spanned_bytes(torch.empty_strided(shape, strides, dtype=torch.bfloat16)) == wanted


@pytest.mark.parametrize(
    "strides", [(64, 1), (72, 1), (67, 1)], ids=["dense", "whole stores", "filled up"]
)
def test_allocated_on_another_device(strides: tuple[int, int]) -> None:
    like = torch.empty_strided((3, 64), strides, dtype=torch.bfloat16)
    here, there = allocator(like)(), allocator(like, torch.device("meta"))()
    assert (here.device.type, there.device.type) == ("cpu", "meta")
    for made in (here, there):
        assert (made.shape, made.stride(), made.dtype) == (like.shape, strides, like.dtype)
