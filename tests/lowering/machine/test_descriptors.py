"""Arrays of tensor maps, and those in device memory, on the machine."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from tests.lowering.cuda.descriptors import GROUPS, LISTS

ADVERSARIES: tuple[Any, ...] = ("eager", "lazy", "random", "fair")


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_list_of_tensors(adversary: Any) -> None:
    """Tensors of different widths, copied column after column by one loop."""
    rng = np.random.default_rng(0)
    widths, k = (128, 64, 192), parse_kernel(LISTS)
    assert verify(k) == []
    xs = [rng.integers(0, 99, (100, n)).astype(np.float32) for n in widths]
    ds = [np.full_like(x, np.nan) for x in xs]
    tensors = {f"X[{i}]": x for i, x in enumerate(xs)} | {f"D[{i}]": d for i, d in enumerate(ds)}
    params = {"M": 100, "N0": 128, "N1": 64, "N2": 192}
    run_kernel(k, tensors, params, 2, adversary=adversary)
    assert all(np.array_equal(x, d) for x, d in zip(xs, ds, strict=True))


def run_groups(text: str, adversary: Any = "random", seed: int = 0, rows: int = 300) -> bool:
    """Groups of rows of one tensor, each through a descriptor that ends where the group does."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 99, (rows, 32)).astype(np.float32)
    starts = np.array([0, 100, 101, 101, 300], np.int32)
    d, k = np.full_like(x, np.nan), parse_kernel(text)
    assert verify(k) == []
    tensors = {"x": x, "d": d, "start": starts} | {f"D[{i}]": d for i in range(2)}
    run_kernel(k, {**tensors, "X": x}, {"M": rows, "G": 4}, 2, adversary=adversary, seed=seed)
    return np.array_equal(d, x)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_descriptors_that_end_with_a_group(adversary: Any) -> None:
    assert all(run_groups(GROUPS, adversary, seed) for seed in range(3))


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("fence.proxy.tensormap.acquire D[%ctaid.x]\n",
         "D[0] is in device memory, and the warp has not acquired it since it changed"),
        ("fence.proxy.tensormap.release\n",
         "D[0] is in device memory, and the warp has not acquired it since it changed"),
    ],
)  # fmt: skip
def test_a_fence_is_missing(missing: str, why: str) -> None:
    assert GROUPS.count(missing) == 1
    with pytest.raises(MachineError) as e:
        run_groups(GROUPS.replace(missing, ""))
    assert e.value.what == why


@pytest.mark.parametrize(("warp", "right"), [(0, True), (1, False)])
def test_a_warp_releases_what_it_has_changed(warp: int, right: bool) -> None:
    """And nothing of others, who may not have changed it yet."""
    text = f"""
    kernel k threads 64 cluster 1 grid 1 {{
      tensormap D[1] device: f32[8, 8] box 8x8
      global d: f32[8, 8]
      shared S: f32[1][8x8] at 0
      on %warp 0 {{
        elect {{
          tensormap.replace.global_address D[0], d[0, 0]
        }}
      }}
      cta.sync
      on %warp {warp} {{
        elect {{
          fence.proxy.tensormap.release
        }}
      }}
      cta.sync
      on %warp 0 {{
        elect {{
          fence.proxy.tensormap.acquire D[0]
          tma.store D[0][0, 0], S[0, 0, 0]
          bulk.commit
          bulk.wait 0
        }}
      }}
    }}
    """
    d = np.zeros((8, 8), np.float32)
    refused = pytest.raises(MachineError, match="has not acquired it since it changed")
    with nullcontext() if right else refused:
        run_kernel(parse_kernel(text), {"D[0]": d, "d": d}, {}, 1)


def test_a_change_that_does_not_wait_for_the_copies() -> None:
    """The store has read shared memory, but not yet written."""
    text = GROUPS.replace("bulk.wait 0", "bulk.wait 0, read=true")
    with pytest.raises(MachineError) as e:
        run_groups(text, "lazy")
    assert e.value.what == "D[1] is changed while a copy uses it"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("tensormap.replace.global_dim D[%ctaid.x], 0, end - first",
         "tensormap.replace.global_dim D[%ctaid.x], 0, M + 1",
         "D[0] is 301x32 where there are 300x32 elements"),
        ("D[%ctaid.x], d[first, 0]", "D[%ctaid.x], d[first, 1]",
         "d[0, 1] lies 4 bytes from the start, no multiple of 16"),
        ("D[%ctaid.x], d[first, 0]", "D[%ctaid.x], d[M + 1, 0]", "d[301, 0] lies outside d"),
        ("D[%ctaid.x], d[first, 0]", "D[%ctaid.x], start2[first, 0]",
         "the strides of start2 are not those of D[0]"),
        ("acquire D[%ctaid.x]", "acquire D[2]", "D[2] lies outside D[2]"),
        ("0, end - first", "0, first", "D[0] would have 0 elements"),
    ],
)  # fmt: skip
def test_faults(before: str, after: str, why: str) -> None:
    text = GROUPS.replace("global start:", "global start2: f32[5, 8] global start:")
    assert text.count(before) == 1
    k = parse_kernel(text.replace(before, after))
    x = np.zeros((300, 32), np.float32)
    tensors = {"x": x, "d": x, "start": np.array([0, 100, 101, 101, 300], np.int32), "X": x,
               "D[0]": x, "D[1]": x, "start2": np.zeros((5, 8), np.float32)}  # fmt: skip
    with pytest.raises(MachineError) as e:
        run_kernel(k, tensors, {"M": 300, "G": 4}, 2, adversary="eager")
    assert e.value.what == why


def test_device_memory_is_acquired_before_the_first_use() -> None:
    text = """
    kernel k threads 32 cluster 1 grid 1 {
      tensormap D device: f32[8, 8] box 8x8
      shared S: f32[1][8x8] at 0
      FENCE
      elect {
        tma.store D[0, 0], S[0, 0, 0]
        bulk.commit
        bulk.wait 0
      }
    }
    """
    d = np.zeros((8, 8), np.float32)
    run_kernel(
        parse_kernel(text.replace("FENCE", "fence.proxy.tensormap.acquire D")), {"D": d}, {}, 1
    )
    with pytest.raises(MachineError) as e:
        run_kernel(parse_kernel(text.replace("FENCE", "")), {"D": d}, {}, 1)
    assert e.value.what == (
        "D is in device memory, and the warp has not acquired it since the kernel began"
    )
