"""Reductions on the machine: the order of the sums, edges, vectors, and barriers left out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from lowering.machine.adversary import Adversary
from lowering.machine.fragment import add_product, greater, less
from tests.lowering.machine.reductions import column_sums, four_shapes, row_sums, tensors

FOLDS = {"sum": np.sum, "max": np.max, "min": np.min}


def run_four(op: str, m: int, n: int, **options: Any) -> dict[str, np.ndarray]:
    """The results of every shape; -1 is where the row and column of an odd extent would leak to."""
    arrays = tensors(m, n, op)
    kernel = four_shapes(op, 8 if n % 2 == 0 else 4)
    run_kernel(kernel, arrays, {"M": m, "N": n}, -(-m // 128), **options)
    return arrays


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize(("m", "n"), [(128, 64), (200, 130), (65, 67), (1, 1), (257, 7)])
def test_four_shapes(op: str, m: int, n: int) -> None:
    """A matrix, a column, a row for each 128 rows, and a single value, at odd extents too."""
    found = run_four(op, m, n)
    x, fold = found["x"], FOLDS[op]
    blocks = [fold(x[i : i + 128], axis=0) for i in range(0, m, 128)]
    close: Any = {"rtol": 1e-5, "atol": 1e-5} if op == "sum" else {"rtol": 0, "atol": 0}
    np.testing.assert_array_equal(found["d"], 2 * x)
    np.testing.assert_allclose(found["column"], fold(x, axis=1, keepdims=True), **close)
    np.testing.assert_allclose(found["row"], np.array(blocks), **close)
    np.testing.assert_allclose(found["one"], fold(x, keepdims=True), **close)


@pytest.mark.parametrize(("m", "n"), [(128, 64), (200, 130)])
def test_the_order_of_a_sum(m: int, n: int) -> None:
    """Bit for bit: what the docstrings say, written out; another order gives other bits."""
    found = run_four("sum", m, n)
    x = found["x"]
    assert np.array_equal(found["column"], row_sums(x))
    assert np.array_equal(found["row"], column_sums(x))
    assert not np.array_equal(found["column"][:, 0], np.add.accumulate(x, axis=1)[:, -1])
    assert not np.array_equal(found["row"][0], np.add.accumulate(x[:128], axis=0)[-1])


GROUPS = """
kernel groups threads 128 cluster 1 grid 1 {
  param left: i32
  global x: f32[64, 32]
  global y: f32[64, 8]
  value: frag<f32, 64x32> = frag.load_global x[0, 0]
  so_far: frag<f32, 64x8> = frag.load_global y[0, 0]
  inside: frag<pred, 1x32> = frag.below left
  next: frag<f32, 64x8> = frag.reduce sum, so_far, value, below=inside
  frag.store_global y[0, 0], next
}
"""


@pytest.mark.parametrize("left", [0, 1, 13, 24, 40])
def test_groups_of_columns(left: int) -> None:
    """One after the other onto what there is; what does not count changes no bit, the sign of a
    zero neither.
    """
    x, y = tensors(64, 32, "sum")["x"], tensors(64, 8, "sum")["x"].copy()
    x[:2], y[0], y[1] = -0.0, -0.0, 0.0
    wanted = y.copy()
    for col in range(min(left, 32)):
        wanted[:, col % 8] += x[:, col]
    arrays = {"x": x, "y": y}
    run_kernel(parse_kernel(GROUPS), arrays, {"left": left}, 1)
    assert np.array_equal(arrays["y"].view(np.uint32), wanted.view(np.uint32))
    assert np.signbit(arrays["y"][0]).all() and not np.signbit(arrays["y"][1]).any()


LINE = """
kernel line threads 128 cluster 1 grid 1 {
  param far: i64
  global y: bool[64, 32]
  below: frag<pred, 64x32> = frag.below far, down=-1048576, right=3
  frag.store_global y[0, 0], below
}
"""


@pytest.mark.parametrize("far", [-(1 << 40), -(40 << 20), -3 - (20 << 20), 0, 90, 1 << 40])
def test_a_line_through_a_tile(far: int) -> None:
    """Rows and columns, each times its factor, against a limit of 64 bits."""
    arrays = {"y": np.zeros((64, 32), bool)}
    run_kernel(parse_kernel(LINE), arrays, {"far": far}, 1)
    row, col = np.indices((64, 32))
    assert np.array_equal(arrays["y"], (col * 3 - (row << 20)) < far)


@pytest.mark.parametrize("left", [0, 13, 40])
def test_products_are_rounded_with_their_sum(left: int) -> None:
    """As many roundings as there are products, none of them of a product."""
    x, y = tensors(64, 32, "sum")["x"], tensors(64, 8, "sum")["x"].copy()
    wanted, twice = y.copy(), y.copy()
    for col in range(min(left, 32)):
        square = x[:, col] * x[:, col]
        twice[:, col % 8] += square
        for row, so_far in enumerate(wanted[:, col % 8]):
            wanted[row, col % 8] = exact_sum(so_far, x[row, col])
    arrays = {"x": x, "y": y}
    text = GROUPS.replace("below=inside", "below=inside, factor=value")
    run_kernel(parse_kernel(text), arrays, {"left": left}, 1)
    assert np.array_equal(arrays["y"], wanted)
    assert left == 0 or not np.array_equal(wanted, twice)


def exact_sum(so_far: np.float32, x: np.float32) -> np.float32:
    """A square onto a number, rounded once."""
    exact = Fraction(float(x)) ** 2 + Fraction(float(so_far))
    near = np.float32(float(exact))
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.int32)) & 1))


@given(*(st.floats(width=32, allow_nan=False, allow_infinity=False) for _ in range(3)))
@example(1.0 + 2.0**-12, 1.0 + 2.0**-12, 2.0**-60)
@example(2.0**-12, 1.0 + 2.0**-23, 1.0)
def test_a_product_is_added_with_one_rounding(x: float, y: float, so_far: float) -> None:
    """By fractions: to the nearest, of two as near to the even one; 2**128 and more is infinite."""
    exact = Fraction(x) * Fraction(y) + Fraction(so_far)
    found = add_product(np.array([so_far], np.float32), np.array([x]) * np.array([y]))[0]
    if abs(exact) >= 2**128 - 2**103:
        assert np.isinf(found) and (found > 0) == (exact > 0)
        return
    with np.errstate(over="ignore"):
        beside = [np.nextafter(found, np.float32(sign * np.inf)) for sign in (-1, 1)]
    off = abs(Fraction(float(found)) - exact)
    for other in (b for b in beside if np.isfinite(b)):
        further = abs(Fraction(float(other)) - exact)
        assert off < further or (off == further and int(found.view(np.int32)) % 2 == 0)


@pytest.mark.parametrize(
    ("so_far", "product", "wanted"),
    [(np.inf, 1.0, np.inf), (np.inf, -np.inf, np.nan), (0.0, np.nan, np.nan), (-0.0, -0.0, -0.0),
     (1.0, np.inf, np.inf)],
)  # fmt: skip
def test_products_that_are_not_finite(so_far: float, product: float, wanted: float) -> None:
    found = add_product(np.array([so_far], np.float32), np.array([product]))
    np.testing.assert_array_equal(found, np.float32(wanted))
    assert np.isnan(wanted) or np.signbit(found[0]) == np.signbit(wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adversary", ["eager", "lazy", "random", "fair"])
def test_adversaries(adversary: Adversary) -> None:
    """Only the sum over CTAs depends on who comes first, and the largest of all does not."""
    first = run_four("sum", 200, 130, adversary=adversary)
    again = run_four("sum", 200, 130, adversary="eager", seed=1)
    for name in ("d", "column", "row"):
        assert np.array_equal(first[name], again[name])
    assert run_four("max", 200, 130, adversary=adversary)["one"] == first["x"].max()


def test_a_nan_is_the_largest() -> None:
    x = np.array([[0.0, -0.0, np.inf, np.nan, 1.0]], np.float32)
    for op in (greater, less):
        assert np.isnan(op(x, np.float32(np.nan))).all() and np.isnan(op(x, x)[0, 3])
    assert np.signbit(greater(x, -x)[0, :2]).tolist() == [False, False]
    assert np.signbit(less(x, -x)[0, :2]).tolist() == [True, True]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("kept\n        bar.sync all[0]", "kept",
         "meeting is read where nobody has stored"),
        ("column_total, limit=M - first\n      bar.sync all[0]", "column_total, limit=M - first",
         "meeting is read, but no barrier orders that behind the store"),
        ("meeting[stage,", "meeting[0,",
         "meeting is read, but no barrier orders that behind the store"),
        ("meeting[stage, group * 4, 0]", "meeting[stage, group * 4, 1]",
         "1x64 at meeting[0, 0, 1] does not fit into 8x64"),
        ("meeting[0, group * 4, 8]", "meeting[0, group * 4 + 4, 8]",
         "meeting[0, 8, 8] lies outside [2][8x64]"),
        ("sum, meeting[stage, group * 4, 0]", "sum, meeting[stage, group * 4 + 1, 0]",
         "1x64 at meeting[0, 8, 0] does not fit into 8x64"),
    ],
)  # fmt: skip
def test_what_is_left_out(old: str, new: str, why: str) -> None:
    text = print_kernel(four_shapes("sum"))
    assert old in text
    kernel = parse_kernel(text.replace(old, new))
    assert verify(kernel) == []
    with pytest.raises(MachineError) as error:
        run_kernel(kernel, tensors(128, 130, "sum"), {"M": 128, "N": 130}, 1, adversary="eager")
    assert error.value.what == why


def test_a_row_that_another_warp_may_still_read() -> None:
    """Side by side, all warps have read when the first one stores again, by chance."""
    text = print_kernel(four_shapes("sum")).replace("meeting[stage,", "meeting[0,")
    with pytest.raises(MachineError) as error:
        arrays = tensors(128, 130, "sum")
        run_kernel(parse_kernel(text), arrays, {"M": 128, "N": 130}, 1, adversary="fair")
    why = "meeting is overwritten, but no barrier orders that behind its last reading"
    assert error.value.what == why


@pytest.mark.parametrize(
    "statement",
    [
        "frag.reduce_to_shared sum, meeting[0, 0, 0], t",
        "row: frag<f32, 1x32> = frag.reduce_from_shared sum, none, meeting[0, 0, 0], 4",
        "frag.store_reduced sum, d[0, 0], meeting[0, 0, 0], 4, 32",
    ],
)
def test_rows_beside_other_accesses_to_their_bytes(statement: str) -> None:
    """A barrier has to order them, as any two accesses of which one writes."""
    text = f"""
    kernel k threads 128 cluster 1 grid 1 {{
      global d: f32[1, 32]
      shared meeting: f32[1][64x32] at 0
      t: frag<f32, 64x32> = frag.fill 1.0
      none: frag<f32, 1x32> = frag.fill 0.0
      frag.reduce_to_shared sum, meeting[0, 0, 0], t
      cta.sync
      on %warp 0 {{ st.shared meeting[0, 0, 0], t }}
      SYNC
      {statement}
    }}
    """
    d = np.zeros((1, 32), np.float32)
    run_kernel(parse_kernel(text.replace("SYNC", "cta.sync")), {"d": d}, {}, 1, races=True)
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(text.replace("SYNC", "")), {"d": d}, {}, 1, races=True)
    said = f"{error.value.what} at `{error.value.line}`"
    for access in ("`st.shared meeting[0, 0, 0], t`", f"`{statement}`", "nothing orders the two"):
        assert access in said


def test_rows_stored_at_once_are_those_of_registers() -> None:
    """Bit by bit, in bounds alone, by all warps, the second 128 columns as well."""
    text = """
    kernel k threads 128 cluster 1 grid 1 {
      param N: i32
      global x: f32[64, N]
      global a: f32[2, N]
      global b: f32[2, N]
      shared meeting: f32[1][4x160] at 0
      t: frag<f32, 64x160> = frag.load_global x[0, 0]
      frag.reduce_to_shared OP, meeting[0, 0, 0], t
      cta.sync
      none: frag<f32, 1x160> = frag.fill START
      row: frag<f32, 1x160> = frag.reduce_from_shared OP, none, meeting[0, 0, 0], 4
      frag.store_global a[1, 8], row
      frag.store_reduced OP, b[1, 8], meeting[0, 0, 0], 4, 160
      frag.store_reduced OP, b[2, 0], meeting[0, 0, 0], 4, 160
    }
    """
    for op, start in (("sum", "0.0"), ("max", "-inf")):
        kernel = parse_kernel(text.replace("OP", op).replace("START", start))
        assert verify(kernel) == []
        x = np.random.default_rng(1).standard_normal((64, 151)).astype(np.float32)
        a, b = (np.full((2, 151), np.nan, np.float32) for _ in range(2))
        run_kernel(kernel, {"x": x, "a": a, "b": b}, {"N": 151}, 1)
        assert a.tobytes() == b.tobytes()
        assert np.isnan(b[0]).all() and np.isnan(b[1, :8]).all() and not np.isnan(b[1, 8:]).any()


@pytest.mark.parametrize("warp", range(4))
def test_a_warp_stores_its_columns(warp: int) -> None:
    """32 of each 128, whoever else stores."""
    text = f"""
    kernel k threads 128 cluster 1 grid 1 {{
      global x: f32[64, 160]
      global d: f32[1, 160]
      shared meeting: f32[1][4x160] at 0
      t: frag<f32, 64x160> = frag.load_global x[0, 0]
      frag.reduce_to_shared sum, meeting[0, 0, 0], t
      cta.sync
      on %warp {warp} {{ frag.store_reduced sum, d[0, 0], meeting[0, 0, 0], 4, 160 }}
    }}
    """
    d = np.zeros((1, 160), np.float32)
    found = run_kernel(parse_kernel(text), {"x": np.ones((64, 160), np.float32), "d": d}, {}, 1)
    own = np.arange(160) // 32 % 4 == warp
    assert np.array_equal(d[0], np.where(own, 64, 0))
    assert found.counts["store bytes"] == 4 * own.sum()


def test_blocks_and_groups_fold_in_the_thread() -> None:
    """128x64 to 64x8 without any other lane, then to 64x1: the same sum in two steps."""
    text = """
    kernel k threads 128 cluster 1 grid 1 {
      global x: f32[128, 64]
      global near: f32[64, 8]
      global d: f32[64, 1]
      t: frag<f32, 128x64> = frag.load_global x[0, 0]
      zero: frag<f32, 64x8> = frag.fill 0.0
      some: frag<f32, 64x8> = frag.reduce sum, zero, t
      frag.store_global near[0, 0], some
      one: frag<f32, 64x1> = frag.fill 1.0
      all: frag<f32, 64x1> = frag.reduce sum, one, some
      frag.store_global d[0, 0], all
    }
    """
    kernel = parse_kernel(text)
    assert verify(kernel) == []
    x = np.random.default_rng(2).standard_normal((128, 64)).astype(np.float32)
    near, d = np.zeros((64, 8), np.float32), np.zeros((64, 1), np.float32)
    run_kernel(kernel, {"x": x, "near": near, "d": d}, {}, 1)
    want = x[:64, :8].copy()
    for block in (x[:64], x[64:]):
        for c in range(8 if block is x[:64] else 0, 64, 8):
            want += block[:, c : c + 8]
    assert not np.array_equal(near, want), "the second block begins at its first group"
    want = x[:64, :8].copy()
    for part in (*np.split(x[:64], 8, 1)[1:], *np.split(x[64:], 8, 1)):
        want = want + part
    assert np.array_equal(near, want)
    pairs = want[:, ::2] + want[:, 1::2]
    quads = (pairs[:, 0] + pairs[:, 1]) + (pairs[:, 2] + pairs[:, 3])
    assert np.array_equal(d[:, 0], np.float32(1) + quads)


TWO_PHASES = """
kernel {name} threads 128 cluster 1 grid G {{
  param G: i32
  param M: i32
  param N: i32
  global x: f32[M, N]
  global d: f32[G, N]
  shared meeting: f32[1][4x64] at 0
  for c in 0 .. N step 64 {{
    zero: frag<f32, 1x64> = frag.fill 0.0
    t: frag<f32, 64x64> = frag.load_global x[%ctaid.x * 64, c]
    frag.reduce_to_shared sum, meeting[0, 0, 0], t
    cta.sync
    sum: frag<f32, 1x64> = frag.reduce_from_shared sum, zero, meeting[0, 0, 0], 4
    frag.store_global d[%ctaid.x, c], sum
    cta.sync
  }}
}}
"""


def test_two_phases() -> None:
    """Each CTA stores its sums, a second grid adds them: the same bits whoever comes first."""
    x = np.random.default_rng(3).standard_normal((300, 70)).astype(np.float32)
    parts, results = np.zeros((5, 70), np.float32), []
    for seed in range(3):
        d = np.zeros((1, 70), np.float32)
        for name, source, target in (("first", x, parts), ("second", parts, d)):
            params = {"G": len(target), "M": len(source), "N": 70}
            kernel = parse_kernel(TWO_PHASES.format(name=name))
            run_kernel(kernel, {"x": source, "d": target}, params, len(target), seed=seed)
        results.append(d)
    assert np.array_equal(results[0], column_sums(column_sums(x, 64), 64))
    assert all(np.array_equal(results[0], d) for d in results)


@pytest.mark.parametrize(("op", "worst"), [("max", -7.0), ("min", 7.0)])
def test_rows_that_an_index_names_twice(op: str, worst: float) -> None:
    """Every element of a row counts, whatever its sign; negative indices are nowhere."""
    text = f"""
    kernel k threads 128 cluster 1 grid 1 {{
      global x: f32[64, 8] align 8
      global order: s32[64, 1]
      global d: f32[5, 8] align 8
      near: frag<s32, 64x1> = frag.load_global order[0, 0]
      t: frag<f32, 64x8> = frag.load_global x[0, 0]
      frag.red_global {op}, d[0, 0], t, limit=60, index=near
    }}
    """
    rng = np.random.default_rng(4)
    x = rng.standard_normal((64, 8)).astype(np.float32)
    order = rng.integers(-1, 4, (64, 1)).astype(np.int32)
    d = np.full((5, 8), worst, np.float32)
    want = d.copy()
    for i in range(60):
        if order[i, 0] >= 0:
            at = order[i, 0]
            want[at] = (np.maximum if op == "max" else np.minimum)(want[at], x[i])
    run_kernel(parse_kernel(text), {"x": x, "order": order, "d": d}, {}, 1)
    assert np.array_equal(d, want) and (d[4] == worst).all()
