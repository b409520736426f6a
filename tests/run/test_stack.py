"""The grids of a call: which kernels share one, what it is made of, and what is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import wsched
from lowering.cuda.nvrtc import compilations
from lowering.cuda.resources import Resources
from tests.choose.test_grouped import problem
from tests.grouped import GATE, check_rows, given, grouped
from tests.run.test_siblings import KERNELS, kernel
from tests.schedules import cooperative, dynamic, exchanged, ping_pong
from wsched.choose.heuristics import candidates
from wsched.front.known import import_fusion
from wsched.run import bundles
from wsched.run import stack as stack_module
from wsched.run.arguments import bind
from wsched.run.compiled import CompiledFusion
from wsched.run.on_device import OnDevice
from wsched.run.registers import compile_clean
from wsched.run.stack import Stack
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.siblings import shared

LENGTHS = (104, 88, 72)


def several() -> MatmulParams:
    tiles = (dynamic(exchanged(ping_pong(128, n, 64, stages=4))) for n in LENGTHS)
    return shared(tuple(replace(p, num_registers="auto") for p in tiles))


@pytest.mark.parametrize(("name", "grids"), [("two", 2), ("three", 3), ("clusters", 2)])
def test_kernels_that_are_not_alike(name: str, grids: int) -> None:
    """Of other numbers of threads, or in other clusters: each is a grid of its own."""
    assert name in KERNELS
    made = kernel(name)
    assert made.grids == made.launched and len(made.grids) == grids


def test_neighbours_that_are_alike() -> None:
    """Two of four, in the order in which they run."""
    short = dynamic(cooperative(64, 64, 64, stages=4, groups=1, registers=None))
    kernels = (replace(several(), siblings=()), *several().siblings, short)
    made = compile_clean(import_fusion(grouped()), shared(kernels))
    stack, last = made.grids
    assert isinstance(stack, Stack) and stack.kernels == made.launched[:3]
    assert last is made.launched[3]


def test_what_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One text of all, which says what each takes; none of them alone, and nothing twice."""
    monkeypatch.setattr(bundles, "_caches", {})
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path))
    before = compilations()
    made = compile_clean(import_fusion(GATE), several())
    (stack,) = made.grids
    assert isinstance(stack, Stack) and stack.kernels == made.launched
    assert stack.name.startswith(f"{made.kernel.name}_with")
    assert stack.resources.clean and stack.dump("cuda") == stack.source
    for y, k in enumerate(made.launched):
        assert f"case {y}: return {k.kernel.name}(" in stack.source
        assert k.trials == (f"{k.params.num_registers}: clean",)
    assert f".entry {stack.name}(" in stack.dump("ptx") and "HGMMA" in stack.dump("sass")
    assert compilations() == before + 1


def test_one_that_does_not_compile_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel is chosen alone, and launched alone."""
    spilled = Resources("k", 168, 8, 4, 4, 0, 1, 128)
    monkeypatch.setattr(stack_module.Stack, "resources", spilled)
    made = compile_clean(import_fusion(grouped()), several())
    assert made.grids == made.launched and len(made.grids) == 3
    assert [g.resources.clean for g in made.grids] == [True] * 3


def test_a_call_of_all() -> None:
    """On the machine each runs behind the one in front."""
    x, w, ends = given((200, 90, 3, 0, 104, 95), 136, 72)
    inputs: list[Any] = [x, w, ends]
    (found,) = wsched.execute(grouped(), inputs, params=several())
    check_rows(found, *inputs)


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompiledFusion]:
    made = compile_clean(import_fusion(grouped()), several())
    monkeypatch.setattr(OnDevice, "simulates", lambda *_: False)
    yield made


@dataclass
class Noted:
    """In place of what the driver has loaded."""

    ctas: int = 132
    asked: list[Any] = field(default_factory=list)

    def resident_ctas(self, device: int) -> int:
        return self.ctas

    def prepare_rows(self, given: Any, ctas: int) -> Any:
        self.asked.append((given, ctas))
        return SimpleNamespace(here=lambda: None)


def test_a_launch(on_gpu: CompiledFusion, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel is handed its own results' layout, as many CTAs as the longest row has; nothing
    is loaded alone, nor anything for an empty result.
    """
    noted = Noted()
    monkeypatch.setattr(Stack, "loaded", noted)
    monkeypatch.setattr(OnDevice, "loaded", property(lambda _: pytest.fail("a kernel alone")))
    x, w, ends = given((200, 90, 3, 0, 104, 95), 136, 72)
    d = torch.empty(len(x), 136, dtype=x.dtype)
    on_gpu.add_outputs(arguments := bind(on_gpu.fusion, [x, w, ends], on_gpu.vector), [d])
    on_gpu._pack(arguments, [d])()
    ((rows, ctas),) = noted.asked
    assert len(rows) == 3 and len({id(tensors) for tensors, _ in rows}) == 3
    assert ctas == max(k.grid(arguments.extents, 132) for k in on_gpu.launched)
    (stack,) = on_gpu.grids
    assert stack.ctas_on(x.device, arguments.extents) == ctas
    monkeypatch.setattr(Stack, "load_alone", lambda *_: None)
    on_gpu.admit([x, w, ends])
    empty = torch.empty(0, 136, dtype=x.dtype)
    on_gpu._pack(bind(on_gpu.fusion, [x[:0], w, ends * 0], on_gpu.vector), [empty])()
    assert len(noted.asked) == 1


def test_the_choice_is_one_grid() -> None:
    """Of gate and up, and of a bare product: kernels of a kind are alike."""
    for text, rows, products, work in ((GATE, 4096, 2, 13), (grouped(), 8192, 1, 0)):
        made = replace(problem("rows", 16, rows, 8192, 5120), b_count=products, work=work)
        params = candidates(made)[0].params
        assert params.siblings
        (stack,) = compile_clean(import_fusion(text), params).grids
        assert isinstance(stack, Stack) and stack.resources.clean
