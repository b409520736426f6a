"""Modules executed for a warpgroup give the bits that the machine gives for the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.machine import run_kernel
from lowering.mlir.emit import emit_mlir
from tests.lowering.mlir.warpgroup import execute

M, N = 117, 52
"""Odd extents: tiles of 128 rows and 64 columns end inside."""


def kernel(body: str, dtype: str = "f32") -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param M: i32
          param N: i32
          global X: {dtype}[M, N]
          global Y: {dtype}[M, N] align 4
          global C: f32[M, 1]
          global R: f32[1, N]
          global Q: bool[M, N]
          global V: f32[1, N * 4]
          shared S: f32[1][8x64] at 0
          shared W: f32[1][4x192] at 20480
          shared T: f32[1][64x64] swizzle 128 at 4096
          named_barrier all[1] id 1 threads 128
          {body}
        }}
        """
    )


def both(k: Kernel) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What tensors hold after the machine, and after the module."""
    rng = np.random.default_rng(1)
    found = []
    size = k.global_tensor("X").dtype
    start = {
        "X": rng.standard_normal((M, N)).astype(np.float32), "Y": np.zeros((M, N), np.float32),
        "C": np.zeros((M, 1), np.float32), "R": np.zeros((1, N), np.float32),
        "V": np.zeros((1, 4 * N), np.float32),
        "Q": rng.integers(0, 2, (M, N)).astype(np.uint8),
    }  # fmt: skip
    if size.value == "bf16":
        raw = start["X"].view(np.uint32) >> 16
        start |= {"X": raw.astype(np.uint16), "Y": np.zeros((M, N), np.uint16)}
    for way in ("machine", "module"):
        arrays = {name: a.copy() for name, a in start.items()}
        if way == "machine":
            run_kernel(k, arrays, {"M": M, "N": N}, 1)
        else:
            memory = {f"%{n}": a.reshape(-1).view(np.uint8) for n, a in arrays.items()}
            memory["%shared"] = np.zeros(1 << 16, np.uint8)
            strides = {f"%{n}_stride": a.shape[1] for n, a in arrays.items()}
            execute(emit_mlir(k), memory, {"%M": M, "%N": N, **strides})
        found.append(arrays)
    return found[0], found[1]


def require_equal(body: str, *names: str, dtype: str = "f32") -> None:
    machine, module = both(kernel(body, dtype))
    for name in names:
        a, b = (found[name].view(np.uint8) for found in (machine, module))
        assert np.array_equal(a, b), name
        assert machine[name].any(), name


LOAD = "x: frag<f32, 128x64> = frag.load_global X[0, 0]\n"


def test_a_tile_and_arithmetic() -> None:
    body = """
    r: frag<f32, 1x64> = frag.load_global X[3, 0]
    c: frag<f32, 128x1> = frag.load_global X[0, 5]
    a: frag<f32, 128x64> = frag.pointwise mul, x, r
    b: frag<f32, 128x64> = frag.pointwise maximum, a, c
    big: frag<pred, 128x64> = frag.pointwise gt, b, 0.25
    d: frag<f32, 128x64> = frag.pointwise where, big, b, x
    frag.store_global Y[0, 0], d
    """
    require_equal(LOAD + body, "Y")


@pytest.mark.parametrize("dtype", ["bf16"])
def test_halves_are_unpacked_rounded_and_packed(dtype: str) -> None:
    body = f"""
    x: frag<{dtype}, 64x48> = frag.load_global X[32, 8]
    y: frag<{dtype}, 64x48> = frag.load_global Y[0, 0]
    w: frag<f32, 64x48> = frag.cast x
    s: frag<f32, 64x48> = frag.pointwise mul, w, 1.7
    h: frag<{dtype}, 64x48> = frag.cast s
    frag.store_global Y[32, 0], h, limit=50
    """
    require_equal(body, "Y", dtype=dtype)


def test_parts_are_updated_beside_what_stays() -> None:
    body = """
    p: frag<f32, 64x24> = frag.load_global X[3, 1]
    a: frag<f32, 128x64> = frag.update add, x, p, row=64, rows=64, col=16, cols=24
    b: frag<f32, 128x64> = frag.update mul, a, 1.5, rows=64
    c: frag<f32, 128x64> = frag.update sub, b, 0.5, col=8, cols=8
    frag.store_global Y[0, 0], c
    """
    require_equal(LOAD + body, "Y")


def test_conditions_are_bytes() -> None:
    body = """
    q: frag<pred, 128x64> = frag.load_global Q[0, 0]
    n: frag<pred, 128x64> = frag.pointwise logical_not, q
    d: frag<f32, 128x64> = frag.pointwise where, q, x, 2.0
    frag.store_global Y[0, 0], d
    frag.store_global Q[0, 0], n
    """
    require_equal(LOAD + body, "Y", "Q")


def test_a_tile_through_swizzled_memory() -> None:
    body = """
    v: frag<f32, 64x64> = frag.load_global X[0, 0]
    st.shared T[0, 0, 0], v
    bar.sync all[0]
    w: frag<f32, 64x64> = ld.shared T[0, 0, 0]
    frag.store_global Y[0, 0], w
    """
    require_equal(body, "Y")


def test_transposed() -> None:
    body = """
    v: frag<f32, 64x32> = frag.load_global X[8, 0], trans=true
    frag.store_global Y[0, 4], v, limit_cols=30
    """
    require_equal(body, "Y")


@pytest.mark.parametrize("count", ["N", "26", "27"])  # behind an even and an odd column
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_rows_are_reduced(op: str, count: str) -> None:
    body = f"""
    in_cols: frag<pred, 1x64> = frag.below {count}
    zero: frag<f32, 128x1> = frag.fill 0.5
    c: frag<f32, 128x1> = frag.reduce {op}, zero, x, below=in_cols
    frag.store_global C[0, 0], c
    """
    require_equal(LOAD + body, "C")


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize(("cols", "rows"), [(8, "M"), (24, "72"), (64, "M"), (8, "3")])
def test_columns_are_reduced_across_warps(op: str, cols: int, rows: str) -> None:
    body = f"""
    x: frag<f32, 128x{cols}> = frag.load_global X[0, 0]
    in_rows: frag<pred, 128x1> = frag.below {rows}
    frag.reduce_to_shared {op}, S[0, 0, 0], x, below=in_rows
    bar.sync all[0]
    start: frag<f32, 1x{cols}> = frag.fill -0.25
    r: frag<f32, 1x{cols}> = frag.reduce_from_shared {op}, start, S[0, 0, 0], 4
    frag.store_global R[0, 0], r
    """
    require_equal(body, "R")


@pytest.mark.parametrize("limit", ["M - 90", "M * -5:i64", "1099511627776:i64"])
@pytest.mark.parametrize("line", ["", ", right=-1", ", down=-7, right=3"])
def test_a_line_through_a_tile(line: str, limit: str) -> None:
    body = f"""
    mask: frag<pred, 128x64> = frag.below {limit}{line}
    kept: frag<f32, 128x64> = frag.pointwise where, mask, x, -1.0
    frag.store_global Y[0, 0], kept
    """
    require_equal(LOAD + body, "Y")


@pytest.mark.parametrize("below", ["", ", below=in_rows", ", below=in_cols"])
@pytest.mark.parametrize("factor", ["x", "columns", "rows"])
def test_products_are_summed(factor: str, below: str) -> None:
    """Onto rows, columns and groups, each way with its own first product."""
    body = f"""
    in_rows: frag<pred, 128x1> = frag.below 72
    in_cols: frag<pred, 1x64> = frag.below 27
    rows: frag<f32, 1x64> = frag.load_global X[3, 0]
    columns: frag<f32, 128x1> = frag.load_global X[0, 5]
    half: frag<f32, 128x1> = frag.fill 0.5
    c: frag<f32, 128x1> = frag.reduce sum, half, x, factor={factor}{below}
    frag.store_global C[0, 0], c
    frag.reduce_to_shared sum, S[0, 0, 0], x, factor={factor}{below}
    bar.sync all[0]
    frag.store_reduced sum, R[0, 0], S[0, 0, 0], 4, 64
    zero: frag<f32, 64x8> = frag.fill 0.0
    v: frag<f32, 64x8> = frag.reduce sum, zero, x, factor={factor}{below}
    frag.store_global Y[0, 0], v
    """
    require_equal(LOAD + body, "C", "R", "Y")


@pytest.mark.parametrize("op", ["sum", "max"])
def test_reduced_rows_are_stored_by_all_threads(op: str) -> None:
    body = f"""
    frag.reduce_to_shared {op}, S[0, 0, 0], x
    bar.sync all[0]
    frag.store_reduced {op}, R[0, 0], S[0, 0, 0], 4, 64
    """
    require_equal(LOAD + body, "R")


def test_more_columns_than_threads_are_stored() -> None:
    """Each part of a buffer's columns by itself; those behind the last one are left alone."""
    parts = "\n".join(
        f"y{c}: frag<f32, 128x64> = frag.pointwise mul, x, {c + 1}.0\n"
        f"frag.reduce_to_shared sum, W[0, 0, {64 * c}], y{c}"
        for c in range(3)
    )
    body = f"{parts}\n bar.sync all[0]\n frag.store_reduced sum, V[0, 3], W[0, 0, 0], 4, 170"
    require_equal(LOAD + body, "V")


def test_all_rows_onto_one_value() -> None:
    body = """
    zero: frag<f32, 128x1> = frag.fill 0.0
    c: frag<f32, 128x1> = frag.reduce sum, zero, x
    frag.reduce_to_shared sum, S[0, 0, 0], c
    bar.sync all[0]
    start: frag<f32, 1x1> = frag.fill 0.0
    one: frag<f32, 1x1> = frag.reduce_from_shared sum, start, S[0, 0, 0], 4
    frag.store_global R[0, 3], one
    """
    require_equal(LOAD + body, "R")


def test_groups_and_blocks_fall_together() -> None:
    body = """
    zero: frag<f32, 64x8> = frag.fill 0.0
    v: frag<f32, 64x8> = frag.reduce sum, zero, x
    frag.store_global Y[0, 0], v
    """
    require_equal(LOAD + body, "Y")


@pytest.mark.parametrize(
    ("dtype", "spans"), [("bf16", (2, 4)), ("bf16", (4, 2)), ("f32", (1, 2)), ("f32", (2, 4))]
)
def test_lanes_exchange_columns(dtype: str, spans: tuple[int, int]) -> None:
    before, after = (f"frag<{dtype}, 64x48{'' if s == 2 else f', span {s}'}>" for s in spans)
    body = f"""
    x: {before} = frag.load_global X[0, 0]
    y: {after} = frag.shuffle x
    frag.store_global Y[0, 0], y
    """
    require_equal(body, "Y", dtype=dtype)


@pytest.mark.parametrize(("align", "rows"), [(2, 64), (4, 64), (8, 100), (8, 25), (4, 33)])
def test_a_tile_that_threads_copy(align: int, rows: int) -> None:
    """Rows of shared memory behind the tile keep what they hold."""
    text = f"""
    kernel k threads 128 cluster 1 grid 1 {{
      param M: i32
      param N: i32
      global X: bf16[M, N] align {align}
      global Y: bf16[M, N]
      shared T: bf16[1][128x128] swizzle 128 at 1024
      named_barrier all[1] id 1 threads 128
      old: frag<bf16, 64x64> = frag.load_global X[0, 0]
      stmatrix T[0, 0, 0], old
      bar.sync all[0]
      copy.tile T[0, 0, 0], X[50, 0], {rows}, 128
      bar.sync all[0]
      w: frag<bf16, 64x64> = ldmatrix T[0, 0, 0]
      frag.store_global Y[0, 0], w
    }}
    """
    machine, module = both(parse_kernel(text))
    assert np.array_equal(machine["Y"], module["Y"])
    assert machine["Y"].any()


@pytest.mark.parametrize("span", [128, 64])  # all columns in one box, and half of them
def test_rows_by_index_that_threads_copy(span: int) -> None:
    text = f"""
    kernel k threads 128 cluster 1 grid 1 {{
      param M: i32
      param N: i32
      global X: bf16[M, N] align 8
      global Y: bf16[M, N]
      shared T: bf16[1][64x64] swizzle {span} at 1024
      mbarrier full[1] arrivals 128 at 32768
      on %warp 0 {{ elect {{ mbarrier.init full[0], 128 }} }}
      cta.sync
      cp.async T[0, 0, 0], X[50, 0], 64, 64, limit=60
      cp.async.mbarrier.arrive.noinc full[0]
      mbarrier.wait full[0], 0
      w: frag<bf16, 64x64> = ldmatrix T[0, 0, 0]
      frag.store_global Y[0, 0], w
      cta.sync
      on %warp 0 {{ elect {{ mbarrier.inval full[0] }} }}
    }}
    """
    machine, module = both(parse_kernel(text))
    assert np.array_equal(machine["Y"], module["Y"])
    assert machine["Y"].any()


@pytest.mark.parametrize("cols", [8, 64])
def test_matrices_through_swizzled_memory(cols: int) -> None:
    text = f"""
    kernel k threads 128 cluster 1 grid 1 {{
      param M: i32
      param N: i32
      global X: bf16[M, N]
      global Y: bf16[M, N]
      shared T: bf16[2][64x64] swizzle 128 at 1024
      named_barrier all[1] id 1 threads 128
      v: frag<bf16, 64x{cols}> = frag.load_global X[0, 0]
      stmatrix T[1, 0, 0], v
      bar.sync all[0]
      w: frag<bf16, 64x{cols}> = ldmatrix T[1, 0, 0]
      frag.store_global Y[0, 0], w
    }}
    """
    machine, module = both(parse_kernel(text))
    assert np.array_equal(machine["Y"], module["Y"])
    assert np.array_equal(module["Y"][:64, :8], module["X"][:64, :8])


@pytest.mark.parametrize("op", ["add, any_order=true", "max", "min"])
def test_values_onto_what_is_there(op: str) -> None:
    word, _, more = op.partition(", ")
    more = f", {more}" if more else ""
    body = f"""
    v: frag<f32, 64x48> = frag.load_global X[0, 0]
    w: frag<f32, 64x48> = frag.pointwise neg, v
    frag.red_global {word}, Y[20, 4], v, limit=50{more}
    frag.red_global {word}, Y[20, 4], w, limit=40{more}
    """
    require_equal(body, "Y")


@pytest.mark.parametrize("onto", ["Y", "X"])
def test_halves_onto_what_is_there(onto: str) -> None:
    """By pairs of columns where the tensor is aligned, else one by one."""
    body = f"""
    v: frag<bf16, 64x48> = frag.load_global X[0, 0]
    bar.sync all[0]
    frag.red_global add, {onto}[20, 4], v, limit=40, any_order=true
    frag.red_global add, {onto}[60, 2], v, any_order=true
    """
    assert ("bf16x2" in emit_mlir(kernel(body, "bf16"))) == (onto == "Y")
    require_equal(body, onto, dtype="bf16")
