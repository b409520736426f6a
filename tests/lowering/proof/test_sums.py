"""Sums that are read while wgmmas write them: programs, right and wrong, and edited kernels.

Words: ``fill`` makes ``v``, ``mma`` adds to ``v``, which is ``next`` then, ``front`` and ``back``
to eight of its columns, ``other`` to another sum; ``commit`` ends a group, ``0`` to ``3`` wait for
all but so many of ``next``, which is ``done`` then; ``near`` for all but one, and says that
``done`` is in flight still. ``cast`` and ``store`` read ``done``, ``old`` reads ``v``, ``part``
takes columns of ``done`` that ``half`` reads, ``same`` casts it to its own type, which ``read``
reads, ``update`` adds to ``done``, ``left`` multiplies ``done``.
"""

from __future__ import annotations

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Var
from lowering.ground.types import FragmentType
from lowering.kernel.control import Carry, For
from lowering.kernel.nodes import (
    Frag,
    FragCast,
    FragColumns,
    FragFill,
    FragPointwise,
    FragStoreGlobal,
    FragUpdate,
    GmemRef,
    SmemRef,
    Stmt,
    Wgmma,
    WgmmaCommit,
    WgmmaWait,
)
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.proof.agent import Agent
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from lowering.proof.sums import settled
from tests.lowering.proof.by_words import agent, body, said
from tests.lowering.proof.test_prove import kernel_of
from tests.mutants.families import FAMILIES
from tests.on_machine import kernel as scheduled
from tests.schedules import cooperative

SUM = FragmentType(DType.F32, 64, 16)
V, OTHER, DONE, SAME = (Frag(name, SUM) for name in ("v", "w", "done", "same"))
NEXT, MORE = (Frag(name, SUM.flying()) for name in ("next", "more"))
HALF = Frag("part", FragmentType(DType.F32, 64, 8))
A, B = SmemRef("a", ZERO, (ZERO, ZERO)), SmemRef("b", ZERO, (ZERO, ZERO))
TO = GmemRef("T", (ZERO, ZERO))
MEANS: dict[str, Stmt] = {
    "fill": FragFill(V, 0.0),
    "mma": Wgmma(NEXT, V, A, B),
    "front": Wgmma(NEXT, V, A, B, cols=8),
    "back": Wgmma(NEXT, V, A, B, col=8, cols=8),
    "other": Wgmma(MORE, OTHER, A, B),
    "left": Wgmma(MORE, OTHER, DONE, B),
    "commit": WgmmaCommit(),
    "0": WgmmaWait(DONE, NEXT, 0),
    "1": WgmmaWait(DONE, NEXT, 1),
    "2": WgmmaWait(DONE, NEXT, 2),
    "3": WgmmaWait(DONE, NEXT, 3),
    "near": WgmmaWait(Frag("done", SUM.flying()), NEXT, 1),
    "all": WgmmaWait(Frag("rest", SUM), MORE, 0),
    "cast": FragCast(Frag("y", FragmentType(DType.BF16, 64, 16)), DONE),
    "same": FragCast(SAME, DONE),
    "read": FragStoreGlobal(TO, SAME),
    "store": FragStoreGlobal(TO, DONE),
    "old": FragPointwise(Frag("z", SUM), "add", (1.0, V)),
    "part": FragColumns(HALF, DONE, ZERO),
    "half": FragStoreGlobal(TO, HALF),
    "update": FragUpdate(Frag("up", SUM), "add", DONE, (1.0,)),
}

WHY = "{} of {}, which a wgmma in flight may write"
WAITED = WHY.format("wgmma.wait", "done")
PROGRAMS = {
    "mma commit 0 cast": "",
    "mma commit 1 cast": WAITED,
    "mma commit near cast": WHY.format("frag.cast", "done"),
    "mma commit near 0 cast": "",
    "mma commit near store": WHY.format("frag.store_global", "done"),
    "mma commit near part": WHY.format("frag.columns", "done"),
    "mma commit 0 part mma commit half": WHY.format("frag.store_global", "part"),
    "mma commit 0 same mma commit read": WHY.format("frag.store_global", "same"),
    "mma commit near update": WHY.format("frag.update", "done"),
    "mma commit near left": WHY.format("wgmma", "done"),
    "mma commit old": WHY.format("frag.pointwise", "v"),
    "mma commit fill": WHY.format("frag.fill", "v"),
    "mma 0 cast": WAITED,  # of no group yet
    "mma commit other commit 1 cast": "",
    "other commit mma commit 1 cast": WAITED,
    "mma commit other commit 2 cast": WAITED,
    "mma commit other commit 3 cast": WAITED,
    "mma commit front": "wgmma of columns 0 to 7, while one in flight writes 0 to 15",
    "back commit mma": "wgmma of columns 0 to 15, while one in flight writes 8 to 15",
    "front back front commit back commit 0 cast": "",
    "mma commit 0 front commit 0 cast": "",
    "mma other commit 1 cast": WAITED,
    "mma other commit all cast": "",
    "mma mma commit mma commit 0 cast": "",
    "[ mma commit near ] 0 cast": "",
    "[ mma commit near ] cast": WHY.format("frag.cast", "done"),
    "[ mma commit near ! 0 ] cast": WHY.format("frag.cast", "done"),
    "mma commit ? 0 ] cast": WHY.format("frag.cast", "done"),
    "( mma commit near ) 0 cast": "",
    "fill cast": None,
}  # fmt: skip


@pytest.mark.parametrize("words", PROGRAMS)
def test_what_a_wait_covers(words: str) -> None:
    """Of any agent the first that is wrong; of kernels without products nothing is claimed."""
    found = [*settled("k", (agent("fill cast", MEANS, 1), agent(words, MEANS)))]
    wrong = PROGRAMS[words]
    if wrong is None:
        assert found == []
        return
    (claim,) = found
    subject = str(agent("", MEANS)) if wrong else "k"
    assert (claim.name, claim.subject, said(claim)) == ("sums in flight", subject, wrong)


@pytest.mark.parametrize(("wait", "wrong"), [("near", "begin"), ("near 0", "")])
@pytest.mark.parametrize("read", ["begin", "end"])
def test_what_a_loop_carries_is_in_one_place(wait: str, wrong: str, read: str) -> None:
    begin, end = Frag("begin", SUM), Frag("end", SUM.flying())
    carries = Carry(Frag("v", SUM.flying()), begin, end), Carry(Var("i"), ZERO, Var("j"))
    loop = For(Var("k"), ZERO, Var("n"), body(f"mma commit {wait}", MEANS), carries=carries,
               yields=(DONE, ZERO))  # fmt: skip
    store = FragStoreGlobal(TO, Frag(read, SUM))
    (claim,) = settled("k", (Agent("r", None, (0,), 0, (loop, store)),))
    assert said(claim) == (WHY.format("frag.store_global", read) if wrong else "")


def test_groups_without_end_are_not_decided() -> None:
    (claim,) = settled("k", (agent("[ mma commit ]", MEANS),))
    assert (claim.verdict, claim.why) == (
        Verdict.UNPROVED, "more than 400 states at the head of a loop",
    )  # fmt: skip


def open_claims(text: str, *edits: tuple[str, str]) -> set[str]:
    """The claims that are open of an edited kernel that declares its sums as it should."""
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return {o.name for o in prove(parse_kernel(text)).open}


RELEASE = """elect {
            mbarrier.arrive ring_empty[stage_k]
          }
"""
EARLIER = "select({0} < 1, {0} + 2, {0} - 1)"


def test_a_promotion_of_a_sum_in_flight() -> None:
    """Released a step later, so nothing but the sum is read too early."""
    text = print_kernel(FAMILIES["8 bits"]["fp8_pingpong"]().kernel)
    first, last = (
        f"if {when} {{ elect {{ mbarrier.arrive ring_empty[{EARLIER.format(stage)}] }} }}\n"
        for when, stage in (("0 < k", "stage_k"), ("0 < n_k", "stage_k_end"))
    )
    wait = "wgmma.wait sum_k96, "
    behind = "        t9: frag<f32, 64x32> = frag.pointwise mul, total, t14\n"
    edits = (
        (f"{wait}0\n          {RELEASE}", f"{wait}1\n{first}"),
        (behind, f"rest_done: frag<f32, 64x32> = wgmma.wait rest, 0\n{last}{behind}"),
    )
    assert open_claims(text, *edits) == {"sums in flight"}
    for old, new in edits:
        text = text.replace(old, new)
    (problem,) = verify(parse_kernel(text))
    assert problem.startswith("sum is settled, with 1 groups pending")


def test_an_epilogue_in_front_of_the_last_wait() -> None:
    text = print_kernel(kernel_of("coop_128x128"))
    wait = "        total: frag<f32, 64x128> = wgmma.wait total_async, 0\n"
    released = text[text.index(wait) + len(wait) : text.index("        for chunk in 0 .. 2 unroll")]
    done = "done: frag<f32, 64x128> = wgmma.wait total, 0\n"
    behind = "        yield total, stage_k_end, parity_k_end"
    edits = (
        (wait + released, wait.replace(", 0", ", 1")),
        (behind, done + released + behind.replace("total", "done")),
    )
    assert open_claims(text, *edits) == {"sums in flight"}


@pytest.mark.parametrize("second", [False, True])
def test_of_two_sums_each_is_read_behind_its_groups(second: bool) -> None:
    """Both are of the last group, which one wait covers; another one alone does not."""
    text = print_kernel(FAMILIES["several products"]["gated"]().kernel)
    lines = text.splitlines()
    waits = [n for n, s in enumerate(lines) if "wgmma.wait" in s and s.endswith("_async, 0")]
    assert len(waits) == 2
    for n in waits[: 2 - second]:
        lines[n] = lines[n].replace("_async, 0", "_async, 1")
    found = {o.name for o in prove(parse_kernel("\n".join(lines))).open}
    assert "sums in flight" in found


def test_a_stage_of_three_groups_that_is_released_one_too_early() -> None:
    """Of three groups in flight the oldest one's stage is free behind the fourth."""
    text = print_kernel(scheduled(cooperative(128, 64, stages=5, in_flight=3)).kernel)
    assert prove(parse_kernel(text)).proved
    begin, end = text.index("if 2 < n_k {"), text.index("if 1 < n_k {")
    wrong = (text[:begin] + text[end:]).replace("if 2 < k {", "if 1 < k {")
    here = "select(stage_k < 3, stage_k + 2, stage_k - 3)"
    assert wrong.count(here) == 1
    wrong = wrong.replace(here, "select(stage_k < 2, stage_k + 3, stage_k - 2)")
    (first, *_) = prove(parse_kernel(wrong)).open
    assert "is released while a wgmma may read it" in str(first)
