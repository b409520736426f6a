"""What stands in front of what in a warp: programs, right and wrong.

Words: ``fence``, ``commit``, ``0`` to ``3`` wait for all groups of wgmmas but so many,
``mma`` takes A from shared memory, ``x`` from the registers of ``x``, ``half`` from columns of
them, ``top`` from rows of those; ``write``, ``cast`` and ``other`` write registers.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Const, Var
from lowering.ground.types import FragmentType
from lowering.kernel.control import Carry, For
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Frag,
    FragColumns,
    FragFill,
    FragLoadGlobal,
    FragRows,
    GmemRef,
    GridDepLaunchDependents,
    GridDepWait,
    SmemRef,
    Stmt,
    TmaLoad,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.tensor_memory import Tcgen05Alloc, Tcgen05Base
from lowering.kernel.tensors import TensorMap
from lowering.proof.agent import Agent
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.order import fenced, kept, let_in, waited
from tests.lowering.proof.by_words import agent, body, said

TYPE, SUM = FragmentType(DType.BF16, 64, 64), FragmentType(DType.F32, 64, 8)
X, HALF, TOP, OTHER = (Frag(name, TYPE) for name in ("x", "half", "top", "other"))
ACC, NEXT, DONE = (Frag(name, SUM) for name in ("acc", "next", "done"))
A, B = SmemRef("a", ZERO, (ZERO, ZERO)), SmemRef("b", ZERO, (ZERO, ZERO))
FROM = GmemRef("T", (ZERO, ZERO))
MEANS: dict[str, Stmt] = {
    "fence": WgmmaFence(),
    "mma": Wgmma(NEXT, ACC, A, B),
    "x": Wgmma(NEXT, ACC, X, B),
    "half": Wgmma(NEXT, ACC, HALF, B),
    "top": Wgmma(NEXT, ACC, TOP, B),
    "commit": WgmmaCommit(),
    "0": WgmmaWait(DONE, NEXT, 0),
    "1": WgmmaWait(DONE, NEXT, 1),
    "2": WgmmaWait(DONE, NEXT, 2),
    "3": WgmmaWait(DONE, NEXT, 3),
    "part": FragColumns(HALF, X, ZERO),
    "rows": FragRows(TOP, HALF, ZERO),
    "write": FragLoadGlobal(X, FROM),
    "fill": FragFill(ACC, 0.0),
    "other": FragLoadGlobal(OTHER, FROM),
    "load": TmaLoad(A, FROM),
    "early": TmaLoad(A, GmemRef("E", (ZERO, ZERO))),
    "grids": GridDepWait(),
    "next": GridDepLaunchDependents(),
    "alloc": Tcgen05Alloc(SmemRef("cells", ZERO, (ZERO, ZERO)), 64),
    "base": Tcgen05Base(Var("at")),
}
KERNEL = Kernel("k", 128, ONE, (), (), (), dependent=True)

NO_FENCE = "no wgmma.fence between the last access to registers and next"
FENCES = {
    "fence mma commit 0": "",
    "fence mma mma commit mma commit": "",
    "mma": NO_FENCE,
    "fill mma": NO_FENCE,
    "fence fill mma": NO_FENCE,
    "fill fence mma": "",
    "fence mma commit 0 mma": NO_FENCE,
    "fence part mma": NO_FENCE,
    "fence load mma": "",
    "fence [ mma commit ]": "",
    "fence [ mma commit 0 ]": NO_FENCE,
    "[ fence mma commit 0 ]": "",
    "fence ? fill ] mma": NO_FENCE,
    "? fence ] mma": NO_FENCE,
    "fence ( mma commit )": "",
    "( fence ) mma": "",
    "[ fence ] mma": NO_FENCE,
    "fence [ ! fill fence ] mma": "",
    "fence [ fill ! fence ] mma": NO_FENCE,
}


@pytest.mark.parametrize("words", FENCES)
def test_a_fence_in_front_of_products(words: str) -> None:
    assert said(fenced(KERNEL, (agent(words, MEANS),))) == FENCES[words]
    right = agent("fence mma", MEANS, 1)
    found = fenced(KERNEL, (right, agent(words, MEANS)))
    wrong = FENCES[words]
    assert (found.name, said(found)) == ("wgmma.fence", wrong)
    assert found.subject == (str(agent("", MEANS)) if wrong else "k")


WRITES = "frag.load_global writes {}, which a wgmma in flight may read"
READS = WRITES.format("x")
SOURCES = {
    "x commit 0 write": "",
    "x write": READS,
    "x commit write": READS,
    "x commit 1 write": READS,
    "x 0 write": READS,
    "x commit other": "",
    "mma commit write": None,
    "mma x commit mma commit 1 write": "",
    "x commit mma commit 2 write": READS,
    "x commit mma commit 3 write": READS,
    "mma commit x commit 1 write": READS,
    "x commit mma commit mma commit 1 write": "",
    "x commit mma commit mma commit 2 write": "",
    "part half commit write": READS,
    "part half commit 0 write": "",
    "part rows top commit write": READS,
    "part rows top commit 0 write": "",
    "part rows x commit part": "",
    "[ write x commit ]": READS,
    "[ write x commit 0 ]": "",
    "( write x commit )": READS,
    "x commit ? 0 ] write": READS,
    "write x mma x commit write": READS,
}


@pytest.mark.parametrize("words", SOURCES)
def test_operands_that_products_still_read(words: str) -> None:
    found = [*kept((agent("mma commit", MEANS, 1), agent(words, MEANS)))]
    load = FragLoadGlobal.OP
    wanted = SOURCES[words]
    if wanted is None:
        assert found == []
        return
    (claim,) = found
    assert (claim.name, claim.subject) == ("registers of operands", str(agent("", MEANS)))
    assert said(claim) == wanted.replace("frag.load_global", load)


@pytest.mark.parametrize(("front", "right"), [("x commit", False), ("x commit 0", True)])
def test_what_a_loop_carries_is_written_at_each_trip(front: str, right: bool) -> None:
    begin, end = Frag("begin", TYPE), Frag("end", TYPE)
    loop = For(Var("i"), ZERO, Var("n"), (), carries=(Carry(X, begin, end),), yields=(begin,))
    (claim,) = kept((Agent("r", None, (0,), 0, (*body(front, MEANS), loop)),))
    wrong = "loop i writes x, which a wgmma in flight may read"
    assert said(claim) == ("" if right else wrong)
    index = For(Var("i"), ZERO, Var("n"), (), carries=(Carry(Var("x"), ZERO, Var("e")),),
                yields=(ZERO,))  # fmt: skip
    (claim,) = kept((Agent("r", None, (0,), 0, (*body(front, MEANS), index)),))
    assert said(claim) == ""


def grids(*programs: str, cluster: int = 1, dependent: bool = True) -> list[str]:
    maps = tuple(TensorMap(n, DType.BF16, (ONE, ONE), early=n == "E") for n in "TE")
    kernel = Kernel("k", 128, ONE, (), maps, (), cluster=cluster, dependent=dependent)
    warps = [agent(w, MEANS, n, n * cluster // len(programs)) for n, w in enumerate(programs)]
    found: list[Obligation] = [*waited(kernel, tuple(warps))]
    assert all(o.name == "griddepcontrol.wait" for o in found)
    return [said(o) for o in found]


def test_grids_in_front() -> None:
    """Nobody touches global memory before the wait, and in each CTA somebody waits on each path."""
    before = [f"{TmaLoad.OP} before the wait"]
    assert grids("load", dependent=False) == []
    assert grids("grids load") == grids("grids load", "fill") == [""]
    assert grids("load grids") == grids("? grids ] load") == grids("fill load", "grids") == before
    assert grids("grids other", "fill") == grids("early", "grids next") == [""]
    assert grids("grids", "next") == [f"{GridDepLaunchDependents.OP} before the wait"]
    none = "no warp of CTA {} waits on every path"
    assert grids("early") == grids("fill") == grids("? grids ]") == ["", none.format(0)]
    assert grids("? grids ]", "grids") == [""]
    assert grids("grids", "grids", cluster=2) == [""]
    assert grids("grids", "fill", cluster=2) == ["", none.format(1)]
    assert grids("fill", "grids", "grids", "fill", cluster=2) == [""]
    assert grids("fill", "fill", cluster=2) == ["", none.format(0), none.format(1)]


EARLY = "griddepcontrol.launch_dependents before tensor memory is allocated"
LET_IN = {
    "alloc base grids next": "",
    "alloc grids next base": "",
    "alloc base [ grids ? next ] ]": "",
    "grids next alloc base": EARLY,
    "grids next base": EARLY,
    "grids one next ] base": EARLY,
    "? grids next ] base": EARLY,
    "? base ] next": EARLY,
    "[ base ] next": EARLY,
    "next": EARLY,
    "grids": "",
    "base ( next )": "",
}


@pytest.mark.parametrize("words", LET_IN)
def test_the_next_grid_is_let_in_behind_the_allocation(words: str) -> None:
    """Whose address all warps are given behind a sync, so that they are behind it, too."""
    first = agent("alloc base grids next", MEANS, 1)
    (found,) = let_in(KERNEL, (first, agent(words, MEANS)))
    assert (found.name, said(found)) == ("griddepcontrol.launch_dependents", LET_IN[words])
    assert found.subject == (str(agent("", MEANS)) if LET_IN[words] else "k")
    (found,) = let_in(replace(KERNEL, dependent=False), (first, agent(words, MEANS)))
    assert said(found) == LET_IN[words]  # who launches what is behind does not ask that


def test_without_an_allocation_the_next_grid_may_come_at_any_time() -> None:
    assert [*let_in(KERNEL, (agent("grids next", MEANS), agent("next", MEANS, 1)))] == []
    assert [*let_in(KERNEL, (agent("alloc base grids", MEANS), agent("base", MEANS, 1)))] == []


def test_more_states_than_a_few_are_not_decided() -> None:
    """Groups in flight are one more with each trip."""
    (claim,) = kept((agent("[ x commit ]", MEANS),))
    assert claim.verdict is Verdict.UNPROVED
    assert claim.why == "more than 400 states at the head of a loop"
    many = For(Var("i"), ZERO, Const(65), body("fence", MEANS))
    unrolled = fenced(KERNEL, (Agent("r", None, (0,), 0, (many,)),))
    assert (unrolled.verdict, unrolled.why) == (Verdict.UNPROVED, "a loop of 65 trips")
    few = For(Var("i"), ZERO, Const(64), body("fence", MEANS))
    assert said(fenced(KERNEL, (Agent("r", None, (0,), 0, (few,)),))) == ""
