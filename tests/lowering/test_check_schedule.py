"""Legal schedules that the lowering would not follow are refused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lowering.errors import UnsupportedError
from lowering.lower import lower
from tests.schedules import definition
from wsched.api import import_fusion
from wsched.schedule import matmul
from wsched.schedule.params import MatmulParams
from wsched.schedule.schedule import Schedule


def refusal(monkeypatch: pytest.MonkeyPatch, **patches: object) -> UnsupportedError:
    """What ``lower`` says of a schedule made with parts of the matmul scheduler replaced."""
    for name, value in patches.items():
        monkeypatch.setattr(matmul, name, value)
    scheduled = matmul.schedule_matmul(import_fusion(definition()), MatmulParams())
    with pytest.raises(UnsupportedError) as error:
        lower(scheduled, "k")
    assert "The nest is:\n" in error.value.hint
    return error.value


MAIN_LOOP = "one loop over k slices, then [K / 16, M / 64 | Mma: 64, N, 16]"


def test_another_k_of_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(monkeypatch, WGMMA_K_BYTES=64)
    assert error.what == (
        "k16 2 [Serial], m64 1 [Serial], M 64 [Mma], Ni 256 [Mma], K 32 [Mma] inside a k slice"
    )
    assert error.supported == MAIN_LOOP


def test_another_m_of_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(monkeypatch, WGMMA_M=32)
    assert "m64 2 [Serial], M 32 [Mma]" in error.what
    assert error.supported == MAIN_LOOP


def test_no_instruction_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def accumulator(s: Schedule, tv: str, params: MatmulParams) -> None:
        matmul._split_rows(s, tv, params)

    error = refusal(monkeypatch, _schedule_accumulator=accumulator)
    assert error.what == "Mi 64 [Serial], Ni 256 [Serial], Ki 64 [Serial] inside a k slice"


def test_nothing_inlined(monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(monkeypatch, _inline=lambda s, names: None)
    assert error.what == "T4 inlined at 0"
    assert error.supported == "3: accumulated over the k slices of a tile"


def test_the_epilogue_inlined_further_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def inline(s: Schedule, names: matmul._Names) -> None:
        for tv, _ in reversed(list(pairwise(names.epilogue))):
            s.inline_at(tv, 1)
        s.inline_at(names.acc, s.axis(names.acc, "group") + 1)

    error = refusal(monkeypatch, _inline=inline)
    assert error.what == "T8 inlined at 1"
    assert error.supported == "at least 4: stored chunk by chunk"


def test_a_store_from_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = matmul._cache

    def direct(s: Schedule, params: MatmulParams) -> matmul._Names:
        with monkeypatch.context() as patch:
            place = s.set_memory_type
            patch.setattr(s, "cache_before", lambda tv, op=None: tv)
            patch.setattr(s, "set_memory_type", lambda tv, m: place(tv, m) if tv != "T5" else None)
            return cache(s, params)

    error = refusal(monkeypatch, _cache=direct)
    assert error.what == "T5 = cast(T4)"
    assert error.supported.startswith("registers -> StMatrix (16 bits)")
