"""Tensors of a definition as nvFuser prints them."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.doors.dropin.definitions import BUILDERS, F32, built, inputs_of, matrix, nvf
from wsched.doors.dropin.tensors import TensorType, bind_extents, tensor_types
from wsched.fusion import DataType
from wsched.importer import definition_of
from wsched.run.input_error import InputError


def test_types_and_extents() -> None:
    types = tensor_types(built(BUILDERS["normed"]).fusion)
    assert types["tv0"] == TensorType(DataType.BFloat16, ("i0", "i1"))
    assert types["tv3"] == TensorType(DataType.BFloat16, ("i0", "i3"))
    (reduced,) = (t for t in types.values() if len(t.extents) == 1)
    (rows,) = reduced.extents
    assert reduced == TensorType(DataType.Float, (rows,))
    assert TensorType(DataType.Float, (rows, "1")) in types.values()


def test_an_expanded_dimension_has_no_extent() -> None:
    def build(fd: Any) -> None:
        row = fd.define_tensor(shape=[-1], contiguity=True, dtype=F32)
        wide = fd.ops.expand(fd.ops.broadcast(row, [True, False]), [5, 7])
        fd.add_output(fd.ops.add(wide, 1.0))

    types = tensor_types(built(build).fusion)
    assert (None, "7") in [t.extents for t in types.values()]


def refusal(build: Any) -> str:
    with pytest.raises(UnsupportedError) as caught:
        tensor_types(built(build).fusion)
    return str(caught.value)


def test_what_somebody_has_scheduled_is_left_to_nvfuser() -> None:
    def split(fd: Any) -> None:
        y = fd.ops.matmul(matrix(fd), matrix(fd))
        fd.add_output(y)
        y.outer_split(1, 3)

    def bound(fd: Any) -> None:
        y = fd.ops.add(matrix(fd), 1.0)
        fd.add_output(y)
        y.axis(0).parallelize(nvf.ParallelType.grid_x)

    assert refusal(split) == (
        "the tensor T2_g___bfloat[iS4{i0}, iS7{3}, iS8{( ceilDiv(i4, 3) )}, rS6{i1}] is not "
        "supported; supported: tensors whose dimensions nobody has scheduled or resized"
    )
    assert "iblockIdx.x" in refusal(bound)


def test_sizes_of_the_symbols() -> None:
    fd = built(BUILDERS["mlp"])
    types = tensor_types(fd.fusion)
    sizes = bind_extents(definition_of(fd), types, inputs_of("mlp", rows=7))
    assert types["tv0"].shape(sizes) == (7, 64)
    assert types["tv4"].shape(sizes) == (7, 96)
    assert types["tv16"].shape(sizes) == (7, 64)


def test_a_size_that_no_input_tells() -> None:
    with pytest.raises(UnsupportedError) as caught:
        TensorType(DataType.Float, ("i9", None, "3")).shape({"i0": 4})
    assert str(caught.value) == (
        "a tensor of shape [i9, expanded, 3] between segments is not supported; supported: extents "
        "that inputs have"
    )


def test_inputs_that_do_not_fit() -> None:
    fd = built(BUILDERS["linear"])
    with pytest.raises(InputError) as caught:
        bind_extents(definition_of(fd), tensor_types(fd.fusion), inputs_of("linear")[:1])
    assert str(caught.value) == "1 inputs, the definition has 2"
