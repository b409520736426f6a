"""One agent's way through a ring of two stages: programs right and wrong, a table.

Words with a number are about a step of that number: ``f`` and ``e`` wait for it, full and free,
``fc`` acquires for a cluster, ``fr`` nothing, ``E`` and ``F`` arrive, ``Er`` relaxed, ``EF`` and
``FF`` at the first CTA, ``ER`` relaxed; ``X`` announces bytes, ``L`` is a copy by TMA, ``LS`` one
into the next stage, ``CP`` tells of copies, ``st``, ``cp``, ``ld`` and ``mma`` access its stage,
``far`` stores into the first CTA, ``own`` loads from that and ``peer`` from the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from lowering.ground.expr import ONE, ZERO, Const, Var, as_expr
from lowering.kernel.atomic import Atom
from lowering.kernel.cluster import StAsync
from lowering.kernel.cp_async import CpAsync, CpAsyncArrive
from lowering.kernel.nodes import (
    BarSync,
    CtaSync,
    FenceProxyAsync,
    GmemRef,
    LdShared,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierRef,
    MBarrierWait,
    SmemRef,
    Stmt,
    StShared,
    TmaLoad,
    WarpSync,
    Wgmma,
    WgmmaCommit,
    WgmmaWait,
)
from lowering.kernel.operands import CounterRef, NamedBarrierRef
from lowering.kernel.traits import Memory
from lowering.proof.agent import Agent
from lowering.proof.automaton import Automaton
from lowering.proof.linear import Facts
from lowering.proof.loops import follow
from lowering.proof.obligation import RefutedError, UnknownError
from lowering.proof.rings import Ring
from lowering.proof.state import State, Told
from lowering.proof.steps import Steps
from tests.conftest import Golden
from tests.lowering.proof.by_words import ACC, NEXT, V, body

FROM = GmemRef("T", (ZERO, ZERO))


def stage(n: int, buffer: str = "s") -> SmemRef:
    return SmemRef(buffer, Const(n % 2), (ZERO, ZERO))


def bar(array: str, n: int) -> MBarrierRef:
    return MBarrierRef(array, Const(n % 2))


def about(n: int) -> Mapping[str, Stmt]:
    """The words about a step."""
    parity = n // 2 % 2
    empty, full = bar("e", n), bar("f", n)
    means = {
        "f": MBarrierWait(full, Const(parity)),
        "fc": MBarrierWait(full, Const(parity), "acquire.cluster"),
        "fr": MBarrierWait(full, Const(parity), "relaxed.cluster"),
        "e": MBarrierWait(empty, Const(1 - parity)),
        "er": MBarrierWait(empty, Const(1 - parity), "relaxed.cluster"),
        "ec": MBarrierWait(empty, Const(1 - parity), "acquire.cluster"),
        "E": MBarrierArrive(empty),
        "Er": MBarrierArrive(empty, order="relaxed.cluster"),
        "EF": MBarrierArrive(empty, ZERO, "release.cluster"),
        "ER": MBarrierArrive(empty, ZERO, "relaxed.cluster"),
        "F": MBarrierArrive(full),
        "Fr": MBarrierArrive(full, order="relaxed.cluster"),
        "FF": MBarrierArrive(full, ZERO, "release.cluster"),
        "FR": MBarrierArrive(full, ZERO, "relaxed.cluster"),
        "X": MBarrierExpectTx(full, as_expr(64)),
        "X?": MBarrierExpectTx(full),
        "L": TmaLoad(stage(n), FROM, full),
        "LS": TmaLoad(stage(n + 1), FROM, full),
        "LE": TmaLoad(stage(n), FROM, empty),
        "CP": CpAsyncArrive(full),
        "st": StShared(stage(n), V),
        "far": StShared(stage(n), V, ZERO),
        "cp": CpAsync(stage(n), FROM, 64, 8),
        "ld": LdShared(V, stage(n)),
        "own": LdShared(V, stage(n), ZERO),
        "peer": LdShared(V, stage(n), ONE),
        "mma": Wgmma(NEXT, ACC, stage(n), stage(n, "t")),
    }
    return {f"{word}{n}": stmt for word, stmt in means.items()}


MEANS: dict[str, Stmt] = {
    **{word: stmt for n in range(6) for word, stmt in about(n).items()},
    "fence": FenceProxyAsync(),
    "warp": WarpSync(),
    "bar": BarSync(NamedBarrierRef("n", ZERO)),
    "cta": CtaSync(),
    "commit": WgmmaCommit(),
    "w0": WgmmaWait(V, NEXT, 0),
    "w1": WgmmaWait(V, NEXT, 1),
    "w2": WgmmaWait(V, NEXT, 2),
    "w3": WgmmaWait(V, NEXT, 3),
    "other": MBarrierWait(MBarrierRef("z", ZERO), ZERO),
    "OTHER": MBarrierArrive(MBarrierRef("z", ZERO)),
    "bare": TmaLoad(stage(0), FROM),
    "free": StShared(SmemRef("free", ZERO, (ZERO, ZERO)), V),
    "async": StAsync(stage(0), V, bar("f", 0), ONE),
    "atom": Atom(Var("x"), "add", CounterRef("c", ZERO), ONE),
    "f?": MBarrierWait(MBarrierRef("f", Var("n")), ZERO),
    "E?": MBarrierArrive(MBarrierRef("e", Var("n"))),
    "st?": StShared(SmemRef("s", Var("n"), (ZERO, ZERO)), V),
    "ld?": LdShared(V, SmemRef("s", Var("n"), (ZERO, ZERO))),
}  # fmt: skip
BOTH = Memory.SHARED | Memory.SHARED_ASYNC
LOADED = Ring("f", "e", 2, frozenset("st"), True, False, BOTH, frozenset())
STORED = Ring("f", "e", 2, frozenset("st"), False, False, BOTH, frozenset())
READ = Ring("f", "e", 2, frozenset("st"), False, False, Memory.SHARED, frozenset())
COPIED = Ring("f", "e", 2, frozenset("st"), False, True, BOTH, frozenset())
SCOPED = Ring("f", "e", 2, frozenset("st"), True, False, BOTH, frozenset("ef"))
ONE_ARRIVAL: tuple[Told, ...] = ((None, 1),)


def walked(
    words: str, ring: Ring = LOADED, told: tuple[Told, ...] = ONE_ARRIVAL, group: int | None = None
) -> str:
    """What comes of a program."""
    agent = Agent("r", group, (0,), 0, body(words, MEANS))
    facts = Facts(natural=frozenset("n"))
    steps = Steps.of(agent.body, (2,), facts)
    auto = Automaton(agent, steps, (ring,), {"e": frozenset(told)}, follow)
    try:
        way = auto.run(State(facts=facts))
    except RefutedError as e:
        last = e.trace[-1].partition(": ")[2] if e.trace else "nothing"
        return f"{e.name} of {e.ring}: {e.why} behind {last}"
    except UnknownError as e:
        return f"not known: {e}"
    said = [
        f"fill (one {f.one}, told {f.told}, bytes {f.bytes and f.bytes.constant()}, "
        f"{len(f.copies)} copies, stored {sorted(f.stored)})"
        for f in sorted(way.fills.get("f", ()), key=str)
    ]
    said += [f"released by {sorted(r, key=str)}" for r in way.releases.get("f", ())]
    said += [f"first {way.first}"] * bool(way.first) + [f"late {way.late}"] * bool(way.late)
    return "; ".join(said) or "nothing"


READS = """
f0 E0|f0 one E0 ]|f0 ld0 one E0 ]|f0 ld0 warp one E0 ]|f0 ld0 fence one E0 ]
f0 ld0 fence warp one E0 ]|f0 ld0 warp fence one E0 ]|f0 ld0 fence bar one E0 ]
f0 ld0 fence cta one E0 ]|f0 ld0 one fence ] warp one E0 ]|f0 ld0 fence warp ld0 one E0 ]
f0 fence warp one E0 ] f1 ld1 fence warp one E1 ]|f0 f1 one E0 E1 ]|f0 f1 one E1 E0 ]|f1 one E1 ]
f0 one E0 ] f0|f0 one E0 ] f2|f0 f1 f2|f0 f1 one E0 ] f2 one E1 E2 ]|f0|f0 f1 one E0 ]
f0 one E0 E0 ]|f0 one E1 ]|f0 one E0 E1 ]|one f0 ] ld0|one f0 ] warp ld0|one f0 E0 ]
one f0 ld0 warp fence warp E0 ]|one f0 ld0 ]|ld0|f0 ld1|f0 one E0 ] ld0|f0 mma0 one E0 ]
f0 mma0 commit one E0 ]|f0 mma0 commit w0 one E0 ]|f0 mma0 w0 one E0 ]|f0 mma0 commit w1 one E0 ]
f0 mma0 commit f1 mma1 commit w1 one E0 ] w0 one E1 ]
f0 mma0 commit f1 mma1 commit w1 one E0 E1 ]|f0 mma1 one E0 ]
f0 mma0 f1 mma1 commit w0 one E0 E1 ]|f0 mma0 commit mma0 commit w1 one E0 ]
f0 ? one E0 ] ]|f0 ? one E0 ] ] ? one E0 ] ]|other|OTHER|f?|f0 E?|f0 one E0 ] E?|f0 ld?
f0 free one E0 ]|f0 st0|f0 atom one E0 ]|E0 f0 one E0 ]|one E0 E1 ] f0 one E0 ]|? one E0 ] ]
( f0 one E0 ] )|( one E0 ] )|f0 warp ld0 fence warp mma0 commit w0 one E0 ]|E?
one E2 E3 ]|f0 f1 one E0 E1 ] f2 f3 one E2 E3 ] f4 one E4 ]
f0 mma0 commit w0 ld0 fence warp one E0 ]
"""
FILLS = """
one e0 X0 L0 ]|one e0 X0 L0 e1 X1 L1 ]|one e0 L0 X0 ]|one e0 X0 LS0 ]|one X0 L0 ]|one L0 ]
one e0 X1 L0 ]|one e0 X0 L1 ]|one e0 LE0 ]|one e0 bare ]|one e0 X?0 ]|e0 X0|one e0 ] X0
e0 one X0 L0 ]|one e0 X0 L0 ] one e0 X0 L0 ]|one e1 X1 L1 ]|one e2 X2 L2 ]|one e4 X4 L4 ]
one e2 X2 L2 e3 X3 L3 e4 X4 L4 ]|one e0 X0 L0 e2 X2 L2 ]|one e0 X0 L0 L0 ]|one X?0 ]
e0 st0 fence warp one F0 ]|e0 st0 warp one F0 ]|e0 st0 fence one F0 ]|e0 st0 one F0 ]
e0 st0 fence warp F0|e0 st0 fence warp one F0 ] st0|e0 one F0 ] st0 fence warp one F0 ]
e0 st0 fence warp|e0 st1 fence warp one F0 ]|st0|one e0 ] st0 fence warp one F0 ]
one e0 ] warp st0 fence warp one F0 ]|one e0 st0 F0 ]|one e0 st0 fence F0 ]|e0 cp0 CP0|e0 cp0 CP1
one e0 cp0 CP0 ]|e0 st0 CP0|e0 st? one F0 ]|e0 st0 fence warp one F1 ]|one F0 ]|e0 one F? ]
e0 st0 fence warp ( one F0 ] )|e0 ? st0 ] fence warp one F0 ]|e0 st0 far0 fence warp one F0 ]
e0 far0 fence warp one FF0 ]|e0 far0 fence warp one F0 ]|e0 far0 st0 fence warp one F0 FF0 ]
e0 far0 fence warp one FR0 ]|e0 one FR0 ]|e0 ? one F0 ] ]|e0 async
e0 st0 fence warp st0 warp one F0 ]
e0 ld0|e0 cp0 st0 CP0|e0 st0 cp0 CP0|e0 st0 fence warp one F0 ] cp0 CP0|e0 st0 fence warp CP0
"""


def programs(text: str) -> list[str]:
    return [p.strip() for line in text.strip().splitlines() for p in line.split("|")]


@pytest.mark.parametrize("kind", ["loaded", "copied"])
def test_reads(kind: str, golden: Golden) -> None:
    ring = {"loaded": LOADED, "copied": COPIED}[kind]
    assert "\n".join(f"{p}: {walked(p, ring)}" for p in programs(READS)) == golden


@pytest.mark.parametrize("kind", ["loaded", "stored", "read", "copied"])
def test_fills(kind: str, golden: Golden) -> None:
    ring = {"loaded": LOADED, "stored": STORED, "read": READ, "copied": COPIED}[kind]
    known = [p for p in programs(FILLS) if "F?" not in p]
    assert "\n".join(f"{p}: {walked(p, ring)}" for p in known) == golden


def test_releases_of_several_arrivals(golden: Golden) -> None:
    """All that stand anywhere, in any order: by each thread of a warp, at other CTAs."""
    told = {
        "two": ((None, 1), (ZERO, 1)), "threads": ((None, 32),), "none": (), "far": ((ZERO, 1),),
    }  # fmt: skip
    lines = [
        f"{name}, {words}: {walked(words, told=given)}"
        for name, given in told.items()
        for words in programs("""
            f0 one E0 EF0 ]|f0 one EF0 E0 ]|f0 one E0 ]|f0 one E0 E0 ]|f0 E0
            f0 f1 one E0 E1 EF0 EF1 ]
            f0 f1 one E0 EF0 E1 EF1 ]|f0 f1 one E0 E1 EF1 EF0 ]|f0 one EF0 ]|f0 one ER0 ]
            f0 ld0 fence warp one ER0 ]|f0 ld0 fence warp one EF0 ]
            f0 one E0 ] ld0 fence warp one EF0 ]
        """)
    ]
    assert "\n".join(lines) == golden


def test_scopes(golden: Golden) -> None:
    """What is told to a cluster is acquired by waits of its scope."""
    words = "f0 one E0 ]|fc0 one E0 ]|one e0 X0 L0 ]|one ec0 X0 L0 ]"
    assert "\n".join(f"{p}: {walked(p, SCOPED)}" for p in programs(words)) == golden


TOLD = "relaxed.cluster of what threads have stored or loaded"
RELAXED = {
    ("stored", "e0 st0 fence warp one Fr0 ]"): f"fill of f: {TOLD}",
    ("stored", "e0 st0 fence warp one F0 ]"): "",
    ("copied", "e0 cp0 one Fr0 ] CP0"): f"fill of f: {TOLD}",
    ("copied", "e0 cp0 CP0"): "",
    ("loaded", "one e0 X0 L0 Fr0 ]"): "",
    ("read", "f0 ld0 fence warp one Er0 ]"): f"release of f: {TOLD}",
    ("read", "f0 ld0 fence warp one E0 ]"): "",
    ("both", "f0 mma0 commit w0 one Er0 ]"): "",
    ("both", "f0 mma0 commit w0 ld0 fence warp one Er0 ]"): f"release of f: {TOLD}",
    ("stored", "fr0 mma0 commit w0 one E0 ]"): f"step of f: {TOLD}",
    ("loaded", "fr0 mma0 commit w0 one Er0 ]"): "",
    ("loaded", "fr0 ld0 fence warp one E0 ]"): f"step of f: {TOLD}",
    ("mixed", "fr0 mma0 commit w0 one E0 ]"): f"step of f: {TOLD}",
    ("both", "fr0 mma0 commit w0 one E0 ]"): "",
    ("loaded", "one er0 X0 L0 ]"): "",
    ("mixed", "one er0 X0 L0 ]"): "",
    ("mixed", "er0 one X0 L0 ] st0 fence warp one F0 ]"): f"step of f: {TOLD}",
    ("both", "one er0 X0 L0 ]"): f"step of f: {TOLD}",
    ("stored", "er0 st0 fence warp one F0 ]"): f"step of f: {TOLD}",
    ("read", "er0 one F0 ]"): f"step of f: {TOLD}",
    ("stored", "er0 one F0 ]"): "",
    ("stored", "one Er0 Er1 ]"): "",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "words"), RELAXED, ids=map("; ".join, RELAXED))
def test_relaxed_orders(kind: str, words: str) -> None:
    """They hand on what the async proxy has done, and nothing that threads do."""
    products = replace(LOADED, proxies=Memory.SHARED_ASYNC)
    ring = {
        "loaded": products, "stored": replace(products, loaded=False, stored=True),
        "copied": replace(products, loaded=False, copied=True, stored=True), "both": LOADED,
        "mixed": replace(products, stored=True), "read": replace(READ, stored=True),
    }[kind]  # fmt: skip
    wanted = RELAXED[kind, words]
    found = walked(words, ring)
    right = found.startswith(("fill (", "released by", "first"))
    assert found.startswith(f"{wanted} behind") if wanted else right, found


def test_the_stage_of_another_cta_is_not_held() -> None:
    assert walked("f0 own0 fence warp one E0 ]") == "released by [(None, 1)]"
    assert walked("f0 peer0 fence warp one E0 ]") == "not known: ld.shared reads a stage of CTA 1"


def test_steps_that_others_take() -> None:
    """Of a warpgroup it is not wrong, but not known either, that it begins late."""
    late = "waits for step 1, its next one is 0"
    behind = "behind mbarrier.wait f[1], 0"
    assert walked("f1 one E1 ]") == f"step of f: {late} {behind}"
    assert walked("f1 one E1 ]", group=0) == f"step of f: {late} {behind}"
    second = (
        "not known: f: waits for step 1, its next one is 0; who takes those before is not known"
    )
    assert walked("f1 one E1 ]", group=1) == second
    next_ = "waits for step -1, its next one is 2"
    assert walked("f0 f1 one E0 E1 ] f3", group=1) == (
        f"step of f: {next_} behind mbarrier.wait f[1], 1"
    )
    assert walked("one e1 X1 L1 ]", group=1) == (
        "step of f: waits for step -1, its next one is 0 behind mbarrier.wait e[1], 1"
    )


def test_more_steps_than_a_few_are_read() -> None:
    big = Ring("f", "e", 100, frozenset("st"), True, False, BOTH, frozenset())
    waits = tuple(MBarrierWait(MBarrierRef("f", Const(n)), ZERO) for n in range(70))
    for count, wanted in ((65, "step 0 is never released"), (66, "more than 64 steps of f are")):
        agent = Agent("r", None, (0,), 0, waits[:count])
        steps = Steps.of(agent.body, (100,), Facts())
        auto = Automaton(agent, steps, (big,), {}, follow)
        with pytest.raises((RefutedError, UnknownError), match=wanted):
            auto.run(State())


@pytest.mark.parametrize("ring", [STORED, COPIED])
def test_an_arrival_of_copies_tells_of_no_stores(ring: Ring) -> None:
    """Threads fence what they store themselves, and meet, whoever tells of it."""
    for words in ("e0 st0 CP0", "e0 cp0 st0 CP0", "e0 st0 cp0 CP0"):
        why = "no fence.proxy.async behind the stores behind cp.async.mbarrier.arrive.noinc f[0]"
        assert walked(words, ring) == f"fill of f: {why}"
    for words in ("e0 cp0 CP0", "e0 st0 fence warp CP0", "e0 st0 fence warp one F0 ] cp0 CP0"):
        assert walked(words, ring).startswith("fill (one False, told ")


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("e0 cp0 fence warp one F0 ]", False),
        ("e0 cp0 one CP0 ]", False),
        ("e0 cp0 CP0 cp0 fence warp one F0 ]", False),
        ("e0 cp0 st0 fence warp one F0 ]", False),
        ("e0 CP0 cp0 fence warp F0", False),
        ("e0 cp0 fence warp one F0 ] CP0", True),
        ("e0 cp0 CP0 st0 fence warp one F0 ]", True),
        ("e0 cp0 CP0 cp0 CP0", True),
        ("one e0 cp0 CP0 ]", True),
    ],
)
def test_copies_are_told_of_by_their_arrival_alone(words: str, right: bool) -> None:
    """By all threads that copy: any other arrival comes while they are under way."""
    found = walked(words, COPIED)
    assert found.startswith("fill (one ") == right, found
    if not right:
        assert found.startswith("fill of f: copies by cp.async behind the last arrival for them")


@pytest.mark.parametrize("wait", ["w2", "w3"])
def test_a_wait_that_leaves_all_groups_covers_none(wait: str) -> None:
    found = walked(f"f0 mma0 commit f1 mma1 commit {wait} one E0 ] w0 one E1 ]")
    wrong = "step 0 is released while a wgmma may read it behind mbarrier.arrive e[0]"
    assert found == f"release of f: {wrong}"


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("one f0 ] warp fence mma0 commit w0 warp one E0 ]", True),
        ("one f0 ] fence warp mma0 commit w0 warp one E0 ]", False),
        ("f0 fence mma0 commit w0 warp one E0 ]", True),
    ],
)
def test_a_fence_counts_for_threads_that_know_of_the_step(words: str, right: bool) -> None:
    """Of what one thread has waited for the others know when they have met it."""
    assert walked(words, COPIED).startswith("released by ") == right, walked(words, COPIED)


def test_first_arrivals_are_the_same_on_every_path() -> None:
    assert walked("one E0 E1 ]") == "first (('e', 0, (None, 1)), ('e', 1, (None, 1)))"
    assert walked("? one E0 ] ]") == "not known: first arrivals differ from path to path"
