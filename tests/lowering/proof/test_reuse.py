"""Buffers over stages of a ring: programs of two warpgroups, right and wrong.

Words: ``load`` reads a stage, ``mma`` in a product, ``fill`` and ``tile`` fill one; ``out`` writes
the buffer that lies over the stages, ``meet`` is a meeting of both warpgroups, ``half`` of one,
``two`` at one of two barriers; ``0`` and ``1`` wait for all products but so many; ``store`` is a
store of a stage by TMA, ``commit`` makes stores a group, ``all`` waits for all groups, ``rest`` for
all but one; ``peer`` copies a stage to another CTA, ``send`` stores to one.
"""

from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO
from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.kernel import Kernel, NamedBarrierArray, SharedBuffer
from lowering.kernel.nodes import (
    BarSync,
    BulkCommit,
    BulkCopy,
    BulkWait,
    Frag,
    GmemRef,
    LdShared,
    SmemRef,
    StAsync,
    Stmt,
    StShared,
    TmaLoad,
    TmaStore,
    Wgmma,
    WgmmaWait,
)
from lowering.kernel.operands import MBarrierRef, NamedBarrierRef
from lowering.proof.agent import Agent
from lowering.proof.obligation import Verdict
from lowering.proof.reuse import reused
from tests.lowering.proof.by_words import ACC, NEXT, TYPE, V, body

DONE = Frag("done", TYPE)
STAGE, OUT, FREE = (SmemRef(name, ZERO, (ZERO, ZERO)) for name in ("stages", "out", "free"))
FROM = GmemRef("T", (ZERO, ZERO))
MEANS: dict[str, Stmt] = {
    "load": LdShared(V, STAGE),
    "mma": Wgmma(NEXT, ACC, STAGE, FREE),
    "mma_free": Wgmma(NEXT, ACC, FREE, FREE),
    "fill": TmaLoad(STAGE, FROM),
    "tile": CopyTile(STAGE, FROM, 64, 8),
    "out": StShared(OUT, V),
    "free": StShared(FREE, V),
    "meet": BarSync(NamedBarrierRef("all", ZERO)),
    "half": BarSync(NamedBarrierRef("half", ZERO)),
    "two": BarSync(NamedBarrierRef("two", ZERO)),
    "0": WgmmaWait(DONE, NEXT, 0),
    "1": WgmmaWait(DONE, NEXT, 1),
    "store": TmaStore(FROM, STAGE),
    "store_free": TmaStore(FROM, FREE),
    "commit": BulkCommit(),
    "all": BulkWait(0, read=True),
    "rest": BulkWait(1, read=True),
    "peer": BulkCopy(FREE, STAGE, MBarrierRef("full", ZERO), ZERO),
    "send": StAsync(STAGE, V, MBarrierRef("full", ZERO), ZERO),
}
BUFFERS = (
    SharedBuffer("stages", DType.F32, 2, (64, 8)),
    SharedBuffer("out", DType.F32, 1, (64, 8), over=("stages",)),
    SharedBuffer("free", DType.F32, 1, (64, 8)),
)
BARRIERS = (
    NamedBarrierArray("half", 1, 128),
    NamedBarrierArray("two", 2, 256),
    NamedBarrierArray("all", 1, 256),
)


def claim(*programs: str, cluster: int = 1) -> str:
    """About the buffer, of warpgroups with these programs, in each CTA."""
    each = len(programs) // cluster
    warps = tuple(
        Agent("r", None, tuple(range(4 * n, 4 * n + 4)), number // each, body(words, MEANS))
        for number, words in enumerate(programs)
        for n in [number % each]
    )
    kernel = Kernel("k", 256, ONE, (), (*BUFFERS, *BARRIERS), (), cluster=cluster)
    (found,) = reused(kernel, warps)
    assert (found.name, found.subject) == ("stages are read", "out")
    assert found.verdict is (Verdict.REFUTED if found.why else Verdict.PROVED)
    return found.why


NONE = "no meeting of all that read the stages stands at the top of their programs"
NOWHERE = "the meeting is not at the top, or there are several"
BEHIND = "role r, warps 0..3 uses a stage behind the meeting"
FRONT = "role r, warps 0..3 uses out in front of the meeting"
FLIES = "role r, warps 0..3 does not wait for its last product in front of the meeting"
STORED = "role r, warps 0..3 does not wait for its last store in front of the meeting"
UNTOLD = "role r, warps 0..3: when {} is over with a stage is not known"
PROGRAMS = {
    ("load meet out", "load meet out"): "",
    ("load meet out", "load meet"): "",
    ("load meet", "meet out"): "",
    ("[ load ] meet [ out ]", "load meet out"): "",
    ("load meet out load", "load meet out"): BEHIND,
    ("load meet out [ fill ]", "load meet out"): BEHIND,
    ("load out meet", "load meet out"): FRONT,
    ("[ out ] meet", "load meet out"): FRONT,
    ("load meet out free", "free load meet out"): "",
    ("mma 0 meet out", "load meet out"): "",
    ("mma meet out", "load meet out"): FLIES,
    ("mma 1 meet out", "load meet out"): FLIES,
    ("mma 0 mma meet out", "load meet out"): FLIES,
    ("0 mma meet out", "load meet out"): FLIES,
    ("[ mma ] 0 meet out", "load meet out"): "",
    ("[ mma 0 ] meet out", "load meet out"): FLIES,
    ("[ mma 0 ] 0 meet out", "load meet out"): "",
    ("one store commit all ] meet out", "load meet out"): "",
    ("one store ] one commit ] one all ] meet out", "load meet out"): "",
    ("one store commit ] meet out", "load meet out"): STORED,
    ("one store commit rest ] meet out", "load meet out"): STORED,
    ("one store all commit ] meet out", "load meet out"): STORED,
    ("one store commit ] meet out one all ]", "load meet out"): STORED,
    ("one all store commit ] meet out", "load meet out"): STORED,
    ("one store commit ? all ] ] meet out", "load meet out"): STORED,
    ("one store ? commit ] all ] meet out", "load meet out"): STORED,
    ("[ one store commit ] ] one all ] meet out", "load meet out"): "",
    ("[ one store commit rest ] ] meet out", "load meet out"): STORED,
    ("[ one all store commit ] ] meet out", "load meet out"): STORED,
    ("one store_free commit ] load meet out", "load meet out"): "",
    ("one peer ] meet out", "load meet out"): UNTOLD.format("bulk.copy"),
    ("send meet out", "load meet out"): UNTOLD.format("st.async"),
    ("load ? meet ] out", "load meet out"): NONE,
    ("load meet [ meet ] out", "load meet out"): NONE,
    ("load meet meet out", "load meet out"): NONE,
    ("load half out", "load half out"): NONE,
    ("load two out", "load two out"): NONE,
    ("load out", "load out"): NONE,
    ("load meet half out", "load half meet out"): "",
    ("load meet out",): NONE,
    ("load half out",): "",
    ("load half out", "free"): "",
    ("load half out", "fill"): "",
    ("load half out", "tile"): "",
    ("load half out", "[ tile fill ]"): "",
    ("load half out", "out"): NONE,
    ("load half out", "mma_free"): "",
    ("load half out", "half mma 0"): NONE,
    ("load meet out", "load meet out", "free"): "",
    ("load meet out", "load meet out", "load meet out"): NONE,
}  # fmt: skip


@pytest.mark.parametrize("programs", PROGRAMS, ids="; ".join)
def test_one_cta(programs: tuple[str, ...]) -> None:
    found = claim(*programs)
    assert found == PROGRAMS[programs]


def test_all_ctas_of_a_cluster() -> None:
    right = "load meet out"
    assert claim(right, right, right, right, cluster=2) == ""
    assert claim(right, right, right, "free", cluster=2) == NONE
    assert claim(right, "free", "free", right, cluster=2) == NONE
    assert claim("load half out", "free", "free", "load half out", cluster=2) == ""
    wrong = claim(right, right, right, "load meet out load", cluster=2)
    assert wrong == "CTA 1 role r, warps 4..7 uses a stage behind the meeting"


def test_of_other_buffers_nothing_is_claimed() -> None:
    assert [*reused(Kernel("k", 128, ONE, (), (BUFFERS[2], *BARRIERS), ()), ())] == []
