"""Kernels with sums in tensor memory are proved, and broken ones are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.expr import ONE, ZERO, Const, as_expr
from lowering.kernel.nodes import (
    FenceProxyAsync,
    LdShared,
    MBarrierArrive,
    MBarrierRef,
    MBarrierWait,
    SmemRef,
    Stmt,
    WarpSync,
    Wgmma,
    WgmmaCommit,
    WgmmaWait,
)
from lowering.kernel.operands import TmemRef
from lowering.kernel.tensor_memory import (
    Tcgen05Commit,
    Tcgen05Fence,
    Tcgen05Load,
    Tcgen05Mma,
    Tcgen05WaitLoad,
)
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.traits import Memory
from lowering.nest.lower import lower
from lowering.proof.agent import Agent
from lowering.proof.automaton import Automaton
from lowering.proof.linear import Facts
from lowering.proof.loops import follow
from lowering.proof.obligation import RefutedError, UnknownError, Verdict
from lowering.proof.prove import prove
from lowering.proof.rings import Ring
from lowering.proof.state import State
from lowering.proof.steps import Steps
from lowering.proof.tensor_memory import told_by
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.blackwell import Tile, final, plan
from tests.conftest import Golden
from tests.epilogues import RESIDUAL
from tests.lowering.machine.test_tensor_memory import FAULTS, text
from tests.lowering.proof.by_words import ACC, NEXT, V, body
from tests.schedule.matmul.test_tensor_memory import TILES
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.run.counts import admitted_by

OF_VALUES = {
    "a number of columns that is no power of two", "an address that is taken for 0",
    "another quarter of the lanes", "a column outside", "no fence before a stage is given back",
    "no wait for an empty accumulator",
}  # fmt: skip
"""Faults that are none of the protocol's, or that have a test of their own below."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "tile",
    [Tile(), Tile(by_tma=False), Tile(m=256, stages=3), Tile(m=256, stages=3, groups=2, sums=1)],
    ids=["tma", "registers", "two-blocks", "two-warpgroups"],
)
def test_proved(tile: Tile) -> None:
    proof = prove(final(tile), admitted_by(plan(tile)))
    assert proof.proved, proof


@pytest.mark.slow
@pytest.mark.parametrize("name", ["128x256", "queue"])
def test_an_epilogue_with_a_ring_of_its_own_is_proved(name: str) -> None:
    """Also where all its roles read which tile is next."""
    made = compile_fusion(import_fusion(RESIDUAL), TILES[name])
    proof = prove(made.kernel, admitted_by(made.plan))
    assert proof.proved, proof


@pytest.mark.sampled
@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in OF_VALUES])
def test_faults_are_not_proved(fault: str) -> None:
    old, new, _ = FAULTS[fault]
    broken = text().replace(old, new, 1)
    if fault == "a load that is not waited for":
        broken = broken.replace("yield t8_read", "yield t8_flying")
    assert not prove(parse_kernel(broken)).proved


SUMMED = "mbarrier.wait acc_full[stage_tile2], parity_tile2\n"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("        tcgen05.fence before\n        warp.sync\n", "        warp.sync\n",
         "is released without tcgen05.fence before behind its loads"),
        ("        tcgen05.fence before\n        warp.sync\n",
         "        tcgen05.fence before\n",
         "is released before all threads of the warp have read it"),
        ("tcgen05.commit acc_full[stage_tile]", "mbarrier.arrive acc_full[stage_tile]",
         "an arrival, no tcgen05.commit, tells of products"),
        ("tcgen05.commit ring_empty[stage_k]", "mbarrier.arrive ring_empty[stage_k]",
         "is released while products may read it"),
        ("mbarrier.wait acc_empty[stage_tile], parity_tile\n          tcgen05.fence after\n",
         "mbarrier.wait acc_empty[stage_tile], parity_tile\n",
         "no tcgen05.fence after behind the wait for the stage"),
        ("parity_tile2\n        tcgen05.fence after\n", "parity_tile2\n",
         "no tcgen05.fence after behind the wait for sums"),
        ("parity_tile2\n        tcgen05.fence after\n",
         "parity_tile2\n        elect {\n tcgen05.fence after\n }\n",
         "no tcgen05.fence after behind the wait for sums"),
        (f"        {SUMMED}        tcgen05.fence after\n",
         f"elect {{\n {SUMMED} }}\n tcgen05.fence after\n warp.sync\n",
         "no tcgen05.fence after behind the wait for sums"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_fault(old: str, new: str, why: str) -> None:
    assert text().count(old) == 1
    proof = prove(parse_kernel(text().replace(old, new)))
    refuted = [o.why for o in proof.obligations if o.verdict is Verdict.REFUTED]
    assert any(why in w for w in refuted), proof


def cells(n: int) -> TmemRef:
    return TmemRef("cells", Const(n % 2), (ZERO, ZERO))


def stage(n: int, buffer: str = "s") -> SmemRef:
    return SmemRef(buffer, Const(n % 2), (ZERO, ZERO))


def bar(array: str, n: int) -> MBarrierRef:
    return MBarrierRef(array, Const(n % 2))


def about(n: int) -> dict[str, Stmt]:
    """The words about a step: ``f`` and ``se`` wait for operands and for free cells, ``sf`` for
    sums; ``mma`` multiplies, ``other`` into the next cells, ``nobody``'s operands are in no ring;
    ``C`` commits at the sums' barrier, ``R`` at that of free operands, ``R3`` at those of two CTAs;
    ``F`` and ``E`` are arrivals there, ``SE`` one at free cells; ``ld`` loads cells, ``lds`` a
    stage, ``wgmma`` reads one.
    """
    parity = Const(n // 2 % 2)
    means = {
        "f": MBarrierWait(bar("f", n), parity),
        "sf": MBarrierWait(bar("sf", n), parity),
        "se": MBarrierWait(bar("se", n), Const(1 - n // 2 % 2)),
        "mma": Tcgen05Mma(cells(n), stage(n), stage(n, "t"), 64),
        "other": Tcgen05Mma(cells(n + 1), stage(n), stage(n, "t"), 64),
        "nobody": Tcgen05Mma(cells(n), stage(n), stage(n, "u"), 64),
        "C": Tcgen05Commit(bar("sf", n)),
        "R": Tcgen05Commit(bar("e", n)),
        "R3_": Tcgen05Commit(bar("e", n), as_expr(3)),
        "F": MBarrierArrive(bar("sf", n)),
        "E": MBarrierArrive(bar("e", n)),
        "SE": MBarrierArrive(bar("se", n)),
        "ld": Tcgen05Load(V, cells(n)),
        "lds": LdShared(V, stage(n)),
        "wgmma": Wgmma(NEXT, ACC, stage(n), stage(n, "t")),
    }
    return {f"{word}{n}": stmt for word, stmt in means.items()}


MEANS: dict[str, Stmt] = {
    **{word: stmt for n in range(4) for word, stmt in about(n).items()},
    "after": Tcgen05Fence("after"),
    "before": Tcgen05Fence("before"),
    "fence": FenceProxyAsync(),
    "wait": Tcgen05WaitLoad(V, NEXT),
    "warp": WarpSync(),
    "commit": WgmmaCommit(),
    "w0": WgmmaWait(V, NEXT, 0),
}
BOTH = Memory.SHARED | Memory.SHARED_ASYNC
OPERANDS = Ring("f", "e", 2, frozenset("st"), True, False, BOTH, frozenset())
COPIED = replace(OPERANDS, loaded=False, copied=True)
SUMS = Ring("sf", "se", 2, frozenset({"cells"}), False, False, Memory.NONE, frozenset())


def walked(words: str, operands: Ring = OPERANDS, two: bool = False) -> str:
    """What comes of a program; a step of operands is released by one arrival, or by two CTAs'."""
    agent = Agent("r", None, (0,), 0, body(words, MEANS))
    steps = Steps.of(agent.body, (2,), Facts())
    told = {"e": frozenset({(None, 1), (ONE, 1)} if two else {(None, 1)}),
            "se": frozenset({(None, 1)})}  # fmt: skip
    auto = Automaton(agent, steps, (operands, SUMS), told, follow)
    try:
        way = auto.run(State())
    except RefutedError as e:
        last = e.trace[-1].partition(": ")[2] if e.trace else "nothing"
        return f"{e.name} of {e.ring}: {e.why} behind {last}"
    except UnknownError as e:
        return f"not known: {e}"
    assert not auto.committing
    said = [
        f"fill of {ring} (ordered {f.ordered}, issued {f.issued}, told {f.told})"
        for ring, fills in sorted(way.fills.items())
        for f in sorted(fills, key=str)
    ]
    said += [
        f"{ring} released by {sorted('own' if cta is None else str(cta) for cta, _ in told)}"
        for ring, ways in sorted(way.releases.items())
        for told in ways
    ]
    return "; ".join(said) or "nothing"


PRODUCTS = """
one se0 f0 after mma0 R0 C0 ]|one f0 se0 after mma0 R0 C0 ]|one se0 f0 mma0 R0 C0 ]
one se0 after f0 mma0 R0 C0 ]|one after se0 f0 mma0 R0 C0 ]|one se0 f0 after mma0 C0 R0 ]
one se0 f0 after mma0 R0 ]|one se0 f0 after mma0 C0 ]|one se0 f0 after mma0 mma0 R0 C0 ]
one se0 f0 after other0 R0 C0 ]|one se0 f0 after nobody0 R0 C0 ]|one f0 after mma0 R0 C0 ]
one se0 after mma0 C0 ]|one se0 f0 after mma0 R1 C0 ]|one se0 f0 after mma0 R0 C1 ]
one se0 f0 after mma0 E0 C0 ]|one se0 f0 after mma0 R0 F0 ]|one se0 f0 after R0 C0 ]
one se0 f0 after mma0 R0 f1 mma1 R1 C0 ]|one se0 f0 after mma0 f1 R0 R1 C0 ]
one se0 f0 after mma0 f1 R1 R0 C0 ]|one se0 f0 after mma0 R0 C0 se1 f1 after mma1 R1 C1 ]
one se0 f0 after mma0 R0 C0 se1 f1 mma1 R1 C1 ]|se0 f0 after mma0 R0 C0|one f0 E0 ]|one f0 R0 ]
one se0 after F0 ]|f0 lds0 fence warp one R0 ]|f0 lds0 fence warp one E0 ]
one f0 ] se0 after mma0 R0 C0
one se0 f0 ] one after mma0 R0 C0 ]|one se0 f0 ] after one mma0 R0 C0 ]
se0 one f0 after mma0 R0 C0 ]|se0 f0 one after ] mma0 R0 C0
se0 after one f0 mma0 R0 C0 ]
"""
LOADS = """
sf0 after ld0 wait before warp one SE0 ]|sf0 ld0 wait before warp one SE0 ]
after sf0 ld0 wait before warp one SE0 ]|sf0 after ld0 before warp one SE0 ]
sf0 after ld0 before wait warp one SE0 ]|sf0 after ld0 wait warp one SE0 ]
sf0 after ld0 wait warp before one SE0 ]|sf0 after ld0 wait before one SE0 ]
sf0 after ld0 wait one before ] warp one SE0 ]|sf0 after ld0 wait fence warp one SE0 ]
sf0 after ld0 wait before warp|sf0 after ld1 wait before warp one SE0 ]
sf0 after ld0 wait ld0 before warp one SE0 ]|sf0 after ld0 ld0 wait before warp one SE0 ]
sf0 after ld0 wait before warp ld0 one SE0 ]|sf0 after sf1 ld0 wait before warp one SE0 SE1 ]
sf0 sf1 after ld0 ld1 wait before warp one SE0 SE1 ]|one sf0 ] after ld0 wait before warp one SE0 ]
one sf0 ] warp after ld0 wait before warp one SE0 ]|sf0 one SE0 ]|ld0
sf0 one after ] ld0 wait before warp one SE0 ]|one sf0 ] after warp ld0 wait before warp one SE0 ]
one sf0 after ] warp ld0 wait before warp one SE0 ]
sf0 one after ] after ld0 wait before warp one SE0 ]
one sf0 ] after warp after ld0 wait before warp one SE0 ]
sf0 after one after ] ld0 wait before warp one SE0 ]
"""


def programs(text: str) -> list[str]:
    return [p.strip() for line in text.strip().splitlines() for p in line.split("|")]


@pytest.mark.parametrize("what", ["products", "loads"])
def test_ways_through_a_ring_of_sums(what: str, golden: Golden) -> None:
    words = {"products": PRODUCTS, "loads": LOADS}[what]
    assert "\n".join(f"{p}: {walked(p)}" for p in programs(words)) == golden


def test_a_commit_tells_several_ctas() -> None:
    """Of one mask; a step is released once all of them are told."""
    both = walked("one se0 f0 after mma0 R3_0 C0 ]", two=True)
    assert both.endswith("f released by ['1', 'own']")
    assert walked("one se0 f0 after mma0 R0 C0 ]", two=True) == (
        "release of f: step 0 is never released behind tcgen05.commit sf[0]"
    )
    commit = Tcgen05Commit(bar("e", 0), as_expr(5))
    assert [*told_by(commit, 0)] == [None, Const(2)] and [*told_by(commit, 2)] == [ZERO, None]
    assert [*told_by(replace(commit, multicast=None), 2)] == [None]


def test_a_fence_of_tensor_memory_is_none_of_the_async_proxy() -> None:
    """Copies by threads that products read are behind ``fence.proxy.async``."""
    behind = "wgmma0 commit w0 one E0 ]"
    assert walked(f"f0 fence {behind}", COPIED) == "f released by ['own']"
    read = "next: frag<f32, 64x8> = wgmma acc, s[0, 0, 0], t[0, 0, 0]"
    for other in ("", "before", "after", "wait"):
        said = f"read of f: no fence.proxy.async behind the wait behind {read}"
        assert walked(f"f0 {other} {behind}", COPIED) == said


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("one f0 mma0 R0 C0 ]", False),
        ("one fence f0 mma0 R0 C0 ]", False),
        ("one f0 mma0 fence R0 C0 ]", False),
        ("fence f0 one mma0 R0 C0 ]", False),
        ("f0 before after one mma0 R0 C0 ]", False),
        ("f0 fence f1 one other1 R0 R1 C0 ]", False),
        ("f0 fence one mma0 R0 C0 ]", True),
        ("f0 one fence mma0 R0 C0 ]", True),
        ("one f0 fence mma0 R0 C0 ]", True),
        ("one f0 ] fence one mma0 R0 C0 ]", True),
        ("f0 fence warp one mma0 R0 C0 ]", True),
    ],
)
def test_products_of_copies_by_threads_are_behind_a_fence(words: str, right: bool) -> None:
    """Of the proxies, between the wait for the copies and the product, by the thread that issues
    it or by all: ``cp.async`` writes as any store does.
    """
    program = f"se0 after {words}"
    said = walked(program, COPIED)
    assert said.startswith("fill of sf") == right, said
    if not right:
        assert said.startswith("read of f: no fence.proxy.async behind the wait behind tcgen05.mma")
    assert "fence.proxy.async" not in walked(program)  # copies by TMA are of that proxy


def test_a_fence_by_one_thread_is_none_for_a_wgmma_of_all() -> None:
    said = walked("f0 one fence ] wgmma0 commit w0 one E0 ]", COPIED)
    assert said.startswith("read of f: no fence.proxy.async behind the wait")


@pytest.mark.slow
def test_a_kernel_whose_threads_copy_operands() -> None:
    """As the passes make one: its fence is the issuing thread's, its arrivals are all threads'."""
    threads = print_kernel(lower(plan(Tile(threads=True)), "linear"))
    copies = threads.replace("copy.tile", "cp.async").replace("align 4", "align 16")
    right = print_kernel(run_passes(parse_kernel(copies), LoweringOptions()))
    assert prove(parse_kernel(right)).proved
    fence = "parity_k\n              fence.proxy.async\n"
    arrival = "cp.async.mbarrier.arrive.noinc ring_full[stage_k2]\n"
    assert right.count(fence) == right.count(arrival) == 1
    proof = prove(parse_kernel(right.replace(fence, "parity_k\n")))
    found = [(o.name, o.why) for o in proof.open if o.verdict is Verdict.REFUTED]
    assert found == [("read", "no fence.proxy.async behind the wait")], proof
    proof = prove(parse_kernel(right.replace(arrival, f"elect {{\n {arrival} }}\n")))
    found = [(o.name, o.why) for o in proof.open if o.verdict is Verdict.REFUTED]
    assert found[0] == ("fill", "copies by cp.async behind the last arrival for them")
