"""``Schedule.debug_print``: what may be printed where, and as text."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import ScheduleError
from tests.rungs import scheduled
from wsched import Schedule
from wsched.front.own import kernel_of
from wsched.run.prints import PrintWarning
from wsched.schedule.options import DebugPrint


def test_prints_are_options_and_calls() -> None:
    s = scheduled(8)
    s.debug_print("T4", "Ko", cta=0, tile=1)
    s.debug_print("load", "M")
    first = DebugPrint("T4", "Ko", cta=0, tile=1)
    assert s.options.prints == (first, DebugPrint("load", "M"))
    assert str(first) == "debug_print('T4', 'Ko', cta=0, tile=1)"
    assert str(s.history[-1]) == "debug_print('load', 'M')"
    again = Schedule.parse(str(s))
    assert again.options == s.options and str(again) == str(s)
    s.undo(2)
    assert s.options.prints == ()


@pytest.mark.parametrize(
    ("where", "value", "numbers", "why"),
    [
        ("T99", "Ko", {}, "T99 is neither a tensor nor a part"),
        ("store", "Ko", {}, "legal here: compute; load; T0"),
        ("T4", "Ko", {"thread": 128}, "there is no thread 128"),
        ("T4", "Ko", {"cta": -1}, "there is no cta -1"),
        *(
            ("T4", "Ko", {name: 1 << 31}, f"there is no {name} 2147483648")
            for name in ("cta", "group", "tile", "step")
        ),
        ("T4", "Ko", {"step": "1"}, "step takes an int or None, not '1'"),
        ("T4", 3, {}, "value takes a str, not 3"),
    ],
)
def test_refused(where: str, value: Any, numbers: dict[str, Any], why: str) -> None:
    with pytest.raises(ScheduleError) as error:
        scheduled(8).debug_print(where, value, **numbers)
    assert why in str(error.value)


def test_the_last_numbers() -> None:
    s, last = scheduled(8), (1 << 31) - 1
    s.debug_print("T4", "Ko", cta=last, group=last, tile=last, step=last, thread=127)
    s.debug_print("T4", "Ko", cta=0, group=0, tile=0, step=0, thread=0)
    found = [(p.cta, p.group, p.tile, p.step, p.thread) for p in s.options.prints]
    assert found == [(last, last, last, last, 127), (0, 0, 0, 0, 0)]


@pytest.mark.filterwarnings("ignore::wsched.run.prints.PrintWarning")
@pytest.mark.parametrize(
    ("where", "value", "numbers", "why"),
    [
        ("T4", "chunk", {}, "T4 has no loop chunk\n  legal here: cta; tile; Ko"),
        ("T6", "k16", {}, "T6 has no loop k16"),
        ("T4", "T9", {}, "T9 is in no registers behind T4"),
        ("T4", "T4[128, 0]", {}, "T4 has 128 x 128 elements there"),
        ("T6", "Ko", {"group": 0}, "no group is known behind T6"),
    ],
)
def test_refused_when_the_kernel_is_made(
    where: str, value: str, numbers: dict[str, Any], why: str
) -> None:
    s = scheduled(8)
    s.debug_print(where, value, **numbers)
    with pytest.raises(ScheduleError) as error:
        kernel_of(s)
    assert error.value.rule == "debug_print" and why in str(error.value)


def test_what_it_costs_is_said() -> None:
    """Sums that are printed step by step are not in flight; others ptxas alone waits for."""
    s = scheduled(8)
    s.debug_print("T9", "T9[0, 0]")
    with pytest.warns(PrintWarning, match="printf ends what is in flight of wgmma") as found:
        kept = kernel_of(s).dump("kernel")
    assert "each step" not in str(found[0].message)
    s.debug_print("T4", "T4", thread=5)
    with pytest.warns(PrintWarning, match="T4 is waited for in each step that adds to it"):
        waited = kernel_of(s).dump("kernel")
    assert "wgmma.wait acc_next_k48, 1" in kept and "wgmma.wait acc_next_k48, 1" not in waited


def test_what_it_costs_where_sums_are_in_tensor_memory() -> None:
    """There is no wgmma that it could end; and of no registers is an element printed."""
    s = scheduled(8, "sm_100a")
    s.debug_print("compute", "Ko", cta=0)
    with pytest.warns(PrintWarning, match="a warp that prints is late for all that") as found:
        kernel_of(s)
    assert "wgmma" not in str(found[0].message)
    for tensor, why in (
        ("T4", "T4 is in no registers behind T4"),
        ("T10", "T10 has registers as tensor memory has lanes, of which no element is printed"),
    ):
        s = scheduled(8, "sm_100a")
        s.debug_print(tensor, f"{tensor}[3, 5]")
        with pytest.raises(ScheduleError, match=why):
            kernel_of(s)


@pytest.mark.filterwarnings("ignore::wsched.run.prints.PrintWarning")
def test_ptxas_says_it_too() -> None:
    s = scheduled(8)
    s.debug_print("load", "Ko", cta=0)
    assert any("C7510" in w for w in kernel_of(s).resources.warnings)


def test_without_prints_nothing_is_said(recwarn: pytest.WarningsRecorder) -> None:
    kernel_of(scheduled(8))
    assert not [w for w in recwarn if w.category is PrintWarning]
