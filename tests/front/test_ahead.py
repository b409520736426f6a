"""Kernels before the first call: for a GPU that is not here, several at a time, meanwhile."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.choose.gpus import GPUS, Gpu
from wsched.choose.heuristics import choose_params
from wsched.front import ahead, kernels
from wsched.front.ahead import at_once, kernels_on
from wsched.front.problems import planned
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.kept import Kept

torch: Any = pytest.importorskip("torch")

MIG = Gpu("NVIDIA H200 MIG 1g.18gb", 16, 8 * 2**20)
"""An eighth of an H200."""

GATED = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[256, 128], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[512, 128], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[64, 512], contiguity=[True, True], dtype=DataType.BFloat16)
    h = fd.ops.linear(x, v)
    d = fd.ops.linear(h, w)
    fd.add_output(d)
"""
"""Two kernels, one after the other."""


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been made yet, and nothing is compiled to a cubin."""
    monkeypatch.setattr(kernels, "_kernels", Kept())
    monkeypatch.setattr(ahead, "compile_clean", compile_fusion)
    monkeypatch.setattr(CompiledFusion, "compiled", None)


@pytest.mark.parametrize("gpu", [*GPUS.values(), MIG], ids=str)
@pytest.mark.parametrize("shape", ["128x4096x512", "4096x2048x512", "1000x1000x1000"])
def test_they_are_those_of_a_call_on_that_gpu(gpu: Gpu, shape: str) -> None:
    extents = Extents.parse(shape)
    inputs = [torch.empty(n, extents.k, dtype=torch.bfloat16) for n in (extents.m, extents.n)]
    _, problem = planned(definition(), inputs)
    wanted = choose_params(problem.on(gpu))
    (found,) = kernels_on(gpu, definition(), extents)
    assert replace(found.params, num_registers=wanted.num_registers) == wanted


def test_fewer_multiprocessors_are_planned_by_what_they_have() -> None:
    """A problem that fills all of an H200 with a tile each is many tiles for an eighth of it."""
    extents = Extents(1024, 2048, 4096)
    whole, part = (kernels_on(g, definition(), extents)[0].made_from for g in (GPUS["H200"], MIG))
    tiles = [p.output_tile.m * p.output_tile.n for p in (whole, part)]
    assert tiles[0] < tiles[1] and not part.splitk_factor > 1


def test_a_cut_definition_has_several() -> None:
    found = kernels_on(GPUS["H200"], GATED)
    assert [b.sizes for k in found for b in k.fusion.outputs] == [(256, 512), (256, 64)]


def test_a_schedule_has_its_own() -> None:
    s = Schedule.of(definition(), wsched.MatmulParams())
    (found,) = kernels_on(GPUS["H200"], s)
    assert found is kernels_on(MIG, s)[0]


def test_what_has_none() -> None:
    with pytest.raises(UnsupportedError):
        kernels_on(GPUS["H200"], definition().replace("BFloat16", "Float"))


def calls(count: int) -> list[tuple[str, list[Any]]]:
    """Calls with a kernel each."""
    text = definition()
    inputs = [torch.ones(64, 64, dtype=torch.bfloat16)] * 2
    return [
        (text.replace("add_output(d)", f"add_output(fd.ops.mul(d, {n + 1.5}))"), inputs)
        for n in range(count)
    ]


def test_several_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is done before all have begun, and what is made is not made again."""
    real, met = kernels._make, threading.Barrier(3, timeout=60)
    made: list[CompiledFusion] = []

    def make(*key: Any) -> CompiledFusion:
        met.wait()
        made.append(real(*key))
        return made[-1]

    monkeypatch.setattr(kernels, "_make", make)
    told = wsched.prepare(calls(3), threads=3)
    told.wait(100)
    assert told.done and len(made) == 3 and kernels._making == {}
    for at, (text, inputs) in enumerate(calls(3)):
        (d,) = wsched.execute(text, inputs)
        assert torch.all(d == 64 * (at + 1.5))
    assert len(made) == 3


@pytest.mark.parametrize(("asked", "processors"), [(3, 1), (None, 3)])
def test_so_many_threads(
    asked: int | None, processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as asked for, or as there are processors: they meet, and nobody is beside them."""
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    meet = threading.Barrier(3, timeout=10)

    def met(_: int) -> int:
        meet.wait()
        return threading.get_ident()

    with at_once(asked) as pool:
        assert len(set(pool.map(met, range(9)))) == 3


def test_one_thread_where_nobody_knows_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: None)
    with at_once() as pool:
        assert len(set(pool.map(lambda _: threading.get_ident(), range(9)))) == 1


def test_one_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real, begun, go = kernels._make, threading.Event(), threading.Event()
    made: list[CompiledFusion] = []

    def make(*key: Any) -> CompiledFusion:
        begun.set()
        assert go.wait(60)
        made.append(real(*key))
        return made[-1]

    monkeypatch.setattr(kernels, "_make", make)
    told = wsched.prepare(calls(1) * 4, threads=4)
    assert begun.wait(60) and not told.done
    go.set()
    told.wait(100)
    assert len(made) == 1


def test_one_that_fails_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real = kernels._make

    def make(*key: Any) -> CompiledFusion:
        raise UnsupportedError("this", "that")

    (call,) = calls(1)
    monkeypatch.setattr(kernels, "_make", make)
    with pytest.raises(UnsupportedError, match="this"):
        wsched.compile(*call)
    monkeypatch.setattr(kernels, "_make", real)
    assert wsched.compile(*call) is wsched.compile(*call) and kernels._making == {}


def test_the_first_error_is_told() -> None:
    (good,) = calls(1)
    told = wsched.prepare([good, (good[0], good[1][:1])])
    with pytest.raises(wsched.InputError, match="1 inputs, the definition has 2"):
        told.wait(100)
    with pytest.raises(wsched.InputError, match="not a list of tensors"):
        wsched.prepare([(good[0], good[1][0])])
