"""Products that are one element long along a dimension where what follows is longer."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.importer import build_fusion, record_text

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

K, N = 16, 32
Shape = tuple[int, ...]


def tensor(name: str, shape: Shape) -> str:
    dense = [None if n == 1 else True for n in shape]
    return (
        f"    {name} = fd.define_tensor(shape={list(shape)}, contiguity={dense}, "
        "dtype=DataType.BFloat16, is_cpu=False)\n"
    )


def text(*lines: str, **shapes: Shape) -> str:
    body = "".join(tensor(name, shape) for name, shape in shapes.items())
    body += "".join(f"    {line}\n" for line in (*lines, "fd.add_output(z)"))
    return f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{body}"


def drawn(*shape: int) -> Any:
    return torch.randint(-2, 3, shape).bfloat16()


@pytest.mark.parametrize(
    ("x", "w", "r", "given"),
    [
        ((1, -1), (-1, -1), (-1, -1), ((1, K), (N, K), (4, N))),
        ((1, K), (-1, -1), (4, N), ((1, K), (N, K), (4, N))),
        ((1, -1), (-1, -1), (1, -1), ((1, K), (N, K), (1, N))),
        ((-1, -1), (1, -1), (-1, -1), ((4, K), (1, K), (4, N))),
        ((1, -1, -1), (-1, -1), (-1, -1, -1), ((1, 8, K), (N, K), (3, 8, N))),
    ],
)
def test_a_product_and_a_residual(x: Shape, w: Shape, r: Shape, given: tuple[Shape, ...]) -> None:
    """What nvFuser repeats was said to be the caller's mistake where sizes are open."""
    asked = text("y = fd.ops.linear(x, w)", "z = fd.ops.add(y, r)", x=x, w=w, r=r)
    a, b, c = (drawn(*shape) for shape in given)
    wanted = ((a.float() @ b.float().mT) + c.float()).bfloat16()
    (found,) = wsched.execute(asked, [a, b, c])
    assert torch.equal(found, wanted)
    kernel = wsched.explain(asked, [a, b, c]).route == "wsched"
    assert kernel is (given[2][0] == 1)


@pytest.mark.parametrize(
    ("x", "t", "given"),
    [
        ((2, 8, 16), (1, 8, 16), ((2, 8, K), (1, 8, K))),
        ((1, 8, 16), (2, 8, 16), ((1, 8, K), (2, 8, K))),
        ((-1, -1, -1), (1, -1, -1), ((2, 8, K), (1, 8, K))),
        ((-1, -1), (1, -1), ((8, K), (1, K))),
        ((1, -1), (1, -1), ((1, K), (1, K))),
        ((-1, -1), (-1, -1), ((8, K), (8, K))),
    ],
)
def test_a_sum_of_products(x: Shape, t: Shape, given: tuple[Shape, Shape]) -> None:
    lines = ("y = fd.ops.linear(x, w)", "v = fd.ops.linear(t, b)", "z = fd.ops.add(y, v)")
    asked = text(*lines, x=x, t=t, w=(-1, -1), b=(-1, -1))
    a, c = (drawn(*shape) for shape in given)
    w, b = drawn(N, K), drawn(N, K)
    (found,) = wsched.execute(asked, [a, c, w, b])
    wanted = a.float() @ w.float().mT + c.float() @ b.float().mT
    assert torch.equal(found, wanted.bfloat16())
    kernel = wsched.explain(asked, [a, c, w, b]).route == "wsched"
    assert kernel is (given[0] == given[1])


def test_what_is_refused_for_a_kernel() -> None:
    lines = ("y = fd.ops.linear(x, w)", "z = fd.ops.add(y, r)")
    definition = record_text(text(*lines, x=(1, -1), w=(-1, -1), r=(-1, -1)))
    with pytest.raises(UnsupportedError) as error:
        build_fusion(definition)
    assert str(error.value) == (
        "fd.ops.linear with M = 1 where another input leaves it open is not supported; supported: "
        "one size of M"
    )


DOORS = [wsched.compile, lambda definition, inputs: wsched.Schedule(definition, inputs)]
"""Of a kernel alone."""


@pytest.mark.parametrize("door", DOORS)
def test_a_tensor_by_itself_is_two_inputs_of_a_kernel(door: Any) -> None:
    by_itself, x = text("z = fd.ops.linear(x, x)", x=(8, K)), drawn(8, K)
    with pytest.raises(UnsupportedError) as error:
        door(by_itself, [x])
    assert str(error.value) == (
        "fd.ops.linear of x with itself is not supported; supported: two different tensors. For a "
        "kernel alone define two inputs and pass the tensor as both; wsched.execute reads it twice "
        "by itself"
    )
    door(two := text("z = fd.ops.linear(x, y)", x=(8, K), y=(8, K)), [x, x])
    (found,), (wanted,) = wsched.compile(two, [x, x])(x, x), wsched.execute(by_itself, [x])
    assert torch.equal(found, wanted) and torch.equal(found, (x.float() @ x.float().mT).bfloat16())


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("op", "line"),
    [
        ("expand", "e = fd.ops.expand(w, shape=[2, 16, 32])"),
        ("broadcast_in_dim", "e = fd.ops.broadcast_in_dim(v, shape=[2, 16, 32], broadcast_dims=[1, "
         "2])"),
    ],
)  # fmt: skip
def test_what_is_repeated_is_no_operand_of_a_kernel(door: Any, op: str, line: str) -> None:
    shape: Shape = (1, K, N) if op == "expand" else (K, N)
    name = "w" if op == "expand" else "v"
    asked = text(line, "z = fd.ops.matmul(x, e)", x=(2, 8, K), **{name: shape})
    given = [drawn(2, 8, K), drawn(*shape)]
    with pytest.raises(UnsupportedError) as error:
        door(asked, given)
    assert str(error.value) == (
        f"fd.ops.matmul of e, which fd.ops.{op} repeats, is not supported; supported: an input as "
        "it is, or one matrix for all batches. wsched.execute reads what is repeated once, or "
        "stores it in front of the kernel"
    )
    assert all(fate.kernel for fate in wsched.explain(asked, given).matmuls)
