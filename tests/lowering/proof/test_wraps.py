"""Numbers of 32 bits at the largest sizes that a launch admits: what wraps is named."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from lowering.ground.expr import (
    I32_MAX,
    Binary,
    Const,
    Expr,
    Special,
    Var,
    free_vars,
    maximum,
    select,
)
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.bounds import ANY, Bounds, Range
from lowering.proof.linear import Facts
from lowering.proof.obligation import Obligation, Proof, UnknownError, Verdict
from lowering.proof.prove import prove
from lowering.proof.scalars import program
from lowering.proof.steps import Steps
from lowering.proof.wraps import _Walk, unwrapped
from tests.grouped import FORMS, grouped
from tests.lists import side_by_side
from tests.schedules import SCHEDULES, cooperative, definition, in_tensor_memory
from tests.tiers import in_tiers
from wsched.choose.gpus import gpu_of
from wsched.front.known import import_fusion
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import LARGEST, admitted_by
from wsched.schedule.matmul.params import SupportedVectorization

NAMES = (
    "coop_traversal_odd",
    "cluster_2x2",
    "dynamic",
    "pipelined",
    "split_3_traversal",
    "stream_k",
)


@cache
def made(name: str) -> CompiledFusion:
    return compile_fusion(import_fusion(definition()), SCHEDULES[name])


def claim(name: str, before: str = "", after: str = "", largest: int = LARGEST) -> Obligation:
    """The claim about a kernel whose text is changed."""
    kernel, admitted = made(name).kernel, replace(admitted_by(made(name).plan), largest=largest)
    text = print_kernel(kernel)
    assert before in text
    found = prove(parse_kernel(text.replace(before, after) if before else text), admitted)
    return next(o for o in found.obligations if o.name == "32 bits")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_wraps(name: str) -> None:
    """Of schedules of all kinds."""
    found = claim(name)
    assert found.verdict is Verdict.PROVED, str(found)


WRAPS = {
    "a coordinate": ("cluster_2x2", "T5[(Mc * 2 + ctaM) * 128", "T5[(Mc * 2 + ctaM) * 136", LARGEST,
                     "(Mc * 2 + ctaM) * 136 is in"),
    "tickets": ("dynamic", "next[0], n_tiles + %nctaid.x", "next[0], n_tiles * 99 + %nctaid.x",
                LARGEST, "n_tiles * 99 is in"),
    "steps of k": ("stream_k", "(at + 1) * n_k", "(at + 1) * 8 * n_k", LARGEST, "* n_k is in"),
    "the last part of k": ("split_3_traversal", "", "", I32_MAX,
                           "(%ctaid.z * n_k2 + k2) * 64 is in 715827840..2147483648"),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", WRAPS)
def test_what_wraps(fault: str) -> None:
    """The last one was found by this claim: what a launch admits has some room since."""
    name, before, after, largest, said = WRAPS[fault]
    found = claim(name, before, after, largest)
    assert found.verdict is Verdict.UNPROVED
    assert found.why.startswith("at M = ") and said in found.why


FEW_COLUMNS = {
    "128x16": in_tensor_memory(128, 16, grid_traversal_factor=(8, 1), epilogue_stages=1),
    "128x32": in_tensor_memory(128, 32, grid_traversal_factor=(8, 1), epilogue_stages=1),
    "128x16, Hopper": cooperative(128, 16, traversal=(8, 1)),
    "128x128, Hopper": cooperative(128, 128, traversal=(16, 1)),
}
"""Tiles, and rows of tiles that a group of them has: which number of the last group is divided by
the rows that it has, and a quotient that is large times a divisor that is large would wrap."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", FEW_COLUMNS)
def test_groups_of_tiles(name: str) -> None:
    """What a quotient stands for is no more than what was divided."""
    kernel = compile_fusion(import_fusion(definition()), FEW_COLUMNS[name])
    found = prove(kernel.kernel, admitted_by(kernel.plan))
    assert found.proved, str(found)


@pytest.mark.parametrize("name", ["128x16", "128x16, Hopper"])
def test_on_the_multiprocessors_of_the_target(name: str) -> None:
    """What wraps is said at the CTAs that a launch on such a GPU has."""
    made = compile_fusion(import_fusion(definition()), FEW_COLUMNS[name])
    admitted = replace(admitted_by(made.plan), largest=2**40)
    found = next(o for o in prove(made.kernel, admitted).open if o.name == "32 bits")
    assert f" on {gpu_of(made.kernel.target).sms} CTAs " in found.why


@pytest.mark.slow
def test_lists() -> None:
    """Sizes that are the sum of others are so at the largest, too."""
    kernel = compile_fusion(import_fusion(side_by_side(2)), SCHEDULES["coop_128x128"])
    found = prove(kernel.kernel, admitted_by(kernel.plan))
    assert found.proved, str(found)


@pytest.mark.slow
def test_no_claim_about_unknown_launches() -> None:
    """Of a kernel alone nothing is known of the sizes that it gets."""
    found = prove(made("dynamic").kernel)
    (claim,) = (o for o in found.obligations if o.name == "32 bits")
    assert (claim.verdict, claim.why) == (Verdict.ABSENT, "its launches are not known")
    assert found.proved and claim not in found.open
    count = len(found.obligations) - 1
    assert f": {count} of {count} obligations proved\n" in str(found)
    assert str(found).endswith(f"not claimed 32 bits ({claim.subject}): its launches are not known")
    assert Proof.of_dict(found.to_dict()) == found


@cache
def in_groups(form: str) -> CompiledFusion:
    params = SCHEDULES["exchanged_dynamic" if form == "sums" else "dynamic"]
    if form == "columns":
        vector = SupportedVectorization(1)
        params = replace(params, use_smem_epilogue=False, supported_vec_size=vector)
    return compile_fusion(import_fusion(grouped(ranks=FORMS[form])), params)


def of_groups(form: str, before: str = "", after: str = "") -> Obligation:
    """The claim alone about a grouped matmul whose kernel's text is changed."""
    made = in_groups(form)
    text = print_kernel(made.kernel)
    assert before in text
    kernel = parse_kernel(text.replace(before, after) if before else text)
    ways = {a: Steps.of(a.body, (2, 4), Facts()) for a in agents(kernel)}
    (found,) = unwrapped(kernel, ways, admitted_by(made.plan))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_nothing_wraps_whatever_is_in_memory(form: str) -> None:
    """Nobody has looked at the ends of groups when a kernel begins."""
    found = of_groups(form)
    assert found.verdict is Verdict.PROVED, str(found)


CLAMPED = "min(max(end_read, begin), M)"

IN_MEMORY = {
    "where a group begins": (  # the sum is less than M, but not the first of its sums
        "rows", "first2 - M + end2", "end2 + first2 - M",
        ", of 1065353152, then 2147483647 in memory, role load, warp 8: end2 + first2 is in"),
    "the same in columns": (
        "columns", "first - N + end", "end + first - N", "end + first is in"),
    "an element's number": (
        "rows", "T0[first2 - M + end2 + Mo2 * 128, k2 * 64]",
        "T0[(first2 - M + end2 + Mo2 * 128) * K + k2 * 64, 0]",
        ", of first -2147483648 in memory, role load, warp 8: (first2 - M + end2 + Mo2 * 128) * K"),
    "ends that fall": ("rows", CLAMPED, "min(end_read, M)", "is in"),
    "ends behind the tensor": ("rows", CLAMPED, "max(end_read, begin)", "is in"),
    "tiles of all groups": (
        "rows", "tiles_here: i32 = ceildiv(size, 128)", "tiles_here: i32 = size", "is in"),
    "tiles that are not counted": (
        "rows", "mine: i32 = %ctaid.x ", "mine: i32 = %ctaid.x + %nctaid.x ",
        "mine begins 132..132 ahead of tiles_before"),
    "steps of all groups": (
        "sums", "word4: i32 = max(ceildiv(size, 64), 1)", "word4: i32 = max(size * 2, 1)",
        "steps2 is in"),
}  # fmt: skip


@pytest.mark.parametrize("fault", in_tiers(IN_MEMORY, [*IN_MEMORY][:3]))
def test_what_wraps_for_words_of_memory(fault: str) -> None:
    """Found at sizes that launches admit, and at words that any may have written."""
    form, before, after, said = IN_MEMORY[fault]
    found = of_groups(form, before, after)
    assert found.verdict is Verdict.UNPROVED and said in found.why, str(found)


def test_one_size_is_large_and_the_others_are_nearly_none() -> None:
    """Beside sizes of 4096 no other one is so large that twice of it wraps."""
    found = claim("coop_traversal_odd", "T1[No2 * 64", "T1[No2 * 2 * 64")
    assert found.verdict is Verdict.UNPROVED and "N = 21" in found.why, found.why


X, D = Var("x"), Var("d")
Q, R, REST, Q2, R2 = Var("q"), Var("r"), Var("rest"), Var("q2"), Var("r2")
LETS: dict[Var, Expr] = {
    R: Const(I32_MAX) // maximum(D, 1),
    Q: Binary("mulhi", X, R),
    REST: X - Q * D,
    R2: Const(I32_MAX) // (D - 5),
    Q2: Binary("mulhi", X, R2),
}
RANGES: list[tuple[Expr, Range]] = [
    (X - 5, (-5, 95)),
    (X * D, (0, 700)),
    (X // D, (0, 33)),
    (X % D, (0, 6)),
    (Const(32) % D, (0, 6)),
    (Const(32) % Var("eight"), (0, 7)),  # of sizes in between, too, which are less
    ((X % 4 + 32) % Var("eight"), (0, 7)),
    ((X - 5) % Var("eight"), (-5, 7)),
    ((X - 500) % Var("eight"), (-7, 0)),
    (X % Var("eight"), (0, 7)),
    (Q * D, (0, 100)),
    (Q * Var("eight"), (0, 264)),
    (Q2 * (D - 5), (-198, 198)),
    (Q + select(D <= REST, 1, 0), (0, 33)),
    (select(D <= REST, REST - D, REST), (0, 10)),
    (select(X < D, X, D), (0, 7)),
    (select(X < 200, X, 1000), (0, 100)),
    (select(Const(200) <= X, 1000, X + 1), (1, 101)),
    (Var("unknown"), ANY),
    (Special("lane") * 4, (0, 124)),
]


@pytest.mark.parametrize(("e", "wanted"), RANGES, ids=str)
def test_ranges(e: Expr, wanted: Range) -> None:
    """Of 0 to 100 and of 3 to 7."""
    names = {"x": (0, 100), "d": (3, 7), "eight": (8, 8), "%lane": (0, 31)}
    bounds = Bounds(names, LETS, lambda e, found: None)
    for var, value in LETS.items():
        names[var.name] = bounds.of(value)
    assert bounds.of(e) == wanted


Z = Var("z")


@pytest.mark.parametrize(
    ("e", "wanted"), [(Z - X, (3, 7)), (Z - D, (0, 100)), (Z + X, (3, 207)), (Z, (0, 500))], ids=str
)
def test_ranges_of_what_is_behind_others(e: Expr, wanted: Range) -> None:
    """Of 0 to 500, and the sum of 0 to 100 and 3 to 7: both are known."""
    names = {"x": (0, 100), "d": (3, 7), "z": (0, 500)}
    bounds = Bounds(names, {}, lambda e, found: None, behind={Z: X + D})
    assert bounds.of(e) == wanted


WALKED = """
kernel k threads 32 cluster 1 grid 1 {{
  param n: i32
  param m: i32
  global ends: s32[n]
  shared w: s32[1][1x2] at 0
  counter c[1]
  {body}
}}
"""
MOST = I32_MAX - 8


def walked(body: str, words: dict[str, Range] | None = None, **sizes: Range) -> _Walk:
    """A walk through a program, where ``n`` is 10 and ``m`` 0 to 5 unless told."""
    (agent,) = agents(parse_kernel(WALKED.format(body=body)))
    walk = _Walk(agent, program(agent.body, Steps.of(agent.body, (2,), Facts())))
    walk.begin({"n": (10, 10), "m": (0, 5)} | sizes, {} if words is None else words, None)
    return walk


def trips(inner: str, after: str, head: str = "i in 0 .. n", init: str = "0") -> str:
    return f"for {head} carry (a: i32 = {init} -> b) {{\n{inner}\nyield {after}\n}}"


CARRIED = {
    "what is added": (trips("", "a + 5"), (50, 50)),
    "what is added of two sizes": (trips("", "a + m"), (0, 50)),
    "from a number on": (trips("", "a + 5", init="m"), (50, 55)),
    "the trip": (trips("", "i"), (9, 9)),
    "the trip, of steps": (trips("", "i", "i in 2 .. n step 3"), (8, 8)),
    "the trip, of a few": (trips("", "i", "i in 0 .. m"), (0, 4)),
    "a sum of a few": (trips("", "a + 5", "i in 0 .. m"), (0, 25)),
    "a sum in front of a way out": (trips("break m < i", "a + 5"), (0, 50)),
    "no trip": (trips("", "a + 5", "i in 0 .. 0", "7"), (7, 7)),
    "no trip behind the end": (trips("", "a + 5", "i in 12 .. n", "7"), (7, 7)),
    "one trip": (trips("", "a + 5", "i in 9 .. n", "7"), (12, 12)),
    "two trips": (trips("", "a + i", "i in 8 .. n", "7"), (24, 24)),
    "the smaller one": (trips("", "min(a + 5, 12)"), (10, 12)),
    "a number": (trips("", "3"), (3, 3)),
    "inner trips": (
        trips("for j in 0 .. 3 carry (x: i32 = a -> y) {\nyield x + 2\n}", "y"), (60, 60)),
    "one way of two": (trips("", "select(i < 3, 1, 2)"), (2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIED)
def test_what_a_loop_yields(name: str) -> None:
    """Of the first trip, the last one, and the one before, all in between are known."""
    body, found = CARRIED[name]
    walk = walked(body)
    assert walk.names["b"] == found and not walk.found


TOO_MUCH: list[tuple[str, str, Range]] = [
    (trips(f"let x: i32 = a + {MOST + 1}", "i"), "a", (I32_MAX + 1, I32_MAX + 1)),
    (trips(f"let x: i32 = a + {MOST + 4}", "i", "i in 2 .. n step 3"), "a",
     (I32_MAX + 1, I32_MAX + 1)),
    (trips(f"let x: i32 = i + {MOST}", "0"), "i", (I32_MAX + 1, I32_MAX + 1)),
    (trips(f"let x: i32 = i * {-2**30}", "0"), "i", (-9 * 2**30, -9 * 2**30)),
    (trips(f"let x: i32 = a + {I32_MAX}", "a + 1"), "a", (I32_MAX + 9, I32_MAX + 9)),
    (f"let x: i32 = m + {I32_MAX - 4}", "m", (I32_MAX - 4, I32_MAX + 1)),
    (f"let x: pred = m + {I32_MAX - 4} < n", "m", (I32_MAX - 4, I32_MAX + 1)),
    (f"if n < m + {I32_MAX - 4} {{ let y: i32 = 1 }}", "m", (I32_MAX - 4, I32_MAX + 1)),
    (f"st.word w[0, 0], m + {I32_MAX - 4}", "m", (I32_MAX - 4, I32_MAX + 1)),
    (f"x: i32 = atom inc, c[0], 4 let y: i32 = x + {I32_MAX - 3}", "x",
     (I32_MAX - 3, I32_MAX + 1)),
    (f"for i in 0 .. {I32_MAX} step 2 {{ let y: i32 = i }}", "i", (0, I32_MAX + 1)),
]  # fmt: skip


@pytest.mark.parametrize(("body", "name", "found"), TOO_MUCH)
def test_numbers_that_are_too_much(body: str, name: str, found: Range) -> None:
    """Each is told, with its range; and one less of what is added is not."""
    ((e, told),) = walked(body).found.items()
    assert told == found and name in {v.name for v in free_vars(e)}


@pytest.mark.parametrize("less", [
    trips(f"let x: i32 = a + {MOST}", "i"),
    trips(f"let x: i32 = a + {MOST + 3}", "i", "i in 2 .. n step 3"),
    trips(f"let x: i32 = i + {MOST - 1}", "0"),
    f"let x: i32 = m + {I32_MAX - 5}",
    f"if m < 5 {{ let x: i32 = m + {I32_MAX - 4} }}",
    f"if m < 5 {{ let y: i32 = 1 }} else {{ let x: i32 = m - 5 + {I32_MAX} }}",
    f"if n < m {{ let x: i32 = n * {I32_MAX} }}",
    f"for i in 0 .. 2 {{ break 4 < m let x: i32 = m + {I32_MAX - 4} }}",
    f"x: i32 = atom inc, c[0], 3 let y: i32 = x + {I32_MAX - 3}",
    f"for i in 0 .. {I32_MAX - 1} step 2 {{ let y: i32 = i }}",
])  # fmt: skip
def test_numbers_that_are_not_too_much(less: str) -> None:
    assert not walked(less).found


@pytest.mark.parametrize("after", ["a - 5", f"min(a - {2**30}, 3)"])
def test_what_falls_is_not_followed(after: str) -> None:
    """What becomes less with each trip may be less than any number that is looked at."""
    with pytest.raises(UnknownError, match=r"^a may fall from trip to trip$"):
        walked(trips("", after))
    assert walked(trips("", f"max({after}, 0)")).names["b"][0] == 0


def test_what_branches_know_is_not_known_behind() -> None:
    """Neither of a condition nor of a way out of a loop."""
    wide = f"let x: i32 = m + {I32_MAX - 4}"
    for front in ("if m < 5 { let y: i32 = 1 }", "for i in 0 .. 2 { break 4 < m }"):
        assert walked(f"{front} {wide}").found and not walked(front).found


def test_words_have_the_ranges_of_all_that_is_stored() -> None:
    """Those that nobody has stored are none."""
    words: dict[str, Range] = {}
    walk = walked("st.word w[0, 0], m st.word w[0, 1], n x: i32 = ld.word w[0, 0]", words)
    assert words == {"w": (0, 10)} and walk.names["x"] == (0, 10)
    assert walked("x: i32 = ld.word w[0, 0]").names["x"] == (0, 0)
    assert walked("x: i32 = ld.word w[0, 0]", {"w": (3, 4)}).names["x"] == (3, 4)


@pytest.mark.parametrize("body", [
    "for i in 0 .. n { x: i32 = ld.global.scalar ends[0] y: i32 = ld.global.scalar ends[1] }",
    "for i in 0 .. n { for j in 0 .. m { x: i32 = ld.global.scalar ends[0] } }",
])  # fmt: skip
def test_trips_that_read_several_words_are_not_followed(body: str) -> None:
    with pytest.raises(UnknownError, match="a trip reads several words of memory"):
        walked(body)
