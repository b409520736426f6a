"""Plain tensors: each thread's elements, at their addresses, in bounds."""

from __future__ import annotations

import re

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir
from tests.lowering.mlir.interpreter import Call, run

M, N, STRIDE = 75, 21, 40
THREADS = [(w, lane) for w in range(4) for lane in range(32)]


def kernel(body: str, dtype: str = "f32", align: str = "") -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param M: i32
          param N: i32
          global G: {dtype}[M, N]{align}
          global V: {dtype}[1, N]{align}
          global C: {dtype}[M, 1]{align}
          {body}
        }}
        """
    )


def calls(text: str, warp: int, lane: int, word: str) -> list[Call]:
    given = {"%M": M, "%N": N, "%G_stride": STRIDE, "%V_stride": 0, "%C_stride": 1}
    return run(text.splitlines(), {**given, "tid.x": 32 * warp + lane}).of(word)


def places(k: Kernel, word: str, threads: list[tuple[int, int]] = THREADS) -> set[int]:
    """Offsets, in elements, of all that is accessed."""
    found: list[int] = []
    text = emit_mlir(k)
    for warp, lane in threads:
        for call in calls(text, warp, lane, word):
            at, inside = call.values[:2]
            if inside:
                assert isinstance(at, int)
                found.append(at)
    assert len(found) == len(set(found))
    return set(found)


def tile(rows: range, cols: range) -> set[int]:
    return {r * STRIDE + c for r in rows if r < M for c in cols if c < N}


def test_a_tile_at_the_edge_is_loaded_up_to_it() -> None:
    k = kernel("v: frag<f32, 64x16> = frag.load_global G[64, 8]")
    assert places(k, "ld.global.f32") == tile(range(64, 128), range(8, 24))


def test_a_tile_at_the_edge_is_stored_up_to_it() -> None:
    k = kernel("v: frag<f32, 64x16> = frag.fill 1.0\n frag.store_global G[64, 8], v")
    assert places(k, "st.global.f32") == tile(range(64, 128), range(8, 24))


def test_limits_count_from_the_tile() -> None:
    k = kernel(
        "v: frag<f32, 64x16> = frag.fill 1.0\nfrag.store_global G[64, 0], v, limit=5, limit_cols=7"
    )
    assert places(k, "st.global.f32") == tile(range(64, 69), range(7))


def test_transposed_columns_are_rows() -> None:
    k = kernel("v: frag<f32, 64x16> = frag.fill 1.0\n frag.store_global G[64, 0], v, trans=true")
    expected = {r * STRIDE + c for r in range(64, 75) for c in range(N)}
    assert places(k, "st.global.f32") == {p for p in expected if p // STRIDE < 80}


def test_pairs_where_the_tensor_is_aligned() -> None:
    k = kernel("v: frag<f32, 64x16> = frag.load_global G[0, 0]", align=" align 8")
    evens = {p for p in tile(range(64), range(16)) if p % 2 == 0}
    assert places(k, "ld.global.v2.f32") == evens


def test_two_halves_of_a_register() -> None:
    k = kernel("v: frag<bf16, 64x16> = frag.load_global G[0, 8]", "bf16")
    assert places(k, "ld.global.b16") == tile(range(64), range(8, 24))
    aligned = kernel("v: frag<bf16, 64x16> = frag.load_global G[0, 0]", "bf16", " align 4")
    assert places(aligned, "ld.global.b32") == {p for p in tile(range(64), range(16)) if p % 2 == 0}


def test_a_row_is_stored_by_its_first_threads() -> None:
    k = kernel("v: frag<f32, 1x16> = frag.fill 1.0\n frag.store_global V[0, 8], v")
    assert places(k, "st.global.f32") == set(range(8, N))


def test_a_column_is_stored_once() -> None:
    k = kernel("v: frag<f32, 64x1> = frag.fill 1.0\n frag.store_global C[64, 0], v")
    assert places(k, "st.global.f32") == set(range(64, M))


def test_one_value_is_stored_by_one_thread() -> None:
    k = kernel("v: frag<f32, 1x1> = frag.fill 1.0\n frag.store_global G[3, 2], v")
    assert places(k, "st.global.f32") == {3 * STRIDE + 2}


def test_what_is_out_of_bounds_is_zero() -> None:
    k = kernel("v: frag<f32, 64x8> = frag.load_global G[0, 0]")
    texts = {c.text.split('"')[1] for c in calls(emit_mlir(k), 0, 0, "ld.global.f32")}
    assert texts == {"mov.b32 $0, 0; @$2 ld.global.f32 $0, [$1];"}


def test_conditions_are_bytes() -> None:
    k = kernel(
        "v: frag<pred, 64x16> = frag.load_global G[0, 8]\n frag.store_global G[64, 0], v", "bool"
    )
    assert places(k, "ld.global.u8") == tile(range(64), range(8, 24))
    assert places(k, "st.global.u8") == tile(range(64, 128), range(16))


def test_floats_of_8_bits_are_stored_one_by_one() -> None:
    """As bytes, each from its place in a register, where neighbours are not aligned."""
    wide = "x: frag<f32, 64x16> = frag.fill 1.0\nv: frag<e4m3, 64x16> = frag.cast x"
    k = kernel(f"{wide}\nfrag.store_global G[64, 8], v", "e4m3")
    assert places(k, "st.global.u8") == tile(range(64, 128), range(8, 24))
    shifts = re.findall(r"arith.shrui %\w+, %c(8|16|24)_i32", emit_mlir(k))
    assert sorted(shifts) == sorted(["8", "16", "24"] * 2)


def test_a_row_of_a_tensor_of_one_row_is_in_bounds() -> None:
    """Without a condition on rows, as one of a tensor of several has it."""

    def conditions(at: str) -> int:
        value = "v: frag<f32, 1x8> = frag.fill 1.0"
        return emit_mlir(kernel(f"{value}\nfrag.store_global {at}, v")).count("arith.cmpi slt")

    assert conditions("G[0, 0]") == conditions("V[0, 0]") + 1


@pytest.mark.parametrize("at", ["V[0, 5]", "G[74, 5]"])
@pytest.mark.parametrize("trans", [False, True])
def test_a_column_of_a_tensor_of_one_row(at: str, trans: bool) -> None:
    """Its first element alone is in bounds; along the row those up to the row's end."""
    tail = ", trans=true" * trans
    k = kernel(f"v: frag<f32, 64x1> = frag.fill 1.0\nfrag.store_global {at}, v{tail}")
    first = 74 * STRIDE if at[0] == "G" else 0
    assert places(k, "st.global.f32") == {first + c for c in (range(5, N) if trans else [5])}


def test_other_types_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="e4m3 in MLIR"):
        emit_mlir(kernel("v: frag<e4m3, 64x16> = frag.load_global G[0, 0]", "e4m3"))
