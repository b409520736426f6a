"""A tensor multiplied by itself is an operand twice, under two names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import wsched
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.front.cut.squares import with_two_operands
from wsched.importer import Definition, Ref, record_text


def text(rank: int, *lines: str) -> str:
    shape = f"shape={[-1] * rank}, contiguity={[True] * rank}"
    inputs = f"x = fd.define_tensor({shape}, dtype=DataType.BFloat16)"
    body = ("def nvfuser_fusion(fd : FusionDefinition) -> None :", inputs, *lines)
    return "\n    ".join(body) + "\n"


def product(call: str, rank: int = 2, dims: str = "[1, 0]") -> str:
    return text(rank, f"t = fd.ops.permute(x, dims={dims})", f"d = fd.ops.{call}",
                "fd.add_output(d)")  # fmt: skip


PRODUCTS = {
    "linear(x, x)": lambda x: x @ x.mT,
    "linear(arg2=x, arg1=x)": lambda x: x @ x.mT,
    "matmul(x, t)": lambda x: x @ x.mT,
    "matmul(t, x)": lambda x: x.mT @ x,
    "matmul(x, x)": lambda x: x @ x,
    "matmul(t, t)": lambda x: x.mT @ x.mT,
    "linear(x, t)": lambda x: x @ x,
}


def integers(*shape: int) -> Any:
    torch.manual_seed(0)
    return torch.randint(-4, 5, shape).bfloat16()


@pytest.mark.parametrize("call", PRODUCTS)
def test_one_kernel(call: str) -> None:
    x = integers(40, 40)
    (d,) = wsched.execute(product(call), [x])
    assert torch.equal(d, PRODUCTS[call](x.float()).bfloat16())
    told = wsched.explain(product(call), [x])
    assert told.parts is not None and [p.runs for p in told.parts] == ["wsched"]


@pytest.mark.parametrize("shape", [(24, 72), (3, 24, 72), (2, 3, 24, 72), (1, 40)])
def test_of_rows_and_batches(shape: tuple[int, ...]) -> None:
    x, rank = integers(*shape), len(shape)
    dims = [*range(rank - 2), rank - 1, rank - 2]
    (d,) = wsched.execute(product("matmul(x, t)", rank, str(dims)), [x])
    assert torch.equal(d, (x.float() @ x.float().mT).bfloat16())


def test_of_columns() -> None:
    x = integers(72, 24).T
    (d,) = wsched.execute(product("matmul(x, t)"), [x])
    assert torch.equal(d, (x.float() @ x.float().T).bfloat16())


@pytest.mark.parametrize(
    "taken", ["select(x, 1, dim=1)", "gather(x, i, dim=1)", "take_along_axis(x, i, dim=1)"]
)
def test_of_what_is_taken_of_a_tensor(taken: str) -> None:
    """The number of its dimensions is known, so it has a second name."""
    rank, size = (3, 72) if taken.startswith("select") else (2, 24)
    index = "i = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Int)"
    body = text(
        rank, *(() if rank == 3 else (index,)), f"a = fd.ops.{taken}", "b = fd.ops.mul(a, a)",
        "c = fd.ops.cast(b, dtype=DataType.BFloat16)", "d = fd.ops.linear(c, c)",
        "fd.add_output(d)",
    )  # fmt: skip
    x = integers(40, 3, size) if rank == 3 else integers(40, 72)
    at = torch.arange(size).expand(40, size).contiguous()
    inputs = [x] if rank == 3 else [x, at]
    c = (x[:, 1] if rank == 3 else x[:, :size]).float().square()
    (d,) = wsched.execute(body, inputs)
    assert torch.equal(d, (c @ c.mT).bfloat16())
    told = wsched.explain(body, inputs)
    assert told.matmuls is not None and all(m.kernel for m in told.matmuls)


def test_of_what_another_kernel_makes() -> None:
    """A step of Newton and Schulz: ``x xᵀ`` and its square, from two kernels."""
    definition = record_text(text(
        2, "t = fd.ops.permute(x, dims=[1, 0])", "a = fd.ops.matmul(x, t)",
        "f = fd.ops.mul(a, 3.0)", "b = fd.ops.matmul(a, a)", "c = fd.ops.add(f, b)",
        "d = fd.ops.cast(c, dtype=DataType.BFloat16)", "fd.add_output(d)",
    ))  # fmt: skip
    first, second = Cutter(definition).all(Take.ALL).segments
    assert first.inputs == ("x", "x") and second.inputs.count("a") == 2
    x = integers(24, 40)
    (d,) = wsched.execute(definition, [x])
    product = x.float() @ x.float().T
    a = product.bfloat16().float()
    assert torch.equal(d, (3 * a + (a @ a).bfloat16().float()).bfloat16())


def test_one_name_serves_all_matmuls() -> None:
    found = with_two_operands(record_text(text(
        2, "a = fd.ops.linear(x, x)", "b = fd.ops.matmul(x, x)", "fd.add_output(a)",
        "fd.add_output(b)",
    )))  # fmt: skip
    assert [n.op for n in found.nodes] == ["define_tensor", "permute", "linear", "matmul"]
    assert [n.operands for n in found.nodes[2:]] == [(Ref("x"), Ref("x@again"))] * 2


def test_a_second_time_it_stands_in_front_of_the_first_who_reads_it() -> None:
    once = with_two_operands(record_text(text(
        2, "a = fd.ops.matmul(x, y)", "b = fd.ops.linear(x, x)", "fd.add_output(b)",
    ).replace("y)", "fd.ops.neg(x))")))  # fmt: skip
    squared = replace(once.nodes[2], operands=(Ref("x"), Ref("x")))
    found = with_two_operands(replace(once, nodes=(*once.nodes[:2], squared, *once.nodes[3:])))
    assert [n.results[0] for n in found.nodes] == ["x", "neg", "x@again", "a", "b"]


def test_a_factor_that_moves_behind_leaves_a_tensor_by_itself() -> None:
    """The cut comes to ``x · x`` twice: as it is written, and where the factor has been."""
    x = integers(32, 32)
    (d,) = wsched.execute(text(
        2, "b = fd.ops.matmul(x, x)", "c = fd.ops.cat([x, b], dim=0)", "s = fd.ops.mul(c, 0.25)",
        "e = fd.ops.cast(s, dtype=DataType.BFloat16)", "d = fd.ops.matmul(e, x)",
        "fd.add_output(d)",
    ), [x])  # fmt: skip
    both = torch.cat([x.float(), (x.float() @ x.float()).bfloat16().float()])
    wanted = (0.25 * both) @ x.float()
    assert torch.allclose(d.float(), wanted, rtol=2**-7, atol=2**-4)


@pytest.mark.parametrize(
    "lines",
    [
        ("w = fd.ops.neg(x)", "d = fd.ops.linear(x, w)"),
        ("w = fd.ops.reshape(x, new_shape=[4, 4])", "d = fd.ops.linear(x, w)"),
    ],
)
def test_two_tensors_stay_as_they_are(lines: tuple[str, ...]) -> None:
    definition: Definition = record_text(text(2, *lines, "fd.add_output(d)"))
    assert with_two_operands(definition) is definition


def test_vectors_stay_as_they_are() -> None:
    definition = record_text(text(1, "d = fd.ops.matmul(x, x)", "fd.add_output(d)"))
    assert with_two_operands(definition) is definition
