"""The kernels that are broken, one and more of every family, and what they run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lowering.kernel.kernel import Kernel
from lowering.machine import RunResult
from lowering.proof.admitted import Admitted
from tests.epilogues import RESIDUAL
from tests.legality.by_hand.loads import LOADS
from tests.legality.machine import compiled
from tests.mutants.families import FAMILIES, SIZES, Made, Sizes, linear
from tests.mutants.launches import Launch, launched
from tests.on_machine import kernel
from tests.schedules import SCHEDULES, for_result
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.run.counts import admitted_by
from wsched.schedule.plan import make_plan

__all__ = ["HOPPER", "PROBLEMS", "SUBJECTS", "Subject", "family", "subject"]

PROBLEMS = ((128, 136, 64, 4), (256, 256, 192, 2), (72, 520, 320, 2))
"""M, N, K and multiprocessors of a matmul: one tile or less a CTA, several, ragged edges; 1, 3 and
5 steps of 64 a tile.
"""

_PLAIN = {
    "one tile after the other": (
        "coop_2_stages", "coop_in_flight_2", "coop_1_stage", "across_2x2", "tile_per_cta",
        "pipelined_1_group", "exchanged",
    ),
    "clusters": ("cluster_2x1", "cluster_2x2"),
    "deferred stores": ("deferred_cluster", "deferred_dynamic"),
    "ping-pong": ("pingpong_64x128", "cluster_pingpong"),
    "queues": ("dynamic", "dynamic_cluster_pingpong"),
    "partial sums": ("split_2", "split_cluster", "stream_k", "stream_k_cluster"),
}  # fmt: skip
_GROUPS: Mapping[str, Sizes] = {
    "cluster_2x1": (2304, 264, 64, 6), "dynamic": (1160, 264, 64, 2)
}  # fmt: skip
"""M, N, K and multiprocessors of one more launch, of the kernels that take eight rows of tiles
after the other: nine rows of two.
"""
_RESIDUAL = {f"{name}-residual": name for name in ("coop_128x128", "pingpong_64x128")}


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A right kernel and what it runs on: a tile or less a CTA, several, and ragged edges.

    Args:
        name: of it.
        family: that it is of.
        kernel: right.
        launches: of it, small ones; the first is the smallest, and of groups the last has ends that
            are none.
        admitted: what the proof is told of its launches by those who launch it.
    """

    name: str
    family: str
    kernel: Kernel
    launches: tuple[Launch, ...]
    admitted: Admitted | None

    def run(self, broken: Kernel, at: int, **options: Any) -> tuple[dict[str, Any], RunResult]:
        """All bytes after launch ``at`` of a kernel in place of this one, and what happened.

        ``options`` go to ``run_kernel``.
        """
        return self.launches[at].run(broken, **options)


def _plain(name: str) -> Made:
    made = kernel(SCHEDULES[name])
    sizes = SIZES if name == "exchanged" else PROBLEMS  # its tiles are narrow
    more = (_GROUPS[name],) if name in _GROUPS else ()
    return linear(made, (*sizes, *more))


def _residual(name: str) -> Made:
    """A matrix that the epilogue adds, loaded by a warp of its own through two stages."""
    params = for_result(SCHEDULES[_RESIDUAL[name]], "bf16", inputs=("bf16",))
    made = compile_fusion(import_fusion(RESIDUAL), replace(params, epilogue_input_stages=2))
    return linear(made, PROBLEMS)


def _by_hand(name: str) -> Made:
    plan = make_plan(next(make for make in LOADS if make.__name__ == name)())
    made = compiled(plan)
    launches = (
        launched(plan.fusion, made, {"M": m, "N": n, "K": k}, sms) for m, n, k, sms in SIZES
    )
    return Made(made, tuple(launches), admitted_by(plan))


def _of_a_call(name: str) -> Made:
    return FAMILIES[family(name)][name]()


_Make = Callable[[str], Made]
_KERNELS: Mapping[str, tuple[str, _Make]] = {
    **{name: (family, _plain) for family, names in _PLAIN.items() for name in names},
    **dict.fromkeys(_RESIDUAL, ("epilogue inputs", _residual)),
    **{make.__name__: ("loads by threads", _by_hand) for make in LOADS},
    **{name: (family, _of_a_call) for family, makes in FAMILIES.items() for name in makes},
}

SUBJECTS = (*_KERNELS,)
"""Names of all kernels."""


def family(name: str) -> str:
    """What the kernel of that name is of."""
    return _KERNELS[name][0]


HOPPER = tuple(name for name in SUBJECTS if family(name) not in ("tensor memory", "pairs"))
"""Those that run on sm_90a; the others are for sm_100a."""


@cache
def subject(name: str) -> Subject:
    """The kernel of that name, made once in a process."""
    family, make = _KERNELS[name]
    made = make(name)
    return Subject(name, family, made.kernel, made.launches, made.admitted)
