"""Which way ``wsched.execute`` goes, that it goes on where there is no kernel, and what is told."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import InternalError, UnsupportedError
from tests.epilogues import RESIDUAL
from tests.schedules import SCHEDULES, definition
from wsched.choose.cost import Cost
from wsched.choose.heuristics import Candidate
from wsched.choose.problem import Problem
from wsched.front import api, explain_kernel, known, routes
from wsched.front.choices import choices_of
from wsched.front.problems import problem_of
from wsched.fusion import DataType
from wsched.importer.input_error import InputError
from wsched.run.compiled import CompiledFusion
from wsched.schedule import GemmTile
from wsched.schedule.matmul.tiles import with_tile

torch = pytest.importorskip("torch", reason="torch is not installed")

BF16 = torch.bfloat16
ROW_SUMS = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    a = fd.ops.cast(x, dtype=DataType.Float)
    b = fd.ops.mul(fd.ops.cast(w, dtype=DataType.Float), 1.0)
    c = fd.ops.linear(a, b)
    d = fd.ops.cast(c, dtype=DataType.BFloat16)
    s = fd.ops.sum(d, dims=[1], dtype=DataType.Float)
    fd.add_output(s)
"""
"""A matmul of what is computed in fp32, which wsched has no kernel for."""


def integers(rows: int, cols: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, (rows, cols), generator=generator).to(BF16)


X, W = integers(16, 64), integers(24, 64, 1)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_texts", {})


def test_a_definition_without_a_kernel_is_computed() -> None:
    (s,) = wsched.execute(ROW_SUMS, [X, W])
    assert torch.equal(s, (X.float() @ W.float().T).to(BF16).float().sum(1))


def test_a_live_definition_without_a_kernel_is_computed() -> None:
    nvfuser = pytest.importorskip("nvfuser_direct")
    with nvfuser.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvfuser.DataType.Float)
        fd.add_output(fd.ops.cat([x, fd.ops.mul(x, 0.1234567890123)], dim=1))
    a = torch.randn(4, 8)
    (d,) = wsched.execute(fd, [a])
    assert torch.equal(d, torch.cat([a, a * 0.1234567890123], 1))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "inputs",
    [
        [integers(64, 16).T, W],
        [integers(16, 68)[:, :64], W],
        [X[:1].expand(16, 64), W],
        [X, integers(24 * 64 + 1, 1).flatten()[1:].view(24, 64)],
        [X, W[:12]],
    ],
)
def test_a_layout_without_a_kernel_is_computed(inputs: list[Any]) -> None:
    (d,) = wsched.execute(definition(), inputs)
    assert torch.equal(d, (inputs[0].float() @ inputs[1].float().T).to(BF16))


def test_what_is_too_large_for_the_machine_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = wsched.execute(definition(), [X, W])
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.0001")
    (second,) = wsched.execute(definition(), [X, W])  # the machine refuses, so it is decided again
    assert torch.equal(first, second)
    assert wsched.explain(definition(), [X, W]).route == "torch"


def test_with_params_there_is_no_other_way() -> None:
    with pytest.raises(UnsupportedError, match=r"^output 0 with 4 bytes from row to row"):
        wsched.execute(definition(), [X, integers(2, 64)], params=SCHEDULES["coop_128x256"])


def test_the_way_is_decided_once_for_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = []

    def counting(*args: Any) -> Any:
        decided.append(args[2])
        return routes.routes(*args)

    monkeypatch.setattr(api, "routes", counting)
    for _ in range(3):
        wsched.execute(ROW_SUMS, [X, W])
        wsched.execute(ROW_SUMS, [X.clone(), W.clone()])
    assert len(decided) == 1
    wsched.execute(ROW_SUMS, [X[:8], W])
    assert len(decided) == 2


def test_the_classes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_CLASSES", 2)
    for rows in range(1, 8):
        wsched.execute(ROW_SUMS, [X[:rows], W])
    assert len(known.known(ROW_SUMS).routes) <= 2


def test_a_number_is_no_part_of_the_class() -> None:
    text = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)
    c = fd.define_scalar(None, dtype=DataType.Double)
    y = fd.ops.mul(x, c)
    fd.add_output(y)
"""
    x = torch.ones(3)
    for c in (2.0, 3.0):
        assert torch.equal(wsched.execute(text, [x, c])[0], x * c)
    assert len(known.known(text).routes) == 1
    with pytest.raises(InputError) as caught:
        wsched.execute(text, [x, x])
    assert str(caught.value) == "input 1 is a Tensor, not a number"


def test_defects_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise InternalError("a pass", "something")

    monkeypatch.setattr(CompiledFusion, "admit", broken)
    with pytest.raises(InternalError):
        wsched.execute(definition(), [X, W])


class Printed:
    """As much of nvFuser's fusion as is asked for."""

    def outputs(self) -> list[str]:
        return ["T1_g_float[iS2{i0}]"]


class Unprintable:
    """A live definition that nvFuser cannot print, but can run."""

    def __init__(self) -> None:
        self.fusion = self._fusion = Printed()

    def __repr__(self) -> str:
        raise RuntimeError("no translation of an expression\nmore")

    def execute(self, inputs: list[Any]) -> list[Any]:
        return [t + 1 for t in inputs]


Unprintable.__name__, Unprintable.__module__ = "FusionDefinition", "nvfuser_direct"


def test_a_definition_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fd = Unprintable()
    text = (
        "a definition that cannot be read from nvFuser (no translation of an expression) is not "
        "supported; supported: others"
    )
    with pytest.raises(UnsupportedError) as caught:
        wsched.compile(fd, [X])
    assert str(caught.value) == text
    with pytest.raises(UnsupportedError) as caught:
        wsched.execute(fd, [X])
    assert str(caught.value) == (
        f"{text}. Refused before: wsched: {text}; nvfuser: nvFuser on CPU tensors is not "
        "supported; supported: CUDA tensors"
    )
    monkeypatch.setattr(routes, "_on_gpu", lambda inputs: True)
    assert torch.equal(wsched.execute(fd, [X])[0], X + 1)
    assert wsched.explain(fd, [X]).route == "nvfuser"


def test_definitions_are_not_kept_alive() -> None:
    nvfuser = pytest.importorskip("nvfuser_direct")
    with nvfuser.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvfuser.DataType.Float)
        fd.add_output(fd.ops.relu(x))
    wsched.execute(fd, [torch.ones(2, 2)])
    wsched.explain(fd, [torch.ones(2, 2)])
    with pytest.raises(UnsupportedError):
        wsched.compile(fd, [torch.ones(2, 2)])
    gone = weakref.ref(fd)
    del fd, x
    gc.collect()
    assert gone() is None


# --- a GPU, played by the CPU ---------------------------------------------------------------------


class Played:
    """Tensors count as CUDA tensors for the choice; nvFuser is a function of this test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
        self.error = error
        self.calls = 0
        monkeypatch.setattr(routes, "execute", self.execute)
        monkeypatch.setattr(routes, "rebuild", lambda recorded: "rebuilt")
        monkeypatch.setattr(routes, "_on_gpu", lambda inputs: True)

    def execute(self, fd: Any, inputs: Any) -> list[Any]:
        assert fd == "rebuilt"
        self.calls += 1
        if self.error is not None:
            raise self.error
        return [torch.zeros(1)]


def test_on_a_gpu_nvfuser_comes_before_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, None)
    for _ in range(2):
        assert wsched.execute(ROW_SUMS, [X, W])[0].shape == (1,)
    assert played.calls == 2
    assert wsched.explain(ROW_SUMS, [X, W]).route == "nvfuser"


def test_what_nvfuser_refuses_goes_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, UnsupportedError("this", "that"))
    for _ in range(2):
        assert wsched.execute(ROW_SUMS, [X, W])[0].shape == (16,)
    assert played.calls == 1
    found = wsched.explain(ROW_SUMS, [X, W])
    assert found.route == "torch"
    assert [r.what for r in found.refusals] == ["wsched", "cut", "nvfuser"]
    assert found.refusals[2].reason == "this is not supported; supported: that"


def test_faults_of_the_device_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    Played(monkeypatch, RuntimeError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        wsched.execute(ROW_SUMS, [X, W])


# --- refused by all -------------------------------------------------------------------------------


def test_an_operation_that_nobody_has() -> None:
    """It is all that there is to say, whoever is asked."""
    text = ROW_SUMS.replace("fd.ops.sum", "fd.ops.sun")
    for ask in (wsched.execute, wsched.compile, wsched.explain):
        with pytest.raises(UnsupportedError) as caught:
            ask(text, [X, W])
        assert str(caught.value) == (
            "line 9: the unknown operation fd.ops.sun is not supported; supported: operations of "
            "nvFuser. Did you mean fd.ops.sum?"
        )


def test_an_operation_that_torch_has_not() -> None:
    """Nothing of wsched's own folders is said."""
    text = ROW_SUMS.replace("fd.ops.sum(d, dims=[1], dtype=DataType.Float)", "fd.ops.erfcinv(d)")
    with pytest.raises(UnsupportedError) as caught:
        wsched.execute(text, [X, W])
    assert str(caught.value).startswith(
        "fd.ops.erfcinv by torch is not supported; supported: operations that torch has as well. "
        "Refused before: wsched: "
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X], "1 inputs, the definition has 2"),
        ([X, 3], "input 1 is a int, not a torch.Tensor"),
        ([X, W.half()], "input 1 is torch.float16, the definition says torch.bfloat16"),
        ([X, W[0]], "input 1 has shape [64], the definition has 2 dimensions"),
        ([X, W.to("meta")], "inputs are on cpu and meta, not on one device"),
        (
            [X, W[:, :8]],
            "line 7: fd.ops.linear of [[16, 64], [24, 8]]: mat1 and mat2 shapes cannot be "
            "multiplied (16x64 and 8x24)",
        ),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        wsched.execute(ROW_SUMS, inputs)
    assert str(caught.value) == message


def test_a_size_that_the_definition_fixes() -> None:
    with pytest.raises(InputError) as caught:
        wsched.execute(ROW_SUMS.replace("[-1, -1]", "[-1, 32]"), [X, W])
    assert str(caught.value) == "dimension 1 of input 0 is 64, the definition says 32"


def test_a_device_of_another_kind() -> None:
    with pytest.raises(UnsupportedError) as caught:
        wsched.execute(ROW_SUMS, [X.to("meta"), W.to("meta")])
    assert (
        str(caught.value) == "running on meta is not supported; supported: tensors on cuda or cpu"
    )


# --- explanations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["coop_128x256", "pingpong_64x128"])
def test_explanation_of_a_kernel(
    name: str, monkeypatch: pytest.MonkeyPatch, golden: object
) -> None:
    """With a ranking of this test's own, so that it does not change with the calibration."""
    chosen, other = SCHEDULES[name], SCHEDULES["coop_128x64"]
    fast = Cost(0.5, 0.5, 0.25, 0.0, 0.0, 0.25, tiles=64, rounds=1, step="tensor cores")
    slow = replace(fast, main_us=1.25, rounds=2, step="copies")
    made = (Candidate(chosen, fast), Candidate(other, slow))
    monkeypatch.setattr(explain_kernel, "candidates", lambda problem: made)
    inputs = [integers(512, 256), integers(1024, 256)]
    kernel = wsched.compile(definition(), inputs, params=chosen)
    problem = Problem(512, 1024, 256, DataType.BFloat16, (DataType.BFloat16,), 132)
    text = str(explain_kernel.explain_kernel(kernel, problem, "cuda:0"))
    assert text.replace(kernel.kernel.name, "KERNEL") == golden


@pytest.mark.parametrize(
    ("stages", "why"),
    [
        (7, "take 203776 of 232448 bytes of shared memory, more do not hide more"),
        (8, "take 232448 of 232448 bytes of shared memory, one more would take 261120"),
    ],
)
def test_a_stage_that_just_fits(stages: int, why: str) -> None:
    """Eight of 28672 bytes take all that there is beside the epilogue and barriers."""
    tiled = with_tile(wsched.MatmulParams(), GemmTile(64, 48, 128), 1, False)
    options = replace(tiled.circular_buffer_options, smem_circular_buffer_stage=stages)
    params = replace(tiled, circular_buffer_options=options, epilogue_stages=1)
    kernel = wsched.compile(definition(), [integers(64, 256), integers(96, 256)], params=params)
    problem = Problem(64, 96, 256, DataType.BFloat16, (DataType.BFloat16,), 132)
    found = {c.name: c.reason for c in choices_of(kernel, problem, "", 1)}
    assert found["smem_circular_buffer_stage"].endswith(why)


def test_explanation_has_the_kernel_that_runs() -> None:
    inputs = [integers(512, 256), integers(1024, 256)]
    found, kernel = wsched.explain(definition(), inputs), wsched.compile(definition(), inputs)
    assert (found.route, found.device) == ("wsched", "cpu") and found.kernel is not None
    assert (found.kernel.kernel, found.kernel.sms) == (kernel.kernel.name, 4)
    assert found.to_dict()["params"] == kernel.params.to_dict()
    assert found.to_dict()["route"] == "wsched"
    assert {c.name for c in found.choices} >= {"tile_sizes", "smem_circular_buffer_stage"}
    assert len(found.refusals) == len(found.kernel.others) > 0


@pytest.mark.parametrize(
    ("stages", "why"),
    [
        (0, "threads read them: their buffers leave no shared memory for the operands"),
        (1, "TMA loads them ahead of the epilogue"),
    ],
)
def test_explanation_of_how_matrices_are_read(stages: int, why: str) -> None:
    inputs = [integers(64, 256), integers(96, 256), integers(64, 96)]
    params = replace(wsched.compile(RESIDUAL, inputs).params, epilogue_input_stages=stages)
    kernel = wsched.compile(RESIDUAL, inputs, params=params)
    problem = problem_of(kernel.fusion, inputs)
    said = {c.name: (c.value, c.reason) for c in choices_of(kernel, problem, "", 1)}
    assert said["epilogue_input_stages"] == (str(stages), f"matrices of the epilogue: {why}")


def test_explanation_of_torch(golden: object) -> None:
    found = wsched.explain(ROW_SUMS, [X, W])
    assert found.to_dict()["kernel"] is None and found.to_dict()["route"] == "torch"
    assert str(found) == golden


def test_explanation_executes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledFusion, "__call__", None)
    monkeypatch.setattr(routes, "interpret", None)
    assert wsched.explain(definition(), [X, W]).route == "wsched"
    assert wsched.explain(ROW_SUMS, [X, W]).route == "torch"
