"""Classes of tensors: by their key, and by what torch tells apart."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from wsched.program.classes import class_key, told_apart

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

OTHERS: dict[str, Callable[[Any], Any]] = {
    "a row less": lambda t: t[:-1],
    "another order in memory": lambda t: torch.zeros(t.shape[::-1], dtype=t.dtype).permute(
        *reversed(range(t.dim()))
    ),
    "another type": lambda t: t.half(),
    "another dimension": lambda t: t[None],
    "another device": lambda t: t.to("meta"),
    "the negative bit": torch._neg_view,
    "another alignment": lambda t: torch.empty(t.numel() + 1, dtype=t.dtype)[1:].view(t.shape),
}


def tensors() -> list[Any]:
    return [
        torch.zeros(6, 8).bfloat16(),
        torch.zeros(3, dtype=torch.int32),
        torch.zeros(2, 4, 8).mT,
    ]


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("at", [0, 2])
def test_others_are_told_apart(at: int, change: Callable[[Any], Any]) -> None:
    """As their keys tell."""
    given = tensors()
    alike = told_apart(given)
    assert alike is not None and alike(given)
    again = tensors()
    assert alike(again) and class_key(again) == class_key(given)
    again[at] = change(again[at])
    assert not alike(again) and class_key(again) != class_key(given)


def test_another_number_of_tensors() -> None:
    given = tensors()
    alike = told_apart(given)
    assert alike is not None
    assert not alike(given[:-1]) and not alike([*given, given[0]]) and not alike([*given[:2], 3.0])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_told_apart() -> None:
    """It has no strides: torch ends the process where it is asked to check one."""
    rows = torch.zeros(6, 8)
    alike = told_apart([rows])
    assert alike is not None and not alike([torch.nested.nested_tensor([*rows])])


def test_tensors_are_not_kept() -> None:
    given = tensors()
    kept, alike = [weakref.ref(t) for t in given], told_apart(given)
    del given
    assert alike is not None and not any(ref() is not None for ref in kept)


def test_where_torch_has_nothing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._C._dynamo.guards", None)
    assert told_apart(tensors()) is None
