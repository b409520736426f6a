"""Every schedule through NVRTC, without a GPU: resources, machine code, shared memory."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Var
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, Let, TmaLoad, TmaStore, Wgmma
from lowering.kernel.sync import CtaNumber
from lowering.kernel.text import print_stmt
from lowering.kernel.visit import walk
from lowering.nest.loops_from_queue import STAGES
from lowering.target.hopper import HOPPER
from lowering.target.ptx import MBARRIER_BYTES, TMA_BOX_MAX
from tests.lowering.cuda.opcodes import count_opcodes
from tests.on_machine import kernel
from tests.sass_loops import innermost_loops
from tests.schedules import QUICK, SCHEDULES, for_result
from tests.tiers import in_tiers
from wsched.fusion import DataType, the_matmul
from wsched.run.compiled import CompiledFusion
from wsched.schedule.matmul.chunks import chunk_columns
from wsched.schedule.matmul.limits import shared_bytes
from wsched.schedule.matmul.params import CachePolicies, CachePolicy, MatmulParams

DIVISION = {"MUFU", "I2F", "F2I", "CALL"}
"""What ptxas makes of a division of integers: a reciprocal in floating point, or a call."""


SAME_CODE = {
    "coop_128x192", "coop_in_flight_2", "coop_2_stages", "coop_traversal", "coop_traversal_odd",
    "coop_columns", "coop_24_240", "coop_no_setmaxnreg", "tile_per_cta_256", "cluster_1x2",
    "pipelined_tile_per_cta", "pingpong_in_flight_0", "dynamic_1_group", "dynamic_cluster_2x2",
}  # fmt: skip
"""They differ from other schedules in sizes and in the order of tiles only."""


@pytest.fixture(scope="module", params=in_tiers(SCHEDULES, QUICK))
def bf16(request: pytest.FixtureRequest) -> CompiledFusion:
    return kernel(SCHEDULES[request.param])


@pytest.fixture(scope="module")
def sass(bf16: CompiledFusion) -> str:
    if bf16.params in (SCHEDULES[name] for name in SAME_CODE):
        pytest.skip("same instructions as another schedule; a disassembly takes 0.7 s")
    return bf16.dump("sass")


@pytest.mark.sampled
def test_resources_are_clean(bf16: CompiledFusion) -> None:
    found = bf16.resources
    assert found.clean, str(found)
    assert found.static_shared == 0
    entry = HOPPER.registers_at_entry(bf16.kernel.threads)
    if bf16.params.num_registers is None:
        assert found.registers <= entry
    else:
        assert found.registers == entry


@pytest.mark.slow
def test_wide_results_are_clean_too() -> None:
    for name in ("coop_128x256", "coop_256x128", "coop_3_groups", "pingpong_64x256"):
        found = kernel(SCHEDULES[name], "f16", "f32").resources
        assert found.clean, f"{name}: {found}"


@pytest.mark.slow
def test_cache_policies_reach_the_copies() -> None:
    """Of A, B and the result, each where it was asked for; the rest of the kernel is the same."""
    first, last = CachePolicy.EvictFirst, CachePolicy.EvictLast
    for name in ("coop_128x128", "cluster_2x1", "pipelined"):
        plain = kernel(SCHEDULES[name])
        hinted = kernel(replace(SCHEDULES[name], cache_policies=CachePolicies(last, last, first)))
        assert hinted.resources.clean, f"{name}: {hinted.resources}"
        assert [print_stmt(s) for s in walk(hinted.kernel.body)] == [
            f"{print_stmt(s)}, cache=evict_{'last' if isinstance(s, TmaLoad) else 'first'}"
            if isinstance(s, (TmaLoad, TmaStore)) else print_stmt(s)
            for s in walk(plain.kernel.body)
        ]  # fmt: skip
        copies = re.findall(r"(?:UTMALDG|UTMASTG)\S* .*", hinted.dump("sass"))
        assert copies
        assert all(", desc[" in x for x in copies), copies


def test_a_policy_of_one_operand_only() -> None:
    params = replace(SCHEDULES["coop_128x128"], cache_policies=CachePolicies(CachePolicy.EvictLast))
    found = kernel(params)
    hinted = [s.src.map for s in walk(found.kernel.body) if getattr(s, "cache", "") == "evict_last"]
    assert hinted == [the_matmul(found.fusion).a.name]
    assert "evict_first" not in found.source.partition("__global__")[2]


@pytest.mark.sampled(1)
def test_instructions(bf16: CompiledFusion, sass: str) -> None:
    """Per role: one wgmma for each 64 rows and 16 k, one TMA for each box, no spills or calls."""
    counts, tile, warp = count_opcodes(sass), bf16.params.output_tile, bf16.params.tile_sizes
    chunk = chunk_columns(bf16.params, DataType.BFloat16)
    assert counts["HGMMA"] == warp.warp_tile.m // 64 * tile.k // 16
    # Pipelined kernels load in two places: ahead of the first tile, and one step per k step.
    places = 1 if bf16.params.warp_specialized else 2
    boxes = sum(-(-size // TMA_BOX_MAX) for size in (tile.m, tile.n))
    assert counts["UTMALDG"] == places * boxes * max(tile.k // 64, 1)
    blocks = warp.warp_tile.m // 64 if bf16.params.exchange_operands else 1
    # What is stored later is so in a main loop, behind one without steps, and behind all tiles.
    stores = 3 if bf16.params.deferred_stores else 1
    assert counts["UTMASTG"] == stores * (warp.warp_tile.n // chunk * blocks)
    matrices = warp.warp_tile.m // 64 * warp.warp_tile.n // min(chunk, 16)
    assert counts["STSM"] == stores * matrices
    assert not {"LDL", "STL", "CALL"} & set(counts)
    # A prefetch of each descriptor; a wait for earlier grids in each role, and its trigger; one
    # more wait in front of a counter of numbers.
    assert counts["UTMACCTL"] == 3
    roles = 2 if bf16.params.warp_specialized else 1
    assert counts["PREEXIT"] == roles
    assert counts["ACQBULK"] == roles + (number_bytes(bf16.kernel) > 0)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("opcode", ["HGMMA", "UTMALDG"])
def test_no_division_in_the_machine_code_of_a_k_step(
    bf16: CompiledFusion, sass: str, opcode: str
) -> None:
    loops = [count_opcodes("\n".join(lines)) for lines in innermost_loops(sass, opcode)]
    assert sum(loop[opcode] for loop in loops) == count_opcodes(sass)[opcode]
    for loop in loops:
        assert not DIVISION & set(loop), loop
        # The roles meet at mbarriers only; a named barrier in this loop would be a mistake but for
        # the two around what a warpgroup writes of the tile before, chunk by chunk.
        stored = loop["UTMASTG"] if bf16.params.deferred_stores else 0
        assert loop["BAR"] == 2 * stored, loop


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pipelined", "pipelined_256"])
def test_bytes_of_clipped_boxes_are_not_computed_in_a_k_step(name: str) -> None:
    """A minimum is one instruction here, which the compiler would rather repeat than keep a
    register; nothing else in these loops needs one.
    """
    sass = kernel(SCHEDULES[name]).dump("sass")
    assert "VIMNMX" in count_opcodes(sass)
    for lines in innermost_loops(sass, "UTMALDG"):
        assert "VIMNMX" not in count_opcodes("\n".join(lines))


def k_loop(body: Body, step: type) -> For:
    """The shortest loop with a statement of type ``step``."""
    loops = [s for s in walk(body) if isinstance(s, For)]
    around = [s for s in loops if any(isinstance(x, step) for x in walk(s.body))]
    return min(around, key=lambda s: len(list(walk(s.body))))


def divisions(loop: For) -> list[str]:
    """Statements of a loop that divide by something else than a power of two."""
    shift = "|".join(str(1 << bits) for bits in range(1, 9))
    lines = [print_stmt(s) for s in walk(loop.body)]
    return [x for x in lines if re.search(rf" (//|%) (?!({shift})\b)|ceildiv", x)]


def test_the_search_for_divisions_sees_one() -> None:
    i, n = Var("i"), Var("n")
    lets = tuple(Let(Var(f"x{j}"), e) for j, e in enumerate((i // n, i // 4, i % 3, i * n)))
    assert [line.split()[1] for line in divisions(For(i, ZERO, n, lets))] == ["x0:", "x2:"]


@pytest.mark.parametrize("step", [Wgmma, TmaLoad])
def test_no_division_in_the_loop_of_a_k_step(bf16: CompiledFusion, step: type) -> None:
    assert divisions(k_loop(bf16.kernel.body, step)) == []


def test_no_division_by_a_run_time_value_in_the_loop_over_tiles(bf16: CompiledFusion) -> None:
    loops = [s for s in walk(bf16.kernel.body) if isinstance(s, For)]
    found = {line for loop in loops for line in divisions(loop)}
    # By a constant, C++ compilers multiply by themselves.
    assert {x for x in found if re.search(r" (//|%) \D|ceildiv.*, \D", x)} == set()


def queue_bytes(params: MatmulParams) -> int:
    """Words and barriers of a tile queue."""
    return STAGES * (2 * MBARRIER_BYTES + 4) * params.dynamic


def test_shared_memory_is_as_predicted(bf16: CompiledFusion) -> None:
    stage, epilogue = shared_bytes(bf16.params, DataType.BFloat16, DataType.BFloat16)
    stages = bf16.params.circular_buffer_options.smem_circular_buffer_stage
    wanted = stages * stage + epilogue + 2 * stages * MBARRIER_BYTES + queue_bytes(bf16.params)
    assert bf16.kernel.shared_bytes == wanted + number_bytes(bf16.kernel)


def number_bytes(made: Kernel) -> int:
    """Bytes of the word that hands the number of a CTA over, where it takes one."""
    return DType.S32.bytes * any(isinstance(s, CtaNumber) for s in made.body)


@pytest.mark.parametrize("name", in_tiers(SCHEDULES, QUICK))
def test_shared_memory_of_wide_results_is_as_predicted(name: str) -> None:
    params = for_result(SCHEDULES[name], "f32")
    stage, epilogue = shared_bytes(params, DataType.BFloat16, DataType.Float)
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    wanted = stages * stage + epilogue + 2 * stages * MBARRIER_BYTES + queue_bytes(params)
    made = kernel(params, "bf16", "f32").kernel
    assert made.shared_bytes == wanted + number_bytes(made)


def test_the_loop_finder_sees_a_division() -> None:
    text = (
        ".L_x_1:\n  /*0010*/ MUFU.RCP R0, R0 ;\n.L_x_2:\n  /*0020*/ HGMMA R1 ;\n"
        "  /*0030*/ BRA `(.L_x_2) ;\n  /*0040*/ UTMALDG R2 ;\n  /*0050*/ BRA `(.L_x_1) ;\n"
    )
    (inner,), (outer,) = (innermost_loops(text, opcode) for opcode in ("HGMMA", "UTMALDG"))
    assert set(count_opcodes("\n".join(inner))) == {"HGMMA", "BRA"}
    assert "MUFU" in count_opcodes("\n".join(outer))
    with pytest.raises(ValueError, match="there is no STSM"):
        innermost_loops(text, "STSM")
    with pytest.raises(ValueError, match=r"no loop around line 8: /\*0060\*/ EXIT"):
        innermost_loops(text + "  /*0060*/ EXIT ;\n", "EXIT")
