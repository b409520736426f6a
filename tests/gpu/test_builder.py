"""Kernels of ``MatmulBuilder`` on a GPU: with one stage and two, by both ways, and what they print.

Their twins on the machine are in tests/front/test_builder.py.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest

from wsched import DebugPrint, MatmulBuilder, through_mlir
from wsched.cli.check import check, sized_inputs
from wsched.front.sizes import Extents

pytestmark = pytest.mark.gpu

OPTIONS: dict[str, dict[str, Any]] = {
    "two warpgroups": {},
    "one warpgroup": {"block_m": 64, "b_layout": "kn", "output_type": "f16"},
    "a tile for each CTA": {"persistent": False, "input_type": "bf16", "smem_epilogue": False},
    "tf32": {"block_n": 64, "input_type": "tf32", "block_k": 32},
}


@pytest.mark.parametrize("sizes", ["200x136x40", "1000x520x328", "4096x2048x1024", "1x8x8"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["multistage", "warpspecialized"])
def test_few_stages(strategy: str, stages: int, options: str, sizes: str) -> None:
    kernel = MatmulBuilder(strategy, num_stages=stages, **OPTIONS[options]).build()
    assert kernel.resources.clean
    for seed in (0, 1):
        assert check(kernel, sized_inputs(kernel, Extents.parse(sizes), seed, "cuda")).passed


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("strategy", ["multistage", "warpspecialized"])
def test_bits_by_way_of_mlir(strategy: str, stages: int) -> None:
    torch, _ = (pytest.importorskip(name) for name in ("torch", "triton"))
    kernel = MatmulBuilder(strategy, num_stages=stages).build()
    inputs = sized_inputs(kernel, Extents.parse("1000x520x328"), 0, "cuda")
    (one,), (other,) = kernel(*inputs), through_mlir(kernel)(*inputs)
    assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.filterwarnings("ignore::wsched.run.prints.PrintWarning")
@pytest.mark.parametrize("mlir", [False, True], ids=["cuda", "mlir"])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("strategy", ["multistage", "warpspecialized"])
def test_prints(strategy: str, stages: int, mlir: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """A size and an element of the sums, each by the one thread that the predicates leave."""
    import torch

    asked = (
        DebugPrint("compute", "K", cta=0, group=1, tile=0, step=1),
        DebugPrint("T8", "T8[3, 5]", cta=0, group=0, tile=0, step=1),
    )
    kernel = MatmulBuilder(strategy, block_n=64, num_stages=stages, prints=asked).build()
    a, b = (
        (torch.arange(n * 72, device="cuda").reshape(n, 72) % 5 - 2.0).half() for n in (128, 64)
    )
    run = kernel
    if mlir:
        pytest.importorskip("triton")
        run = through_mlir(kernel)
    (out,) = run(a, b.t())
    torch.cuda.synchronize()  # until then what kernels print may be in a buffer of the device
    ctypes.CDLL(None).fflush(None)  # and then in one of libc, which pytest does not empty
    sum_ = (a[3].double() @ b[5].double()).item()
    assert out[3, 5].item() == sum_
    said = capfd.readouterr().out.splitlines()
    lines = [m[1] for x in said if (m := re.fullmatch(r"\d+ (cta .*)", x))]
    assert sorted(lines) == [
        f"cta 0 compute warp 0: T8: T8_3_5 = {sum_:g}", "cta 0 compute warp 4: T8: K = 72",
    ]  # fmt: skip
