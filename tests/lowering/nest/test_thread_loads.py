"""Operands that threads load: their nests, on the machine at odd sizes, and in machine code."""

from __future__ import annotations

from functools import lru_cache

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Roles
from lowering.kernel.text import print_kernel
from lowering.machine.adversary import Adversary
from lowering.nest.lower import lower
from tests.legality.agreement import outcome
from tests.legality.builder import P
from tests.legality.by_hand.loads import LOADS, loading, share
from tests.legality.machine import Problem, compiled, run_wrong
from tests.legality.oracle import tile_of
from tests.passes.products import machine_code_is_clean
from wsched.fusion import Fusion, LoadStoreOpType, Pipelined, WarpSpecialized
from wsched.schedule import make_plan
from wsched.schedule.loops import loops_text

MADE = {make.__name__: make for make in LOADS}
SET = LoadStoreOpType.Set


@lru_cache
def fusion(name: str) -> Fusion:
    return MADE[name]()


@lru_cache
def kernel(name: str, vector: int = 1) -> Kernel:
    return compiled(fusion(name), vector)


def odd(name: str) -> tuple[Problem, ...]:
    """Extents of which TMA takes none where threads load both operands."""
    m, n, k = tile_of(fusion(name))
    step = 1 if name in ("both_by_threads", "four_warpgroups", "in_turns") else 8
    ks = [-(-x // step) * step for x in (2 * k + 3, 5 * k - 1, k + 1, 1)]
    return (
        Problem(2 * m + 9, n + 3, ks[0], 2),
        Problem(m - 7, 2 * n + 1, ks[1], 5),
        Problem(4 * m + 1, n, ks[2], 3),
        Problem(1, 1, ks[3], 1),
        Problem(m + 1, n + 5, 0, 2),
    )


def test_nest(golden: object) -> None:
    """The loops that are dumped, what was proved of the ring, and the kernel before any pass."""
    found = make_plan(fusion("b_by_two_warpgroups"))
    text = [loops_text(found.fusion), *map(str, found.relations), print_kernel(lower(found, "b"))]
    assert "\n".join(text) == golden


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["random", "lazy", "eager"])
@pytest.mark.parametrize("name", MADE)
def test_runs_right_at_odd_sizes(name: str, adversary: Adversary) -> None:
    for seed, problem in enumerate(odd(name)):
        assert run_wrong(fusion(name), kernel(name), problem, seed, adversary) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", MADE)
def test_proof_oracle_and_machine_agree(name: str) -> None:
    """By pairs of columns, at the sizes of all other schedules by hand."""
    said = outcome(fusion(name))
    assert (said.fault, said.why) == (None, "")
    assert said.legal and said.ran


@pytest.mark.sampled
@pytest.mark.parametrize("vector", [1, 2])
@pytest.mark.parametrize("name", MADE)
def test_machine_code(name: str, vector: int) -> None:
    assert machine_code_is_clean(kernel(name, vector))


def test_warps() -> None:
    """Those that load have whole warpgroups of their own, and issue the TMA loads as well."""
    (roles,) = (s for s in kernel("b_by_two_warpgroups").body if isinstance(s, Roles))
    assert [(r.name, r.span) for r in roles.roles] == [
        ("load_ring", range(8)), ("compute", range(8, 12)),
    ]  # fmt: skip
    assert kernel("b_by_two_warpgroups").threads == 384


def test_without_a_load_warpgroup() -> None:
    m = loading(SET, SET)
    m.tile(64, 32, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 1, Pipelined())
    m.fragments("tile", 32)
    m.inline("tile")
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(m.s.fusion), "pipelined")
    assert error.value.what.startswith("T6 loaded by threads with Pipelined loads")
    wanted = "WarpSpecialized: threads that load have warps of their own"
    assert error.value.supported == wanted


def test_columns_shared_out() -> None:
    m = loading(SET, SET)
    m.tile(64, 32, 64)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    for tv in m.loads:
        share(m, tv, "Ki", 32)
    m.stage(3, 1, WarpSpecialized(P.TIDy, None, 2))
    m.fragments("tiles", 32)
    m.inline("tiles")
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(m.s.fusion), "columns")
    assert "with 32 of 64 columns to a warpgroup" in error.value.what
    assert error.value.supported == "rows shared out to warpgroups"
