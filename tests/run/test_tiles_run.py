"""Unusual tiles on the machine: right with tails, whatever the layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.prove import prove
from tests.on_machine import NUMPY, Problem, exact, operands, run
from tests.schedules import definition
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import ClusterDims, GemmTile, MatmulParams
from wsched.schedule.matmul.tiles import tile_choice

TILES = [
    # m, n, k, (groups, ping-pong, side by side), layout, result, cluster
    (192, 96, 32, (3, False), "tn", "bf16", (1, 1)),
    (192, 136, 64, (2, True), "nn", "f32", (1, 1)),
    (128, 24, 64, (2, False), "tn", "bf16", (1, 1)),
    (64, 24, 32, (2, True), "nn", "bf16", (1, 2)),
    (64, 40, 32, (1, False), "tn", "f32", (1, 1)),
    (256, 80, 32, (2, False), "tt", "bf16", (1, 1)),
    (64, 128, 32, (1, False), "nt", "bf16", (2, 1)),
    (128, 64, 128, (2, True), "tn", "bf16", (2, 1)),
    (64, 64, 128, (1, False), "nt", "f32", (1, 2)),
    (64, 72, 16, (1, False), "tn", "bf16", (1, 1)),
    (64, 32, 96, (1, False), "nt", "bf16", (1, 1)),
    (64, 8, 64, (1, False), "tn", "f32", (1, 1)),
    (64, 8, 64, (2, True), "tn", "bf16", (1, 1)),
    (128, 320, 64, (2, False, 2), "tn", "bf16", (1, 1)),
    (128, 288, 32, (2, False, 2), "tn", "f32", (2, 1)),
    (128, 384, 64, (2, False, 2), "nt", "bf16", (1, 2)),
    (192, 192, 64, (3, False), "tn", "bf16", (1, 1)),
    (128, 128, 64, (4, False, 2), "tt", "bf16", (4, 1)),
    (64, 128, 64, (2, False, 2), "nn", "bf16", (1, 4)),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_integers_are_exact(
    tile: tuple[int, int, int, tuple[int, bool] | tuple[int, bool, int], str, str, tuple[int, int]],
) -> None:
    m, n, k, way, layout, result, cluster = tile
    fusion = import_fusion(definition("bf16", result, layout=layout))
    base = MatmulParams(cluster_dims=ClusterDims(*cluster))
    choice = tile_choice(fusion, base, GemmTile(m, n, k), *way)
    assert choice.reason == ""
    compiled = compile_fusion(fusion, choice.params)
    stages = choice.params.circular_buffer_options.smem_circular_buffer_stage
    ctas = cluster[0] * cluster[1]
    for problem in (
        Problem(2 * m + 8, n + 8, k + 8, ctas),
        Problem(m - 8, 3 * n - 8, (stages + 1) * k, ctas),
    ):
        a, b = operands(problem, "bf16", 1, integer=True)
        d = run(compiled, problem, a, b, result)
        assert np.array_equal(d, exact(a, b).astype(NUMPY[result])), problem


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("tile", "way", "buffers"),
    [
        (GemmTile(192, 96, 32), (3, False), 2), (GemmTile(128, 40, 64), (2, True), 2),
        (GemmTile(64, 56, 32), (1, False), 4),
    ],
    ids=str,
)  # fmt: skip
def test_buffers_that_do_not_divide_the_chunks(
    tile: GemmTile, way: tuple[int, bool], buffers: int
) -> None:
    """Tile after tile, of three, five and seven chunks."""
    fusion = import_fusion(definition("bf16", "bf16"))
    params = replace(
        tile_choice(fusion, MatmulParams(), tile, *way).params, epilogue_stages=buffers
    )
    compiled = compile_fusion(fusion, params)
    problem = Problem(5 * tile.m - 8, 3 * tile.n - 8, tile.k + 8, 2)
    a, b = operands(problem, "bf16", 1, integer=True)
    assert np.array_equal(run(compiled, problem, a, b, "bf16"), exact(a, b).astype(NUMPY["bf16"]))
    assert compiled.proof().proved
    text, wait = print_kernel(compiled.kernel), "bulk.wait {}, read=true\n"
    at = text.index(wait.format(0), text.index(" == 0 {\n", text.index("frag.columns")))
    early = text[:at] + text[at:].replace(wait.format(0), wait.format(buffers - 1), 1)
    assert "stage 0 is written while a store may read it" in str(prove(parse_kernel(early)))
