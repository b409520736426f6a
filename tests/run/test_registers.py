"""The register pair that is left open: chosen by compiling, the first clean one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowering.cuda.nvrtc import CompileError, compilations
from lowering.cuda.resources import Resources
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target.hopper import HOPPER
from tests.graphs import graphs_made
from tests.schedules import definition, pipelined
from wsched.front import api, kernels
from wsched.front.explain import explain_kernel
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.kept import Kept
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import MatmulParams

FUSION = import_fusion(definition())
PAIR = tuple[int, int] | None
TOO_FEW = "ptxas fatal   : (C7602) Insufficient registers (128) to compile instruction at line 673"


def spilling(spilled: int, *warnings: str, loads: int = 0, stack: int = 0) -> Resources:
    return Resources("k", 168, stack, spilled, loads, 0, 2, 1, warnings)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[PAIR, Any]:
    """What ptxas says of each pair, in place of a compilation: resources, or an error."""
    found: dict[PAIR, Any] = {}

    def resources(kernel: CompiledFusion) -> Resources:
        said = found[kernel.params.register_pair]
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, Resources)
        return said

    monkeypatch.setattr(CompiledFusion, "resources", property(resources))
    return found


def test_the_first_candidate_is_clean_and_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path))
    before = compilations()
    found = compile_clean(FUSION, MatmulParams())
    assert (found.params.num_registers, found.trials) == ((40, 232), ("(40, 232): clean",))
    assert compilations() == before + 1
    again = compile_clean(FUSION, MatmulParams())
    assert (again.params, again.trials) == (found.params, found.trials)
    assert compilations() == before + 1
    assert again.kernel == compile_fusion(FUSION, MatmulParams()).kernel


def test_the_next_pair_where_the_first_spills(seen: dict[PAIR, Any]) -> None:
    seen |= {(40, 232): spilling(16), (24, 240): spilling(0)}
    found = compile_clean(FUSION, MatmulParams())
    assert found.params == replace(MatmulParams(), num_registers=(24, 240))
    assert found.trials == ("(40, 232): 16 bytes spilled, 0 of stack", "(24, 240): clean")
    assert "setmaxnreg inc, 240" in found.dump("kernel")


def test_illegal_parameters_compile_nothing(seen: dict[PAIR, Any]) -> None:
    """Which pairs there are is asked of legal parameters alone."""
    with pytest.raises(ScheduleError) as error:
        compile_clean(FUSION, MatmulParams(grid_traversal_factor=(0, 1)))
    assert error.value.rule == "params"


def test_each_pair_takes_one_transform_graph(
    seen: dict[PAIR, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen |= {(40, 232): spilling(16), (24, 240): spilling(0)}
    made = graphs_made(monkeypatch)
    compile_clean(FUSION, MatmulParams())
    assert made() == 2


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        (spilling(64), spilling(96), (40, 232)),
        (spilling(728), spilling(328), (24, 240)),
        (spilling(64), spilling(64), (40, 232)),  # the first of equals
        (spilling(64, loads=64), spilling(96), (24, 240)),
        (spilling(64, loads=32), spilling(80, loads=24), (40, 232)),
        (spilling(64, stack=32), spilling(64, stack=16), (24, 240)),
        (spilling(64, "C7600: one", "C7601: another"), spilling(64, "C7600: one"), (24, 240)),
        (spilling(8, "C7510: wgmma serialized"), spilling(96), (24, 240)),
        (CompileError("k.cu", "NVRTC_ERROR_COMPILATION", TOO_FEW), spilling(96), (24, 240)),
    ],
)
def test_the_best_where_none_is_clean(
    seen: dict[PAIR, Any], first: Any, second: Any, best: PAIR
) -> None:
    seen |= {(40, 232): first, (24, 240): second}
    found = compile_clean(FUSION, MatmulParams())
    assert found.params.num_registers == best
    assert len(found.trials) == 2


def test_what_was_compiled_is_explained(seen: dict[PAIR, Any]) -> None:
    seen |= {(40, 232): spilling(8, "C7510: wgmma serialized"), (24, 240): spilling(96)}
    found = compile_clean(FUSION, MatmulParams())
    text = str(explain_kernel(found, Extents(4096, 4096, 4096).problem(found.fusion), "cuda:0"))
    assert (
        "num_registers = 24, 240: loads need few registers; what they give up holds accumulators; "
        "compiled: (40, 232): 8 bytes spilled, 0 of stack, C7510, (24, 240): 96 bytes spilled, "
        "0 of stack\n"
    ) in text


def test_no_pair_compiles(seen: dict[PAIR, Any]) -> None:
    refused = CompileError("k.cu", "NVRTC_ERROR_COMPILATION", TOO_FEW)
    seen |= {(40, 232): refused, (24, 240): refused}
    with pytest.raises(UnsupportedError) as error:
        compile_clean(FUSION, MatmulParams())
    assert str(error.value) == (
        "a kernel that ptxas finds too few registers for ((40, 232): too few registers for ptxas; "
        "(24, 240): too few registers for ptxas) is not supported; supported: a smaller tile or a "
        "smaller epilogue"
    )


def test_another_error_of_the_compiler_is_ours(seen: dict[PAIR, Any]) -> None:
    seen[40, 232] = CompileError("k.cu", "NVRTC_ERROR_COMPILATION", "error: expected a ;")
    with pytest.raises(CompileError):
        compile_clean(FUSION, MatmulParams())


def test_a_given_pair_is_taken_without_compiling(seen: dict[PAIR, Any]) -> None:
    for pair in ((24, 240), None):
        found = compile_clean(FUSION, replace(MatmulParams(), num_registers=pair))
        assert (found.params.num_registers, found.trials) == (pair, ())


def test_without_a_load_warpgroup_there_is_one_candidate(seen: dict[PAIR, Any]) -> None:
    seen[None] = spilling(0)
    params = replace(pipelined(MatmulParams()), num_registers="auto")
    assert compile_clean(FUSION, params).params.num_registers is None


def test_only_what_a_gpu_will_run_is_compiled_to_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    asked: list[MatmulParams] = []

    def chosen(fusion: Any, params: MatmulParams) -> CompiledFusion:
        asked.append(params)
        return compile_fusion(fusion, params)

    monkeypatch.setattr(kernels, "compile_clean", chosen)
    monkeypatch.setattr(kernels, "_kernels", Kept())
    inputs = [torch.zeros(64, 64, dtype=torch.bfloat16) for _ in range(2)]
    on_cpu = api.compile(definition(), inputs)
    assert asked == [] and on_cpu.params.num_registers != "auto"
    monkeypatch.setattr(kernels, "_target", lambda inputs: HOPPER)
    assert api.compile(definition(), inputs) is api.compile(definition(), inputs) is not on_cpu
    assert [p.num_registers for p in asked] == ["auto"]
    api.compile(definition(), inputs, params=MatmulParams(num_registers=(24, 240)))
    assert len(asked) == 1
