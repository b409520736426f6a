"""Numbers of 32 bits at the largest sizes that a launch admits: what wraps is named."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from lowering.ground.expr import I32_MAX, Binary, Const, Expr, Special, Var, maximum, select
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.bounds import ANY, Bounds, Range
from lowering.proof.linear import Facts
from lowering.proof.obligation import Obligation, Proof, Verdict
from lowering.proof.prove import prove
from lowering.proof.steps import Steps
from lowering.proof.wraps import unwrapped
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
        "rows", "T0[first2 - M + end2 + Mo2 * 128, ",
        "T0[(first2 - M + end2 + Mo2 * 128) * K, ",
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
