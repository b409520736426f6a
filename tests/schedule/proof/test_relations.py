"""What is proved of schedules of each kind, and which parts they have: a table."""

from __future__ import annotations

import pytest

from tests.conftest import Golden
from tests.kinds import KINDS
from tests.on_machine import kernel
from tests.schedules import QUICK, SCHEDULES
from wsched.front.check import _relations
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.parts import titles
from wsched.schedule.plan import Plan

OTHERS = (
    "groups", "gated_groups", "list", "tensor_memory", "queue", "residual", "reductions",
    "thread_loads",
)  # fmt: skip


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
    text, params = KINDS[name]
    assert shown(compile_fusion(import_fusion(text), params).plan) == golden
