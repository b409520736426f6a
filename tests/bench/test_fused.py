"""Epilogues, their tensors and the systems that compute them; on the CPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.bench.fakes import FakeSampler
from wsched.bench.fused.epilogue import EPILOGUES, parse_epilogues
from wsched.bench.fused.systems import (
    CHOICE,
    COMPILE,
    COOPERATIVE,
    OWN,
    PEERS,
    PING_PONG,
    FusedGpu,
    FusedOperands,
    prepare_fused,
)
from wsched.bench.method.measure import Plan, measure_shape
from wsched.bench.peers.systems import Prepared, Skip, parse_peers
from wsched.bench.problem import LAYOUTS, Problem, Shape
from wsched.bench.schedules.ranking import ranking
from wsched.front.known import import_fusion
from wsched.fusion import the_matmul
from wsched.run.cpu import MULTIPROCESSORS
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import MatmulParams

torch = pytest.importorskip("torch")
PROBLEM = Problem(Shape(72, 136, 64))


def operands(epilogue: str, problem: Problem = PROBLEM) -> FusedOperands:
    return FusedOperands(epilogue, problem, 2, 0, "cpu")


def prepared(name: str, epilogue: str, problem: Problem = PROBLEM) -> Prepared:
    x, others, _ = operands(epilogue, problem).sets[-1]
    return prepare_fused(name, epilogue, problem, x, others, MULTIPROCESSORS)


def complaint(name: str, epilogue: str, problem: Problem = PROBLEM) -> str:
    found = operands(epilogue, problem).launched(prepared(name, epilogue, problem).launch)
    return found.complaint(problem.tolerance)


@pytest.mark.parametrize("name", EPILOGUES)
def test_torch_computes_what_the_definition_says(name: str) -> None:
    """In fp64: of both gelus only one is in the definition."""
    epilogue, draw = EPILOGUES[name], torch.Generator().manual_seed(3)
    shapes = {"N": (24,), "MN": (40, 24)}
    x, w, *others = (
        torch.randn(shape, dtype=torch.float64, generator=draw)
        for shape in ((40, 16), (24, 16), *(shapes[a] for a in epilogue.inputs))
    )
    y = x @ w.T
    wanted = {
        "bare": lambda: y,
        "gelu": lambda: (
            (z := y + others[0])
            * (0.5 + 0.5 * torch.tanh(0.7978845608028654 * (z + 0.044715 * z**3)))
        ),
        "residual": lambda: y + others[0],
        "silu": lambda: y / (1 + torch.exp(-y)),
    }[name]()
    assert torch.allclose(epilogue.compute(x, w, *others), wanted, rtol=1e-12, atol=1e-12)


def test_parse_epilogues() -> None:
    assert parse_epilogues("silu, bare,silu") == ("silu", "bare")
    known = "supported: bare, gelu, residual, silu"
    for text, what in (("relu", "the epilogue 'relu'"), (",", "an empty list of epilogues")):
        with pytest.raises(UnsupportedError) as error:
            parse_epilogues(text)
        assert str(error.value) == f"{what} is not supported; {known}"


def test_definition(golden: object) -> None:
    assert EPILOGUES["gelu"].definition("fp16") == golden


def test_parse_peers() -> None:
    assert parse_peers("compile, compile", PEERS) == ("cublas", "compile")
    with pytest.raises(UnsupportedError) as error:
        parse_peers("triton", PEERS)
    assert str(error.value) == (
        "the peer 'triton' is not supported; supported: cublas, nvfuser, nvfuser-pingpong, compile"
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_own_systems_are_right(epilogue: str) -> None:
    for name in OWN:
        assert complaint(name, epilogue) == "", name


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    """The definition and the operands say the same."""
    problem = Problem(PROBLEM.shape, "bf16", layout)
    assert complaint(CHOICE, "residual", problem) == ""
    x, others, _ = operands("residual", problem).sets[-1]
    fusion = import_fusion(EPILOGUES["residual"].definition("bf16", layout))
    assert laid_out(fusion, [x, *others]) is fusion
    product = the_matmul(fusion)
    assert (product.m_major, product.n_major) == (layout[0] == "n", layout[1] == "t")


@pytest.mark.slow
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_eager_and_compiled_torch_are_right(
    epilogue: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def compile_(function: Any, **options: Any) -> Any:
        asked.append(options)
        return function

    pytest.importorskip("triton")
    monkeypatch.setattr(torch, "compile", compile_)
    dynamo = SimpleNamespace(reset=lambda: asked.append("reset"))  # the real one takes seconds
    monkeypatch.setitem(sys.modules, "torch._dynamo", dynamo)  # type: ignore[arg-type]
    problem = Problem(Shape(512, 768, 64), dtype)
    assert complaint("cublas", epilogue, problem) == ""
    assert complaint(COMPILE, epilogue, problem) == ""
    assert asked == ["reset", {"mode": "max-autotune-no-cudagraphs", "dynamic": False}]


@pytest.mark.parametrize("epilogue", ["gelu", "residual", "silu"])
def test_an_epilogue_that_was_left_out_is_found(epilogue: str) -> None:
    found = operands(epilogue).launched(lambda x, others, d: d.copy_(x @ others[0].t()))
    assert "wrong result" in found.complaint(PROBLEM.tolerance)


@pytest.mark.parametrize(("epilogue", "offset", "right"), [("bare", 1.0, False),
                                                           ("residual", 1.0, True),
                                                           ("residual", 3.0, False)])  # fmt: skip
def test_outliers_of_what_is_rounded_twice(epilogue: str, offset: float, right: bool) -> None:
    made = operands(epilogue)
    bound = made._problem.tolerance * offset * 1.1

    def launch(x: Any, others: Any, d: Any) -> Any:
        reference = EPILOGUES[epilogue].compute(x.float(), *(t.float() for t in others))
        rms = reference.square().mean().sqrt()
        d.copy_(reference)
        d[3, 5] += bound * (reference[3, 5].abs() + rms) + 0.01 * rms
        return d

    assert (made.launched(launch).outliers == 0) is right


def test_kinds_of_schedules() -> None:
    params = {n: MatmulParams.from_dict(prepared(n, "bare").details["params"]) for n in OWN}
    assert [params[n].ping_pong for n in (COOPERATIVE, PING_PONG)] == [False, True]
    assert params[CHOICE] in (params[COOPERATIVE], params[PING_PONG])


def test_no_schedule_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    text = EPILOGUES["bare"].definition("bf16")
    only = [r for r in ranking(text, PROBLEM.shape, 132) if not r.params.ping_pong]
    monkeypatch.setattr("wsched.bench.fused.systems.ranking", lambda *_: only)
    with pytest.raises(Skip) as skip:
        prepared(PING_PONG, "bare")
    assert str(skip.value) == "no ping-pong schedule fits"


def test_nvfuser_is_compared_bare() -> None:
    with pytest.raises(Skip) as skip:
        prepared("nvfuser", "silu")
    assert str(skip.value) == "nvFuser's kernels are compared without an epilogue"


def test_compile_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)  # type: ignore[arg-type]
    with pytest.raises(Skip) as skip:
        prepared(COMPILE, "bare")
    assert str(skip.value) == "not installed: there is no module triton"


def test_the_gpu_draws_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Any, ...]] = []
    monkeypatch.setattr("wsched.bench.fused.systems.FusedOperands", lambda *a: drawn.append(a))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    gpu = FusedGpu.__new__(FusedGpu)
    gpu._torch, gpu._seed, gpu._epilogue = torch, 3, "silu"
    gpu.allocate(PROBLEM, 2)
    assert drawn == [("silu", PROBLEM, 2, 3, "cuda")]


@pytest.mark.gpu
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_every_system_is_right_or_says_why_not(epilogue: str) -> None:
    problem = Problem(Shape(264, 520, 328))
    systems = dict.fromkeys([*OWN, "cublas", "nvfuser", "nvfuser-pingpong"])
    plan = Plan(rounds=2, replay_ms=1)
    gpu = FusedGpu(0, epilogue)
    result = measure_shape(gpu, problem, systems, plan, FakeSampler(), lambda *_: None)
    told = {n: (r["status"], r["reason"]) for n, r in result["systems"].items()}
    assert {told[n] for n in (*OWN, "cublas")} == {("ok", "")}
    for status, reason in told.values():
        assert status == "ok" or (status == "skipped" and reason), told
