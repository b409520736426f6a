"""The heuristic's choices against what was measured on an H200 (design/performance.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.epilogues import GELU, RESIDUAL
from wsched.api import import_fusion
from wsched.fusion import DataType
from wsched.heuristics import (
    SCHEDULES,
    Problem,
    choose_params,
    epilogue_work,
    predicted_us,
    ranked,
)

BF16 = DataType.BFloat16

# Microseconds of each of SCHEDULES, in its order: 11 rounds in random order, 2026-11-21.
MEASURED = {
    (8192, 8192, 8192): (1658.6, 1632.7, 1657.7, 2817.4, 1651.4, 1697.0, 1641.9, 2143.7),
    (4096, 4096, 4096): (210.9, 239.3, 206.1, 323.2, 208.0, 212.8, 234.7, 221.9),
    (4096, 14336, 5120): (914.2, 927.6, 917.4, 1462.5, 897.3, 952.8, 900.6, 931.1),
    (2048, 2048, 2048): (26.4, 38.8, 26.1, 30.5, 26.0, 26.5, 30.8, 27.5),
    (4096, 3584, 512): (31.7, 32.0, 27.7, 32.7, 26.5, 27.4, 28.4, 28.3),
    (512, 8192, 8192): (107.4, 162.3, 107.3, 118.1, 107.5, 111.8, 122.3, 109.8),
    (1024, 4096, 4096): (53.8, 79.6, 53.8, 70.1, 53.7, 54.3, 62.2, 56.0),
    (8192, 8192, 256): (69.5, 78.7, 72.8, 99.9, 67.3, 67.0, 74.6, 77.4),
    (2048, 8192, 1024): (59.1, 68.3, 59.2, 68.0, 58.0, 57.1, 58.8, 59.9),
    (16384, 1024, 2048): (110.3, 125.5, 109.6, 141.9, 106.6, 109.8, 174.4, 124.1),
    (256, 4096, 8192): (83.0, 63.0, 42.8, 29.7, 44.6, 48.1, 35.1, 28.1),
    (128, 8192, 4096): (44.2, 34.4, 24.9, 21.7, 26.6, 29.4, 23.5, 21.2),
}


def problem(m: int, n: int, k: int, work: int = 0) -> Problem:
    return Problem(m, n, k, BF16, (BF16,), 132, work=work)


@pytest.mark.parametrize("shape", MEASURED, ids=str)
def test_the_choice_is_close_to_the_best(shape: tuple[int, int, int]) -> None:
    measured = dict(zip(SCHEDULES, MEASURED[shape], strict=True))
    chosen = min(SCHEDULES, key=lambda s: predicted_us(problem(*shape), s))
    assert min(measured.values()) / measured[chosen] >= 0.96


def test_the_model_fits_where_the_chip_is_full() -> None:
    for shape in ((8192, 8192, 8192), (4096, 4096, 4096), (4096, 14336, 5120)):
        for schedule, us in zip(SCHEDULES, MEASURED[shape], strict=True):
            if (schedule.m, schedule.n) not in ((128, 64), (64, 128)):  # held by shared memory
                assert predicted_us(problem(*shape), schedule) == pytest.approx(us, rel=0.08)


def test_the_parameters_are_those_of_the_best() -> None:
    us, params = ranked(problem(4096, 3584, 512))[0]
    assert params == choose_params(problem(4096, 3584, 512))
    assert params.ping_pong and str(params.output_tile) == "128x128x64"
    assert us == min(predicted_us(problem(4096, 3584, 512), s) for s in SCHEDULES)


def test_an_epilogue_moves_the_choice_to_ping_pong() -> None:
    """Measured at 4096x8192x8192: gelu 0.842 ms cooperative, 0.827 ms ping-pong."""
    shape = (4096, 8192, 8192)
    assert not choose_params(problem(*shape)).ping_pong
    for text in (GELU, RESIDUAL):
        work = epilogue_work(import_fusion(text))
        assert choose_params(problem(*shape, work)).ping_pong


def test_work() -> None:
    assert epilogue_work(import_fusion(GELU)) >= 17
    assert epilogue_work(import_fusion(RESIDUAL)) == 13


def test_as_many_stages_as_fit() -> None:
    for shape in MEASURED:
        for _, params in ranked(problem(*shape)):
            assert 3 <= params.circular_buffer_options.smem_circular_buffer_stage <= 8


def test_results_without_room() -> None:
    many = Problem(512, 512, 512, BF16, (DataType.Float,) * 12, 132)
    assert {p.use_smem_epilogue for _, p in ranked(many)} == {False}
    assert {p.use_smem_epilogue for _, p in ranked(replace(many, results=(BF16,)))} == {True}
    loading = replace(many, results=(DataType.Float,) * 2, inputs=(DataType.Float,) * 3)
    assert {p.use_smem_epilogue for _, p in ranked(loading)} == {True}


@pytest.mark.parametrize(
    ("n", "kind", "smem", "vector"),
    [(1000, BF16, True, 2), (1004, BF16, False, 2), (1004, DataType.Float, True, 2),
     (1001, BF16, False, 1), (1002, DataType.Float, False, 2)],
)  # fmt: skip
def test_rows_that_tma_does_not_store(n: int, kind: DataType, smem: bool, vector: int) -> None:
    """Multiples of 16 bytes go through shared memory, an even number of elements by pairs."""
    params = choose_params(Problem(512, n, 512, BF16, (kind,), 132))
    assert params.use_smem_epilogue is smem
    assert params.supported_vec_size.epilogue == vector


def test_stages_take_what_the_epilogue_leaves() -> None:
    """Ping-pong 128x128: of 226 KiB 64 KiB are four buffers of the epilogue, a stage has 32."""
    plain = Problem(4096, 4096, 4096, BF16, (BF16,), 132)
    stages = [
        next(p.circular_buffer_options.smem_circular_buffer_stage for _, p in ranked(problem)
             if p.ping_pong and p.output_tile.m == p.output_tile.n == 128)
        for problem in (plain, replace(plain, smem_epilogue=False))
    ]  # fmt: skip
    assert stages == [5, 7]


def test_the_width_of_inputs() -> None:
    plain = Problem(512, 1024, 512, BF16, (BF16,), 132)
    assert choose_params(replace(plain, pairs=False)).supported_vec_size.epilogue == 1
    assert choose_params(replace(plain, pairs=False)).use_smem_epilogue
