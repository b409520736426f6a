"""``tcgen05`` as CUDA: cubins for sm_100a without spills, and what the instructions are told."""

from __future__ import annotations

import re

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import CompileError, compile_cubin
from lowering.cuda.resources import read_resources
from lowering.ground.errors import InternalError
from lowering.kernel.text import parse_kernel, print_kernel
from tests.blackwell import NOT_FINAL, Tile, final

TILES = {
    "registers": Tile(by_tma=False),
    "tma": Tile(n=256),
    "two-blocks": Tile(m=256, n=64, stages=3, by_tma=False),
    "two-warpgroups": Tile(m=256, n=128, stages=3, groups=2),
    "in-place": Tile(n=128, sums=0),
}


@pytest.mark.sampled
@pytest.mark.parametrize("tile", TILES.values(), ids=TILES)
def test_cubin(tile: Tile) -> None:
    compiled = compile_cubin(emit_cuda(final(tile)), arch="sm_100a")
    resources = read_resources(compiled, "linear")
    assert resources.clean, resources


def test_other_targets_have_no_such_instruction() -> None:
    with pytest.raises(CompileError, match=r"tcgen05.*not supported on .target 'sm_90a'"):
        compile_cubin(emit_cuda(final()), arch="sm_90a")


def test_what_a_product_is_told() -> None:
    text = emit_kernel(final(Tile(m=256, n=64, k=32, stages=3, groups=2))).split("__global__")[1]
    found = re.findall(r"tcgen05_mma_f16\(\n(.*?)\);", text, re.DOTALL)
    calls = [[x.strip() for x in call.split(",\n")] for call in found]
    cells = "tensor_memory + stage_tile * 128"
    assert [call[0] for call in calls] == [cells, f"{cells} + 64"] * 2
    # Lines of 64 bytes: 32 bytes of K further within the line, 128 rows further by 8 KiB.
    first, second = "T6_desc + stage_k * 1024", "T6_desc + 512 + stage_k * 1024"
    places = first, second, f"{first} + 2", f"{second} + 2"
    assert [call[1] for call in calls] == [f"ptx::descriptor(0x80004020, {at})" for at in places]
    assert {call[3] for call in calls} == {"0x8100490"}
    assert [call[4] for call in calls] == ["0 < k", "0 < k", "true", "true"]


def test_columns_that_are_no_power_of_two_are_several_loads() -> None:
    """And each warp reads its own 32 lanes, 16 at a time."""
    kernel = parse_kernel(
        print_kernel(final(Tile(by_tma=False)))
        .replace("128x32", "128x24").replace("128x24]", "128x32]")
    )  # fmt: skip
    text = emit_kernel(kernel)
    assert "t8_before + 8,\n              tensor_memory" in text
    assert text.count("(warpgroup_warp << 21) + 0x100010") == 1
    assert {"x2", "x1"} == set(re.findall(r"16x256b\.(x\d+)", text))


@pytest.mark.parametrize("fault", NOT_FINAL)
def test_what_is_no_final_kernel(fault: str) -> None:
    with pytest.raises(InternalError, match=re.escape(fault)):
        emit_kernel(NOT_FINAL[fault]())
