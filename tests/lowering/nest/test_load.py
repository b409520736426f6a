"""Load sections are the nests that are dumped, walked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lowering.ground.expr import Binary, Const, Expr, children
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import For, LoadTile, Produce, Section, TmaLoad
from lowering.kernel.visit import expressions, walk
from lowering.nest.lower import lower
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.legality.agreement import outcome
from tests.legality.builder import Matmul, P, matmul
from wsched import Pipelined
from wsched.fusion import Fusion
from wsched.schedule.loops import loops_text
from wsched.schedule.plan import make_plan


def loads(fusion: Fusion) -> Section:
    """The first load section of a schedule."""
    kernel = lower(make_plan(fusion), "k")
    return next(s for s in kernel.body if isinstance(s, Section) and s.name == "load")


def tiles_by_two_loops(how: Pipelined | None = None) -> Matmul:
    """One CTA for each row of tiles; the loads count columns, pairs of slices of K, and slices."""
    m = matmul()
    m.tile(64, 32, 32)
    m.run(m.every, "Mo", P.BIDx)
    m.split((*m.loads, m.acc), "k", 2, "ko ki")
    m.steps("No ko ki")
    m.stage(4, 2, *(() if how is None else (how,)))
    m.fragments("No", 32)
    m.inline("No")
    return m


def merged_otherwise() -> Fusion:
    """A's loop is made of (rows, columns) and slices, B's of rows and (columns, slices)."""
    m = matmul()
    m.tile(64, 32, 32)
    a, b = m.loads
    m.steps("Mo No k", (a,))
    m.merge((b,), "No k", "rest")
    m.merge((b,), "Mo rest", "all")
    m.stage(4, 2)
    m.fragments("No", 32)
    m.inline("No")
    return m.s.fusion


def ctas_in_another_order() -> Fusion:
    """A has the loop on CTAs outside of the one that steps, B inside of it."""
    m = matmul()
    m.tile(64, 32, 32)
    m.run(m.every, "Mo", P.BIDx)
    m.steps("No k")
    m.order(m.loads[1:], "No·k Mo")
    m.stage(4, 2)
    m.fragments("No", 32)
    m.inline("No")
    return m.s.fusion


@pytest.mark.parametrize("make", [merged_otherwise, ctas_in_another_order])
def test_what_fills_a_stage_together_is_one_nest(make: Callable[[], Fusion]) -> None:
    fusion = make()
    load = loops_text(fusion).split("\ncompute")[0]
    assert load.count("circular buffer 4 stages") == 1
    section = loads(fusion)
    (step,) = (s for s in walk(section.body) if isinstance(s, Produce))
    assert len([s for s in walk(section.body) if isinstance(s, LoadTile)]) == 2
    assert step.ring == "ring"
    said = outcome(fusion)
    assert said.legal and said.ran and said.fault is None


def test_a_section_has_the_loops_that_are_counted() -> None:
    section = loads(tiles_by_two_loops().s.fusion)
    assert [s.var.name for s in walk(section.body) if isinstance(s, For)] == ["No2", "k2"]


def pipelined() -> Kernel:
    fusion = tiles_by_two_loops(Pipelined()).s.fusion
    return run_passes(lower(make_plan(fusion), "k"), LoweringOptions())


def quotients(e: Expr) -> int:
    """Divisions by what is no constant, done as such or by a reciprocal."""
    inside = sum(map(quotients, children(e)))
    match e:
        case Binary("//" | "%", _, Const()):
            return inside
        case Binary("//" | "%" | "ceildiv" | "mulhi"):
            return inside + 1
    return inside


def test_no_step_is_divided_where_consumers_load_for_themselves() -> None:
    """Which step is loaded ahead is counted: nothing in a loop divides."""
    kernel = pipelined()
    loops = [s for s in walk(kernel.body) if isinstance(s, For)]
    inside = [e for loop in loops for s in walk(loop.body) for e in expressions(s)]
    assert any(isinstance(s, TmaLoad) for loop in loops for s in walk(loop.body))
    assert sum(map(quotients, inside)) == 0


@pytest.mark.slow
def test_consumers_that_load_for_themselves_go_through_a_nest() -> None:
    said = outcome(tiles_by_two_loops(Pipelined()).s.fusion)
    assert said.legal and said.ran and said.fault is None
