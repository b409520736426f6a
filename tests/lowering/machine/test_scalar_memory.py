"""Values that the machine reads from memory: bounds of loops, coordinates, limits of rows, rows by
index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import DeadlockError, MachineError, run_kernel
from tests.lowering.machine.kernels import from_dtype, integers, matmul_text, to_dtype


def ragged_matmul(load: str = "steps[tile, 0]") -> str:
    """Each tile of D sums up as many k steps as memory says, on both sides of the ring."""
    text = matmul_text()
    for role, tile in (("load", "tile"), ("compute", "tile2")):
        index = load if role == "load" else f"steps[{tile}, 0]"
        read = f"n_{role}: i32 = ld.global.scalar {index}\n"
        loop = f"for {'k' if role == 'load' else 'k2'} in 0 .. ks "
        assert text.count(loop) == 1
        text = text.replace(loop, f"{read}{loop.replace('ks', f'n_{role}')}")
    return text.replace("tensormap a:", "global steps: s32[T, 1]\n  tensormap a:").replace(
        "param K: i32", "param K: i32\n  param T: i32"
    )


def run_ragged(text: str, counts: list[int], adversary: Any = "random", seed: int = 0) -> bool:
    """Four tiles of 128 x 64 and up to four k steps, on two CTAs; whether all of it is right."""
    rng = np.random.default_rng(seed)
    a, b = integers(rng, 256, 256), integers(rng, 128, 256)
    d = to_dtype(np.full((256, 128), np.nan, np.float32), "bf16")
    k = parse_kernel(text)
    assert verify(k) == []
    steps = np.array(counts, np.int32)[:, None]
    tensors = {"a": a, "b": b, "d": d, "steps": steps}
    params = {"M": 256, "N": 128, "K": 256, "T": 4}
    run_kernel(k, tensors, params, 2, seed=seed, adversary=adversary)
    want = np.zeros((256, 128), np.float32)
    for tile, n in enumerate(counts):
        rows, cols = tile % 2 * 128, tile // 2 * 64
        left, right = (from_dtype(x, "bf16")[:, : 64 * n] for x in (a, b))
        want[rows : rows + 128, cols : cols + 64] = left[rows : rows + 128] @ right[cols:][:64].T
    return bool(np.array_equal(from_dtype(d, "bf16"), want))


@pytest.mark.parametrize("adversary", ["eager", "lazy", "random", "fair"])
@pytest.mark.parametrize("counts", [[4, 0, 3, 1], [0, 0, 0, 0], [0, 2, 0, 4]])
def test_loops_as_long_as_memory_says(counts: list[int], adversary: str) -> None:
    assert run_ragged(ragged_matmul(), counts, adversary)


def test_sides_that_read_different_bounds_wait_for_ever() -> None:
    with pytest.raises(DeadlockError):
        run_ragged(ragged_matmul("steps[0, 0]"), [1, 2, 3, 4])


GROUPS = """
kernel groups threads 128 cluster 1 dependent grid G {
  param G: i32
  param M: i32
  param N: i32
  global start: s32[G]
  global order: s32[M, 1]
  global scale: f32[G, 1]
  global x: f32[M, N]
  global d: f32[M, N]
  griddepcontrol.wait
  first: i32 = ld.global.scalar start[%ctaid.x]
  end: i32 = ld.global.scalar start[%ctaid.x + 1]
  factor: frag<f32, 1x1> = frag.load_global scale[%ctaid.x, 0]
  for row in first .. end step 64 {
    near: frag<s32, 64x1> = frag.load_global order[row, 0], limit=end - row
    for col in 0 .. N step 64 {
      t: frag<f32, 64x64> = frag.load_global x[LOAD]
      scaled: frag<f32, 64x64> = frag.pointwise mul, t, factor
      frag.store_global d[STORE]
    }
  }
}
"""

PLAIN = ("row, col], limit=end - row", "row, col], scaled, limit=end - row")
GATHER = ("0, col], limit=end - row, index=near", PLAIN[1])
SCATTER = (PLAIN[0], "0, col], scaled, limit=end - row, index=near")


def groups(load: str, store: str) -> str:
    return GROUPS.replace("LOAD]", load).replace("STORE]", store)


@pytest.mark.parametrize(("load", "store"), [PLAIN, GATHER, SCATTER])
@pytest.mark.parametrize("adversary", ["eager", "random"])
def test_rows_of_groups(load: str, store: str, adversary: Any) -> None:
    """Groups of rows, one empty, none a multiple of 64: no row is touched by two groups."""
    rng = np.random.default_rng(1)
    starts = np.array([0, 70, 70, 71, 200], np.int32)
    order = rng.permutation(200).astype(np.int32)[:, None]
    scale = np.array([[2], [3], [5], [7]], np.float32)
    x = rng.integers(-9, 9, (200, 96)).astype(np.float32)
    d = np.full_like(x, np.nan)
    k = parse_kernel(groups(load, store).replace("s32[G]", "s32[G + 1]"))
    assert verify(k) == []
    tensors = {"start": starts, "order": order, "scale": scale, "x": x, "d": d}
    run_kernel(k, tensors, {"G": 4, "M": 200, "N": 96}, 4, adversary=adversary)
    by_row = np.repeat(scale[:, 0], np.diff(starts))[:, None]
    want = np.empty_like(x)
    if (load, store) == SCATTER:
        want[order[:, 0]] = x * by_row
    else:
        want[:] = (x[order[:, 0]] if (load, store) == GATHER else x) * by_row
    assert np.array_equal(d, want)


@pytest.mark.parametrize("trans", [False, True])
def test_rows_and_columns_up_to_a_limit(trans: bool) -> None:
    """Of a tile that is stored as it is, and of one whose rows are columns there."""
    k = parse_kernel(f"""
    kernel k threads 128 cluster 1 dependent grid 1 {{
      param R: i32
      param C: i32
      global x: f32[64, 64]
      global d: f32[64, 64]
      griddepcontrol.wait
      t: frag<f32, 64x64> = frag.load_global x[0, 0]
      frag.store_global d[0, 0], t, limit=R, trans={str(trans).lower()}, limit_cols=C
    }}
    """)
    assert verify(k) == []
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    for rows, cols in ((0, 9), (13, 31), (64, 64), (99, 1), (-3, 5)):
        d, wanted = np.full_like(x, np.nan), np.full_like(x, np.nan)
        run_kernel(k, {"x": x, "d": d}, {"R": rows, "C": cols}, 1)
        mine = x[: max(rows, 0), :cols]
        wanted[: mine.shape[0], : mine.shape[1]] = mine
        assert np.array_equal(d, wanted.T if trans else wanted, equal_nan=True)


def test_a_negative_index_is_nowhere() -> None:
    text = """
    kernel k threads 128 cluster 1 grid 1 {
      global order: s32[64, 1]
      global x: f32[64, 8]
      global d: f32[64, 8]
      near: frag<s32, 64x1> = frag.load_global order[0, 0]
      t: frag<f32, 64x8> = frag.load_global x[0, 0], index=near
      frag.store_global d[0, 0], t
    }
    """
    order = np.where(np.arange(64) % 3, np.arange(64), -1).astype(np.int32)[:, None]
    x, d = np.ones((64, 8), np.float32), np.full((64, 8), np.nan, np.float32)
    run_kernel(parse_kernel(text), {"order": order, "x": x, "d": d}, {}, 1)
    assert np.array_equal(d, x * (order >= 0))
    stores = text.replace(", index=near", "").replace("d[0, 0], t", "d[0, 0], t, index=near")
    d[:] = 7
    run_kernel(parse_kernel(stores), {"order": order, "x": x, "d": d}, {}, 1)
    assert np.array_equal(d, np.where(order >= 0, x, 7))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("griddepcontrol.wait n: i32 = ld.global.scalar sizes[4]",
         "sizes[4] lies outside sizes[4]"),
        ("n: i32 = ld.global.scalar sizes[0] griddepcontrol.wait",
         "global memory before griddepcontrol.wait: earlier grids may still use it"),
        ("griddepcontrol.wait elect { st.global.scalar sizes[4], 1 }",
         "sizes[4] lies outside sizes[4]"),
        ("elect { st.global.scalar sizes[0], 1 } griddepcontrol.wait",
         "global memory before griddepcontrol.wait: earlier grids may still use it"),
        ("griddepcontrol.wait st.global.scalar sizes[0], 1",
         "sizes is written by 32 threads, not by one"),
        ("griddepcontrol.wait n: i32 = ld.global.scalar sizes[%warp], uniform=cta",
         "sizes[1] is 8, and another warp of the CTA got 7 here"),
    ],
)  # fmt: skip
def test_faults(body: str, why: str) -> None:
    text = f"kernel k threads 64 cluster 1 dependent grid 1 {{ global sizes: s32[4] {body} }}"
    sizes = np.array([7, 8, 9, 10], np.int32)
    with pytest.raises(MachineError) as e:
        run_kernel(parse_kernel(text), {"sizes": sizes}, {}, 1, adversary="fair")
    assert e.value.what == why


def test_a_scalar_is_written() -> None:
    text = """
    kernel k threads 32 cluster 1 grid 2 {
      global d: s32[2]
      elect { st.global.scalar d[%ctaid.x], %ctaid.x + 5 }
    }
    """
    d = np.zeros(2, np.int32)
    run_kernel(parse_kernel(text), {"d": d}, {}, 2)
    assert d.tolist() == [5, 6]


def test_types() -> None:
    text = """
    kernel k threads 32 cluster 1 grid 1 {
      global wide: s64[1, 2]
      global flags: bool[2]
      global d: f32[2, 8]
      w: i64 = ld.global.scalar wide[0, 1]
      on: pred = ld.global.scalar flags[1], order=acquire.gpu
      off: pred = ld.global.scalar flags[0], order=volatile
      if on and 4294967296:i64 < w and off == false {
        n: i32 = ld.global.scalar wide[2, 0]
      }
    }
    """
    tensors = {"wide": np.array([[0, 2**33]]), "flags": np.array([False, True]),
               "d": np.zeros((2, 8), np.float32)}  # fmt: skip
    with pytest.raises(MachineError, match=r"wide\[2, 0\] lies outside wide\[1, 2\]"):
        run_kernel(parse_kernel(text), tensors, {}, 1)
