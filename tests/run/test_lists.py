"""Weights of different widths in one kernel, from a definition to results and machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wsched
from lowering.cuda import nvrtc
from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import parse_kernel, print_kernel
from tests.conftest import Golden
from tests.importer.test_build import COLUMNS, X, build
from tests.importer.test_several import XGU
from tests.lists import side_by_side
from tests.run.test_several_products import WAYS
from tests.schedules import cooperative, exchanged, ping_pong, split_k, stream_k
from wsched.choose.heuristics import candidates
from wsched.choose.nvfuser_cost import cublas_us
from wsched.cli.check import check, random_inputs
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents, extents_for
from wsched.fusion import Fusion
from wsched.importer.input_error import InputError
from wsched.run.compiled import compile_fusion
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import GemmTile, MatmulParams, SupportedVectorization
from wsched.schedule.matmul.tiles import with_tile

torch = pytest.importorskip("torch")

EVERY = WAYS | {
    "split": split_k(cooperative(128, 64, stages=3), 2),
    "stream_k": stream_k(cooperative(128, 64, stages=3)),
    "exchanged": exchanged(cooperative(128, 64, stages=3)),
    "wide": ping_pong(64, 256, stages=3),
}
ROWS = (f"x = {X}", f"g = {X}", f"u = {X}", "a = fd.ops.linear(g, x)", "b = fd.ops.linear(u, x)")
BY_COLUMNS = (
    f"x = {X}", f"g = {COLUMNS}", f"u = {COLUMNS}", "a = fd.ops.matmul(x, g)",
    "b = fd.ops.matmul(x, u)",
)  # fmt: skip
COLUMN = X.replace("[-1, -1]", "[-1, 1]").replace("[True, True]", "[True, None]")
BY_THREADS = replace(
    WAYS["cooperative"], use_smem_epilogue=False, epilogue_input_stages=0, epilogue_stages=1,
    num_registers="auto", supported_vec_size=SupportedVectorization(1),
)  # fmt: skip
"""Threads read what the epilogue reads, and store the results."""


def drawn(*shape: int) -> Any:
    """Integers whose products sum up exactly."""
    return torch.randint(-2, 3, shape).to(torch.bfloat16)


def products(x: Any, weights: Sequence[Any]) -> list[Any]:
    return [(x.float() @ w.float().T).to(torch.bfloat16) for w in weights]


def equal(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return len(found) == len(wanted) and all(map(torch.equal, found, wanted))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EVERY)
def test_weights_of_different_widths(name: str) -> None:
    made = compile_fusion(import_fusion(side_by_side()), EVERY[name])
    for m, k, widths in ((150, 136, (136, 72, 8)), (60, 24, (8, 264, 64))):
        x, weights = drawn(m, k), [drawn(n, k) for n in widths]
        assert equal(made(x, *weights), products(x, weights))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(1, 140), st.integers(1, 9),
    st.sampled_from(sorted(EVERY)),
)  # fmt: skip
def test_any_widths(eighths: list[int], m: int, k: int, name: str) -> None:
    made = compile_fusion(import_fusion(side_by_side(len(eighths))), EVERY[name])
    x, weights = drawn(m, 8 * k), [drawn(8 * n, 8 * k) for n in eighths]
    assert equal(made(x, *weights), products(x, weights))


def test_an_empty_one() -> None:
    made = compile_fusion(import_fusion(side_by_side()), WAYS["cooperative"])
    x, weights = drawn(70, 40), [drawn(n, 40) for n in (64, 0, 8)]
    assert equal(made(x, *weights), products(x, weights))


def test_inputs_of_one_weight() -> None:
    made = compile_fusion(build(*ROWS, "fd.add_output(a)", out="b"), WAYS["cooperative"])
    x, rows = drawn(72, 40), [drawn(n, 40) for n in (130, 5)]
    assert equal(made(x, *rows), [y.T for y in products(x, rows)])


@pytest.mark.sampled
@pytest.mark.parametrize("tile", [(128, 64, 1), (256, 64, 2), (192, 64, 1)], ids=str)
def test_inputs_of_one_weight_that_threads_store(tile: tuple[int, int, int]) -> None:
    """A warpgroup's rows are of several instructions, and those of two inputs: what it stores at
    once is of one.
    """
    m, n, groups = tile
    params = with_tile(BY_THREADS, GemmTile(m, n, 64), groups, False)
    made = compile_fusion(build(*ROWS, "fd.add_output(a)", out="b"), params)
    assert made.proof().proved
    for width, sizes in ((72, (130, 5)), (8, (8, 8)), (33, (1, 200))):
        x, rows = drawn(width, 40), [drawn(n, 40) for n in sizes]
        assert equal(made(x, *rows), [y.T for y in products(x, rows)])


@pytest.mark.parametrize("smem", [False, True])
def test_a_matrix_and_a_column_for_each_of_several_inputs(smem: bool) -> None:
    """Threads read them, for rows of several instructions."""
    lines = ("c = fd.ops.add(a, r)", "d = fd.ops.add(b, s)", "e = fd.ops.mul(c, v)",
             "f = fd.ops.mul(d, z)")  # fmt: skip
    columns = tuple(f"{name} = {COLUMN}" for name in "vz")
    fusion = build(*ROWS[:3], f"r = {X}", f"s = {X}", *columns, *ROWS[3:], *lines,
                   "fd.add_output(e)", out="f")  # fmt: skip
    params = replace(with_tile(BY_THREADS, GemmTile(128, 64, 64), 1, False), use_smem_epilogue=smem)
    made = compile_fusion(fusion, params)
    x, rows = drawn(72, 40), [drawn(n, 40) for n in (70, 9)]
    r, s, v, z = drawn(70, 72), drawn(9, 72), drawn(70, 1), drawn(9, 1)
    sums = [y.float() @ x.float().T for y in rows]
    wanted = [((y + m) * c).bfloat16() for y, m, c in zip(sums, (r, s), (v, z), strict=True)]
    assert equal(made(x, *rows, r, s, v, z), wanted)


@pytest.mark.parametrize("name", ["cooperative", "ping_pong", "cluster", "wide", "split"])
@pytest.mark.parametrize("by_rows", [False, True])
def test_weights_in_columns(name: str, by_rows: bool) -> None:
    """Weights [K, N], by columns or N-major."""
    lines = (*XGU, *BY_COLUMNS[3:]) if by_rows else BY_COLUMNS
    made = compile_fusion(build(*lines, "fd.add_output(a)", out="b"), EVERY[name])
    x, weights = drawn(70, 40), [drawn(n, 40) for n in (136, 24)]
    given_ = [w.T.contiguous() if by_rows else w.T for w in weights]
    assert equal(made(x, *given_), products(x, weights))


def test_results_by_columns() -> None:
    lines = (
        *BY_COLUMNS,
        "c = fd.ops.permute(a, dims=[1, 0])",
        "d = fd.ops.permute(b, dims=[1, 0])",
    )
    made = compile_fusion(build(*lines, "fd.add_output(c)", out="d"), WAYS["cooperative"])
    x, weights = drawn(72, 40), [drawn(n, 40) for n in (136, 24)]
    found = made(x, *(w.T for w in weights))
    assert equal(found, [y.T for y in products(x, weights)])


def test_the_same_operations_behind_each() -> None:
    text = side_by_side(after=("z = fd.ops.relu(y)",))
    made = compile_fusion(import_fusion(text), WAYS["ping_pong"])
    x, weights = drawn(70, 40), [drawn(n, 40) for n in (136, 24, 8)]
    assert equal(made(x, *weights), [y.relu() for y in products(x, weights)])


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["cooperative", "ping_pong", "side_by_side", "split"])
def test_a_bias_for_each(name: str) -> None:
    text = side_by_side(bias=True, after=("z = fd.ops.neg(y)",))
    made = compile_fusion(import_fusion(text), EVERY[name])
    assert parse_kernel(print_kernel(made.tile_level)) == made.tile_level
    x, weights, rows = drawn(70, 40), [drawn(n, 40) for n in (136, 24, 8)], []
    for w in weights:
        rows.append(drawn(w.shape[0]))
    pairs = [t for pair in zip(weights, rows, strict=True) for t in pair]
    wanted = zip(weights, rows, strict=True)
    found = made(x, *pairs)
    assert equal(found, [-(x.float() @ w.float().T + r.float()).bfloat16() for w, r in wanted])


@pytest.mark.parametrize("loaded", [0, 2])
def test_a_matrix_for_each(loaded: int) -> None:
    """Read by threads, or by TMA through a ring of its own."""
    lines = ("a = fd.ops.linear(x, g)", "b = fd.ops.linear(x, u)", "c = fd.ops.add(a, r)",
             "d = fd.ops.add(b, s)")  # fmt: skip
    fusion = build(*XGU, f"r = {X}", f"s = {X}", *lines, "fd.add_output(c)", out="d")
    made = compile_fusion(fusion, replace(WAYS["cooperative"], epilogue_input_stages=loaded))
    assert len(made.plan.edges) == 1 + (loaded > 0)
    x, g, u = drawn(70, 40), drawn(136, 40), drawn(24, 40)
    r, s = drawn(70, 136), drawn(70, 24)
    wanted = [y + z for y, z in zip(products(x, (g, u)), (r, s), strict=True)]
    assert equal(made(x, g, u, r, s), wanted)


def test_results_of_odd_widths() -> None:
    """Threads store them, element by element."""
    params = replace(
        WAYS["cooperative"], use_smem_epilogue=False, supported_vec_size=SupportedVectorization(1)
    )
    made = compile_fusion(import_fusion(side_by_side()), params)
    x, weights = drawn(70, 40), [drawn(n, 40) for n in (135, 1, 24)]
    assert equal(made(x, *weights), products(x, weights))
    found = wsched.execute(side_by_side(), [x, *weights])
    assert equal(found, products(x, weights))


def test_the_kernel(golden: Golden) -> None:
    made = compile_fusion(import_fusion(side_by_side()), WAYS["cooperative"])
    assert print_kernel(made.tile_level) == golden


def test_against_a_reference() -> None:
    fusion = import_fusion(side_by_side(widths=(64, 136, 8)))
    extents = extents_for(fusion)
    assert (extents.n, extents.named(fusion)["N1"]) == (208, 136)
    inputs = random_inputs(fusion, extents, 0, "cpu")
    assert check(compile_fusion(fusion, WAYS["cooperative"]), inputs).passed


# --- what is refused ------------------------------------------------------------------------------


def test_a_size_that_is_not_the_same() -> None:
    made = compile_fusion(import_fusion(side_by_side(2)), WAYS["cooperative"])
    with pytest.raises(InputError) as error:
        made(drawn(70, 40), drawn(64, 40), drawn(64, 48))
    assert str(error.value) == (
        "K is 40 in dimension 1 of input 0 and 48 in dimension 1 of input 2"
    )


def test_results_that_tma_does_not_store() -> None:
    made = compile_fusion(import_fusion(side_by_side(2)), WAYS["cooperative"])
    with pytest.raises(UnsupportedError) as error:
        made(drawn(70, 40), drawn(64, 40), drawn(63, 40))
    assert error.value.what == "output 1 with 126 bytes from row to row"


# --- what is chosen -------------------------------------------------------------------------------


def fixed(widths: Sequence[int]) -> Fusion:
    return import_fusion(side_by_side(len(widths), widths=widths))


@pytest.mark.slow
def test_costs_what_concatenated_weights_cost() -> None:
    fusion, bare = fixed((4096, 1024, 1024)), import_fusion(side_by_side(1))
    for m, most in ((2048, 1.0), (8192, 1.02)):
        asked = Extents(m, 6144, 4096).problem(fusion, 132)
        assert (asked.n, asked.n_entries) == (6144, (4096, 1024, 1024))
        us = candidates(asked)[0].cost.us
        whole = candidates(Extents(m, 6144, 4096).problem(bare, 132))[0].cost.us
        assert us <= most * whole < sum(candidates(p)[0].cost.us for p in asked.apart)
        assert cublas_us(asked) == sum(map(cublas_us, asked.apart))


def test_tiles_that_an_entry_does_not_fill_are_counted() -> None:
    asked = Extents(2048, 3 * 200, 1024).problem(fixed((200, 200, 200)), 132)
    assert [asked.tiles_n(256, piece) for piece in (1, 64, 256)] == [3, 3, 3]
    assert [asked.tiles_n(128, piece) for piece in (8, 64, 128)] == [5, 6, 6]
    assert asked.exchanged.tiles_m(128, 64) == 6
    assert asked.apart[1].tiles_n(128, 64) == 2
    assert asked.tiles(WAYS["cooperative"]) == (16, 12)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("params", [None, WAYS["cluster"], WAYS["dynamic"]])
def test_it_compiles_clean(params: MatmulParams | None) -> None:
    if nvrtc.nvrtc_version() is None:
        pytest.skip("needs NVRTC")
    widths = (4096, 1024, 1024)
    for text in (side_by_side(3, widths=widths), side_by_side(3, widths=widths, bias=True)):
        fusion = import_fusion(text)
        chosen = candidates(Extents(2048, 6144, 4096).problem(fusion, 132))[0].params
        assert compile_clean(fusion, params or chosen).resources.clean


@pytest.mark.parametrize("along", "mnk")
def test_what_stands_side_by_side_alone(along: str) -> None:
    """Each part has its own size, and no parts."""
    bare = Extents(4096, 512, 1024).problem(import_fusion(side_by_side(1)), 132)
    whole = replace(bare, **{f"{along}_entries": (128, 384)})
    assert [getattr(p, along) for p in whole.apart] == [128, 384]
    assert all(p.apart == () for p in whole.apart)
