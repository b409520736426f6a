"""Waits that form a circle although each ring by itself is right; and those that need not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.board import Board
from lowering.proof.circles import _half, _left, _of_group, _size, _sizes, _together, circles
from lowering.proof.ends import Ends, Way
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from lowering.proof.sizes import Group, units_of
from tests.conftest import Golden
from tests.lowering.proof.test_prove import kernel_of

TWO_RINGS = """
kernel two threads 256 cluster 1 grid 1 {{
  param N: i32
  tensormap T: bf16[N, 64] box 64x64 clipped swizzle 128
  shared x_s: bf16[3][64x64] swizzle 128 at 0
  shared y_s: bf16[2][64x64] swizzle 128 at 24576
  mbarrier x_full[3] arrivals 1 at 40960
  mbarrier x_empty[3] arrivals 4 at 40984
  mbarrier y_full[2] arrivals 1 at 41008
  mbarrier y_empty[2] arrivals 4 at 41024
  let n: i32 = ceildiv(N, 64)
  on %warp 0 {{
    elect {{
      for i in 0 .. 3 unroll {{
        mbarrier.init x_full[i], 1
        mbarrier.init x_empty[i], 4
      }}
      for j in 0 .. 2 unroll {{
        mbarrier.init y_full[j], 1
        mbarrier.init y_empty[j], 4
      }}
      fence.mbarrier_init
    }}
  }}
  cta.sync
  roles {{
    role load warps 0 .. 4 {{
      on %warp 0 {{
        elect {{
{load}
        }}
      }}
    }}
    role compute warps 4 .. 8 as group {{
{read}
    }}
  }}
  cta.sync
  on %warp 0 {{
    elect {{
      for i2 in 0 .. 3 unroll {{
        mbarrier.inval x_full[i2]
        mbarrier.inval x_empty[i2]
      }}
      for j2 in 0 .. 2 unroll {{
        mbarrier.inval y_full[j2]
        mbarrier.inval y_empty[j2]
      }}
    }}
  }}
}}
"""


STAGES = {"x": 3, "y": 2}


def fill(ring: str, at: str) -> str:
    return f"""
mbarrier.wait {ring}_empty[{at}_{ring}], {at}_{ring}p ^ 1
mbarrier.expect_tx {ring}_full[{at}_{ring}], bytes=min(N, 64) * 128
tma.load {ring}_s[{at}_{ring}, 0, 0], T[{at} * 64, 0], bar={ring}_full[{at}_{ring}]"""


def read(ring: str, at: str) -> str:
    return f"""
mbarrier.wait {ring}_full[{at}_{ring}], {at}_{ring}p
{ring}: frag<bf16, 64x64> = ldmatrix {ring}_s[{at}_{ring}, 0, 0]
fence.proxy.async
warp.sync
elect {{ mbarrier.arrive {ring}_empty[{at}_{ring}] }}"""


def loop(at: str, step: Callable[[str, str], str], *rings: str) -> str:
    """A loop over all steps, which for each takes one of some rings, one after the other."""
    carried = ", ".join(
        f"{at}_{r}: i32 = 0 -> {at}_{r}_end, {at}_{r}p: i32 = 0 -> {at}_{r}p_end" for r in rings
    )
    yields = ", ".join(
        f"select({at}_{r} == {STAGES[r] - 1}, 0, {at}_{r} + 1), "
        f"{at}_{r}p ^ select({at}_{r} == {STAGES[r] - 1}, 1, 0)"
        for r in rings
    )
    steps = "".join(step(r, at) for r in rings)
    return f"for {at} in 0 .. n carry ({carried}) {{{steps}\nyield {yields}\n}}\n"


ORDERS = {
    "step by step": loop("k", fill, "x", "y"),
    "turned around": loop("k", fill, "y", "x"),
    "one ring first": loop("k", fill, "x") + loop("k2", fill, "y"),
}


def two(order: str) -> Kernel:
    return parse_kernel(TWO_RINGS.format(load=ORDERS[order], read=loop("m", read, "x", "y")))


@pytest.mark.parametrize("order", ORDERS)
def test_two_rings(order: str) -> None:
    """Each ring by itself is right in any order; together only where stages suffice."""
    found = prove(two(order)).open
    if order != "one ring first":
        assert not found, found
        return
    (claim,) = found
    assert (claim.name, claim.verdict) == ("circles of waits", Verdict.REFUTED)
    assert claim.why == "at N = 513 on 1 x 1 x 1 CTAs warps wait for each other for ever"
    assert claim.trace[::2] == (
        "CTA 0, role load, warp 0: mbarrier.wait x_empty[k_x], k_xp ^ 1 (k_x = 1, k_xp = 1)",
        "CTA 0, role compute, group 0, warps 4..7: mbarrier.wait y_full[m_y], m_yp "
        "(m_y = 0, m_yp = 0)",
    )


def test_a_grid_that_no_launch_has() -> None:
    """Where N is 0 it cannot be computed: a result without elements is nobody's launch."""
    text = TWO_RINGS.replace("grid 1", "grid ceildiv(N, N)")
    kernel = parse_kernel(text.format(load=ORDERS["step by step"], read=loop("m", read, "x", "y")))
    assert not [o for o in circles(kernel, agents(kernel)) if o.why]


STREAM_K = {
    "others are one fewer": ("- place, 0)", "- place - 1, 0)", 65, "2 x 1 x 1 CTAs counters are"),
    "a first tile waits for itself": (
        "start <= at * per_tile", "start < at * per_tile", 64, "1 x 1 x 1 CTAs counters are",
    ),
    "who does not complete a tile waits": (
        "start <= at * per_tile", "start <= at * per_tile + 1", 65, "2 x 1 x 1 CTAs warps wait",
    ),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", STREAM_K)
def test_stream_k_awaits_those_who_raise(fault: str) -> None:
    """Counters of CTAs whose intervals end within a tile: no other claim says who they are, only
    that a part of a result, or the whole, is missing where one is not waited for.
    """
    before, after, k, said = STREAM_K[fault]
    text = print_kernel(kernel_of("stream_k"))
    assert before in text
    claim, *others = prove(parse_kernel(text.replace(before, after))).open
    assert {o.name for o in others} <= {"results", "operands"}
    assert (claim.name, claim.verdict) == ("circles of waits", Verdict.REFUTED)
    assert claim.why.startswith(f"at M = 128, N = 128, K = {k} on {said}")


def test_what_is_not_understood() -> None:
    """A statement that signals asynchronously is refused, not skipped; and what would have been
    looked at on the way is not proved.
    """
    text = print_kernel(two("step by step")).replace(
        "fence.proxy.async",
        "bulk.copy x_s[0, 0, 0], y_s[0, 0, 0], x_full[0], 0\nfence.proxy.async",
        1,
    )
    kernel = parse_kernel(text)
    found = list(circles(kernel, agents(kernel)))
    assert [o.name for o in found] == ["circles of waits", "results", "operands"]
    assert {(o.verdict, o.why) for o in found} == {
        (Verdict.UNPROVED, "bulk.copy synchronizes, and nothing is known of how")
    }


@pytest.mark.parametrize("waiting", [False, True])
def test_sizes_that_are_looked_at(waiting: bool, golden: Golden) -> None:
    """Of two parameters, one of which is dealt out in groups of three tiles."""
    text = TWO_RINGS.replace("param N: i32", "param N: i32\n  param M: i32").replace(
        "let n: i32 = ceildiv(N, 64)",
        "let n: i32 = ceildiv(N, 64)\n  let m: i32 = ceildiv(M, 16)\n  let g: i32 = m // 3",
    )
    kernel = parse_kernel(text.format(load=ORDERS["step by step"], read=loop("m2", read, "x", "y")))
    units = units_of(kernel)
    lines = [f"units {units}"]
    for size in _sizes(kernel, units, waiting):
        at = ", ".join(f"{n} = {v}" for n, v in size.sizes.items())
        there = ", ".join(f"{n} {v}" for n, v in sorted(size.chosen))
        many = ", many" * size.many
        lines.append(f"{at} on {size.sms}, {size.way.value}{many}, for {there or 'nothing'}")
    assert "\n".join(lines) == golden


def test_units() -> None:
    """So many, of several the last almost empty; two of which the second is half full."""
    assert [_size(n, 64) for n in range(4)] == [0, 64, 65, 129]
    assert [_half(n) for n in (1, 2, 64)] == [2, 4, 97]


@pytest.mark.parametrize(
    ("group", "most", "wanted"),
    [
        (Group("M", 16, 3, False), 8, [(48, 2, 1)]),
        (Group("M", 16, 3, False), 9, [(48, 2, 1), (113, 2, 3)]),
        (Group("M", 16, 5, False), 8, [(80, 2, 1), (177, 2, 3)]),
        (Group("M", 16, 4, False), 8, [(64, 2, 1), (145, 2, 3)]),
        (Group("M", 16, 2, False), 8, [(65, 2, 3)]),
        (Group("M", 16, 8, False), 8, [(273, 2, 3)]),
        (Group("M", 16, 3, True), 8, [(48, 2, 1), (384, 1, 1)]),
    ],
)
def test_sizes_of_groups(group: Group, most: int, wanted: list[tuple[int, int, int]]) -> None:
    assert [*_of_group(group, 16, most)] == wanted


def test_clusters_that_are_followed() -> None:
    """All together where they wait for each other; else each alone, or the first and the last.
    Where they draw tickets these are together, and the last one is first.
    """
    assert _together(5, True, False, False) == [range(5)]
    assert _together(5, False, True, False) == [[0], [1], [2], [3], [4]]
    assert _together(5, False, False, False) == [[0], [4]]
    assert [list(c) for c in _together(3, False, True, True)] == [[2, 1, 0]]
    assert [list(c) for c in _together(3, True, False, True)] == [[2, 1, 0]]
    assert _together(5, False, False, True) == [[4, 0]]
    assert _together(1, False, False, True) == [[0]]


def test_counters_that_are_left() -> None:
    """Each is zero in the end, and one that there is."""
    text = TWO_RINGS.replace("  let n: i32 =", "  counter c[ctas * 2]\n  let n: i32 =")
    kernel = parse_kernel(text.format(load="", read=""))
    for used, said in (
        ({0: 0, 5: 0}, ""), ({6: 0}, "counter 6 of 6 is used, c"), ({-1: 0}, "counter -1 of 6"),
        ({1: 2, 5: 0}, "counters are not zero in the end: c[1]"),
    ):  # fmt: skip
        board = Board(kernel, 3, 1, {"N": 64}, Ends(Way.ONE, 0, 1, {}))
        board.counters.update({("c", n): value for n, value in used.items()})
        assert _left(kernel, board).startswith(said) and bool(_left(kernel, board)) is bool(said)
