"""Loop nests side by side: nvFuser's printed kernel and wsched's, for the same parameters.

Equal where they are; each difference is a row of the table in design/0018-nvfuser-scheduler.md,
which has the reason.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.nvfuser.cases import PARITY
from tests.nvfuser.standin import ANSWERS
from tests.nvfuser.structure import facts, wsched_structure
from wsched.front.sizes import Extents, kernel_for
from wsched.importer.linear import LINEAR

NOTE = Path(__file__).resolve().parents[2] / "design" / "0018-nvfuser-scheduler.md"

DIFFERENT = {
    "cooperative": {
        "full arrivals": (2, 1),
        "empty arrivals": (256, 8),
        "expect_tx of a load step": (2, 1),
        "wgmma fences of a k step": (4, 1),
        "stores kept in flight": (0, 1),
    },
    "ping-pong": {
        "full arrivals": (2, 1),
        "empty arrivals": (128, 4),
        "order barriers": (4, 2),
        "load loops": (3, 2),
        "expect_tx of a load step": (2, 1),
        "wgmma fences of a k step": (8, 1),
        "order waits of a tile": (2, 1),
        "stores kept in flight": (0, 1),
    },
}
"""Name of the problem -> what differs: (nvFuser's, wsched's)."""


@cache
def theirs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ANSWERS.read_text())["parity"][name]
    return found


@cache
def ours(name: str) -> dict[str, Any]:
    kernel = kernel_for(LINEAR, Extents(4096, 4096, 4096), 132, PARITY[name])
    return wsched_structure(kernel.dump("kernel"))


def text(found: dict[str, Any]) -> str:
    roles = (line for role in ("load", "compute") for line in (f"{role}:", *found[role]))
    barriers = (f"{k} {n} x {arrivals}" for k, (n, arrivals) in sorted(found["barriers"].items()))
    head = f"threads {found['threads']}, registers {found['registers']}, " + ", ".join(barriers)
    return "\n".join((head, *roles))


@pytest.mark.parametrize("name", PARITY)
def test_loop_nests(name: str, golden: Any) -> None:
    assert text(theirs(name)) == golden.named("nvfuser")
    assert text(ours(name)) == golden.named("wsched")


@pytest.mark.parametrize("name", PARITY)
def test_equal_but_for_the_table(name: str) -> None:
    a, b = facts(theirs(name)), facts(ours(name))
    assert {k: (a[k], b[k]) for k in a if a[k] != b[k]} == DIFFERENT[name]


def test_each_difference_has_a_row() -> None:
    rows = re.findall(r"^\| ([a-z_ ]+?) \| (.+?) \| (.+?) \| (.+?) \|$", NOTE.read_text(), re.M)
    table = {row[0]: row[1:] for row in rows}
    for name, differences in DIFFERENT.items():
        for what, (a, b) in differences.items():
            theirs_said, ours_said, reason = table[what]
            position = list(PARITY).index(name)
            assert theirs_said.split(" / ")[position] == str(a), (name, what)
            assert ours_said.split(" / ")[position] == str(b), (name, what)
            assert reason
