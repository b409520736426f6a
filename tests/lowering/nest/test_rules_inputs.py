"""Matrices that the epilogue reads in ways that no rule of the lowering covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.nest.lower import lower
from tests.epilogues import WIDE_RESIDUAL, epilogue
from tests.schedules import cooperative, dynamic
from wsched.front.known import import_fusion
from wsched.fusion import LoadStoreOpType
from wsched.schedule import make_plan
from wsched.schedule.matmul import epilogue_inputs
from wsched.schedule.matmul import scheduler as matmul
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

_TMA = LoadStoreOpType.CpAsyncBulkTensorTile


def input_refusal(monkeypatch: pytest.MonkeyPatch, **patches: object) -> UnsupportedError:
    """What ``lower`` says of a residual read in two stages, parts of the scheduler replaced."""
    for name, value in patches.items():
        monkeypatch.setattr(matmul, name, value)
    scheduled = matmul.schedule_matmul(import_fusion(WIDE_RESIDUAL), cooperative(128, 128))
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(scheduled), "k")
    return error.value


def test_a_matrix_read_by_another_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = matmul.cache_matrix

    def plain(s: Schedule, tv: str) -> str:
        with monkeypatch.context() as patch:
            after = s.cache_after
            patch.setattr(
                s, "cache_after", lambda tv, op=None: after(tv, op) if op is _TMA else after(tv)
            )
            return cache(s, tv)

    error = input_refusal(monkeypatch, cache_matrix=plain)
    assert error.what == "T12 = Set(T11)"
    assert error.supported == (
        "LdMatrix (16 bits) or Set (8 or 32 bits) of what TMA loads into a circular buffer"
    )


def test_a_matrix_read_further_out(monkeypatch: pytest.MonkeyPatch) -> None:
    inline = matmul._inline

    def outside(s: Schedule, names: matmul._Names) -> None:
        inline(s, names)
        s.inline_at("T12", 2)

    error = input_refusal(monkeypatch, _inline=outside)
    assert (error.what, error.supported) == (
        "T12 inlined at 2", "at least 4: read in the loops around it",
    )  # fmt: skip


def test_a_matrix_loaded_with_other_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    step_through = matmul._step_through

    def other(
        s: Schedule, tv: str, last: str, params: MatmulParams, stages: int, prefetch: int
    ) -> None:
        pair = (24, 240) if last == "chunk" else params.num_registers
        step_through(s, tv, last, replace(params, num_registers=pair), stages, prefetch)

    error = input_refusal(monkeypatch, _step_through=other)
    assert error.what == (
        "T11 loaded by WarpSpecialized(on=ParallelType.TIDy, num_registers=(24, 240), "
        "stage_slice_position=2) and the operands by WarpSpecialized(on=ParallelType.TIDy, "
        "num_registers=(40, 232), stage_slice_position=2)"
    )
    assert error.supported == "WarpSpecialized alike"


def test_more_matrices_than_load_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilogue_inputs, "MAX_LOADED", 4)
    names = "rqpo"
    text = epilogue(
        *(f"{n}: [-1, -1]" for n in names),
        *(f"s{n} = fd.ops.add({'y' if n == 'r' else 's' + m}, {n})"
          for m, n in zip("y" + names, names, strict=False)),
        "d = fd.ops.cast(so, dtype=DataType.BFloat16)",
    )  # fmt: skip
    params = replace(cooperative(128, 64, stages=2), num_registers=None)
    scheduled = matmul.schedule_matmul(import_fusion(text), params)
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(scheduled), "k")
    assert str(error.value) == (
        "4 circular buffers beside that of T20, T21 is not supported; supported: 3: each has a "
        "warp of the load warpgroup"
    )


def test_a_matrix_more_than_load_warps_beside_the_one_that_fetches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(epilogue_inputs, "MAX_LOADED", 4)
    text = epilogue("r: [-1, -1]", "q: [-1, -1]", "p: [-1, -1]", "s = fd.ops.add(y, r)",
                    "t = fd.ops.add(s, q)", "u = fd.ops.add(t, p)",
                    "d = fd.ops.cast(u, dtype=DataType.BFloat16)")  # fmt: skip
    params = dynamic(replace(cooperative(128, 64, stages=2), num_registers=None))
    with pytest.raises(UnsupportedError) as error:
        lower(matmul.plan_matmul(import_fusion(text), params), "k")
    assert str(error.value) == (
        "3 circular buffers beside that of T17, T18 is not supported; supported: 2: each has a "
        "warp of the load warpgroup, and one fetches tiles"
    )
