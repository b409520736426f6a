"""Rows that an index selects: of any strides and types, bit by bit what torch computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import print_kernel
from wsched.doors.fallback import interpret
from wsched.importer import Definition, record_text
from wsched.importer.sweep import import_sweep
from wsched.run.sweep import CompiledSweep, compiled_sweep

TYPES = {"BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32}
INDICES = {"Int": torch.int64, "Int32": torch.int32}


def text(rank: int, dtype: str, index: str, dim: int) -> str:
    """Elements of two tables at the places that an index says, of the one widened before, beside a
    residual; a second index of the first table.
    """
    shape = [-1] * rank
    return f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape={shape}, dtype=DataType.{dtype})
    y = fd.define_tensor(shape={shape}, dtype=DataType.Float)
    i = fd.define_tensor(shape=[-1], dtype=DataType.{index})
    j = fd.define_tensor(shape=[-1], dtype=DataType.{index})
    r = fd.define_tensor(shape={shape}, dtype=DataType.Float)
    w = fd.ops.cast(x, dtype=DataType.Float)
    a = fd.ops.index_select(w, i, dim={dim})
    b = fd.ops.index_select(y, i, dim={dim})
    c = fd.ops.index_select(x, j, dim={dim})
    d = fd.ops.mul(a, b)
    e = fd.ops.add(d, r)
    f = fd.ops.sub(e, c)
    fd.add_output(f)
"""


def combined(count: int, dtype: str) -> str:
    """The weighted sum of as many rows of a tensor."""
    shape = "shape=[-1], contiguity=[False]"
    lines = [f"d = fd.define_tensor(shape=[-1, -1], dtype=DataType.{dtype})"]
    lines += [f"{name}{at} = fd.define_tensor({shape}, dtype=DataType.{kind})"
              for at in range(count) for name, kind in (("p", "Int"), ("s", "Float"))]  # fmt: skip
    for at in range(count):
        lines += [
            f"t{at} = fd.ops.index_select(d, p{at}, dim=0)",
            f"b{at} = fd.ops.broadcast(s{at}, is_broadcast_dim=[False, True])",
            f"e{at} = fd.ops.mul(t{at}, b{at})",
            f"z{at} = fd.ops.add(z{at - 1}, e{at})" if at else "z0 = fd.ops.mul(e0, 1.0)",
        ]
    lines += [f"r = fd.ops.cast(z{count - 1}, dtype=DataType.{dtype})", "fd.add_output(r)"]
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line}\n" for line in lines)


def selecting() -> CompiledSweep:
    """Rows of a table as they are."""
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :"
    lines = [
        "x = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
        "i = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
        "fd.add_output(fd.ops.index_select(x, i, dim=0))",
    ]
    return compiled_sweep(import_sweep(record_text("\n    ".join([head, *lines]) + "\n")))


@pytest.mark.parametrize(
    ("table", "rows", "first"), [(24, 70, True), (70, 70, False), (90, 70, False)]
)
def test_rows_that_are_read_again(table: int, rows: int, first: bool) -> None:
    """CTAs that follow each other take the next rows of the same columns there, so that what comes
    between has not pushed them out of the L2; each result is written once all the same.
    """
    torch.manual_seed(0)
    x, index = torch.randn(table, 1100).bfloat16(), torch.randint(0, table, (rows,))
    run = selecting()
    (found,) = run(x, index)
    assert torch.equal(found, x[index])
    kernel = run.kernel(run.walk([x, index]))
    body = print_kernel(kernel)
    by_rows = "at0: i32 = %ctaid.x % ceildiv(n0, 8) * 8" in body
    by_columns = "at1: i32 = %ctaid.x % ceildiv(n1, 512) * 512" in body
    assert (by_rows, by_columns) == (first, not first), body


@st.composite
def cases(draw: st.DrawFn) -> tuple[Definition, list[Any]]:
    rank = draw(st.integers(2, 3))
    dim = draw(st.integers(0, rank - 2))
    dtype, index = draw(st.sampled_from(sorted(TYPES))), draw(st.sampled_from(sorted(INDICES)))
    shape = draw(st.lists(st.sampled_from((2, 3, 8, 33, 40)), min_size=rank, max_size=rank))
    torch.manual_seed(draw(st.integers(0, 99)))
    tables = []
    for kind in (TYPES[dtype], torch.float32):
        gap = draw(st.sampled_from((0, 0, 8, 3)))
        wide = torch.randn([*shape[:-1], shape[-1] + gap])
        tables.append(wide[..., : shape[-1]].to(kind) if gap == 0 else wide.to(kind)[..., :-gap])
    count = draw(st.sampled_from((1, 5, 70)))
    apart = torch.randint(0, shape[dim], (count, 3), dtype=INDICES[index])
    i, j = apart[:, draw(st.integers(0, 2))], apart[:, 0].contiguous()
    rest = torch.randn([*shape[:dim], count, *shape[dim + 1 :]])
    return record_text(text(rank, dtype, index, dim)), [*tables, i, j, rest]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases())
def test_bit_by_bit(case: tuple[Definition, list[Any]]) -> None:
    definition, inputs = case
    (found,) = compiled_sweep(import_sweep(definition))(*inputs)
    (wanted,) = interpret(definition, inputs)
    assert found.dtype == wanted.dtype and torch.equal(found, wanted)


def combining(count: int, dtype: str) -> CompiledSweep:
    return compiled_sweep(import_sweep(record_text(combined(count, dtype))))


def test_places_that_a_table_has_not() -> None:
    """They read zeros, and nothing of what lies around the table."""
    whole = torch.full((9, 16), float("nan"), dtype=torch.bfloat16)
    table = whole[3:6]
    table.copy_(torch.ones(3, 16))
    index = torch.tensor([[-1], [2], [3], [2**31 - 1], [0]])
    (found,) = combining(1, "BFloat16")(table, index[:, 0], torch.ones(5))
    assert found[:, 0].tolist() == [0, 1, 0, 0, 1]
    assert torch.equal(found, found[:, :1].expand(5, 16))


@pytest.mark.parametrize("strides", [(1, 1), (4, 1), (1, 9), (5, 7)])
def test_tables_of_one_column(strides: tuple[int, int]) -> None:
    """Rows that there are not are zeros there, too; how far apart columns would be, nobody asks."""
    whole = torch.full((64,), float("nan"))
    table = whole.as_strided((5, 1), strides, 20)
    table.copy_(torch.arange(1.0, 6)[:, None])
    (found,) = combining(1, "Float")(table, torch.tensor([-1, 4, 0, 5]), torch.ones(4))
    assert found.tolist() == [[0.0], [5.0], [1.0], [0.0]]


SAME_ALONG = [(7, 1), (1, 7, 40), (1, 7, 1), (3, 7, 1)]
"""Tables of which one column is that of all, or one matrix that of a whole batch."""


def same_along(shape: tuple[int, ...], dtype: str) -> tuple[Definition, list[Any]]:
    """Rows of such a table added to what has all columns and matrices, and inputs."""
    rest = (*(3,) * (len(shape) - 2), 9, 40)
    lines = [
        f"x = fd.define_tensor(shape={list(shape)}, dtype=DataType.{dtype})",
        "i = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
        f"r = fd.define_tensor(shape={[-1] * len(shape)}, dtype=DataType.Float)",
        f"a = fd.ops.index_select(x, i, dim={len(shape) - 2})",
        "fd.add_output(fd.ops.add(fd.ops.cast(a, dtype=DataType.Float), r))",
    ]
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    definition = record_text(head + "".join(f"    {line}\n" for line in lines))
    torch.manual_seed(0)
    inputs = [torch.randn(shape).to(TYPES[dtype]), torch.randint(0, 7, (9,)), torch.randn(rest)]
    return definition, inputs


@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize("shape", SAME_ALONG)
def test_tables_that_are_the_same_along_other_dimensions(
    shape: tuple[int, ...], dtype: str
) -> None:
    definition, inputs = same_along(shape, dtype)
    made = compiled_sweep(import_sweep(definition))
    (found,), (wanted,) = made(*inputs), interpret(definition, inputs)
    assert torch.equal(found, wanted)
    cuda = emit_cuda(made.kernel(made.walk(inputs)))
    assert compile_cubin(cuda, "sweep.cu")


def inputs_of(count: int, dtype: str, columns: int) -> list[Any]:
    """Without memory: views of tensors of places and of weights."""
    table = torch.empty(64 * count, columns, dtype=TYPES[dtype], device="meta")
    places = torch.empty(64, count, dtype=torch.int64, device="meta")
    weights = torch.empty(64, count, device="meta")
    pairs = zip(places.unbind(1), weights.unbind(1), strict=True)
    return [table, *(t for pair in pairs for t in pair)]


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [4096, 4097])
@pytest.mark.parametrize(("count", "dtype"), [(1, "Half"), (8, "BFloat16"), (8, "Float")])
def test_registers(count: int, dtype: str, columns: int) -> None:
    """A thread has as few elements of each that all fit; rows are loaded 16 bytes at a time."""
    made = combining(count, dtype)
    kernel = made.kernel(made.walk(inputs_of(count, dtype, columns)))
    cuda = emit_cuda(kernel)
    assert ("_v4_" in cuda.partition("__global__")[2]) is (columns == 4096)
    found = read_resources(compile_cubin(cuda, "sweep.cu"), kernel.name)
    assert found.spill_stores == found.spill_loads == 0 and found.registers <= 168


def test_what_is_moved_of_a_table() -> None:
    """Rows that are looked up often come from memory once, those that are not never."""
    made = combining(2, "BFloat16")
    _, *others = inputs_of(2, "BFloat16", 256)
    for rows, moved in ((16, 16), (128, 128), (1000, 128)):
        walk = made.walk([torch.empty(rows, 256, dtype=torch.bfloat16, device="meta"), *others])
        assert next(walk.accessed()) == (2 * moved * 256, 512, False)
        assert walk.extents["v0_rows"] == rows


def test_rows_that_lie_by_columns() -> None:
    """They are copied; an index along columns has no walk."""
    table, index = torch.randn(24, 40), torch.randint(0, 24, (9, 1))
    (found,) = combining(1, "Float")(table.T.contiguous().T, index[:, 0], torch.ones(9))
    assert torch.equal(found, table[index[:, 0]])
    with pytest.raises(UnsupportedError, match="a sweep over tensors of strides"):
        last = record_text(text(2, "Float", "Int", 1))
        sides = torch.randn(24, 9), torch.randint(0, 40, (9,))
        compiled_sweep(import_sweep(last))(table, table, sides[1], sides[1], sides[0])
