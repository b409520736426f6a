"""Schedules of one's own with several parts that compute, through the public door."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import wsched  # noqa: E402
from tests.legality.by_hand.parts import PARTS, SCHEDULED, TWO, epilogue_apart  # noqa: E402
from tests.legality.machine import problems  # noqa: E402
from tests.legality.oracle import tile_of  # noqa: E402
from wsched import InputError, Schedule, ScheduleError, UnsupportedError  # noqa: E402
from wsched.importer import record_text  # noqa: E402
from wsched.importer.definition import definition_text  # noqa: E402
from wsched.schedule.text import calls_text  # noqa: E402

MADE = {make.__name__: make for make in PARTS}


def public(name: str) -> Schedule:
    """The calls of a schedule on its definition, read from a text."""
    make = MADE[name]
    head = "# wsched schedule 1\n" + definition_text(record_text(SCHEDULED[make]))
    return Schedule.parse(f"{head}\n{calls_text(make().history)}")


def arguments(s: Schedule, m: int, n: int, k: int) -> list[Any]:
    """Small integers, whose sums are exact in any order."""
    generator, size = torch.Generator().manual_seed(m + n + k), {"M": m, "N": n, "K": k}
    return [
        torch.randint(-2, 3, [size[a] for a in b.axes], generator=generator)
        .to(getattr(torch, b.dtype.element.torch))
        for b in s.fusion.inputs
    ]  # fmt: skip


def wanted(name: str, inputs: list[Any]) -> list[Any]:
    x, *others = (t.float() for t in inputs)
    a = {"operand_shifted": x + 1, "operand_and_epilogue_apart": x * 2}.get(name, x)
    return [(a @ w.T * sign).to(inputs[1].dtype) for w, sign in zip(others, (1, -1), strict=False)]


@pytest.mark.sampled
@pytest.mark.parametrize("name", MADE)
def test_executed(name: str) -> None:
    """A kernel of the schedule as it was made, whatever door it came by; odd sizes, no K."""
    s = public(name)
    assert replace(s.fusion, history=()) == replace(MADE[name](), history=())
    for p in problems(tile_of(s.fusion))[::2]:
        inputs = arguments(s, p.m, p.n, p.k)
        for got, right in zip(wsched.execute(s, inputs), wanted(name, inputs), strict=True):
            assert torch.equal(got, right)


@pytest.mark.sampled
@pytest.mark.parametrize("name", MADE)
def test_saved(name: str, tmp_path: Path) -> None:
    s, path = public(name), tmp_path / "own.sched"
    s.save(path)
    again = Schedule.load(path)
    assert (str(again), again.fusion) == (str(s), s.fusion)


def test_check_counts_all_threads() -> None:
    """Two warpgroups that multiply, one that rounds, one that loads."""
    found = public("operand_cast").check()
    assert found.error is None and found.threads == 512
    assert [line for line in found.relation if not line.startswith(" ")] == [
        "ring, from load T8 to compute T6:",
        "ring1, from transform T3 to compute T6:",
        "aux, from load T7 to transform T3:",
    ]


def test_registers_of_all_parts() -> None:
    """The threads of a store part are counted: 512 leave 128 registers for 128 accumulators."""
    s = Schedule(SCHEDULED[epilogue_apart])
    for call in epilogue_apart().history:
        args = call.args
        if ("labels", ("No", "Ni")) in call.kwargs:
            args = (*args[:2], 256)
        getattr(s, call.op)(*args, **dict(call.kwargs))
    assert s.plan().threads == 512
    with pytest.raises(ScheduleError) as error:
        wsched.compile(s, arguments(s, 256, 256, 64))
    assert (error.value.rule, error.value.why) == (
        "registers",
        "128 accumulators of a thread and 28 other registers exceed the 128 of a thread, of 512 in "
        "a CTA",
    )


def test_products_that_do_not_meet_have_the_same_extents() -> None:
    s = public("two_products")
    x, w, v = arguments(s, 64, 64, 64)
    with pytest.raises(InputError, match="N"):
        wsched.execute(s, [x, w, v[:32]])


def test_the_built_in_scheduler_refuses_by_name() -> None:
    what = "a fusion with 2 fd.ops.linear or fd.ops.matmul whose results do not meet"
    with pytest.raises(UnsupportedError) as error:
        Schedule.of(TWO)
    assert error.value.what == what
    with pytest.raises(UnsupportedError) as error:
        wsched.compile(TWO, [])
    assert error.value.what == what
