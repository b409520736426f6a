"""``copy.tile`` on the machine: what lands where, who sees it, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from tests.lowering.cuda.test_copy_tile import CASES
from tests.lowering.cuda.tiles import tile_text

HELD: dict[str, Any] = {"u8": np.uint8, "bf16": np.uint16, "f16": np.uint16, "f32": np.float32}


def run(text: str, dtype: str, shape: tuple[int, int, int], adversary: Any = "random") -> Any:
    """D after a run on consecutive numbers; the tensor's rows are 16 bytes longer."""
    k = parse_kernel(text)
    assert verify(k) == []
    m, n, pitch = shape
    x = (np.arange(2 * m * pitch) % 251 + 1).reshape(2, m, pitch).astype(HELD[dtype])[..., :n]
    d = np.zeros((256, 512), HELD[dtype])
    run_kernel(k, {"X": x, "D": d}, {"M": m, "N": n}, 1, adversary=adversary)
    return x, d


@pytest.mark.parametrize("adversary", ["eager", "lazy", "random"])
@pytest.mark.parametrize(("dtype", "size", "cols", "span", "at", "align", "rows"), CASES)
def test_a_tile(
    dtype: str, size: int, cols: int, span: int, at: int, align: int, rows: int, adversary: Any
) -> None:
    step = max(align, size) // size
    m, n = 150, -(-(at + cols // 2 + 1) // step) * step
    text = tile_text(dtype, size, cols, span, at, align, rows)
    x, d = run(text, dtype, (m, n, -(-n // 16) * 16 + 16 // size), adversary)
    there = min(rows, m - 64)
    wide = min(cols, n - at)
    assert np.array_equal(d[128 : 128 + there, :wide], x[1, 64 : 64 + there, at : at + wide])
    assert not d[128 + there : 128 + rows, :cols].any() and not d[128:, wide:cols][:there].any()


def test_without_a_fence_tma_does_not_see_it() -> None:
    text = tile_text("bf16", 2, 64, 128, 0, 1, 128)
    x, d = run(text.replace("fence.proxy.async", ""), "bf16", (200, 64, 64), "lazy")
    assert not np.array_equal(d[128:, :64], x[1, 64:192])


def test_a_column_between_pieces() -> None:
    with pytest.raises(MachineError, match="column 7 of X is no multiple of 2"):
        run(tile_text("bf16", 2, 64, 128, 7, 4, 64), "bf16", (200, 64, 64))


def test_rows_that_are_not_aligned_as_declared() -> None:
    with pytest.raises(UnsupportedError) as error:
        run(tile_text("bf16", 2, 64, 128, 0, 4, 64), "bf16", (200, 64, 65))
    assert error.value.supported == "multiples of 4 bytes"


def test_two_copies_that_nothing_orders() -> None:
    """Of two warpgroups to one place; behind a barrier one may write over what the other did."""
    text = """kernel k threads 256 cluster 1 grid 1 {
      global X: f32[64, 8] align 8
      shared S: f32[1][64x8] at 0
      named_barrier turn[1] id 1 threads 256
      roles {
        role one warps 0 .. 4 { copy.tile S[0, 0, 0], X[0, 0], 64, 8 SYNC }
        role two warps 4 .. 8 { SYNC copy.tile S[0, 0, 0], X[0, 0], 64, 8 }
      }
    }"""
    x = {"X": np.zeros((64, 8), np.float32)}
    run_kernel(parse_kernel(text.replace("SYNC", "bar.sync turn[0]")), x, {}, 1, races=True)
    with pytest.raises(MachineError, match="nothing orders the two"):
        run_kernel(parse_kernel(text.replace("SYNC", "")), x, {}, 1, races=True)
