"""Every schedule through NVRTC, without a GPU: resources, machine code, shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lowering.cuda.sass import count_opcodes
from lowering.hopper import MBARRIER_BYTES, registers_at_entry
from lowering.ir.nodes import For, TmaLoad, Wgmma
from lowering.ir.text import print_stmt
from lowering.ir.visit import walk
from tests.api.on_machine import kernel
from tests.api.sass_loops import innermost_loop
from tests.schedules import SCHEDULES, for_result
from wsched.compiled import CompiledFusion
from wsched.fusion import DataType
from wsched.schedule.limits import shared_bytes

DIVISION = {"MUFU", "I2F", "F2I", "CALL"}
"""What ptxas makes of a division of integers: a reciprocal in floating point, or a call."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of its own: what is tested was compiled now, by this NVRTC."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cubins")
        patch.setenv("WSCHED_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="module", params=SCHEDULES)
def bf16(request: pytest.FixtureRequest) -> CompiledFusion:
    return kernel(SCHEDULES[request.param])


@pytest.fixture(scope="module")
def sass(bf16: CompiledFusion) -> str:
    return bf16.dump("sass")


def test_resources_are_clean(bf16: CompiledFusion) -> None:
    found = bf16.resources
    assert found.clean, str(found)
    assert found.static_shared == 0
    entry = registers_at_entry(bf16.kernel.threads)
    if bf16.params.num_registers is None:
        assert found.registers <= entry
    else:
        assert found.registers == entry


def test_wide_results_are_clean_too() -> None:
    for name in ("coop_128x256", "coop_256x128", "coop_3_groups", "pingpong_64x256"):
        found = kernel(SCHEDULES[name], "f16", "f32").resources
        assert found.clean, f"{name}: {found}"


def test_instructions(bf16: CompiledFusion, sass: str) -> None:
    """Per role: one wgmma for each 64 rows and 16 k, one TMA for each box, no spills or calls."""
    counts, tile, warp = count_opcodes(sass), bf16.params.output_tile, bf16.params.tile_sizes
    assert counts["HGMMA"] == warp.warp_tile.m // 64 * tile.k // 16
    assert counts["UTMALDG"] == 2 * tile.k // 64
    assert counts["UTMASTG"] == tile.n // 64
    assert counts["STSM"] == warp.warp_tile.m // 64 * tile.n // 16
    assert not {"LDL", "STL", "CALL"} & set(counts)


@pytest.mark.parametrize("opcode", ["HGMMA", "UTMALDG"])
def test_no_division_in_the_machine_code_of_a_k_step(sass: str, opcode: str) -> None:
    loop = count_opcodes("\n".join(innermost_loop(sass, opcode)))
    assert loop[opcode] == count_opcodes(sass)[opcode]
    assert not DIVISION & set(loop), loop
    # The roles meet at mbarriers only; a named barrier in this loop would be a mistake.
    assert "BAR" not in loop, loop


@pytest.mark.parametrize("step", [Wgmma, TmaLoad])
def test_no_division_in_the_loop_of_a_k_step(bf16: CompiledFusion, step: type) -> None:
    loops = [s for s in walk(bf16.kernel.body) if isinstance(s, For)]
    inner = [s for s in loops if any(isinstance(x, step) for x in walk(s.body))]
    text = print_stmt(min(inner, key=lambda s: len(print_stmt(s))))
    body = text.partition("\n")[2]
    assert not re.search(r" // | % |ceildiv", body), text


def test_shared_memory_is_as_predicted(bf16: CompiledFusion) -> None:
    stage, epilogue = shared_bytes(bf16.params, DataType.BFloat16, DataType.BFloat16)
    stages = bf16.params.circular_buffer_options.smem_circular_buffer_stage
    wanted = stages * stage + epilogue + 2 * stages * MBARRIER_BYTES
    assert bf16.kernel.shared_bytes == wanted


@pytest.mark.parametrize("name", SCHEDULES)
def test_shared_memory_of_wide_results_is_as_predicted(name: str) -> None:
    params = for_result(SCHEDULES[name], "f32")
    stage, epilogue = shared_bytes(params, DataType.BFloat16, DataType.Float)
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    wanted = stages * stage + epilogue + 2 * stages * MBARRIER_BYTES
    assert kernel(params, "bf16", "f32").kernel.shared_bytes == wanted


def test_the_loop_finder_sees_a_division() -> None:
    text = (
        ".L_x_1:\n  /*0010*/ MUFU.RCP R0, R0 ;\n.L_x_2:\n  /*0020*/ HGMMA R1 ;\n"
        "  /*0030*/ BRA `(.L_x_2) ;\n  /*0040*/ UTMALDG R2 ;\n  /*0050*/ BRA `(.L_x_1) ;\n"
    )
    assert set(count_opcodes("\n".join(innermost_loop(text, "HGMMA")))) == {"HGMMA", "BRA"}
    assert "MUFU" in count_opcodes("\n".join(innermost_loop(text, "UTMALDG")))
    with pytest.raises(ValueError, match="no loop contains all 0 STSM"):
        innermost_loop(text, "STSM")
