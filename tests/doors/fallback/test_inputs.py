"""What a caller passes, against a definition that anything may run."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback import check_inputs
from wsched.importer import record_text
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

TEXT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, 4], contiguity=[True, True], dtype=DataType.BFloat16)
    y = fd.define_tensor(shape=[1, 4], contiguity=[True, True], dtype=DataType.Float)
    s = fd.define_scalar(None, dtype=DataType.Int)
    z = fd.define_tensor(shape=[], contiguity=[], dtype=DataType.Float, is_cpu=True)
    t = fd.ops.mul(fd.ops.add(fd.ops.add(x, y), s), z)
    fd.add_output(t)
"""

X, Y, Z = torch.ones(3, 4).bfloat16(), torch.ones(1, 4), torch.tensor(2.0)


def check(*inputs: Any, runs: bool = True) -> None:
    check_inputs(record_text(TEXT), inputs, runs=runs)


@pytest.mark.parametrize("number", [3, True, 0.5, -(1 << 63), (1 << 63) - 1])
@pytest.mark.parametrize("rows", [0, 3])
def test_what_fits(rows: int, number: float) -> None:
    check(X[:rows], Y, number, Z)


def test_tensors_without_memory_fit_what_is_only_explained() -> None:
    """A tensor that is said to be on the CPU stays there, beside others that are elsewhere."""
    check(X.to("meta"), Y.to("meta"), 3, Z, runs=False)
    with pytest.raises(UnsupportedError) as error:
        check(X.to("meta"), Y.to("meta"), 3, Z)
    assert str(error.value) == (
        "running on meta is not supported; supported: tensors on cuda or cpu"
    )


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ([X, Y, 3], "3 inputs, the definition has 4"),
        ([X, Y, 3, Z, Z], "5 inputs, the definition has 4"),
        ([X, 1.0, 3, Z], "input 1 is a float, not a torch.Tensor"),
        ([X, Y, Z, Z], "input 2 is a Tensor, not a number"),
        ([X, Y, "3", Z], "input 2 is a str, not a number"),
        ([X, Y, 1 << 63, Z], "input 2 is a whole number of 64 bits, which 64 do not hold"),
        ([X, Y, -(1 << 64), Z], "input 2 is a whole number of 65 bits, which 64 do not hold"),
        ([X.to_sparse(), Y, 3, Z],
         "input 0 is a tensor of layout torch.sparse_coo, not torch.strided"),
        ([torch.nested.nested_tensor([X[0], X[0]], layout=torch.jagged), Y, 3, Z],
         "input 0 is a tensor of layout nested, not torch.strided"),
        ([X, torch._neg_view(Y), 3, Z],
         "input 1 has torch's negative bit: its memory has the other sign; call resolve_neg()"),
        ([X.half(), Y, 3, Z], "input 0 is torch.float16, the definition says torch.bfloat16"),
        ([X, Y.double(), 3, Z], "input 1 is torch.float64, the definition says torch.float32"),
        ([X[0], Y, 3, Z], "input 0 has shape [4], the definition has 2 dimensions"),
        ([X, Y, 3, Y[0]], "input 3 has shape [4], the definition has 0 dimensions"),
        ([X[:, :3], Y, 3, Z], "dimension 1 of input 0 is 3, the definition says 4"),
        ([X, Y.expand(2, 4), 3, Z], "dimension 0 of input 1 is 2, the definition says 1"),
        ([X, Y.to("meta"), 3, Z], "inputs are on cpu and meta, not on one device"),
    ],
)  # fmt: skip
def test_what_does_not_fit(inputs: list[Any], told: str) -> None:
    for runs in (True, False):
        with pytest.raises(InputError) as error:
            check(*inputs, runs=runs)
        assert str(error.value) == told
