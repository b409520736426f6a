"""Which launches are followed: so many CTAs as something in a kernel is made for, and one more."""

from __future__ import annotations

import re

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import UnknownError
from lowering.proof.prove import prove
from lowering.proof.sizes import Group, grids_of, groups_of, listed, lists_of, units_of
from tests.mutants.subjects import subject

TEXT = print_kernel(subject("coop_2_stages").kernel)
APART = {
    "%nctaid.x + %nctaid.x // 4": 4,
    "min(%nctaid.x, 3)": 3,
    "select(%nctaid.x < 4, %nctaid.x, 3)": 4,
    "select(4 < %nctaid.x, 3, %nctaid.x)": 4,
    "%nctaid.x - %nctaid.x // 5": 5,
}


@pytest.mark.parametrize("apart", APART)
def test_ctas_that_are_apart_only_where_there_are_many(apart: str) -> None:
    """Tiles of a CTA are as far apart as there are CTAs, at all numbers of them below one."""
    before = "* %nctaid.x + %ctaid.x"
    assert TEXT.count(before) == 2, "a load and a compute loop"
    kernel = parse_kernel(TEXT.replace(before, f"* ({apart}) + %ctaid.x"))
    assert grids_of(kernel) == {APART[apart]}
    found = prove(kernel, subject("coop_2_stages").admitted)
    assert any(o.name == "results" for o in found.open), found


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        ("min({}, 20)", "T5[2560.."),
        ("select(20 <= {}, 19, {})", "T5[2432.."),
        ("min({}, 100)", "dealt out in groups of 100 tiles, of which at most 32 are followed"),
    ],
)
def test_a_tile_that_is_cut_at_a_number(cut: str, why: str) -> None:
    """Beyond all tiles that would be followed otherwise; or nothing is said."""
    bound = re.compile(r"(let Mo2?: i32 = )(.*)")
    text = bound.sub(lambda m: m[1] + cut.replace("{}", f"({m[2]})"), TEXT)
    found = prove(parse_kernel(text), subject("coop_2_stages").admitted)
    assert any(o.name == "results" and why in o.why for o in found.open), found


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        ("select(K < 2000, K, 2000)", "at M = 129, N = 257, K = 4161 on 3"),
        ("min(K, 1000000)", "K is dealt out in groups of 15625 tiles, of which at most 32 are"),
    ],
)
def test_a_size_that_is_cut_at_a_number(cut: str, why: str) -> None:
    """Of more elements than all tiles that would be followed have."""
    before = "let n_k: i32 = ceildiv(K, 64)"
    assert before in TEXT
    kernel = parse_kernel(TEXT.replace(before, f"let n_k: i32 = ceildiv({cut}, 64)"))
    found = prove(kernel, subject("coop_2_stages").admitted)
    assert any(o.name == "operands" and why in o.why for o in found.open), found


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        ("min({}, limit)", "gets 0 .. 1280 of 0 .. 2625 of K"),
        ("select(limit < {}, limit, {})", "gets 0 .. 1280 of 0 .. 2625 of K"),
        ("20 - max(20 - {}, 0)", "gets 0 .. 1280 of 0 .. 2625 of K"),
        ("{} - max({} - limit, 0)", "gets 0 .. 1280 of 0 .. 2625 of K"),
        ("{} - select({} == limit, 1, 0)", "gets 0 .. 1216 of 0 .. 1280 of K"),
        ("{} - select({} - 20 == 0, 1, 0)", "gets 0 .. 1216 of 0 .. 1280 of K"),
        ("{} - select(K == 1000, 1, 0)", "K is compared with 1000, a size that is not looked at"),
    ],
)
def test_a_sum_that_is_cut_at_a_number(cut: str, why: str) -> None:
    """Whatever stands for the number, and wherever it stands."""
    before = "let n_k: i32 = ceildiv(K, 64)"
    assert TEXT.count(before) == 1
    after = f"let limit: i32 = 20 let n_k: i32 = {cut.replace('{}', 'ceildiv(K, 64)')}"
    found = prove(parse_kernel(TEXT.replace(before, after)), subject("coop_2_stages").admitted)
    assert any(o.name == "operands" and why in o.why for o in found.open), found


def test_more_ctas_than_are_followed() -> None:
    """A number that is a dividend is nothing that CTAs are many of."""
    for apart, grids in (("min(%nctaid.x, 5000)", {5000}), ("5000 // max(%nctaid.x, 1)", set())):
        kernel = parse_kernel(TEXT.replace("* %nctaid.x +", f"* {apart} +"))
        assert grids_of(kernel) == grids
    kernel = parse_kernel(TEXT.replace("* %nctaid.x +", "* min(%nctaid.x, 5000) +"))
    why = "5000 CTAs may do otherwise than more of them, of which at most"
    assert any(why in o.why for o in prove(kernel).open)


KERNEL = """
kernel k threads 128 cluster {cluster} splits {splits} grid {grid} {{
  param N: i32
  param M: i32
  tensormap T: bf16[M, N] box 64x32 clipped swizzle 64
  global G: bf16[M, N]
  global ends: s32[N]
  shared s: bf16[1][64x32] swizzle 64 at 0
  mbarrier f[1] arrivals 1 at 4096
  let rows: i32 = ceildiv(M, 16)
  {body}
}}
"""


WORD = "w: i32 = ld.global.scalar ends[0] let end: i32 = min(max(w, 0), M)"


def kernel_of(body: str = "", grid: str = "1", cluster: int = 1, splits: int = 1) -> Kernel:
    return parse_kernel(KERNEL.format(body=body, grid=grid, cluster=cluster, splits=splits))


@pytest.mark.parametrize(
    ("body", "grid", "grids"),
    [
        ("", "1", set[int]()),
        ("let x: i32 = (%nctaid.x + 1) // 4", "1", {4}),
        ("let x: i32 = (%nctaid.x + 1) // 4 // 2", "1", {4, 2}),
        ("let x: i32 = %nctaid.x let y: i32 = x % 6", "1", {6}),
        ("let x: pred = 7 <= 2 * %nctaid.x", "1", {4}),
        ("let x: pred = %nctaid.x - 7 < 0", "1", {7}),
        ("let seven: i32 = 7 let x: pred = %nctaid.x < seven", "1", {7}),
        ("let x: pred = 2 <= %nctaid.x", "1", {2}),
        ("let x: pred = 1 <= %nctaid.x", "1", set()),
        ("let x: pred = %nctaid.x + %ctaid.x < 7", "1", set()),
        ("let x: pred = %nctaid.x + N < 7", "1", set()),
        ("let x: i32 = %nctaid.y // 7", "1", set()),
        ("let x: i32 = %nctaid.x * 7 + %nctaid.x // 1", "1", set()),
        ("let x: i32 = 9 // max(%nctaid.x, 1)", "1", set()),
        ("", "min(%nctaid.x, 5)", {5}),
    ],
)
def test_numbers_of_ctas(body: str, grid: str, grids: set[int]) -> None:
    """What is made of the number of CTAs alone, beside a number of two or more."""
    assert grids_of(kernel_of(body, grid)) == grids


@pytest.mark.parametrize(
    ("body", "units"),
    [
        ("", {"N": 1, "M": 16}),
        ("let x: i32 = N // 8", {"N": 8, "M": 16}),
        ("let x: i32 = N // 8 let y: i32 = ceildiv(N, 24) + N // 2", {"N": 24, "M": 16}),
        ("let x: i32 = (N + 1) // 8", {"N": 1, "M": 16}),
        ("let x: i32 = N % 8", {"N": 1, "M": 16}),
        (f"{WORD} let x: i32 = ceildiv(end, 24)", {"N": 1, "M": 24}),
        (f"{WORD} let x: i32 = ceildiv(end, 8)", {"N": 1, "M": 16}),
        (f"{WORD} let x: i32 = end % 24", {"N": 1, "M": 16}),
        ("tma.load s[0, 0, 0], T[0, 0], bar=f[0]", {"N": 32, "M": 64}),
        ("cp.async s[0, 0, 0], G[0, 0], 8, 4", {"N": 4, "M": 16}),
        ("copy.tile s[0, 0, 0], G[0, 0], 32, 4", {"N": 4, "M": 32}),
    ],
)
def test_units(body: str, units: dict[str, int]) -> None:
    """The largest number that a parameter is divided by, or that one copy has of it."""
    assert units_of(kernel_of(body)) == units


def groups(body: str, most: int = 7, **of: int) -> set[tuple[str, int, int, bool]]:
    found = groups_of(kernel_of(body, **of), most)
    return {(g.param, g.unit, g.count, g.extent) for g in found}


OF_BOTH = {("N", 1, 9, False), ("M", 16, 9, False)}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("", set()),
        ("let x: i32 = rows // 3", {("M", 16, 3, False)}),
        ("let x: i32 = ceildiv(rows, 3)", {("M", 16, 3, True)}),
        ("let x: i32 = rows % 3", {("M", 16, 3, False)}),
        ("let x: pred = rows < 3", {("M", 16, 3, False)}),
        ("let x: i32 = min(rows, 3)", {("M", 16, 3, False)}),
        ("let x: i32 = rows // 3 // 4", {("M", 16, 3, False), ("M", 48, 4, False)}),
        ("let x: i32 = N // 2 // 3", {("N", 2, 3, False)}),
        ("let x: i32 = select(N < 3, rows, 2) // 5", {("M", 16, 5, False)}),
        ("let x: pred = M < 100", {("M", 16, 7, False)}),
        ("let x: pred = M < 96", set()),
        ("let x: pred = N < 7", {("N", 1, 7, False)}),
        ("let x: pred = N < 6", set()),
        ("let x: i32 = (rows + %ctaid.x) // 9", OF_BOTH),
        ("let x: i32 = (rows + %ctaid.x) // 3", set()),
        ("let x: i32 = (rows + %ctaid.x) // 4", {(p, u, 4, False) for p, u, *_ in OF_BOTH}),
        ("let x: i32 = ceildiv(%ctaid.x, 9)", set()),
        ("let x: pred = %ctaid.x < 9", OF_BOTH),
        ("let x: pred = %ctaid.x < 6", set()),
        ("let nine: i32 = 9 let x: pred = %ctaid.x < nine", OF_BOTH),
        ("let nine: i32 = 9 + 0 * M let x: pred = %ctaid.x < nine", OF_BOTH),
        ("let x: pred = rows - 3 < 0", {("M", 16, 3, False)}),
        ("let x: i32 = 3 - max(3 - rows, 0)", {("M", 16, 3, False)}),
        (
            "let three: i32 = 3 let x: i32 = rows // three // 4",
            {("M", 16, 3, False), ("M", 48, 4, False)},
        ),
        ("let x: i32 = mulhi(rows, 2147483647 // 3)", {("M", 16, 3, False)}),
        ("let x: pred = rows == 3", {("M", 16, 3, False)}),
        ("let x: pred = 2 * rows + 1 == 7", {("M", 16, 3, False)}),
        ("let x: pred = 0 < rows ^ 3", {("M", 16, 3, False)}),
        ("let x: pred = %nctaid.x == 9", set()),
        ("let x: pred = %ctaid.x == 1", set()),
        ("let x: pred = %ctaid.z == 9", OF_BOTH),
        ("for i in 0 .. 20 { let x: pred = i == 9 }", set()),
        ("for i in 0 .. N { let x: pred = i == 9 }", OF_BOTH),
        ("let x: pred = %nctaid.x < 9", set()),
        ("let x: i32 = %ctaid.x // 9 let y: i32 = rows // 9", {("M", 16, 9, False)}),
        ("let x: i32 = %ctaid.x // 9 let y: i32 = min(rows, 9)", OF_BOTH),
        ("for i in 0 .. 20 { let x: i32 = i // 9 }", set()),
        ("for i in 0 .. 20 { let x: pred = i < 9 }", set()),
        ("for i in 0 .. N { let x: i32 = i // 9 }", OF_BOTH),
        ("for i in 0 .. N { let x: pred = i < 9 }", OF_BOTH),
        ("for i in 0 .. 20 { let j: i32 = i * 2 let x: i32 = j // 9 }", set()),
        ("for i in 0 .. 20 { let x: i32 = (i + %ctaid.x) // 9 }", OF_BOTH),
        ("w: i32 = ld.global.scalar ends[0] let x: i32 = (rows + w) // 3", {("M", 16, 3, False)}),
    ],
)
def test_groups_of_tiles(body: str, wanted: set[tuple[str, int, int, bool]]) -> None:
    """Of quotients of parameters, of words beside them; of what is none, where it is large."""
    assert groups(body) == wanted


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("let x: pred = M == 100", "M is compared with 100, a size that is not looked at"),
        ("let x: pred = M - 100 != 0", "M is compared with 100, a size that is not looked at"),
        ("let x: pred = M % 8 == 3", "M % 8 is compared with 3, a size that is not looked at"),
        ("let x: pred = rows * M == 9", "M * rows is compared with 9, a size that is not looked"),
        ("let x: pred = %ctaid.x == 7", "%ctaid.x is compared with 7, of which no size is looked"),
        ("let seven: i32 = 7 let x: pred = %ctaid.x != seven", "%ctaid.x is compared with 7, of"),
        ("let x: pred = rows - %ctaid.x == 7", "%ctaid.x - rows is compared with 7, of which no"),
        ("let x: pred = 2 * %nctaid.x // 3 == 7", "2 * %nctaid.x // 3 is compared with 7, of wh"),
        ("let x: pred = rows * N == 9", "N * rows is compared with 9, of which no size is looked"),
        ("let x: pred = rows == 7 let y: pred = N == 9", "N is compared with 9, of which no size"),
        ("w: i32 = ld.global.scalar ends[0] let x: pred = w == 9", "w is compared with 9, of wh"),
    ],
)
def test_numbers_that_nothing_need_be_at_a_size_that_is_followed(body: str, why: str) -> None:
    with pytest.raises(UnknownError) as e:
        groups(body)
    assert str(e.value).startswith(why)


def test_groups_of_ctas() -> None:
    """CTAs of a cluster and of a place are followed one by one, as are two groups in all tiles."""
    assert groups("let x: i32 = %ctaid.x // 4", most=8) != set()
    assert groups("let x: i32 = %ctaid.x // 4", most=9) == set()
    assert groups("let x: i32 = %ctaid.x // 4") == {(p, u, 4, False) for p, u, *_ in OF_BOTH}
    assert groups("let x: i32 = %ctaid.x // 4", cluster=4) == set()
    assert groups("let x: i32 = %ctaid.x // 4", cluster=2, splits=2) == set()
    assert groups("let x: i32 = %ctaid.x // 4", cluster=2) != set()
    assert groups("let x: pred = %ctaid.x < 9", cluster=10) == set()
    assert groups("let x: pred = %ctaid.x < 9", cluster=3, splits=3) == OF_BOTH


def test_sizes_of_a_group() -> None:
    """Two groups and a rest of two tiles, of which the last is almost empty."""
    assert [(g.one, g.two) for g in (Group("M", 16, n, False) for n in (2, 3, 5))] == [
        (32, 16 * 4 + 1), (48, 16 * 7 + 1), (80, 16 * 11 + 1),
    ]  # fmt: skip


def test_lists() -> None:
    """A list is as long as its parts, each of which begins at a whole unit."""
    names = {"N": 5, "N0": 17, "N1": 16, "Nx": 3, "M": 2}
    assert lists_of(names) == {"N": ["N0", "N1"]}
    assert listed(names, dict.fromkeys(names, 16)) == names | {"N": 48}
    assert listed({"M": 2}, {"M": 16}) == {"M": 2}
