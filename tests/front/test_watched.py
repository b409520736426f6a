"""Doors and kernels where somebody sees operators alone: torch.func, make_fx, fake tensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize, grad, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.importer import watched

MATMUL = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    a = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)
    fd.add_output(fd.ops.matmul(a, b))
"""

Door = Callable[[torch.Tensor], torch.Tensor]


def ones(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


X, FP8 = ones(4, 64), torch.float8_e4m3fn
ENDS = torch.tensor([2, 4], dtype=torch.int32)
IDS = torch.tensor([[0, 1], [1, 0], [0, 1], [1, 0]])

DOORS: dict[str, Door] = {
    "linear": lambda x: wsched.linear(x, ones(8, 64, dtype=torch.int8)),
    "int_mm": lambda x: wsched.int_mm(x.char(), ones(16, 64, dtype=torch.int8).t()),
    "scaled_mm": lambda x: wsched.scaled_mm(
        x.to(FP8), ones(16, 64).to(FP8).t(), torch.ones(()), torch.ones(())
    ),
    "grouped_mm": lambda x: wsched.grouped_mm(x, ones(2, 64, 8), ENDS.clone()),
    "moe": lambda x: wsched.moe(
        x, IDS, ones(4, 2), (ones(2, 64, 8) / 8, ones(2, 64, 8) / 8), ones(2, 8, 64) / 64
    ),
    "execute": lambda x: wsched.execute(MATMUL, [x, ones(64, 8)])[0],
}

WAYS: dict[str, Callable[[Door], Any]] = {
    "functionalize": lambda door: functionalize(door)(X),
    "make_fx": lambda door: make_fx(door)(3 * X)(X),
    "jvp": lambda door: jvp(door, (X,), (X,))[0],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DOORS)
def test_right(name: str, way: str) -> None:
    """What was traced of other numbers computes anew; no memory is read that nobody has written."""
    door = DOORS[name]
    assert torch.equal(WAYS[way](door), door(X))


@pytest.mark.parametrize("name", ["linear", "int_mm"])
def test_batches(name: str) -> None:
    door = DOORS[name]
    assert torch.equal(vmap(door)(torch.stack([X, 2 * X])), torch.stack([door(X), door(2 * X)]))


@pytest.mark.parametrize("name", DOORS)
def test_gradients_stop(name: str) -> None:
    door = DOORS[name]
    found = grad(lambda x: door(x).float().sum() + x.float().sum())(X)
    assert torch.equal(found, torch.ones_like(X))


def test_a_graph_has_the_operator() -> None:
    code = make_fx(DOORS["grouped_mm"])(X).code
    assert "torch.ops.wsched.execute" in code and "empty" not in code


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_fake_tensors() -> None:
    """Shapes, and behind the mode a refusal: nobody knows what ends they have."""
    given = X, ones(2, 64, 8), ENDS
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in given]
        assert wsched.grouped_mm(*fake).shape == (4, 8)
    with pytest.raises(UnsupportedError, match="running on a FakeTensor without memory"):
        wsched.grouped_mm(*fake)


def test_who_only_counts() -> None:
    """A mode that looks on changes nothing, for a door and for a kernel."""
    made = wsched.compile(MATMUL, [X, ones(64, 8)])
    with FlopCounterMode(display=False):
        assert torch.equal(DOORS["execute"](X), made(X, ones(64, 8))[0])
    assert torch.equal(made(X, ones(64, 8))[0], ones(4, 8) * 64)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("way", "who"), [("functionalize", "a transform of torch.func"), ("make_fx", "make_fx")]
)
def test_a_kernel_by_itself_is_refused(way: str, who: str, warm: bool) -> None:
    """It is no operator; also where calls of the class are known."""
    made, other = wsched.compile(MATMUL, [X, ones(64, 8)]), ones(64, 8)
    if warm:
        made(X, other)
    with pytest.raises(UnsupportedError) as error:
        WAYS[way](lambda x: made(x, other)[0])
    assert str(error.value) == (
        f"running a kernel inside of {who}, which does not see what it writes, is not supported; "
        "supported: wsched.execute and plain doors, which are operators there"
    )


def test_a_torch_without_private_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "torch", None)
    assert watched._private("_no_such", 0)() == 0
    assert watched._private("_functorch.peek_interpreter_stack", None)() is None


@pytest.mark.slow
def test_numbers_that_vary() -> None:
    """In an epilogue: Dynamo takes the second one for a symbol, and whole graphs have them all."""
    weights = ones(2, 64, 8)

    def scaled(x: Any, k: float) -> Any:
        return wsched.grouped_mm(x, weights, ENDS, epilogue=lambda ops, d: ops.mul(d, k))

    for numbers in ((2.0, 3.0, float("inf")), (2, 3, 4)):
        torch._dynamo.reset()
        re.purge()
        whole = torch.compile(scaled, backend="eager", fullgraph=True)
        for k in numbers:
            assert torch.equal(whole(X, k), ones(4, 8) * 64 * k)
    torch._dynamo.reset()
