"""Trips of who reads a grouped matmul's words: as many as those may be, and one for the end."""

from __future__ import annotations

import pytest

from lowering.kernel.control import Let
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.enough import enough
from lowering.proof.linear import Facts
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from tests.lowering.proof.by_words import said
from tests.mutants.subjects import subject

GROUPED = (
    "grouped", "grouped_pingpong", "grouped_cluster", "grouped_columns", "grouped_sums",
    "grouped_delayed", "tensor_memory_grouped",
)  # fmt: skip


def claimed(kernel: Kernel) -> dict[str, tuple[Verdict, str]]:
    """The claim about each buffer of words."""
    found = (o for o in prove(kernel).obligations if o.name == "trips for words")
    return {o.subject: (o.verdict, o.why) for o in found}


@pytest.mark.sampled
@pytest.mark.parametrize("name", GROUPED)
def test_groups(name: str) -> None:
    """Of rows, of columns, and of K, where each group has all tiles."""
    assert claimed(subject(name).kernel) == {"queue_B": (Verdict.PROVED, "")}


def test_no_groups() -> None:
    """Each trip of who stores them is one of who reads them."""
    assert not claimed(subject("dynamic").kernel)


FEW = "trips may not be enough for words of all groups, and an end"

FAULTS = {
    "of a few groups alone": (  # which are all that are followed
        "grouped", "n_tiles + n_No * B", "n_tiles + n_No * min(B, 64)", FEW),
    "a tile for each group": (
        "grouped", "n_tiles + n_No * B", "n_tiles + n_No // 64 + max(n_No, 64) * B - 64 * B", FEW),
    "none for the end": ("grouped", "in 0 .. tiles + 1 carry", "in 0 .. tiles carry", FEW),
    "from the second on": ("grouped", "in 0 .. tiles + 1 carry", "in 1 .. tiles + 1 carry", FEW),
    "every other one": (
        "grouped", "in 0 .. tiles + 1 carry", "in 0 .. tiles + 1 step 2 carry", FEW),
    "of a few groups' sums": ("grouped_sums", "n_tiles * B", "n_tiles * min(B, 64)", FEW),
    "of rows in place of columns": (
        "grouped_columns", "n_tiles + n_Mo * B", "n_tiles + n_No * B", FEW),
    "groups that overlap": (
        "grouped", "min(max(end_read, begin), M)", "max(min(end_read, M), begin - 8)",
        "in all groups is not known"),
    "small groups at another time": (
        "grouped_delayed", "select(size < 64, select(trip < 0, 0,",
        "select(size < 64, select(trip < 1, 0,", "counts in one of two trips alone is not known"),
    "small by what differs from time to time": (
        "grouped_delayed", "select(size < 64,", "select(mine < 64,",
        "counts in one of two trips alone is not known"),
    "other groups the second time": (
        "grouped_delayed", "trip + select(trip < 0, B, 0)", "min(trip + B, B - 1)",
        "counts in one of two trips alone is not known"),
    "that begin elsewhere the second time": (
        "grouped_delayed", "select(group3 < 1, 0, begin)", "begin",
        "counts in one of two trips alone is not known"),
    "tiles from elsewhere": (
        "grouped", "tiles_before: i32 = 0 ", "tiles_before: i32 = B - B + 1 ",
        "the tiles that are dealt out do not begin with the first one"),
    "turns that are not counted": (
        "grouped", "for turn in 0 .. turns ", "for turn in 0 .. turns + 1 ",
        "words are stored that are of no tiles which are dealt out"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_words_that_nobody_reads(fault: str) -> None:
    """The first one of them, and that of sums, had nothing open by any other claim."""
    name, before, after, why = FAULTS[fault]
    text = print_kernel(subject(name).kernel)
    assert before in text
    verdict, said = claimed(parse_kernel(text.replace(before, after)))["queue_B"]
    assert verdict is Verdict.UNPROVED
    assert why in said


def test_more_trips_than_words() -> None:
    text = print_kernel(subject("grouped").kernel)
    more = text.replace("n_tiles + n_No * B", "n_tiles + n_No * B * 2 + K")
    assert claimed(parse_kernel(more)) == {"queue_B": (Verdict.PROVED, "")}


KERNEL = """
kernel k threads 96 cluster 1 grid 1 {
  param B: i32
  param M: i32
  param N: i32
  global ends: s32[B]
  shared w: s32[1][1x1] at 0
  shared v: s32[1][1x1] at 16
  let rows: i32 = ceildiv(M, 64)
  let columns: i32 = ceildiv(N, 16)
  let tiles: i32 = rows * columns + columns * B
  roles {
    role deal warps 0 .. 1 {
      for g in 0 .. B carry (
          begin: i32 = 0 -> begin_end, before: i32 = 0 -> before_end,
          mine: i32 = %ctaid.x -> mine_end, by: i32 = 1 -> by_end
      ) {
        read: i32 = ld.global.scalar ends[g]
        let end: i32 = min(max(read, begin), M)
        let size: i32 = end - begin
        let here: i32 = ceildiv(size, 64) * columns
        let turns: i32 = ceildiv(max(before + here - mine, 0), %nctaid.x)
        for turn in 0 .. turns {
          st.word w[0, 0], g
        }
        yield end, before + here, mine + turns * %nctaid.x, by
      }
      st.word w[0, 0], B
    }
    role read warps 1 .. 2 {
      for trip in 0 .. tiles + 1 {
        word: i32 = ld.word w[0, 0]
        break B <= word
      }
    }
  }
}
"""
HERE, TILES = "here: i32 = ceildiv(size, 64) * columns", "tiles: i32 = rows * columns + columns * B"
PART = f"let {HERE}", f"group.part f: i32, p: i32 of size\nlet {HERE}".replace("(size", "(p")
END = "end: i32 = min(max(read, begin), M)"
BEGIN, BEHIND = (
    ("for g in", "if 0 < N {\nfor g in"),
    ("      st.word w[0, 0], B", "}\nst.word w[0, 0], B"),
)


def small(*changes: tuple[str, str]) -> dict[str, str]:
    """Why the claim about each buffer is open; empty if it is proved."""
    text = KERNEL
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    kernel = parse_kernel(text)
    facts = Facts(
        natural=frozenset(p.name for p in kernel.params),
        defined={s.var.name: s.value for s in kernel.body if isinstance(s, Let)},
    )
    return {o.subject: said(o) for o in enough(agents(kernel), facts)}


def other_loop(trips: int) -> str:
    """A loop that reads words, too."""
    head = f"for t{trips} in 0 .. {trips} {{\nx{trips}: i32 = ld.word w[0, 0]\n"
    return f"{head}break B <= x{trips}\n}}\n"


AS_MANY = {
    "a word for each tile, and an end": [],
    "tiles of 64 that are whole": [(HERE, HERE.replace("ceildiv(size, 64)", "size // 64"))],
    "of whole tiles none is added for each group": [
        (HERE, HERE.replace("ceildiv(size, 64)", "size // 64")),
        (TILES, "tiles: i32 = rows * columns")],
    "of groups that have one row at least": [
        (HERE, "here: i32 = max(ceildiv(size, 64), 1)"), (TILES, "tiles: i32 = rows + 2 * B")],
    "of rows and one more": [
        (HERE, "here: i32 = size + 1"), (TILES, "tiles: i32 = M + B")],
    "a number of tiles in front": [(HERE, "here: i32 = columns * ceildiv(size, 64)")],
    "parts of tiles": [
        (HERE, "here: i32 = ceildiv(ceildiv(size, 8), 8)"), (TILES, "tiles: i32 = rows + B")],
    "parts of tiles and of rows": [
        (HERE, "here: i32 = ceildiv(size, 64) + size"), (TILES, "tiles: i32 = rows + B + M")],
    "rounded up once for all groups": [
        (HERE, "here: i32 = ceildiv(size, 64)"), (TILES, "tiles: i32 = ceildiv(M + 63 * B, 64)")],
    "a kernel's part of a group": [PART],
    "where there are columns": [BEGIN, BEHIND],
    "the same tiles of each group": [
        (HERE, "here: i32 = columns"), (TILES, "tiles: i32 = columns * B")],
    "ends that are compared the other way around": [(END, "end: i32 = min(max(begin, read), M)")],
    "each CTA takes every second one": [("%nctaid.x", "2")],
    "dealt out to one": [("%nctaid.x", "1"), ("%ctaid.x", "0")],
    "another buffer that ends nothing": [
        ("st.word w[0, 0], g", "st.word w[0, 0], g\n          st.word v[0, 0], 0")],
}  # fmt: skip


@pytest.mark.parametrize("name", AS_MANY)
def test_as_many_trips_as_words(name: str) -> None:
    assert small(*AS_MANY[name]) == {"w": ""}


NO_TILES = "words are stored that are of no tiles which are dealt out"
NOT_FROM = "the tiles that are dealt out do not begin with the first one"
TOO_FEW = {
    "none for the end": ([("tiles + 1 {", "tiles {")], f"ceildiv(N, 16) * B {FEW}"),
    "no tile for what a group has beside whole ones": (
        [(TILES, "tiles: i32 = rows * columns")], f"ceildiv(N, 16) + 1 {FEW}"),
    "one tile less for parts of tiles": (
        [(HERE, "here: i32 = ceildiv(ceildiv(size, 8), 8)"), (TILES, "tiles: i32 = rows + B - 1")],
        FEW),
    "one tile less for parts of tiles and of rows": (
        [(HERE, "here: i32 = ceildiv(size, 64) + size"), (TILES, "tiles: i32 = rows + B + M - 1")],
        FEW),
    "rounded up once for nearly all groups": (
        [(HERE, "here: i32 = ceildiv(size, 64)"), (TILES, "tiles: i32 = ceildiv(M + 62 * B, 64)")],
        FEW),
    "where there are columns, none for the end": ([BEGIN, BEHIND, ("tiles + 1 {", "tiles {")], FEW),
    "no row more": (
        [(HERE, "here: i32 = size + 1"), (TILES, "tiles: i32 = M")], FEW),
    "a tile of each group less": (
        [(HERE, "here: i32 = columns"), (TILES, "tiles: i32 = columns * B - columns")], FEW),
    "trips that begin later": ([("trip in 0 ..", "trip in 1 ..")], FEW),
    "every other trip": ([("tiles + 1 {", "tiles + 1 step 2 {")], FEW),
    "of several loops some have fewer, of which the first is said": (
        [("role read", "role few warps 2 .. 3 {\n" + "".join(map(other_loop, (5, 2, 3, 4)))
          + "}\nrole read")], f"2 {FEW}"),
    "some of a group, or less than nothing": (
        [(HERE, HERE.replace("size", "min(read, size)"))], "is not known"),
    "more than a group": ([(HERE, HERE.replace("size", "max(read, 0)"))], "is not known"),
    "some of a group, or one": (
        [(HERE, HERE.replace("size", "max(min(read, size), 1)"))], "is not known"),
    "a part of more than a group": (
        [(PART[0], PART[1].replace("of size", "of size + 64"))], FEW),
    "a part of a group that has a tile for each element": (
        [(PART[0], PART[1].replace("64", "1"))], FEW),
    "parts of no size": ([(HERE, "here: i32 = size // 0")], "is not known"),
    "groups that are counted from the second on": ([("g in 0 ..", "g in 1 ..")], NO_TILES),
    "turns that are counted from the second on": ([("turn in 0 ..", "turn in 1 ..")], NO_TILES),
    "every other group": ([(".. B carry", ".. B step 2 carry")], NO_TILES),
    "turns of another number": ([(".. turns {", ".. turns * 2 {")], NO_TILES),
    "of steps that are carried": (
        [("%nctaid.x, by", "%nctaid.x, by + 1"), ("%nctaid.x", "max(by, 1)")], NO_TILES),
    "of steps that each trip reads": ([("%nctaid.x", "max(read, 1)")], NO_TILES),
    "of steps of the trip's number": ([("%nctaid.x", "max(g, 1)")], NO_TILES),
    "of steps that may be none": ([("%nctaid.x", "N")], NOT_FROM),
    "in front of the first": ([("= %ctaid.x", "= %ctaid.x - 1")], NOT_FROM),
    "tiles from the second on": ([("before: i32 = 0", "before: i32 = 1")], NOT_FROM),
    "so many groups as may be fewer than none": ([("g in 0 .. B", "g in 0 .. B - 1")], NOT_FROM),
    "so many groups as memory says": (
        [("      for g in 0 .. B", "      groups: i32 = ld.global.scalar ends[0]\n      "
          "for g in 0 .. max(groups, 0)")], NOT_FROM),
    "groups that begin further on": ([("begin: i32 = 0", "begin: i32 = 1")], "is not known"),
    "groups that begin in front": ([("begin: i32 = 0", "begin: i32 = 0 - N")], "is not known"),
    "ends that fall": ([(END, "end: i32 = min(read, M)")], "is not known"),
    "ends without an extent": ([(END, "end: i32 = max(read, begin)")], "is not known"),
    "an extent that may be less than none": (
        [(END, END.replace("M)", "M - 8)"))], "is not known"),
    "an extent that memory says": (
        [(END, END.replace("M)", "max(read, 0))"))], "is not known"),
    "tiles that memory says": ([(HERE, f"{HERE} * max(read, 0)")], "is not known"),
    "tiles that may be fewer than none": ([(HERE, f"{HERE} * (N - 1)")], "is not known"),
    "parts that are not counted by a number": (
        [(HERE, "here: i32 = ceildiv(size, columns)")], "is not known"),
    "rows that are taken off": ([(HERE, "here: i32 = size - 1")], "is not known"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_FEW)
def test_fewer_trips_than_words(name: str) -> None:
    changes, why = TOO_FEW[name]
    assert why in small(*changes)["w"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("break B <= word", "let end2: pred = B <= word"),
        ("word: i32 = ld.word w", "word: i32 = ld.word v"),
        (".. turns {", ".. turns unroll {"),
        ("st.word w[0, 0], g", "let x: i32 = g"),
    ],
)
def test_words_that_no_claim_is_about(before: str, after: str) -> None:
    """Of no end of a loop, of another buffer, or of no loop in another one."""
    assert not small((before, after))
