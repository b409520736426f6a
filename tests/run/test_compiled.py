"""A compiled fusion: its name, its threads, and devices that cannot hold its clusters."""

from __future__ import annotations

import re
import time
from dataclasses import field, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lowering.cuda.nvrtc import Compiled
from lowering.ground.errors import UnsupportedError
from passes.pipeline import passes_of
from tests.conftest import Golden
from tests.epilogues import GELU, TWO_OUTPUTS
from tests.grouped import GATE, grouped
from tests.lists import side_by_side
from tests.lowering.cuda.fake_driver import Driver, installed
from tests.reductions import Reduced
from tests.reductions import definition as reductions
from tests.run.test_once import at_once
from tests.schedules import LAYOUTS, SCHEDULES, definition, in_tensor_memory
from wsched.choose.presets import PRESETS
from wsched.front.known import import_fusion
from wsched.importer.input_error import InputError
from wsched.run.arguments import Arguments
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.kernel_name import _said, kernel_name
from wsched.run.mlir import through_mlir
from wsched.schedule.graph import TransformGraph
from wsched.schedule.matmul.copied import SmemSwizzles, ThreadLoads
from wsched.schedule.matmul.params import (
    Accumulators,
    ClusterDims,
    MatmulParams,
    MmaArch,
    MmaMacro,
    TileRasterizationOrder,
)
from wsched.schedule.options import MmaInputSmemSwizzle

FUSION = import_fusion(definition())


@pytest.mark.parametrize("name", ["coop_128x256", "dynamic_cluster_pingpong", "split_cluster"])
def test_one_transform_graph_for_each_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, build = [], TransformGraph.__init__
    monkeypatch.setattr(TransformGraph, "__init__", lambda *a: (made.append(a[0]), build(*a))[1])
    assert compile_fusion(import_fusion(GELU), SCHEDULES[name]).source
    assert len(made) == 1


# --- names ----------------------------------------------------------------------------------------


def test_every_schedule_has_a_name_of_its_own() -> None:
    made = {**SCHEDULES, **PRESETS}
    assert len(set(made.values())) == len(made)
    names = [kernel_name(FUSION, params) for params in made.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"matmul_[a-z0-9_]+_[0-9a-f]{6}", name) for name in names)


@pytest.mark.parametrize(
    "change",
    [
        {"num_registers": (24, 240)},
        {"num_registers": None},
        {"cta_order": TileRasterizationOrder.ColumnMajor},
        {"epilogue_stages": 1},
    ],
)
def test_what_no_word_says_is_in_the_hash(change: dict[str, Any]) -> None:
    name = kernel_name(FUSION, MatmulParams())
    other = kernel_name(FUSION, replace(MatmulParams(), **change))
    assert name != other
    assert name.rpartition("_")[0] == other.rpartition("_")[0]


def test_words(golden: Golden) -> None:
    """What a name says of each parameter and each fusion; the same in every process."""
    plain = SCHEDULES["coop_128x128"]
    options = plain.circular_buffer_options
    changed = {
        "promote_prologue_smem_reuse": replace(plain, promote_prologue_smem_reuse=True),
        "thread_loads": replace(plain, thread_loads=ThreadLoads(4, 16, 2)),
        "threads load one": replace(plain, thread_loads=ThreadLoads(b=8)),
        "smem_swizzles": replace(
            plain, smem_swizzles=SmemSwizzles(b=MmaInputSmemSwizzle.B64)
        ),
        "accumulators": replace(plain, accumulators=Accumulators.Half),
        "batch_invariant": replace(plain, batch_invariant=True),
        "use_smem_epilogue": replace(plain, use_smem_epilogue=False),
        "prefetch": replace(
            plain, circular_buffer_options=replace(options, smem_circular_buffer_prefetch_gap=1)
        ),
        "num_registers": replace(plain, num_registers=(24, 240)),
        "tensor memory": in_tensor_memory(128, 128),
        "pairs": replace(
            in_tensor_memory(128, 256), cluster_dims=ClusterDims(2, 1),
            mma_macro=MmaMacro(256, 256, arch=MmaArch.Blackwell2CTA),
        ),
    }  # fmt: skip
    sums = (Reduced("sum", (1,)), Reduced("max", (0,), "abs"), Reduced("min", (0, 1)))
    texts = {
        **{layout: definition("f16", "f32", layout=layout) for layout in LAYOUTS},
        "gelu": GELU, "groups": grouped(), "gated groups": GATE, "list": side_by_side(),
        "several results": TWO_OUTPUTS, "reductions": reductions(sums),
        "reductions alone": reductions(sums[:1], result=False),
    }  # fmt: skip
    made = {n: kernel_name(FUSION, p) for n, p in {**SCHEDULES, **changed}.items()}
    made |= {n: kernel_name(import_fusion(text), plain) for n, text in texts.items()}
    assert "\n".join(f"{n}: {name}" for n, name in made.items()) == golden


# --- in one line ----------------------------------------------------------------------------------

PRINTED = compile_fusion(FUSION, SCHEDULES["cluster_2x2"])
NAME = "matmul_bfloat16_bfloat16_128x128x64_cooperative_persistent_s4_f0_c2x2_61cabf"


def test_what_is_printed_of_a_kernel_is_one_line() -> None:
    """What a notebook shows of it: not the fusion, its plan and two kernels, which are 100 KB."""
    assert (
        repr(PRINTED)
        == str(PRINTED)
        == (
            f"<CompiledFusion {NAME} for sm_90a: MatmulParams("
            "circular_buffer_options.smem_circular_buffer_prefetch_gap=1, "
            "tile_sizes.cta_tile=128x128x64, tile_sizes.warp_tile=64x128x64, "
            "mma_macro=Hopper_64_128_16, cluster_dims.m=2, cluster_dims.n=2, "
            "num_registers=(40, 232), wgmma_in_flight=0, epilogue_stages=1)>"
        )
    )


def test_what_has_no_parameters_says_so() -> None:
    own = replace(PRINTED, made_from=None)
    assert repr(own) == f"<CompiledFusion {NAME} for sm_90a: a schedule written call by call>"


def test_other_ways_to_a_cubin_are_printed_by_their_names() -> None:
    assert repr(through_mlir(PRINTED)) == repr(PRINTED).replace("CompiledFusion", "ThroughMlir")


# --- threads, devices -----------------------------------------------------------------------------


class Compiler:
    """In place of the cache of cubins: slow, and counted."""

    def __init__(self) -> None:
        self.runs = 0

    def compile(self, source: str, name: str, *, arch: str) -> Compiled:
        self.runs += 1
        time.sleep(0.05)
        return Compiled(b"cubin", "", (12, 8), 0.05)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return installed(monkeypatch)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    fake = Compiler()
    monkeypatch.setattr("wsched.run.bundles.disk_cache", lambda: fake)
    return fake


def test_threads_compile_and_load_once(driver: Driver, compiler: Compiler) -> None:
    kernel = compile_fusion(FUSION, SCHEDULES["coop_128x64"])
    found = at_once(lambda: kernel.loaded)
    assert len(found) == 4 and len(set(map(id, found))) == 1
    assert compiler.runs == 1
    assert len(driver.named("load")) == 1


def packed(kernel: CompiledFusion, m: int) -> object:
    """A launch on a made-up GPU."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w, d = (torch.zeros(*s, dtype=torch.bfloat16) for s in ((m, 64), (128, 64), (m, 128)))
    extents = {"M": m, "N": 128, "K": 64}
    matrices = dict(zip((b.tensor for b in kernel.fusion.inputs), (x, w), strict=True))
    return kernel._pack(Arguments(extents, matrices, torch.device("cuda", 0)), [d])


def test_a_result_is_not_left_unwritten(driver: Driver, compiler: Compiler) -> None:
    """A device on which no cluster can run would get an empty grid."""
    kernel = compile_fusion(FUSION, SCHEDULES["cluster_2x2"])
    driver.active_clusters = 0
    with pytest.raises(UnsupportedError) as caught:
        packed(kernel, 128)
    assert str(caught.value) == (
        f"a cluster of 4 CTAs with {kernel.kernel.shared_bytes} bytes of shared memory each on "
        "cuda:0 (H0, 10 multiprocessors), which cannot hold one, is not supported; supported: "
        "clusters that the device can hold. Take smaller cluster_dims"
    )
    packed(kernel, 0)  # nothing to write


@pytest.mark.parametrize(
    ("params", "own", "others"),
    [
        (SCHEDULES["coop_128x64"], "synchronize_wgmma", "synchronize_tcgen05"),
        (in_tensor_memory(128, 128), "synchronize_tcgen05", "synchronize_wgmma"),
    ],
    ids=["sm_90a", "sm_100a"],
)
def test_stages_are_those_of_the_target(
    params: MatmulParams, own: str, others: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that are listed can be dumped; a word of another target asks for nothing."""
    monkeypatch.setenv("WSCHED_DUMP", f"{own},{others}")
    monkeypatch.setenv("WSCHED_DUMP_DIR", str(tmp_path))
    kernel = compile_fusion(FUSION, params)
    assert [p.stem.partition("_")[2] for p in tmp_path.rglob("*.ir")] == [own]
    passes = [s for s in kernel.stages() if s in {p.__name__ for p in passes_of(kernel.kernel)}]
    assert own in passes and others not in kernel.stages()
    assert kernel.dump(passes[-1]) == kernel.dump("kernel")
    with pytest.raises(InputError, match=f"no stage '{others}'; there are: fusion, .*{own}"):
        kernel.dump(others)


def test_a_field_that_is_added_changes_no_names() -> None:
    """A schedule's name is of what is said there: what is at its default is not."""

    def made(*fields: tuple[str, type, object]) -> object:
        return make_dataclass("Op", [(n, t, field(default=d)) for n, t, d in fields])()

    before, behind = made(("k", int, 0)), made(("k", int, 0), ("scales", int, None))
    assert _said({"op": (before,)}) == _said({"op": (behind,)})
    assert _said(replace(behind, scales=3)) != _said(behind)  # type: ignore[type-var]
