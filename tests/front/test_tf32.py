"""Matmuls of fp32 as TF32: only where it is said, rounded, proved, without spills."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.on_machine import Problem, run
from tests.proofs import proved
from tests.schedules import cooperative, definition, ping_pong, split_k
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import choose_params
from wsched.choose.problem import Problem as HeuristicsProblem
from wsched.choose.tiles import tiles_for
from wsched.cli.check import check, sized_inputs
from wsched.doors.fallback import rebuild
from wsched.front.known import import_fusion, recorded
from wsched.front.sizes import Extents
from wsched.front.tf32 import torch_allows_tf32
from wsched.fusion import DataType
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.schedule.matmul.params import MatmulParams, ThreadLoads

ODD = Problem(200, 72, 100, 4)
FP32 = definition("f32", "f32")


def kernel(params: MatmulParams) -> CompiledFusion:
    return compile_fusion(import_fusion(wsched.with_tf32(FP32)), params)


def rounded(x: Any) -> Any:
    """To 10 bits of the mantissa, to nearest even, by arithmetic: no exponent is at its limits."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(np.ldexp(fraction, 11)), exponent - 11).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    "params",
    [
        cooperative(128, 64, k=32, stages=3),
        cooperative(128, 64, k=64, stages=3),
        ping_pong(64, 128, k=32, stages=3),
        cooperative(128, 128, k=32, stages=3, cluster=(2, 2)),
        split_k(cooperative(128, 64, k=32, stages=3), 2),
    ],
    ids=["k32", "k64", "ping-pong", "cluster", "split-K"],
)
def test_right_proved_and_without_spills(params: MatmulParams) -> None:
    made = kernel(params)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (n, ODD.k)).astype("f4") for n in (ODD.m, ODD.n))
    assert np.array_equal(run(made, ODD, a, b, "f32", races=True), a @ b.T)
    proved(made.kernel, made.plan)
    assert made.resources.clean


def test_operands_are_rounded_on_their_way() -> None:
    """One product: 1 + 2**-11 counts as 1, 1 + 3 * 2**-11 as 1 + 2**-9, and what is stored in
    memory stays fp32.
    """
    made = kernel(cooperative(128, 64, k=32, stages=3))
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 64, 1)).astype("f4")
    a, b = (np.pad(x, ((0, 0), (0, 3))) for x in (a, b))
    a[:3, 0], b[0, 0] = (1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11 - 2**-23), 1
    found = run(made, Problem(64, 64, 4, 1), a, b, "f32")
    assert found[:3, 0].tolist() == [1, 1 + 2**-9, -1 - 2**-10]
    assert np.array_equal(found, rounded(a) @ rounded(b).T)
    assert "tensormap T0: tf32[M, K]" in made.dump("kernel")


def test_threads_do_not_load_it() -> None:
    """They would cut off what TMA rounds, and a schedule changes no result's accuracy."""
    params = replace(cooperative(128, 64, k=32, stages=3), thread_loads=ThreadLoads(0, 4))
    with pytest.raises(ScheduleError) as error:
        kernel(params)
    assert str(error.value).endswith(
        "...): thread_loads.b=4: threads would cut off what TMA rounds of TF32"
    )


@pytest.mark.slow
def test_a_call_of_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    text = wsched.with_tf32(definition("f32", "f32", "matmul"))  # [K, N]: copied, since K is apart
    x, w = torch.randn(40, 64), torch.randn(64, 24)
    (out,) = wsched.execute(text, [x, w])
    error = torch.linalg.norm(out - x @ w) / torch.linalg.norm(x @ w)
    assert out.dtype is torch.float32 and 1e-5 < error < 4e-4
    made = wsched.compile(text, [x, w])
    assert check(made, sized_inputs(made, Extents(64, 64, 512), 0, "cpu")).passed
    (same,) = wsched.execute(definition("f32", "f32", "matmul"), [x, w])  # nobody said so
    assert torch.linalg.norm(same - x @ w) < 1e-5 * torch.linalg.norm(x @ w)


def test_what_becomes_tf32() -> None:
    """Inputs that matmuls alone read, of matmuls of two such; everything else stays fp32."""
    lines = [
        "x = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)",
        "w = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)",
        "v = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)",
        "r = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)",
        "t = fd.ops.permute(w, dims=[1, 0])",
        "y = fd.ops.matmul(x, t)",
        "z = fd.ops.add(y, r)",
        "u = fd.ops.linear(r, v)",
        "fd.add_output(z)",
        "fd.add_output(u)",
    ]
    text = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n" + "".join(
        f"    {line}\n" for line in lines
    )
    changed = [
        line.strip()[0] for line in wsched.with_tf32(text).splitlines() if "DataType.TF32" in line
    ]
    assert changed == ["x", "w", "v"]


def computed(*lines: str) -> str:
    """A definition of fp32 inputs ``x``, ``w`` and ``v`` whose output is ``d``."""
    return "def nvfuser_fusion(fd : FusionDefinition) -> None :\n" + "".join(
        f"    {line}\n"
        for line in (
            *(f"{n} = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], "
              "dtype=DataType.Float)" for n in "xwv"),
            *lines, "fd.add_output(d)",
        )
    )  # fmt: skip


MLP = computed("h = fd.ops.linear(x, w)", "g = fd.ops.relu(h)", "d = fd.ops.linear(g, v)")
RESIDUAL = computed(
    "y = fd.ops.linear(x, w)", "z = fd.ops.mul(y, 0.5)", "t = fd.ops.linear(z, v)",
    "d = fd.ops.add(t, x)",
)  # fmt: skip


@pytest.fixture
def allowed() -> Any:
    """Torch, whose settings allow it for the time of a test."""
    torch = pytest.importorskip("torch")
    torch.backends.cuda.matmul.allow_tf32 = True
    yield torch
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.slow
@pytest.mark.parametrize(("text", "count"), [(MLP, 2), (RESIDUAL, 2)], ids=["mlp", "residual"])
def test_products_of_what_kernels_make(text: str, count: int, allowed: Any) -> None:
    """One operand of TF32 says for both; what is read elsewhere is fp32 there."""
    inputs = [allowed.randn(s) for s in ((40, 64), (48, 64) if text is MLP else (64, 64))]
    inputs.append(allowed.randn(64, inputs[1].shape[0]))
    explained = wsched.explain(text, inputs)
    assert explained.route == "cut" and len([m for m in explained.matmuls if m.kernel]) == count
    (found,) = wsched.execute(text, inputs)
    x, w, v = (t.double() for t in inputs)
    wanted = (x @ w.t()).relu() @ v.t() if text is MLP else x @ w.t() * 0.5 @ v.t() + x
    error = allowed.linalg.norm(found - wanted) / allowed.linalg.norm(wanted)
    assert found.dtype is allowed.float32 and 1e-5 < error < 3e-3


def test_torch_says_so(allowed: Any) -> None:
    """By each of its names, from call to call; what is compiled is kept by it."""
    settings = allowed.backends.cuda.matmul
    x, w = allowed.randn(40, 64), allowed.randn(24, 64)
    assert wsched.execute(FP32, [x, w])[0].dtype is allowed.float32
    assert wsched.compile(FP32, [x, w]).fusion.inputs[0].dtype.name == "TF32"
    assert wsched.explain(FP32, [x, w]).route == "wsched"
    for name, value in (("allow_tf32", False), ("fp32_precision", "ieee")):
        setattr(settings, name, value)
        (found,) = wsched.execute(FP32, [x, w])
        assert allowed.linalg.norm(found - x @ w.t()) < 1e-5 * allowed.linalg.norm(found)
        refused = wsched.explain(FP32, [x, w])
        assert refused.route == "torch" and "allow_tf32" in refused.refusals[0].reason
        with pytest.raises(UnsupportedError, match="of Float and Float"):
            wsched.compile(FP32, [x, w])
    settings.fp32_precision = "tf32"
    assert wsched.explain(FP32, [x, w]).route == "wsched"


def test_what_settings_torch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.9 there was the one."""
    torch = pytest.importorskip("torch")
    for given in (True, False):
        old = type("Old", (), {"allow_tf32": given})
        monkeypatch.setattr(torch.backends.cuda, "matmul", old)
        assert torch_allows_tf32() is given


def test_what_nvfuser_and_torch_have_in_place_of_it() -> None:
    """fp32, where wsched leaves the definition to them."""
    nvfuser = pytest.importorskip("nvfuser_direct")
    text = wsched.with_tf32(FP32)
    assert "Float" in repr(rebuild(recorded(text))) and nvfuser
    assert "TF32" not in repr(rebuild(recorded(text)))


def test_half_the_rate_of_16_bits() -> None:
    """A step has as many bytes, and so half of K."""
    wide = HeuristicsProblem(8192, 8192, 8192, DataType.TF32, (DataType.Float,), 132)
    narrow = replace(wide, operand=DataType.BFloat16)
    us = [cost(p, choose_params(p)).us for p in (wide, narrow)]
    assert 1.8 < us[0] / us[1] < 2.2
    assert {t.k for t in tiles_for(wide)} == {32, 64}


def test_nothing_to_change() -> None:
    """Operands of 16 bits; inputs that are read elsewhere, as what is added or written too."""
    read = computed(
        *(f"{n}1 = fd.ops.relu({n})" for n in "xw"), "d = fd.ops.linear(x, w)",
        *(f"fd.add_output({n})" for n in ("x1", "w1", "v")),
    )  # fmt: skip
    written = computed("d = fd.ops.linear(x, w)", "fd.add_output(d, w)", "y = fd.ops.neg(v)",
                       "fd.add_output(y)", "fd.add_output(x)")  # fmt: skip
    for found in (definition(), read, written):
        with pytest.raises(UnsupportedError, match="TF32 in a definition without a matmul of fp32"):
            wsched.with_tf32(found)


def test_however_an_input_is_written() -> None:
    """Over several lines, and of fp32 since nothing else is said."""
    text = """
def f(fd: FusionDefinition):
    a = fd.define_tensor(
        shape=[-1, -1], contiguity=[True, True],
        dtype=DataType.Float)
    b = fd.define_tensor(shape=[-1, -1], contiguity=[True, True])
    fd.add_output(fd.ops.linear(a, b))
"""
    found = wsched.with_tf32(text)
    assert found.count("dtype=DataType.TF32") == 2 and "DataType.Float)" not in found


def test_a_live_definition_keeps_all_digits() -> None:
    """nvFuser prints six of them."""
    nvf = pytest.importorskip("nvfuser_direct")
    with nvf.FusionDefinition() as fd:
        x, w = (
            fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=nvf.DataType.Float)
            for _ in range(2)
        )
        fd.add_output(fd.ops.mul(fd.ops.linear(x, w), 0.7978845608028654))
    nodes = recorded(wsched.with_tf32(fd)).nodes
    assert [v for n in nodes for v in n.operands if isinstance(v, float)] == [0.7978845608028654]


@pytest.mark.parametrize("given", [None, 3])
def test_what_is_no_definition(given: object) -> None:
    with pytest.raises(UnsupportedError, match=r"^a definition of type builtins") as error:
        wsched.with_tf32(given)
    assert "nvfuser_direct.FusionDefinition" in str(error.value)
