"""Schedules for an operand that is computed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from tests.computed import by_rows, cast, fusion
from wsched.choose.computed import computing_cycles
from wsched.choose.heuristics import candidates
from wsched.choose.memory import least_bytes
from wsched.choose.problem import Problem
from wsched.fusion import DataType


def problem(text: str, m: int = 16, n: int = 8192, k: int = 8192) -> Problem:
    return Problem.of(fusion(text), {"M": m, "N": n, "K": k}, 132, ())


def test_bytes_are_those_of_memory() -> None:
    p = problem(cast("Int8"))
    assert p.operand_bytes == (16 * 8192 * 2, 8192 * 8192)
    assert p.exchanged.operand_bytes == p.operand_bytes[::-1]
    assert least_bytes(p) == sum(p.operand_bytes) + 16 * 8192 * 2


def test_weights_are_rows_of_tiles() -> None:
    """And warpgroups share a tile; of results of 32 bits, too."""
    for given in ("Int8", "Float"):
        found = candidates(problem(cast(given)))
        assert all(c.params.exchange_operands for c in found)
        assert not any(c.params.ping_pong or c.params.stream_k for c in found)
    assert candidates(replace(problem(cast("Int8")), results=(DataType.Float,)))


def test_half_the_bytes_of_few_rows_take_less_than_widening_first() -> None:
    for m, least in ((16, 1.5), (64, 1.4), (256, 1.0)):
        own = problem(cast("Int8"), m)
        wide = candidates(replace(own, computed=None))[0]
        assert wide.cost.us > least * candidates(own)[0].cost.us


def test_more_work_takes_longer() -> None:
    bare, scaled = problem(cast("Int8"), 64), problem(by_rows("Int8"), 64)
    params = candidates(bare)[0].params
    cycles = [computing_cycles(p.exchanged, params) for p in (bare, scaled)]
    assert 0 < cycles[0] < cycles[1]
    assert computing_cycles(replace(bare, computed=None), params) == 0


def test_no_tile() -> None:
    wide = replace(problem(cast("Float")), n_major=True)
    with pytest.raises(UnsupportedError) as error:
        candidates(wide)
    assert error.value.what == "an operand that is computed from Float, in no legal tile"
