"""Random numbers on the machine: Philox by its published vectors, and which element has which."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from lowering.machine.random import philox, uniform

ONES = (1 << 32) - 1
KNOWN = [  # key, counter, result: known answers of Random123, philox4x32 with 10 rounds
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES), (ONES,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0xA4093822, 0x299F31D0), (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip

KERNEL = """
kernel noise threads 128 cluster 1 grid ceildiv(M, 64) {
  param M: i32
  param N: i32
  param fixed: i64
  global state: s64[2]
  global d: f32[M, N]
  global column: f32[M, 1]
  global row: f32[1, N]
  seed: i64 = ld.global.scalar state[0]
  behind: i64 = ld.global.scalar state[1]
  let top: i32 = %ctaid.x * 64
  for c in 0 .. N step 32 {
    t: frag<f32, 64x32> = frag.random seed, behind // 4:i64, top * N + c, N
    frag.store_global d[top, c], t
    line: frag<f32, 1x32> = frag.random seed, fixed, c, 0
    if top == 0 { frag.store_global row[0, c], line }
  }
  once: frag<f32, 64x1> = frag.random seed, fixed, top * 3, 3
  frag.store_global column[top, 0], once
}
"""


def numbers(seed: int, offset: int, places: np.ndarray) -> np.ndarray:
    """What elements with these numbers are, one by one."""
    words = [philox(seed, offset, np.array(n // 4))[n % 4] for n in places.ravel()]
    return uniform(np.array(words, np.uint32)).reshape(places.shape)


@pytest.mark.parametrize(("key", "counter", "result"), KNOWN)
def test_known_answers(
    key: tuple[int, ...], counter: tuple[int, ...], result: tuple[int, ...]
) -> None:
    seed, offset, high = (a | b << 32 for a, b in (key, counter[:2], counter[2:]))
    assert tuple(philox(seed, offset, np.array(high, np.uint64))) == result


def test_uniform_numbers_stay_below_one() -> None:
    found = uniform(np.array([0, 1 << 31, ONES - 255, ONES], np.uint32))
    assert found.dtype == np.float32
    assert found.tolist() == [2.0**-33, 0.5, 1 - 2.0**-24, 0.0]


@pytest.mark.parametrize(("m", "n"), [(65, 33), (3, 40)])
def test_elements_by_number(m: int, n: int) -> None:
    """Rows that begin at any number; a seed and an offset from memory, one with its top bit set."""
    kernel = parse_kernel(KERNEL)
    assert verify(kernel) == []
    seed, behind, fixed = (1 << 63) + 12345, 4 * 99 + 3, 7
    d, column, row = (np.full(s, np.nan, np.float32) for s in ((m, n), (m, 1), (1, n)))
    state = np.array([seed, behind], np.uint64).view(np.int64)
    arrays = {"state": state, "d": d, "column": column, "row": row}
    run_kernel(kernel, arrays, {"M": m, "N": n, "fixed": fixed}, -(-m // 64))
    assert np.array_equal(d, numbers(seed, 99, np.arange(m * n).reshape(m, n)))
    assert np.array_equal(column, numbers(seed, fixed, 3 * np.arange(m)[:, None]))
    assert np.array_equal(row, numbers(seed, fixed, np.arange(n)[None]))


def test_a_negative_number() -> None:
    text = KERNEL.replace("top * 3, 3", "top - 3, 1")
    d, column, row = (np.zeros(s, np.float32) for s in ((1, 1), (1, 1), (1, 1)))
    arrays = {"state": np.zeros(2, np.int64), "d": d, "column": column, "row": row}
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(text), arrays, {"M": 1, "N": 1, "fixed": 0}, 1, adversary="eager")
    assert error.value.what == "an element has the number -3, which is negative"
