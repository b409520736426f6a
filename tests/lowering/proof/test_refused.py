"""What the proof says of right kernels, and of each broken one of a sample: a table.

The mutants of ``tests.mutants`` are many thousand, and are judged in the slow tier; of these few
the claim that is open first is kept, with its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import groupby
from zlib import crc32

import pytest

from lowering.proof.prove import claims
from tests.mutants.edits import Mutant, mutants
from tests.mutants.families import FAMILIES, Made
from tests.on_machine import kernel as compiled
from tests.schedules import cooperative, dynamic, ping_pong, split_k
from wsched.run.counts import admitted_by
from wsched.schedule.matmul.params import MatmulParams

SMALL = cooperative(64, 16, 16, stages=3, groups=1, registers=None)


def _of(params: MatmulParams) -> Callable[[], Made]:
    def make() -> Made:
        found = compiled(params)
        return Made(found.kernel, (), admitted_by(found.plan))

    return make


MADE: dict[str, Callable[[], Made]] = {
    "cooperative": _of(SMALL),
    "split": _of(split_k(SMALL, 2)),
    "dynamic": _of(dynamic(SMALL)),
    "pingpong": _of(ping_pong(64, 16, 16, stages=3)),
    "reductions": FAMILIES["reductions"]["reductions"],
    "tensor_memory": FAMILIES["tensor memory"]["tensor_memory"],
    "pairs": FAMILIES["pairs"]["pairs"],
    "summary": FAMILIES["reductions alone"]["summary"],
    "row_copy": FAMILIES["row copies"]["row_copy"],
    "summary_long": FAMILIES["reductions alone"]["summary_long"],
}
PARTS = 3


@cache
def made(name: str) -> Made:
    return MADE[name]()


@pytest.mark.parametrize("name", MADE)
def test_claims(name: str, golden: object) -> None:
    """All of them, of a kernel that is right."""
    found = made(name)
    assert "\n".join(map(str, claims(found.kernel, found.admitted))) == golden


@cache
def sample(name: str) -> tuple[Mutant, ...]:
    """One of every third class, the same as long as it is there; other kernels have others."""
    every = sorted(mutants(made(name).kernel), key=lambda m: (m.kind, crc32(m.what.encode())))
    first = [next(same) for _, same in groupby(every, key=lambda m: m.kind)]
    return tuple(first[[*MADE].index(name) % 3 :: 3])


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", MADE)
def test_broken_kernels(name: str, part: int, golden: object) -> None:
    """Of each the claim that is open first, and why."""
    right, lines = made(name), list[str]()
    for mutant in sample(name)[part::PARTS]:
        found = claims(mutant.kernel, right.admitted)
        first = next((o for o in found if o.open), None)
        lines += [f"{mutant.kind}: {mutant.what}", "" if first is None else f"    {first}"]
    assert "\n".join(lines) == golden
