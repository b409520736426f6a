"""Traits of the nodes, and which nodes a stage of the lowering may hold."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_type_hints

import pytest

from lowering.ground.expr import ZERO
from lowering.kernel.nodes import (
    CounterRef,
    GmemRef,
    PartialRef,
    SmemRef,
    Stmt,
    TmaPrefetch,
    TmemRef,
)
from lowering.kernel.stage import Stage
from lowering.kernel.text import parse_kernel
from lowering.kernel.traits import Memory
from lowering.kernel.verify import verify
from lowering.kernel.visit import defined, operands, walk
from lowering.target.hopper import HOPPER
from passes.pipeline import FINAL as BY_TARGET
from passes.pipeline import PIPELINES
from tests.lowering.kernel.samples import ALL_NODES, NODE_KINDS
from tests.lowering.nest.kernels import final, tile_level

FINAL = BY_TARGET[HOPPER.arch]

ORDERS = [[run.__name__ for run in passes] for passes in PIPELINES.values()]
SHARED = Memory.SHARED | Memory.SHARED_ASYNC
TOUCHED = {
    SmemRef: SHARED, TmemRef: Memory.TENSOR, GmemRef: Memory.GLOBAL, CounterRef: Memory.GLOBAL,
}  # fmt: skip


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_traits_name_passes_and_fields(kind: type[Stmt]) -> None:
    traits, names = kind.TRAITS, {f.name for f in fields(kind)}
    filled = {name for _, name in traits.filled}
    marks = {traits.since, traits.until, *filled} - {None}
    orders = [order for order in ORDERS if marks <= {*order}]
    assert orders, f"no target has the passes of {kind.__name__}: {marks}"
    for order in orders:
        first = order.index(traits.since) if traits.since else -1
        assert first < (order.index(traits.until) if traits.until else len(order))
    assert names >= {*traits.consumes, *traits.flying, *(field for field, _ in traits.filled)}
    assert traits.binds == ("out",) or names >= set(traits.binds)


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_a_node_touches_the_memory_that_it_refers_to(kind: type[Stmt]) -> None:
    for hint in get_type_hints(kind).values():
        if (memory := TOUCHED.get(hint)) is not None and kind is not TmaPrefetch:  # nobody sees it
            assert memory & kind.TRAITS.touches
    if PartialRef in get_type_hints(kind).values():
        assert kind.TRAITS.synchronizes or Memory.GLOBAL in kind.TRAITS.touches


def test_what_is_read_and_what_is_bound() -> None:
    """Between them they have every name of a kernel with all kinds of nodes."""
    kernel = parse_kernel(ALL_NODES)
    loop = next(s for s in walk(kernel.body) if s.OP == "for" and len(defined(s)) > 3)
    assert defined(loop) == {"t", "s", "s_end", "wide", "wide_end"}
    assert len([*operands(loop)]) == 3 + 2 + 2 + 1  # bounds, first and next values, tile
    assert {n for s in walk(kernel.body) for n in defined(s)} >= {"n", "k", "g", "wg", "found"}


def text(body: str) -> str:
    return f"""\
kernel k threads 128 cluster 1 grid 1 {{
  param M: i32
  tensormap A: bf16[M, M] box 64x64 swizzle 128
  shared S: bf16[2][64x64] swizzle 128 at 0
  mbarrier full[2] arrivals 1 at 16384
  ring ring(S) stages 2
  roles {{ role all warps 0 .. 4 {{ {body} }} }}
}}
"""


LOAD = "tma.load S[0, 0, 0], A[0, 0], bar=full[0]"


@pytest.mark.parametrize(
    ("body", "stage", "problems"),
    [
        ("release ring, 0", FINAL,
         ["release is left after allocate_mbarriers, in: release ring, 0"]),
        ("release ring, 0", Stage(frozenset({"warp_specialize", "circular_buffer"})), []),
        ("release ring, 0", Stage(frozenset({"warp_specialize"})),
         ["release stands before circular_buffer, in: release ring, 0"]),
        (f"elect {{ {LOAD} }}", FINAL, []),
        (f"elect {{ {LOAD} }}", Stage(frozenset({"warp_specialize"})),
         [f"tma.load stands before swizzle_shared, in: {LOAD}"]),
        ("elect { tma.load S[0, 0, 0], A[0, 0] }", FINAL,
         ["tma.load has no bar after allocate_mbarriers, in: tma.load S[0, 0, 0], A[0, 0]"]),
        ("elect { mbarrier.expect_tx full[0] }", FINAL,
         ["mbarrier.expect_tx has no bytes after expect_tx, in: mbarrier.expect_tx full[0]"]),
        ("elect { mbarrier.expect_tx full[0] }", Stage(FINAL.ran - {"expect_tx"}), []),
    ],
)  # fmt: skip
def test_a_stage_holds_its_nodes(body: str, stage: Stage, problems: list[str]) -> None:
    assert verify(parse_kernel(text(body)), stage) == problems


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (" at 0", "", "S has no offset after allocate_shared"),
        (" at 16384", "", "full has no offset after allocate_shared"),
        ("ring ring", "shared w: s32[1][1] ring ring", "w has no offset after allocate_shared"),
        ("ring ring", "named_barrier n[1] threads 64 ring ring",
         "n has no base after allocate_named_barriers"),
    ],
)  # fmt: skip
def test_a_stage_has_placed_its_storage(old: str, new: str, problem: str) -> None:
    kernel = parse_kernel(text("cta.sync").replace(old, new))
    assert verify(kernel, FINAL) == [problem]
    assert verify(kernel, Stage(frozenset({"warp_specialize", "allocate_mbarriers"}))) == []


def test_without_a_stage_all_levels_may_stand_together() -> None:
    assert verify(parse_kernel(text(f"release ring, 0 elect {{ {LOAD} }}"))) == []


def test_the_two_ends_of_the_lowering() -> None:
    first, last = tile_level("cooperative"), final("cooperative")
    assert verify(first, Stage()) == verify(last, FINAL) == []
    left = {p.split(", in:")[0] for p in verify(first, FINAL)}
    assert left == {
        "T6 has no offset after allocate_shared", "T7 has no offset after allocate_shared",
        "section is left after interleave_loads", "produce is left after circular_buffer",
        "load.tile is left after swizzle_shared", "consume is left after circular_buffer",
        "mma.tile is left after synchronize_wgmma", "store.tile is left after chunk_epilogue",
    }  # fmt: skip
    assert "roles stands before warp_specialize" in {
        p.split(", in:")[0] for p in verify(replace(last, grid=ZERO), Stage())
    }
