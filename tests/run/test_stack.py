"""The grids of a call: which kernels share one, what it is made of, and what is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import wsched
from lowering.cuda.nvrtc import CompileError, compilations
from lowering.cuda.resources import Resources
from tests.choose.test_grouped import problem
from tests.grouped import GATE, check_rows, given, grouped
from tests.run.test_siblings import KERNELS, kernel
from tests.schedules import cooperative, dynamic, exchanged, ping_pong
from wsched.choose.heuristics import candidates
from wsched.cli.app import app
from wsched.front.known import import_fusion
from wsched.importer.input_error import InputError
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


SPILLED = Resources("k", 168, 8, 4, 4, 0, 1, 128)


def test_one_that_does_not_compile_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel is chosen alone, and launched alone."""
    monkeypatch.setattr(Stack, "resources", SPILLED)
    made = compile_clean(import_fusion(grouped()), several())
    assert made.grids == made.launched and len(made.grids) == 3
    assert [g.resources.clean for g in made.grids] == [True] * 3


def test_one_that_is_no_worse_than_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (Stack, CompiledFusion):
        monkeypatch.setattr(each, "resources", SPILLED)
    (stack,) = compile_clean(import_fusion(grouped()), several()).grids
    assert isinstance(stack, Stack)


@pytest.mark.parametrize(("log", "raised"), [("(C7602) Insufficient", False), ("no type", True)])
def test_one_that_does_not_compile(log: str, raised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of registers: its kernels alone have enough. Anything else is told."""

    def refused(_: Stack) -> Resources:
        raise CompileError("k.cu", "NVRTC_ERROR_COMPILATION", log)

    monkeypatch.setattr(Stack, "resources", property(refused))
    if raised:
        with pytest.raises(CompileError, match="no type"):
            compile_clean(import_fusion(grouped()), several())
        return
    made = compile_clean(import_fusion(grouped()), several())
    assert made.grids == made.launched


def test_given_registers_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "resources", property(lambda _: pytest.fail("it compiles")))
    first, *others = (several(), *several().siblings)
    kernels = (replace(p, num_registers=(40, 232), siblings=()) for p in (first, *others))
    made = compile_clean(import_fusion(grouped()), shared(tuple(kernels)))
    assert not made.trials and len(made.grids) == 1


def test_what_a_running_program_dumps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The code of what is launched stands beside that of each kernel."""
    monkeypatch.setenv("WSCHED_DUMP", "cuda")
    monkeypatch.setenv("WSCHED_DUMP_DIR", str(tmp_path))
    (stack,) = compile_clean(import_fusion(grouped()), several()).grids
    (file,) = (tmp_path / stack.name).iterdir()
    assert file.read_text() == stack.source
    assert len([*tmp_path.iterdir()]) == 4
    with pytest.raises(InputError, match="no stage 'loops'; there are: cuda, ptx, sass"):
        stack.dump("loops")


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
    is loaded alone, nor anything for an empty result. Sizes are counted once.
    """
    noted, counted = Noted(), list[int]()
    monkeypatch.setattr(stack_module, "require_countable", lambda *a: counted.append(a[2]))
    monkeypatch.setattr(Stack, "loaded", noted)
    monkeypatch.setattr(OnDevice, "loaded", property(lambda _: pytest.fail("a kernel alone")))
    x, w, ends = given((200, 90, 3, 0, 104, 95), 136, 72)
    d = torch.empty(len(x), 136, dtype=x.dtype)
    on_gpu.add_outputs(arguments := bind(on_gpu.fusion, [x, w, ends], on_gpu.vector), [d])
    on_gpu._pack(arguments, [d])()
    ((rows, ctas),) = noted.asked
    for k, (tensors, _) in zip(on_gpu.launched, rows, strict=True):
        own = bind(on_gpu.fusion, [x, w, ends], on_gpu.vector)
        k.add_outputs(own, [d])
        mine = {n: (t.shape, t.stride(), t.data_ptr()) for n, t in own.matrices.items()}
        assert {n: (t.shape, t.stride(), t.data_ptr()) for n, t in tensors.items()} == mine
    assert counted == [ctas] * 3
    assert ctas == max(k.grid(arguments.extents, 132) for k in on_gpu.launched)
    (stack,) = on_gpu.grids
    assert stack.ctas_on(x.device, arguments.extents) == ctas
    monkeypatch.setattr(Stack, "load_alone", lambda *_: None)
    on_gpu.admit([x, w, ends])
    assert len(counted) == 3
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


def test_what_explain_says_of_it(tmp_path: Path) -> None:
    """The name that a profiler shows, and what one launch of all is."""
    file = tmp_path / "grouped.py"
    file.write_text(grouped())
    words = ["explain", str(file), "--shape", "16x8192x8192x5120", "--sms", "132"]
    name, told = CliRunner().invoke(app, words).stdout.splitlines()[1:3]
    assert re.fullmatch(r" +matmul_\w+_takes0of\d+_\d+_\d+_\w+_with[0-9a-f]{6}", name)
    assert told.strip().startswith("396 CTAs of 384 threads and ")
