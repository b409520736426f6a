"""Modules of kernels of each kind by their digests: what changes them is seen."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.mlir.emit import emit_mlir
from tests.conftest import Golden
from tests.mutants.families import FAMILIES
from tests.mutants.subjects import subject
from tests.on_machine import kernel
from tests.schedules import QUICK, SCHEDULES

BY_HAND = (
    "a_by_threads", "b_by_two_warpgroups", "both_by_threads", "four_warpgroups", "in_turns",
    "in_turns_from_the_queue", "coop_128x128-residual", "pingpong_64x128-residual",
)  # fmt: skip

MADE: dict[str, dict[str, Callable[[], Kernel]]] = {
    "schedules": {n: (lambda n=n: kernel(SCHEDULES[n]).kernel) for n in sorted(QUICK)[::2]},
    **{
        family: {n: (lambda make=make: make().kernel) for n, make in found.items()}
        for family, found in FAMILIES.items()
    },
    "by hand": {n: (lambda n=n: subject(n).kernel) for n in BY_HAND},
}


@pytest.mark.parametrize("family", MADE)
def test_modules(family: str, golden: Golden) -> None:
    lines = []
    for name, make in MADE[family].items():
        try:
            text = sha256(emit_mlir(make()).encode()).hexdigest()[:16]
        except UnsupportedError as e:
            text = str(e)
        lines.append(f"{name}: {text}")
    assert "\n".join(lines) == golden
