"""What is proved of schedules of each kind, and which parts they have: a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conftest import Golden
from tests.epilogues import RESIDUAL
from tests.grouped import GATE, grouped
from tests.lists import side_by_side
from tests.on_machine import kernel
from tests.reductions import Reduced
from tests.reductions import definition as reductions
from tests.schedules import (
    QUICK,
    SCHEDULES,
    cooperative,
    definition,
    dynamic,
    in_tensor_memory,
    ping_pong,
)
from wsched.front.check import _relations
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.copied import ThreadLoads
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.parts import titles
from wsched.schedule.plan import Plan

SMALL = cooperative(64, 32, 32, stages=3, groups=1, registers=None)

OTHERS: dict[str, tuple[str, MatmulParams]] = {
    "grouped": (grouped(), dynamic(SMALL)),
    "gated groups": (GATE, dynamic(ping_pong(64, 16, 32, stages=3))),
    "list": (side_by_side(), SMALL),
    "tensor memory": (definition(), in_tensor_memory(128, 64, epilogue_stages=1)),
    "queue": (definition(), dynamic(in_tensor_memory(256, 128))),
    "residual": (RESIDUAL, SMALL),
    "reductions": (reductions([Reduced("sum", (1,)), Reduced("max", (0,))]), SMALL),
    "loads by threads": (definition(), replace(SMALL, thread_loads=ThreadLoads(4, 4, 2))),
}


def shown(plan: Plan) -> str:
    lines = [*titles(plan.fusion, plan.parts), *_relations(plan)]
    for part in plan.parts:
        rings = ", ".join(f"{r.ring or 'a ring'} of {' '.join(r.tensors)}" for r in part.rings)
        lines.append(f"{part.name}: {' '.join(part.tensors)}; fills {rings or 'nothing'}"
                     f"{', issued' * part.issued}")  # fmt: skip
    return "\n".join(lines)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_schedules(name: str, golden: Golden) -> None:
    assert shown(kernel(SCHEDULES[name]).plan) == golden


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds(name: str, golden: Golden) -> None:
    text, params = OTHERS[name]
    assert shown(compile_fusion(import_fusion(text), params).plan) == golden
