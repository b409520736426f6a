"""Several parts that compute: their nests, on the machine, and in machine code."""

from __future__ import annotations

from functools import lru_cache

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Role, Roles, Section
from lowering.kernel.text import print_kernel
from lowering.machine.adversary import Adversary
from lowering.nest.lower import lower
from tests.legality.by_hand.parts import PARTS, epilogue_of_whole_rows
from tests.legality.machine import compiled, problems, run_wrong
from tests.legality.oracle import tile_of
from tests.passes.products import machine_code_is_clean
from tests.tiers import dealt
from wsched.fusion import Fusion
from wsched.schedule import make_plan
from wsched.schedule.loops import loops_text, side_by_side

MADE = {make.__name__: make for make in PARTS}


@lru_cache
def fusion(name: str) -> Fusion:
    return MADE[name]()


@lru_cache
def kernel(name: str) -> Kernel:
    return compiled(fusion(name))


@pytest.mark.parametrize("name", ["epilogue_apart", "operand_cast"])
def test_nests(name: str, golden: object) -> None:
    """The loops that are dumped, what was proved of the rings, and the kernel before any pass."""
    found = make_plan(fusion(name))
    text = [loops_text(fusion(name)), *map(str, found.relations), print_kernel(lower(found, name))]
    assert "\n".join(text) == golden


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "adversary"), dealt(MADE, ["random", "lazy", "eager"]))
def test_runs_right(name: str, adversary: Adversary) -> None:
    """Odd extents, fewer and more CTAs than tiles, no K."""
    for seed, problem in enumerate(problems(tile_of(fusion(name)))):
        wrong = run_wrong(fusion(name), kernel(name), problem, seed, adversary)
        assert wrong is None


@pytest.mark.sampled
@pytest.mark.parametrize("name", MADE)
def test_machine_code(name: str) -> None:
    assert machine_code_is_clean(kernel(name))


def test_a_statement_stays_in_its_stage() -> None:
    """A loop that steps through the stages is none that only repeats an instruction."""
    made = epilogue_of_whole_rows()
    for problem in problems(tile_of(made)):
        assert run_wrong(made, compiled(made), problem, 0, "random") is None


def test_sections() -> None:
    """One for each part, of as many warpgroups as its loops count."""
    made = lower(make_plan(fusion("operand_and_epilogue_apart")), "apart")
    sections = [(s.name, s.groups) for s in made.body if isinstance(s, Section)]
    assert sections == [
        ("load", 1), ("load", 1), ("transform", 1), ("compute", 1), ("epilogue", 1),
    ]  # fmt: skip
    two = lower(make_plan(fusion("two_products")), "two")
    names = [s.name for s in two.body if isinstance(s, Section)]
    assert names == ["load", "compute", "compute1"]


def test_warps() -> None:
    """Parts one behind the other, loads behind them."""
    (roles,) = (s for s in kernel("operand_cast").body if isinstance(s, Roles))
    assert [(r.name, r.span) for r in roles.roles if isinstance(r, Role)] == [
        ("transform", range(4)), ("compute", range(4, 12)), ("load", range(12, 16)),
    ]  # fmt: skip
    assert kernel("operand_cast").threads == 512


def test_side_by_side(golden: object) -> None:
    """Loads on the left, what computes on the right, part by part."""
    assert side_by_side(fusion("operand_and_epilogue_apart")) == golden
