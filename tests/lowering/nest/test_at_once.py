"""Loops whose trips are one statement: of what is computed in registers, staged and stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import (
    Consume,
    For,
    FragCast,
    FragColumns,
    MmaTile,
    Section,
    Stmt,
    StoreTile,
)
from lowering.kernel.visit import walk
from lowering.nest.lower import lower
from tests.epilogues import WIDE_RESIDUAL
from tests.legality.agreement import outcome
from tests.legality.builder import ON_TIDY, Matmul, P, matmul
from tests.legality.by_hand.results import one_big_store, residual_in_ring
from tests.lists import side_by_side
from wsched.fusion import Fusion
from wsched.schedule.plan import make_plan


def compute(fusion: Fusion) -> list[Stmt]:
    """The statements of the compute section."""
    kernel = lower(make_plan(fusion), "k")
    (section,) = (s for s in kernel.body if isinstance(s, Section) and s.name == "compute")
    return list(walk(section.body))


def tiles() -> Matmul:
    """64 x 128 tiles dealt out, chunks of 32 columns; nothing of the epilogue is inlined yet."""
    m = matmul()
    m.tile(64, 128, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 2)
    m.fragments("tile", 32)
    m.s.inline_at(m.acc, m.s.axis(m.acc, "tile") + 1)
    return m


def inlined(m: Matmul, *positions: int) -> Fusion:
    """The epilogue's tensors inlined, the last but one first."""
    for tv, position in zip(reversed(m.epilogue[:-1]), reversed(positions), strict=True):
        m.s.inline_at(tv, position)
    return m.s.fusion


def outside_of_chunks() -> Fusion:
    """Each of cast, staging and store goes through the chunks on its own."""
    return inlined(tiles(), 2, 2)


def staged_outside_of_chunks() -> Fusion:
    """Cast and staging share the loop over chunks, the store has its own."""
    return inlined(tiles(), 4, 2)


def cast_outside_of_chunks() -> Fusion:
    """The cast is complete when staging begins, which is chunk by chunk."""
    return inlined(tiles(), 2, 3)


def columns_one_by_one() -> Fusion:
    """Fragments of 64 x 1, in loops over 32 columns."""
    m = tiles()
    for tv in m.epilogue[:-1]:
        m.run((tv,), "N", P.Serial)
        m.split((tv,), "N", 1, "column N")
        m.run((tv,), "N", P.Mma)
        m.order((tv,), "cta tile chunk m64 column")
    return inlined(m, 5, 3)


def rows_one_by_one() -> Fusion:
    """The rows of a fragment are a loop, of the cast one that is unrolled."""
    m = tiles()
    for tv in m.epilogue[:-1]:
        m.run((tv,), "M", P.Unroll if tv == m.epilogue[0] else P.Serial)
    return inlined(m, 4, 3)


def boxes_of_a_row() -> Fusion:
    """What is staged is stored row by row."""
    m = tiles()
    m.run(m.boxed, "Mi", P.Serial)
    return inlined(m, 4, 3)


EVERY = (
    outside_of_chunks, staged_outside_of_chunks, cast_outside_of_chunks, columns_one_by_one,
    rows_one_by_one, boxes_of_a_row, one_big_store,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("make", EVERY)
def test_runs_right(make: Callable[[], Fusion]) -> None:
    said = outcome(make())
    assert (said.fault, said.why) == (None, "")
    assert said.legal and said.ran


def sizes(stmts: list[Stmt], kind: type[FragCast] | type[StoreTile]) -> list[tuple[int, int]]:
    """Rows and columns of each cast or store."""
    found = [s.value.type for s in stmts if isinstance(s, kind)]
    return [(f.rows, f.cols) for f in found]


@pytest.mark.parametrize(
    ("make", "cast", "store", "chunks"),
    [
        (outside_of_chunks, (64, 128), (64, 128), 0),
        (staged_outside_of_chunks, (64, 128), (64, 128), 0),
        (cast_outside_of_chunks, (64, 128), (64, 32), 1),
        (columns_one_by_one, (64, 32), (64, 32), 1),
        (rows_one_by_one, (64, 32), (64, 32), 1),
        (boxes_of_a_row, (64, 32), (64, 32), 1),
        (one_big_store, (128, 64), (128, 64), 0),
    ],
)
def test_what_is_one_statement(
    make: Callable[[], Fusion], cast: tuple[int, int], store: tuple[int, int], chunks: int
) -> None:
    stmts = compute(make())
    assert sizes(stmts, FragCast) == [cast]
    assert sizes(stmts, StoreTile) == [store]
    assert len([s for s in stmts if isinstance(s, For) and s.unroll]) == chunks
    assert any(isinstance(s, FragColumns) for s in stmts) == bool(chunks)


def test_steps_of_a_ring_are_not_taken_at_once() -> None:
    """A matrix comes chunk by chunk; its sum is wanted when all chunks are through."""
    m = residual_in_ring()
    m.inline("group", box="group")
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(m.s.fusion), "k")
    staged = m.epilogue[-2]
    assert error.value.what == f"{staged} inlined at 3"
    assert error.value.supported == "at least 4: read in the loops around it"


def test_columns_that_are_steps_of_another_ring() -> None:
    """A product that has the same columns in parts only repeats an instruction: its parts are
    multiplied at once, and what is added to them comes step by step.
    """
    m = matmul(WIDE_RESIDUAL, ring=True)
    m.tile(128, 64, 32)
    m.deal(runs=True)
    m.share("Mi", 64, "group", P.TIDy)
    m.steps("tile k")
    m.stage(3, 2)
    m.split((m.acc,), "Ni", 32, "chunk Ni")
    m.order(m.compute, "cta tile group")
    m.fragments("group", 32)
    m.order((m.acc,), "cta tile group k chunk")
    m.split(m.rings, "Ni", 32, "chunk Ni")
    m.order(m.rings, "cta tile chunk")
    m.steps("tile chunk", m.rings)
    m.fill(m.rings, 2, 1, ON_TIDY)
    m.inline("group")
    stmts = compute(m.s.fusion)
    assert [(s.col, s.cols) for s in stmts if isinstance(s, MmaTile)] == [(0, 32), (32, 32)]
    (chunks,) = (s for s in stmts if isinstance(s, For) and s.unroll)
    assert [s.ring for s in walk(chunks.body) if isinstance(s, Consume)] == ["aux"]
    assert sizes(list(walk(chunks.body)), FragCast) == [(64, 32)] * 2


def test_not_of_two_tensors_side_by_side() -> None:
    """A box of all chunks of a tile would have parts of several results, each of which is rounded
    up to chunks alone.
    """
    m = matmul(side_by_side(3))
    m.tile(64, 96, 32)
    m.deal("No Mo")
    m.split((m.loads[1],), "Ni", 8, "piece Ni")
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta tile")
    m.fragments("tile", 8)
    m.inline("tile", box="tile")
    with pytest.raises(UnsupportedError) as error:
        compute(m.s.fusion)
    assert str(error.value).startswith(
        "T5 = CpAsyncBulkTensorTile(T8) of 64 x 8 where a warpgroup has staged 64 x 96 is not "
        "supported; supported: boxes of what one warpgroup stages at once"
    )
