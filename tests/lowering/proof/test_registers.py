"""Registers of roles: each way in which a setmaxnreg may be wrong, and what is said of it."""

from __future__ import annotations

from functools import cache

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.obligation import Verdict
from lowering.proof.registers import budget
from tests.lowering.proof.test_prove import kernel_of

INC, DEC = "setmaxnreg inc, 232", "setmaxnreg dec, 40"
WAIT = "griddepcontrol.wait"
FAULTS = {
    "a decrement to more": ((DEC, "setmaxnreg dec, 232"), "dec, 232 of 168 registers at entry"),
    "an increment to less": ((DEC, "setmaxnreg inc, 40"), "inc, 40 of 168 registers at entry"),
    "an increment as a decrement": ((INC, "setmaxnreg dec, 232"), "dec, 232 of 168 registers"),
    "more than there are": ((INC, "setmaxnreg inc, 240"), "66560 registers are asked for"),
    "a number that is none": ((INC, "setmaxnreg inc, 233"), "setmaxnreg takes multiples of 8"),
    "one role has none": ((DEC + "\n", "\n"), "some warps have a setmaxnreg, warp 8 has none"),
    "given twice": ((DEC, f"{DEC}\n{DEC}"), "setmaxnreg not once, on the outermost level"),
    "in a branch": ((DEC, f"if 0 < n_k {{ {DEC} }}"), "setmaxnreg not once, on the outermost"),
    "one warp of a warpgroup": (
        (DEC, "on %warpgroup.warp 0 { setmaxnreg dec, 40 }"),
        "some warps have a setmaxnreg, warp 9 has none",
    ),
    "another count for one warp": (
        (DEC, "on %warpgroup.warp 0 { setmaxnreg dec, 40 } on %warpgroup.warp 1 { setmaxnreg dec, "
              "32 } on %warpgroup.warp 2 { setmaxnreg dec, 40 } on %warpgroup.warp 3 { setmaxnreg "
              "dec, 40 }"),
        "warp 9 executes another setmaxnreg than the first of its warpgroup",
    ),
    "given behind a wait for who takes": (
        (DEC, f"on %warpgroup.warp 0 {{ mbarrier.wait ring_full[0], 0 }}\n{DEC}"),
        "setmaxnreg behind mbarrier.wait, which waits for other warps",
    ),
}  # fmt: skip


@cache
def right() -> str:
    return print_kernel(kernel_of("cluster_2x1"))


def claim(text: str) -> tuple[Verdict, str]:
    kernel = parse_kernel(text)
    found = budget(kernel, agents(kernel))
    return found.verdict, found.why


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault(fault: str) -> None:
    """Refuted, and what is said."""
    (before, after), why = FAULTS[fault]
    text = right()
    assert claim(text) == (Verdict.PROVED, "") and before in text
    verdict, said = claim(text.replace(before, after))
    assert verdict is Verdict.REFUTED and why in said


def test_a_sync_between() -> None:
    """All meet behind those who take and in front of those who give."""
    text = right()
    text = text.replace(INC, f"{INC}\ncta.sync").replace(DEC, f"cta.sync\n{DEC}")
    why = "a sync of the CTA stands behind one setmaxnreg and in front of another"
    assert claim(text) == (Verdict.REFUTED, why)
