"""nvFuser without a GPU: its ``execute`` is watched and interpreted by torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from wsched.doors.dropin import decide, execute
from wsched.doors.fallback import interpret
from wsched.importer import definition_of


class Spy:
    """In place of nvFuser's ``execute``: as much of it as concerns its callers.

    Attributes:
        calls: definition, inputs and options of each call.
        error: what each call ends with, if it is set.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Sequence[Any], dict[str, Any]]] = []
        self.error: Exception | None = None

    def function(self) -> Any:
        """A function, which becomes a method where it is put into a class."""

        def run(fd: Any, inputs: Any, **options: Any) -> list[Any]:
            from nvfuser_direct import FusionExecutorCache

            self.calls.append((fd, inputs, options))
            if not hasattr(fd, "fec"):
                is_valid, error = fd.validate_definition()
                if not is_valid:
                    raise NotImplementedError(error)
                fd.fec = FusionExecutorCache(fd._fusion)
                del fd._fusion
            if self.error is not None:
                raise self.error
            return interpret(definition_of(fd), list(inputs))

        return run


@pytest.fixture
def nvfuser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    """Keeps what reaches nvFuser; kernels of wsched's run on the machine model."""
    nvf = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    spy = Spy()
    monkeypatch.setattr(nvf.FusionDefinition, "execute", spy.function())
    monkeypatch.setattr(decide, "runs_on", lambda device: True)
    monkeypatch.setattr(decide, "_known", {})
    monkeypatch.setattr(execute, "_by_fec", WeakKeyDictionary())
    yield spy
