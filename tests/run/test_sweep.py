"""Sweeps of torch's tensors: any sizes, strides and types, bit by bit what torch computes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import UnsupportedError
from lowering.machine.random import philox, uniform
from lowering.sweep.tile import LONGEST_ROW, longest_row
from tests.lowering.sweep.sweeps import BF16, masked
from tests.lowering.sweep.test_rows import norm, softmax
from wsched.doors.fallback import interpret
from wsched.fusion.sweep import Sweep
from wsched.importer import Definition, record_text
from wsched.importer.input_error import InputError
from wsched.importer.sweep import import_sweep
from wsched.run.sweep import CompiledSweep, check_rows, compiled_sweep
from wsched.run.walk import Walk, by_rows

torch = pytest.importorskip("torch", reason="torch is not installed")

TYPES = {"BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32}


def text(rank: int, dtype: str, op: str, order: list[int]) -> str:
    """A tensor in another order, a row, a mask and a number; results of two types."""
    shape, dense = ([-1] * rank, [True] * rank)
    flags = [True] * (rank - 1) + [False]
    return f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape={shape}, contiguity={dense}, dtype=DataType.{dtype})
    m = fd.define_tensor(shape={shape}, contiguity={dense}, dtype=DataType.Bool)
    r = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
    s = fd.define_scalar(None, dtype=DataType.Double)
    p = fd.ops.permute(x, dims={order})
    b = fd.ops.broadcast(r, is_broadcast_dim={flags})
    y = fd.ops.{op}(p, b)
    z = fd.ops.mul(y, s)
    w = fd.ops.where(m, z, 0.5)
    c = fd.ops.cast(w, dtype=DataType.{dtype})
    k = fd.ops.le(z, 0.25)
    fd.add_output(c)
    fd.add_output(k)
"""


def laid(shape: list[int], order: list[int], gap: int, step: int, dtype: Any) -> Any:
    """A tensor whose dimensions lie in an order, with room between rows or columns."""
    outer = [shape[d] for d in order]
    whole = torch.randn([*outer[:-1], (outer[-1] + gap) * step])
    inner = whole[..., : outer[-1] * step : step]
    seen = inner.permute([order.index(d) for d in range(len(order))])
    return (seen > 0) if dtype is torch.bool else seen.to(dtype)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Definition, list[Any]]:
    rank = draw(st.integers(1, 4))
    sizes = st.sampled_from((1, 2, 3, 8, 16, 33, 40))
    shape = draw(st.lists(sizes, min_size=rank, max_size=rank))
    order = draw(st.permutations(range(rank)))
    dtype = draw(st.sampled_from(sorted(TYPES)))
    op = draw(st.sampled_from(("add", "sub", "mul", "maximum")))
    torch.manual_seed(draw(st.integers(0, 99)))
    before = [0] * rank
    for at, d in enumerate(order):
        before[d] = shape[at]
    lies = st.permutations(range(rank))
    gaps, steps = st.sampled_from((0, 0, 8, 3)), st.sampled_from((1, 1, 1, 2))
    x = laid(before, draw(lies), draw(gaps), draw(steps), TYPES[dtype])
    m = laid(shape, draw(lies), draw(gaps), draw(steps), torch.bool)
    inputs = [x, m, torch.randn(shape[-1]), draw(st.sampled_from((0.0, -1.5, 2)))]
    return record_text(text(rank, dtype, op, list(order))), inputs


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases())
def test_bit_by_bit(case: tuple[Definition, list[Any]]) -> None:
    definition, inputs = case
    found = compiled_sweep(import_sweep(definition))(*inputs)
    for a, b in zip(found, interpret(definition, inputs), strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b) and a.is_contiguous()


def made(rank: int = 2) -> CompiledSweep:
    return compiled_sweep(import_sweep(record_text(text(rank, "Float", "add", list(range(rank))))))


def inputs_of(shape: tuple[int, ...]) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(shape), torch.rand(shape) > 0.5, torch.randn(shape[-1]), 0.5]


def test_results_where_they_shall_be() -> None:
    """In memory that is given, by columns too, each time it is launched."""
    inputs, whole = inputs_of((40, 24)), torch.empty(24, 40)
    out = [whole.T, torch.empty(40, 24, dtype=torch.bool)]
    launch = made().bind(*inputs, out=out)
    wanted = made()(*inputs)
    for _ in range(2):
        assert launch()[0] is out[0] and torch.equal(out[0], wanted[0])
        assert torch.equal(out[1], wanted[1])
        whole.zero_()


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    assert [tuple(t.shape) for t in made()(*inputs_of(shape))] == [shape, shape]


def test_an_order_in_memory() -> None:
    definition = record_text(text(3, "Half", "mul", [0, 1, 2]))
    sweep = import_sweep(definition, [(1, 0, 2), (0, 1, 2)])
    inputs = inputs_of((3, 5, 8))
    inputs[0] = inputs[0].half()
    first, second = compiled_sweep(sweep)(*inputs)
    assert first.stride() == (8, 24, 1) and second.is_contiguous()
    for a, b in zip((first, second), interpret(definition, inputs), strict=True):
        assert torch.equal(a, b)


RANDOM = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], dtype=DataType.BFloat16)
    s = fd.define_scalar(None, dtype=DataType.Int)
    o = fd.define_scalar(None, dtype=DataType.Int)
    u = fd.ops.uniform(0, 1, [1, 1, 1], rng_seed=s, rng_offset=o)
    k = fd.ops.lt(u, 0.75)
    y = fd.ops.where(k, x, 0.0)
    fd.add_output(y)
    fd.add_output(u)
"""


@pytest.mark.parametrize(
    ("shape", "lies"),
    [
        ((3, 5, 8), (0, 1, 2)),
        ((2, 9, 33), (0, 1, 2)),
        ((2, 40, 24), (0, 2, 1)),
        ((2, 136, 200), (0, 2, 1)),
    ],
)
def test_random_numbers_go_by_their_places(shape: tuple[int, ...], lies: tuple[int, ...]) -> None:
    """Those of Philox in rows of the results, however the walk goes."""
    count = math.prod(shape)
    words = philox(7, 3, np.arange(count) // 4)
    wanted = uniform(np.take_along_axis(words, np.arange(count)[:, None] % 4, 1)[:, 0])
    x = laid(list(shape), list(lies), 0, 1, torch.bfloat16)
    kept, drawn = compiled_sweep(import_sweep(record_text(RANDOM)))(x, 7, 3)
    numbers = torch.from_numpy(wanted.reshape(shape))
    assert torch.equal(drawn, numbers)
    assert torch.equal(kept, torch.where(numbers < 0.75, x, torch.zeros((), dtype=x.dtype)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", [(8, 1024, 4096), (7, 1023, 4095), (3, 5, 7), (65, 1, 1)])
def test_dropout_is_machine_code_without_spills(shape: tuple[int, ...]) -> None:
    sweep = compiled_sweep(import_sweep(record_text(RANDOM)))
    walk = sweep.walk([torch.empty(shape, dtype=torch.bfloat16, device="meta"), 7, 3])
    kernel = sweep.kernel(walk)
    found = read_resources(compile_cubin(emit_cuda(kernel), "sweep.cu"), kernel.name)
    assert found.spill_stores == found.spill_loads == found.stack == 0


def test_a_copy_is_one_of_elements_apart() -> None:
    """What lies along no dimension is copied, and a price can ask so without memory."""
    x, m, r, s = inputs_of((6, 32))
    sweep = made()
    assert sweep.walk_and_copies([x, m, r, s])[1] == []
    assert sweep.walk_and_copies([x[:, ::2], m[:, :16], r[:16], s])[1] == [0]
    assert sweep.walk_and_copies([x.to("meta").T, m.T.to("meta"), r[:6].to("meta"), s])[1] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i: i[:3], "3 inputs, the definition has 4"),
        (lambda i: [i[0].half(), *i[1:]],
         "input 0 is torch.float16, the definition says torch.float32"),
        (lambda i: [i[0][0], *i[1:]], "input 0 has shape [8], the definition has 2 dimensions"),
        (lambda i: [*i[:2], torch.ones(7), 0.5], "7 and 8 elements along dimension 1"),
        (lambda i: [0.5, *i[1:]], "input 0 is a float, not a torch.Tensor"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit(change: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        made()(*change(inputs_of((4, 8))))
    assert str(error.value) == said


def test_rows_that_no_tile_holds() -> None:
    """They are refused before there are tensors, where anything is reduced."""
    apart = longest_row(1)
    for sweep in (softmax(BF16), norm(BF16)):
        for row in (LONGEST_ROW, apart, apart + 4):
            check_rows(dense(sweep, row))
        too_long = (LONGEST_ROW + 8, LONGEST_ROW), (apart + 1, apart), (apart + 2, apart)
        for row, longest in too_long:
            with pytest.raises(UnsupportedError, match=f"rows of {row} .* up to {longest}$"):
                check_rows(dense(sweep, row))
    check_rows(dense(masked(), LONGEST_ROW + 8))


def dense(sweep: Sweep, row: int) -> Walk:
    found = by_rows(sweep, (3, row))
    assert found is not None
    return found


def test_results_that_no_walk_writes() -> None:
    inputs = inputs_of((4, 8))
    out = [torch.empty(4, 16)[:, ::2], torch.empty(4, 8, dtype=torch.bool)]
    with pytest.raises(UnsupportedError, match="a sweep over tensors of strides"):
        made()(*inputs, out=out)
