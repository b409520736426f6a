"""Operands that are repeated by ``expand`` or ``broadcast_in_dim`` have kernels as others have."""

from __future__ import annotations

import pytest
import torch

import wsched
from tests.front.cut.features import Feature, inputs_of
from wsched.doors.fallback import interpret
from wsched.front.cut.infer import infer
from wsched.front.cut.repeats import without_repeats
from wsched.importer import Definition, record_text
from wsched.importer.definition import definition_text

BATCHES = (3, 24, 32)
ROWS, COLUMNS = (32, 16), (16, 32)


def feature(*lines: str, shapes: tuple[tuple[int, ...], ...]) -> Feature:
    return Feature("\n".join([*lines, "fd.add_output(y)"]), shapes, 1, 1)


def spread(name: str, shape: tuple[int, ...], dims: list[int]) -> str:
    return f"e = fd.ops.broadcast_in_dim({name}, shape={list(shape)}, broadcast_dims={dims})"


PRODUCT = "y = fd.ops.matmul(t0, e)"
THREE = "y = fd.ops.matmul(t0, t1)"
"""Of batches that are three runs of dimensions."""

ONCE = {
    "expand": feature(
        "e = fd.ops.expand(t1, shape=[3, 32, 16])", PRODUCT, shapes=(BATCHES, (1, 32, 16))
    ),
    "expand_as_it_is": feature(
        "e = fd.ops.expand(t1, shape=[3, -1, 16])", PRODUCT, shapes=(BATCHES, (1, 32, 16))
    ),
    "broadcast_in_dim": feature(spread("t1", (3, 32, 16), [1, 2]), PRODUCT, shapes=(BATCHES, ROWS)),
    "broadcast_then_expand": feature(
        "b = fd.ops.broadcast(t1, is_broadcast_dim=[True, False, False])",
        "e = fd.ops.expand(b, shape=[3, 32, 16])", PRODUCT, shapes=(BATCHES, ROWS),
    ),
    "in_two_steps": feature(
        "b = fd.ops.broadcast_in_dim(t1, shape=[1, 3, 32, 16], broadcast_dims=[2, 3])",
        "e = fd.ops.expand(b, shape=[2, 3, 32, 16])", PRODUCT, shapes=((2, *BATCHES), ROWS),
    ),
    "transposed_before": feature(
        "p = fd.ops.permute(t1, dims=[1, 0])", spread("p", (3, 32, 16), [1, 2]), PRODUCT,
        shapes=(BATCHES, COLUMNS),
    ),
    "transposed_behind": feature(
        "b = fd.ops.broadcast_in_dim(t1, shape=[3, 16, 32], broadcast_dims=[1, 2])",
        "e = fd.ops.permute(b, dims=[0, 2, 1])", PRODUCT, shapes=(BATCHES, COLUMNS),
    ),
    "reshaped": feature(
        "r = fd.ops.reshape(t1, new_shape=[1, 1, 32, 16])",
        "e = fd.ops.expand(r, shape=[2, 3, 32, 16])", PRODUCT, shapes=((2, *BATCHES), ROWS),
    ),
    "first_operand": feature(
        spread("t1", (3, 16, 24), [1, 2]), "y = fd.ops.matmul(e, t0)",
        shapes=(BATCHES, (16, 24)),
    ),
    "one_of_two_batches": feature(
        "e = fd.ops.expand(t1, shape=[2, 3, 32, 16])", PRODUCT,
        shapes=((2, *BATCHES), (2, 1, 32, 16)),
    ),
    "other_of_two_batches": feature(
        "e = fd.ops.expand(t1, shape=[2, 3, 32, 16])", PRODUCT,
        shapes=((2, *BATCHES), (1, 3, 32, 16)),
    ),
    "with_an_epilogue": feature(
        "e = fd.ops.expand(t1, shape=[3, 32, 16])", "m = fd.ops.matmul(t0, e)",
        "f = fd.ops.cast(m, dtype=DataType.Float)", "y = fd.ops.add(f, 1.0)",
        shapes=(BATCHES, (1, 32, 16)),
    ),
    "nobodys_between": feature(
        "y = fd.ops.matmul(t0, t1)", shapes=((2, 1, *BATCHES), (1, 1, 3, 32, 16))
    ),
}  # fmt: skip
"""One kernel, which reads the operand as it is before it is repeated."""

BESIDE = {
    "computed": feature(
        spread("t1", (3, 32, 16), [1, 2]), "g = fd.ops.neg(e)",
        "c = fd.ops.cast(g, dtype=DataType.BFloat16)", "y = fd.ops.matmul(t0, c)",
        shapes=(BATCHES, ROWS),
    ),
    "also_a_result": feature(
        "e = fd.ops.expand(t1, shape=[3, 32, 16])", "z = fd.ops.add(e, t2)",
        "fd.add_output(z)", PRODUCT, shapes=(BATCHES, (1, 32, 16), (3, 32, 16)),
    ),
    "rows_of_a_linear": feature(
        spread("t0", (4, 24, 32), [1, 2]), "y = fd.ops.linear(e, t1, t2)",
        shapes=((24, 32), COLUMNS, (16,)),
    ),
    "both_operands": feature(
        "a = fd.ops.broadcast_in_dim(t0, shape=[4, 24, 32], broadcast_dims=[1, 2])",
        spread("t1", (4, 32, 16), [1, 2]), "y = fd.ops.matmul(a, e)", shapes=((24, 32), ROWS),
    ),
    "a_column": feature(
        "e = fd.ops.expand(t1, shape=[32, 16])", PRODUCT, shapes=((24, 32), (32, 1))
    ),
    "a_row_of_batches": feature(
        spread("t1", (3, 32, 16), [2]), PRODUCT, shapes=(BATCHES, (16,))
    ),
    "between_batches": feature(THREE, shapes=((2, 4, *BATCHES), (2, 1, 3, 32, 16))),
    "around_batches": feature(THREE, shapes=((1, 4, 1, 24, 32), (2, 4, 3, 32, 16))),
    "each_of_one": feature(THREE, shapes=((2, 4, 1, 24, 32), (1, 4, 3, 32, 16))),
    "of_fewer_batches": feature(THREE, shapes=((2, 4, *BATCHES), (4, 1, 32, 16))),
    "expanded_between": feature(
        "e = fd.ops.expand(t1, shape=[2, 4, 3, 32, 16])", PRODUCT,
        shapes=((2, 4, *BATCHES), (2, 1, 3, 32, 16)),
    ),
    "reshaped_behind": feature(
        "e = fd.ops.expand(t0, shape=[2, 24, 32])",
        "r = fd.ops.reshape(e, new_shape=[2, 24, 4, 8])", "y = fd.ops.linear(r, t1)",
        shapes=((1, 24, 32), (16, 8)),
    ),
    "a_part": feature(
        "e = fd.ops.expand(t0, shape=[2, 24, 32])",
        "r = fd.ops.slice(e, start_indices=[0, 0, 8], end_indices=[2, 24, 24])",
        "y = fd.ops.linear(r, t1)", shapes=((1, 24, 32), (8, 16)),
    ),
    "stored_behind": feature(
        "e = fd.ops.expand(t0, shape=[2, 24, 32])",
        "s = fd.ops.stride_order(e, stride_order=[2, 0, 1])", "y = fd.ops.linear(s, t1)",
        shapes=((1, 24, 32), (16, 32)),
    ),
    "twice": feature(
        "a = fd.ops.matmul(t0, t1)", "b = fd.ops.matmul(t2, t1)", "y = fd.ops.add(a, b)",
        shapes=((2, 4, *BATCHES), (2, 1, 3, 32, 16), (2, 4, *BATCHES)),
    ),
}  # fmt: skip
"""A kernel of wsched's behind what makes the operand."""


@pytest.mark.parametrize("name", [*ONCE, *BESIDE])
def test_as_torch(name: str) -> None:
    made = (ONCE | BESIDE)[name]
    inputs = inputs_of(made)
    for mine, wanted in zip(
        wsched.execute(made.text, inputs), interpret(record_text(made.text), inputs), strict=True
    ):
        assert torch.equal(mine, wanted) and mine.dtype is wanted.dtype
        assert mine.stride() == wanted.contiguous().stride()


@pytest.mark.parametrize("name", ONCE)
def test_one_kernel(name: str) -> None:
    told = wsched.explain(ONCE[name].text, inputs_of(ONCE[name]))
    assert told.parts is not None and [p.runs for p in told.parts] == ["wsched"]


@pytest.mark.parametrize("name", BESIDE)
def test_a_kernel_behind_others(name: str) -> None:
    told = wsched.explain(BESIDE[name].text, inputs_of(BESIDE[name]))
    assert told.parts is not None and len(told.parts) > 1
    assert told.matmuls is not None and all(m.kernel for m in told.matmuls)


def written(made: Feature | Definition) -> list[str]:
    """The operations with operands once, without definitions of inputs."""
    definition = record_text(made.text) if isinstance(made, Feature) else made
    found = without_repeats(definition, infer(definition))
    text = definition_text(found).splitlines()[1:]
    return [x.strip().replace("fd.ops.", "") for x in text if "fd.define_tensor" not in x]


def test_a_broadcast_is_left() -> None:
    assert written(ONCE["transposed_behind"]) == [
        "b = broadcast_in_dim(t1, shape=[3, 16, 32], broadcast_dims=[1, 2])",
        "e = permute(b, dims=[0, 2, 1])",
        "b_once0 = broadcast(t1, is_broadcast_dim=[True, False, False])",
        "e_once0 = permute(b_once0, dims=[0, 2, 1])",
        "y = matmul(t0, e_once0)",
        "fd.add_output(y)",
    ]


def test_what_else_is_repeated_is_stored() -> None:
    """The columns; the batches are the other operand's."""
    made = feature(spread("t1", (3, 32, 16), [1]), PRODUCT, shapes=(BATCHES, (32,)))
    assert written(made)[1:-1] == [
        "e_once0 = broadcast_in_dim(t1, shape=[1, 32, 16], broadcast_dims=[1])",
        "e_once0_flat = reshape(e_once0, new_shape=[-1])",
        "e_once0_stored = reshape(e_once0_flat, new_shape=[1, 32, 16])",
        "y = matmul(t0, e_once0_stored)",
    ]


OPEN = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    n = fd.ops.size(x, dim=0)
    k = fd.ops.size(w, dim=0)
    c = fd.ops.size(w, dim=1)
    e = fd.ops.broadcast_in_dim(w, shape=[n, k, c], broadcast_dims=[1, 2])
    y = fd.ops.matmul({factors})
    fd.add_output(y)
"""


@pytest.mark.parametrize("batches", [1, 3])
def test_open_sizes(batches: int) -> None:
    x, w = inputs_of(feature(PRODUCT, shapes=((batches, 24, 32), ROWS)))
    (y,) = wsched.execute(OPEN.format(factors="x, e"), [x, w])
    assert torch.equal(y, (x.float() @ w.float()).bfloat16())
    told = wsched.explain(OPEN.format(factors="x, e"), [x, w])
    assert told.parts is not None and [p.runs for p in told.parts] == ["wsched"]


def test_open_sizes_of_what_is_stored() -> None:
    text = OPEN.format(factors="e, e")
    x, w = inputs_of(feature(PRODUCT, shapes=((3, 24, 32), (32, 32))))
    (y,) = wsched.execute(text, [x, w])
    assert torch.equal(y, (w.float() @ w.float()).bfloat16().expand(3, 32, 32))
    told = wsched.explain(text, [x, w])
    assert told.matmuls is not None and all(m.kernel for m in told.matmuls)


THREE_OPEN = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, -1, -1, -1], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, 1, -1, -1, -1], contiguity=[True, None, True, True, True],
        dtype=DataType.BFloat16)
    a = fd.ops.matmul(x, w)
    b = fd.ops.matmul(x, w)
    y = fd.ops.add(a, b)
    fd.add_output(y)
"""


def test_open_sizes_of_three_runs() -> None:
    x, w = inputs_of(feature(THREE, shapes=((2, 4, *BATCHES), (2, 1, 3, 32, 16))))
    (y,) = wsched.execute(THREE_OPEN, [x, w])
    assert torch.equal(y, interpret(record_text(THREE_OPEN), [x, w])[0])
    told = wsched.explain(THREE_OPEN, [x, w])
    assert told.matmuls is not None and all(m.kernel for m in told.matmuls)


def test_others_stay_as_they_are() -> None:
    """Nothing is repeated; or it is what the caller has repeated."""
    plain = record_text(feature(PRODUCT.replace("e)", "t1)"), shapes=(BATCHES, ROWS)).text)
    assert without_repeats(plain, infer(plain)) is plain
    text = feature(PRODUCT.replace("e)", "t1)"), shapes=(BATCHES, (3, 32, 16))).text
    given = record_text(text.replace("16], contiguity=[True", "16], contiguity=[None"))
    assert any(d.repeated for d in infer(given)["t1"].dims or ())
    assert without_repeats(given, infer(given)) is given
