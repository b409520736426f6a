"""Tensors for results: their sizes and strides, and which of a caller's are taken."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reductions import Reduced, definition
from wsched.front.known import import_fusion
from wsched.importer.input_error import InputError
from wsched.run.results import new_result, require_like

torch = pytest.importorskip("torch")

CPU = torch.device("cpu")
BOTH = (Reduced("sum", (0,)), Reduced("max", (1,), dtype="BFloat16"))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_new_ones(keepdim: bool, columns: bool) -> None:
    """What is reduced is a dimension of size 1, or none; a matrix lies as the definition says."""
    kept = [Reduced(r.op, r.dims, keepdim=keepdim, dtype=r.dtype) for r in BOTH]
    fusion = import_fusion(definition(kept, columns=columns))
    found = [new_result(fusion, b, {"M": 5, "N": 16, "K": 8}, CPU) for b in fusion.outputs]
    shapes = [(5, 16), (1, 16), (5, 1)] if keepdim else [(5, 16), (16,), (5,)]
    assert [tuple(x.shape) for x in found] == shapes
    assert [x.dtype for x in found] == [torch.bfloat16, torch.float32, torch.bfloat16]
    assert found[0].stride() == ((1, 5) if columns else (16, 1))


WANTED = [([4, 8], torch.float32), ([8], torch.bfloat16)]


def given(shape: tuple[int, ...] = (4, 8), dtype: Any = torch.float32, device: str = "cpu") -> Any:
    return torch.empty(shape, dtype=dtype, device=device)


ROW = given((8,), torch.bfloat16)


def test_of_a_callers_those_that_are_like_them() -> None:
    """At any strides."""
    require_like([given(), ROW], WANTED, CPU)
    require_like([given((8, 4)).T, ROW], WANTED, CPU)


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ([given()], "out has 1 tensors, the definition has 2 outputs"),
        ([given(), ROW, ROW], "out has 3 tensors, the definition has 2 outputs"),
        ([given(), None], "out[1] is a NoneType, not a torch.Tensor"),
        ([given((4, 9)), ROW],
         "out[0] is torch.float32 [4, 9] on cpu, the result is torch.float32 [4, 8] on cpu"),
        ([given(), given((8,))],
         "out[1] is torch.float32 [8] on cpu, the result is torch.bfloat16 [8] on cpu"),
        ([given(device="meta"), ROW],
         "out[0] is torch.float32 [4, 8] on meta, the result is torch.float32 [4, 8] on cpu"),
    ],
)  # fmt: skip
def test_others_are_refused(outputs: list[Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        require_like(outputs, WANTED, CPU)
    assert str(error.value) == text
