"""In which order a chain of kernels takes memory, looks at addresses and launches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lowering.ground.errors import InternalError
from tests.front.cut.features import torch
from tests.program.host_scratch import HostScratch, installed
from wsched.program import chained
from wsched.program.scratch import Scratch


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostScratch]:
    """Memory, of which no call keeps any behind its end."""
    memory = installed(monkeypatch)
    yield memory
    assert not memory.taken


class Noted:
    """A kernel that packs launches which say its name, for as long as it can."""

    def __init__(self, name: str, events: list[str]) -> None:
        self.name, self.events, self.can = name, events, True

    def packed(self, inputs: Any, outputs: Any) -> Any:
        return (lambda: self.events.append(self.name)) if self.can else None


class Seen:
    """A tensor that says when it is asked where it lies."""

    def __init__(self, name: str, events: list[str]) -> None:
        self.name, self.events = name, events

    def data_ptr(self) -> int:
        self.events.append(self.name)
        return 512


def test_the_first_kernel_waits_for_its_own_addresses() -> None:
    """Those of other kernels' weights are looked at behind its launch."""
    events, like = list[str](), torch.empty(4, device="meta")
    x, w, _, result = (chained._Lies(root, 0, like, True) for root in range(4))
    kernels = [Noted(name, events) for name in ("first", "second")]
    steps = [
        chained._Step(kernel, reads, (result,), {})
        for kernel, reads in zip(kernels, ((w,), (x, w)), strict=True)
    ]
    (made,) = memory = [torch.zeros(4)]
    chain = chained.Chain(3, Scratch(0, made.device), [memory.pop], steps, [result])
    assert [(s.looked, s.width, s.kernels) for s in chain._stages] == [((1, 3), 3, 1), ((0,), 4, 2)]
    inputs: list[Any] = [Seen(name, events) for name in "xwv"]
    for _ in range(2):
        memory.append(made)
        assert chain(inputs) == [made]
    assert events[-4:] == ["w", "first", "x", "second"]


def test_nothing_that_others_see_runs_before_all_is_known(host: HostScratch) -> None:
    """A call that finds no launch of its last kernel runs anew, step by step: an input that it had
    written by then would be written twice.
    """
    events, like = list[str](), torch.empty(4, device="meta")
    made, written, last = (Noted(name, events) for name in ("made", "written", "last"))
    x, result, between = (chained._Lies(root, 0, like, root < 2) for root in range(3))
    steps = [
        chained._Step(made, (x,), (between,), {}),
        chained._Step(written, (between,), (x,), {}),
        chained._Step(last, (x,), (result,), {}),
    ]
    memory, given = [torch.zeros(4)], [torch.zeros(4)]
    scratch = Scratch(16, given[0].device)
    chain = chained.Chain(1, scratch, [lambda: memory[0]], steps, [result])
    assert chain(given) is not None and chain(given) is not None
    assert events == ["made", "written", "last"] * 2
    memory[0], last.can = torch.zeros(4), False
    events.clear()
    assert chain(given) is None and events == ["made"]
    assert not host.taken


def test_what_lies_between_is_given_back_whatever_happens(host: HostScratch) -> None:
    """A kernel that cannot be packed, one that is refused in its launch, no memory for results."""
    events, like = list[str](), torch.empty(4, device="meta")
    x, result, between = (chained._Lies(root, 0, like, root < 2) for root in range(3))
    made, last = Noted("made", events), Noted("last", events)
    steps = [
        chained._Step(made, (x,), (between,), {}),
        chained._Step(last, (between,), (result,), {}),
    ]

    def refused(*_: Any) -> Any:
        assert list(host.taken.values()) == [7]
        raise InternalError("launch", "refused")

    given, out = [torch.zeros(4)], torch.zeros(4)
    host.stream = 7
    for at in ("packed", "launched", "allocated"):
        news = refused if at == "allocated" else (lambda: out)
        chain = chained.Chain(1, Scratch(16, out.device), [news], steps, [result])
        for step in steps:
            step.launches.clear()
        if at == "packed":
            last.packed = refused  # type: ignore[method-assign]
        else:
            last.packed = lambda *_: refused  # type: ignore[method-assign]
        with pytest.raises(InternalError, match="refused"):
            chain(given)
        assert not host.taken
