"""Tensors of somebody's class that stand for others: refused by name, and of no class that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.front.test_moe import layer
from tests.schedules import definition
from wsched.program.classes import class_key

torch: Any = pytest.importorskip("torch")


class Wrapper(torch.Tensor):  # type: ignore[misc]
    """A shape, and no memory."""

    @staticmethod
    def __new__(cls, like: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, like.shape, strides=like.stride(), dtype=like.dtype, device=like.device
        )

    @classmethod
    def __torch_dispatch__(cls, function: Any, *_: Any) -> Any:
        raise RuntimeError(f"{function} of what has no memory")


class Own(torch.Tensor):  # type: ignore[misc]
    """One that has some."""


X, W = (torch.ones(64, 64).bfloat16() for _ in range(2))
BYTES, ONE, ENDS = torch.ones(64, 64, dtype=torch.int8), torch.ones(1, 1), torch.tensor([3, 64])
ENDS = ENDS.int()
GROUPS = torch.ones(2, 64, 64).bfloat16()
LAYER = layer(3, 4, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda wrap: wsched.execute(definition(), [wrap(X), W]),
        lambda wrap: wsched.compile(definition(), [X, W])(X, wrap(W)),
        lambda wrap: wsched.compile(definition(), [X, W])(X, W, out=wrap(X.clone())),
        lambda wrap: wsched.compile(definition(), [X, W]).bind(X, W, out=wrap(X.clone())),
        lambda wrap: wsched.linear(wrap(X), BYTES),
        lambda wrap: wsched.linear(X, wrap(BYTES)),
        lambda wrap: wsched.linear(X, BYTES, wrap(torch.ones(64))),
        lambda wrap: wsched.int_mm(BYTES, wrap(BYTES)),
        lambda wrap: wsched.scaled_mm(BYTES, BYTES, wrap(ONE), ONE),
        lambda wrap: wsched.grouped_mm(wrap(X), GROUPS, ENDS),
        lambda wrap: wsched.grouped_mm(X, wrap(GROUPS), ENDS),
        lambda wrap: wsched.grouped_mm(X, GROUPS, wrap(ENDS)),
        lambda wrap: wsched.moe(*LAYER[:4], wrap(LAYER[4])),
        lambda wrap: wsched.moe(LAYER[0], wrap(LAYER[1]), *LAYER[2:]),
    ],
)
def test_refused(call: Callable[..., Any]) -> None:
    for _ in range(2):  # before others of the same shapes have run, and behind them
        with pytest.raises(UnsupportedError) as e:
            call(Wrapper)
        assert str(e.value) == (
            "running on a Wrapper without memory is not supported; supported: tensors that have "
            "some"
        )
        call(lambda tensor: tensor)


def test_those_with_memory_run() -> None:
    x = X.as_subclass(Own)
    assert torch.equal(wsched.execute(definition(), [x, W])[0], X @ W)
    assert wsched.linear(x, torch.nn.Parameter(BYTES, requires_grad=False)).shape == (64, 64)


def test_they_are_of_no_class_that_has_run() -> None:
    aligned = next(t for t in (X, X.clone()) if t.data_ptr() % 16 == 0)
    keys = {class_key([t]) for t in (aligned, Wrapper(aligned))}
    assert len(keys) == 2 and None not in keys
    assert class_key([aligned, 3]) != class_key([Wrapper(aligned), 3])
