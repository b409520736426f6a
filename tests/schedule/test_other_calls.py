"""Schedules that lack one call of those that make them, or have another one in its place: a table.

What is said of each is who refuses it and why, or that there is a kernel: the one that was there,
or another one. What draws find with an oracle (design/0020-legality.md) are wrong verdicts; here
none may change unseen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.text import print_kernel
from lowering.nest.lower import lower
from tests.conftest import Golden
from tests.kinds import KINDS
from wsched.front.known import import_fusion
from wsched.fusion import ParallelType, PrimitiveCall
from wsched.schedule import make_plan
from wsched.schedule.matmul.scheduler import schedule_matmul
from wsched.schedule.primitives.replay import replay

CALLED = (
    "pingpong", "cluster", "pipelined", "dynamic", "stream_k", "residual", "groups",
    "tensor_memory",
)  # fmt: skip

_OTHERS = {
    ParallelType.Mma: ParallelType.Bulk, ParallelType.Bulk: ParallelType.Mma,
    ParallelType.TIDy: ParallelType.TIDz, ParallelType.TIDz: ParallelType.TIDy,
    ParallelType.BIDx: ParallelType.BIDy, ParallelType.BIDy: ParallelType.BIDz,
    ParallelType.BIDz: ParallelType.BIDx,
}  # fmt: skip


def other(value: Any) -> Any:
    """Something else of the same type; the same where there is nothing."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, ParallelType):
        return _OTHERS[value]
    return value + 1 if isinstance(value, int) else value


def changed(call: PrimitiveCall) -> Iterator[PrimitiveCall]:
    """The call with its last argument changed that can be."""
    for at in reversed(range(1, len(call.args))):
        if other(call.args[at]) != call.args[at]:
            args = (*call.args[:at], other(call.args[at]), *call.args[at + 1 :])
            yield replace(call, args=args)
            return


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("name", CALLED)
def test_other_calls(name: str, part: int, golden: Golden) -> None:
    text, params = KINDS[name]
    fusion, lines = import_fusion(text), list[str]()
    calls = schedule_matmul(fusion, params).history

    def said(history: tuple[PrimitiveCall, ...]) -> str:
        try:
            kernel = lower(make_plan(replay(fusion, history), target=params.mma_macro.target), "k")
        except (ScheduleError, UnsupportedError) as e:
            return str(e).partition("\n")[0]
        return f"a kernel, {sha256(print_kernel(kernel).encode()).hexdigest()[:8]}"

    lines.append(f"all: {said(calls)}")
    for at in range(part, len(calls), 3):
        before, call, behind = calls[:at], calls[at], calls[at + 1 :]
        lines.append(f"{call}\n  left out: {said((*before, *behind))}")
        lines += [f"  {new}: {said((*before, new, *behind))}" for new in changed(call)]
    assert "\n".join(lines) == golden
