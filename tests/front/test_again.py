"""Which of a function's calls are known: by torch's look at the tensors, or by their class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from wsched.front import again
from wsched.front.again import Again

torch: Any = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tensors whose class is written down; what runs a class says which one it is."""
    seen, real = list[Any](), again.class_key

    def noted(given: Sequence[Any]) -> Any:
        seen.append(given)
        return real(given)

    monkeypatch.setattr(again, "class_key", noted)
    monkeypatch.setattr(again, "execute", lambda text, inputs: [text])
    monkeypatch.setattr(again, "remembered", lambda text, key: lambda inputs: [text])
    return seen


def tensors(rows: int) -> list[Any]:
    return [torch.zeros(rows, 8), torch.zeros(rows)]


def ran(calls: Again, given: list[Any], beside: Any = 1) -> Any:
    run = calls.run(given, beside)
    return None if run is None else run(given)[0]


def test_the_latest_classes_are_not_written_down(keys: list[Any]) -> None:
    calls, count = Again(), again._LATEST + 2
    for rows in range(1, count + 1):
        assert ran(calls, tensors(rows)) is None
        calls.first(str(rows), tensors(rows), 1)
    for rows in range(1, count + 1):
        keys.clear()
        assert ran(calls, tensors(rows)) == str(rows)
        assert len(keys) == (rows <= count - again._LATEST)


def test_what_else_decides_is_told_apart(keys: list[Any]) -> None:
    calls, given = Again(), tensors(3)
    calls.first("one", given, 1)
    assert ran(calls, given, 2) is None
    calls.first("two", given, 2)
    keys.clear()
    assert (ran(calls, given, 1), ran(calls, given, 2)) == ("one", "two") and not keys


def test_where_torch_says_no_the_class_decides(keys: list[Any]) -> None:
    """It asks whether gradients are wanted, which is no matter here."""
    calls, given = Again(), tensors(3)
    calls.first("one", given, 1)
    given[0].requires_grad_()
    keys.clear()
    assert ran(calls, given) == "one" and len(keys) == 1
    assert ran(calls, tensors(4)) is None


def test_where_torch_cannot_be_asked(keys: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "told_apart", lambda tensors: None)
    calls = Again()
    calls.first("one", tensors(3), 1)
    keys.clear()
    assert ran(calls, tensors(3)) == "one" and len(keys) == 1
