"""Operands of matmuls: which views a kernel reads through, and the order that merged ones have."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import wsched
from wsched.doors.fallback import interpret
from wsched.front.cut.epilogues import Take
from wsched.front.cut.flatten import flattened
from wsched.front.cut.infer import infer
from wsched.front.cut.segments import Cutter
from wsched.importer import Definition, record_text

TRANSPOSED = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    a = fd.define_tensor(shape={shape}, contiguity={contiguity}, dtype=DataType.BFloat16)
    b = fd.define_tensor(shape={other}, contiguity={dense}, dtype=DataType.BFloat16)
    p = fd.ops.permute(a, dims={dims})
    y = fd.ops.matmul(p, b)
    fd.add_output(y)
"""


def transposed(
    shape: list[int], other: list[int], contiguity: list[bool], dims: list[int]
) -> list[list[str]]:
    """Operations of the segments of a matmul whose first operand is permuted."""
    text = TRANSPOSED.format(
        shape=shape, other=other, contiguity=contiguity, dense=[True] * len(other), dims=dims
    )
    segments = Cutter(record_text(text)).all(Take.NONE).segments
    return [[n.op for n in s.definition.nodes if not n.op.startswith("define_")] for s in segments]


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("shape", "other"),
    [
        ([32, 8], [32, 16]),
        ([3, 32, 8], [3, 32, 16]),
        ([2, 3, 32, 8], [32, 16]),
        ([2, 3, 32, 8], [2, 3, 32, 16]),
        ([2, 3, 4, 32, 8], [2, 3, 4, 32, 16]),
    ],
)
def test_a_transposed_operand_is_read_as_it_lies(
    shape: list[int], other: list[int], dense: bool
) -> None:
    """Rows for columns, whether or not all matrices have one stride: a kernel's copy of the operand
    is all that it may take."""
    rank = len(shape)
    contiguity = [dense] * (rank - 1) + [True]
    dims = [*range(rank - 2), rank - 1, rank - 2]
    assert transposed(shape, other, contiguity, dims) == [["permute", "matmul"]]


TURNED = {
    "of_a_matrix": ("matmul(p, b)", (2, 3, 32, 8), (32, 16)),
    "of_one_batch": ("matmul(p, b)", (3, 32, 8), (1, 32, 16)),
    "of_two_batches_of_one": ("matmul(p, b)", (2, 3, 32, 8), (1, 1, 32, 16)),
    "of_a_linear": ("linear(p, b)", (2, 3, 32, 8), (16, 32)),
    "of_a_matrix_in_front": ("matmul(b, p)", (2, 3, 8, 32), (1, 1, 16, 32)),
    "of_a_vector": ("matmul(p, b)", (2, 3, 32, 8), (32,)),
}


@pytest.mark.parametrize("name", TURNED)
def test_columns_of_several_matrices_are_no_rows_of_one(name: str) -> None:
    """Each matrix of a batch is transposed; all of them side by side would be other rows."""
    call, shape, other = TURNED[name]
    dims = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    sizes = [[None if n == 1 else True for n in x] for x in (shape, other)]
    text = TRANSPOSED.format(
        shape=list(shape), contiguity=sizes[0], other=list(other), dense=sizes[1], dims=dims
    ).replace("matmul(p, b)", call)
    a, b = (torch.randint(-2, 3, x).bfloat16() for x in (shape, other))
    (found,) = wsched.execute(text, [a, b])
    assert torch.equal(found, interpret(record_text(text), [a, b])[0])
    kernels = [bool(m.kernel) for m in wsched.explain(text, [a, b]).matmuls or ()]
    assert kernels == [name != "of_a_vector"]


def test_other_dimensions_are_put_into_rows() -> None:
    """A batch that is no batch of a kernel's strides is made so by somebody else."""
    first, second = transposed([3, 2, 32, 8], [32, 8], [True] * 4, [1, 0, 3, 2])
    assert "matmul" not in first and second == ["matmul"]


FIVE = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    a = fd.define_tensor(shape=[2, 1, 3, 8, 32], contiguity=[True, None, True, True, True], {order}
                         dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[2, 1, 3, 32, 16], contiguity=[True, None, True, True, True],
                         dtype=DataType.BFloat16)
    y = fd.ops.matmul(a, b)
    fd.add_output(y)
"""


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        (None, None), ((4, 3, 2, 1, 0), None), ((4, 3, 2, 0, 1), (2, 0, 1)),
        ((3, 4, 2, 0, 1), None), ((4, 2, 3, 0, 1), None), ((1, 0, 4, 3, 2), None),
    ],
)  # fmt: skip
def test_merged_batches_keep_columns_in_front(order: Any, wanted: Any) -> None:
    """Matrices by columns are declared so; any other order is for the call to find."""
    said = "" if order is None else f"stride_order={list(order)},"
    definition: Definition = record_text(FIVE.format(order=said))
    made, _ = flattened(definition, infer(definition).types)
    a, b = made.inputs
    assert (a.get("shape"), b.get("shape")) == ((6, 8, 32), (6, 32, 16))
    assert (a.get("stride_order"), b.get("stride_order")) == (wanted, None)
