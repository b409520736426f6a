"""What torch is asked for while something runs."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

__all__ = ["Told"]


class Told(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """``with Told() as told``: the functions of torch's that are called.

    Attributes:
        names: of them, in the order in which they end.
        results: what they return.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.results: list[Any] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.results.append(function(*args, **(kwargs or {})))
        self.names.append(getattr(function, "__name__", ""))
        return self.results[-1]
