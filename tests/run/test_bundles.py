"""Compilations out of a bundle: without NVRTC, for the GPU that they were planned for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lowering.cuda import nvrtc
from lowering.cuda.nvrtc import Compiled
from lowering.ground.errors import UnsupportedError
from tests.grouped import grouped
from tests.run.test_stack import several
from tests.schedules import SCHEDULES, definition
from wsched.front.known import import_fusion
from wsched.run import bundles
from wsched.run.bundles import VARIABLE, load_bundle, saved_bundle
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import MatmulParams

FUSION = import_fusion(definition())


def fresh(name: str = "coop_128x64") -> CompiledFusion:
    return compile_fusion(FUSION, SCHEDULES[name])


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No bundles, and a cache of this test's own."""
    monkeypatch.setattr(bundles, "_bundles", {})
    monkeypatch.setattr(bundles, "_caches", {})
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path / "cubins"))


@dataclass
class Properties:
    name: str
    multi_processor_count: int
    major: int = 9
    minor: int = 0
    L2_cache_size = 50 << 20


def pretend(monkeypatch: pytest.MonkeyPatch, here: Properties, capability: tuple[int, int]) -> None:
    torch: Any = pytest.importorskip("torch")
    here.major, here.minor = capability
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: here)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment without NVRTC, with an empty cache."""

    def missing() -> Any:
        raise UnsupportedError("compiling without cuda-bindings", "cuda-bindings", "Install them")

    monkeypatch.setattr(nvrtc, "_nvrtc", missing)
    monkeypatch.setattr(bundles, "_caches", {})
    monkeypatch.setenv("WSCHED_CACHE_DIR", "/nowhere")


@pytest.mark.parametrize("named", [False, True], ids=["loaded", "variable"])
def test_no_compiler_is_needed(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.bundle"
    with saved_bundle(path, "a GPU") as found:
        made = fresh().compiled
    assert [e.made for e in found] == [made]
    without_compiler(monkeypatch)
    with pytest.raises(UnsupportedError, match="compiling without cuda-bindings"):
        fresh().compiled  # noqa: B018
    if named:
        monkeypatch.setenv(VARIABLE, f":{path}")
    else:
        assert load_bundle(path) == (fresh().kernel.name,)
    assert fresh().compiled == made
    assert fresh().resources.clean


def test_what_is_not_in_it_is_compiled_or_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.bundle"
    with saved_bundle(path, "a GPU"):
        fresh().compiled  # noqa: B018
    load_bundle(path)
    assert fresh("coop_narrow").compiled.cubin
    without_compiler(monkeypatch)
    with pytest.raises(UnsupportedError) as caught:
        fresh("coop_narrow").compiled  # noqa: B018
    name = fresh("coop_narrow").kernel.name
    assert str(caught.value) == (
        "compiling without cuda-bindings is not supported; supported: cuda-bindings. "
        f"{name}.cu is in none of the bundles {path}. Install them"
    )


def test_registers_are_chosen_again_without_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair that ptxas refused is refused out of the bundle too."""
    real = nvrtc._compile

    def compile_(source: str, *rest: Any) -> tuple[bytes, str]:
        if "ptx::setmaxnreg_inc<232>" in source:
            raise nvrtc.CompileError("k.cu", "NVRTC_ERROR_COMPILATION", "(C7602) Insufficient")
        return real(source, *rest)

    monkeypatch.setattr(nvrtc, "_compile", compile_)
    with saved_bundle(tmp_path / "b", "a GPU") as found:
        first = compile_clean(FUSION, MatmulParams())
    assert len(found) == 2 and isinstance(found[1].made, Compiled)
    assert first.trials == ("(40, 232): too few registers for ptxas", "(24, 240): clean")
    load_bundle(tmp_path / "b")
    without_compiler(monkeypatch)
    again = compile_clean(FUSION, MatmulParams())
    assert (again.params, again.trials) == (first.params, first.trials)


def test_kernels_of_one_grid_are_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is launched is in it, none of its kernels alone, and is chosen again."""
    path, fusion, params = tmp_path / "both", import_fusion(grouped()), several()
    with saved_bundle(path, "any") as entries:
        (stack,) = compile_clean(fusion, params).grids
        cubin = stack.compiled.cubin
    assert [e.name for e in entries] == [f"{stack.name}.cu"]
    without_compiler(monkeypatch)
    load_bundle(path)
    (again,) = compile_clean(fusion, params).grids
    assert again.compiled.cubin == cubin


def test_a_block_that_fails_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.bundle"
    path.write_bytes(b"before")
    with pytest.raises(KeyError), saved_bundle(path, "a GPU"):
        raise KeyError
    assert path.read_bytes() == b"before" and not bundles._saving


def test_blocks_that_are_open_at_once(tmp_path: Path) -> None:
    """Each records until its own end, though both have the same so far."""
    one, other = tmp_path / "one", tmp_path / "other"
    long = saved_bundle(one, "a GPU")
    whole = long.__enter__()
    with saved_bundle(other, "a GPU") as part:
        pass
    made = fresh().compiled
    long.__exit__(None, None, None)
    assert [e.made for e in whole] == [made] and part == [] and not bundles._saving
    assert load_bundle(one) == (fresh().kernel.name,) and load_bundle(other) == ()


def test_the_gpu_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.bundle"
    pretend(monkeypatch, Properties("NVIDIA H200", 132), (9, 0))
    with saved_bundle(path):
        fresh().compiled  # noqa: B018
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_bundle(path)
    pretend(monkeypatch, Properties("NVIDIA H200 MIG 1g.18gb", 16), (9, 0))
    told = (
        f"wsched: the bundle {path} was planned for NVIDIA H200 with 132 multiprocessors, this is "
        "NVIDIA H200 MIG 1g.18gb with 16 multiprocessors: other kernels may be chosen, which are "
        "compiled as ever."
    )
    with pytest.warns(RuntimeWarning) as caught:
        load_bundle(path)
    assert [(str(w.message), w.filename) for w in caught] == [(told, __file__)]
    pretend(monkeypatch, Properties("NVIDIA A100", 108), (8, 0))
    with pytest.raises(UnsupportedError) as refused:
        load_bundle(path)
    assert str(refused.value).startswith(
        f"the bundle {path}, whose kernels are for sm_90a, on NVIDIA A100 is not supported; "
    )
