"""How many transform graphs are made: the dearest thing that the way to a kernel might do twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wsched.fusion import Fusion
from wsched.schedule.graph import TransformGraph

__all__ = ["graphs_made"]


def graphs_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count from now on; the result says how many it has been."""
    made: list[Fusion] = []
    make = TransformGraph.__init__

    def counted(graph: TransformGraph, fusion: Fusion) -> None:
        made.append(fusion)
        make(graph, fusion)

    monkeypatch.setattr(TransformGraph, "__init__", counted)
    return lambda: len(made)
