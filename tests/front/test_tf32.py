"""Matmuls of fp32 as TF32: only where it is said, truncated, proved, without spills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from lowering.proof.prove import prove
from tests.on_machine import Problem, run
from tests.schedules import cooperative, definition, ping_pong, split_k
from wsched.cli.check import check, sized_inputs
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import admitted_by
from wsched.schedule.matmul.params import MatmulParams

ODD = Problem(200, 72, 100, 4)
FP32 = definition("f32", "f32")


def kernel(params: MatmulParams) -> CompiledFusion:
    return compile_fusion(import_fusion(wsched.with_tf32(FP32)), params)


def cut(x: Any) -> Any:
    """The upper 19 bits."""
    return (x.view(np.uint32) & 0xFFFFE000).view(np.float32)


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
    found = prove(made.kernel, admitted_by(made.plan))
    assert found.proved, "\n".join(map(str, found.open))
    assert made.resources.clean


def test_the_lower_bits_are_cut_off() -> None:
    """One product: 1 + 2**-11 counts as 1, and what is stored in memory stays fp32."""
    made = kernel(cooperative(128, 64, k=32, stages=3))
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 64, 1)).astype("f4")
    a, b = (np.pad(x, ((0, 0), (0, 3))) for x in (a, b))
    a[0, 0], b[0, 0] = 1 + 2**-11, 1 + 2**-10
    found = run(made, Problem(64, 64, 4, 1), a, b, "f32")
    assert found[0, 0] == np.float32(1 + 2**-10)
    assert np.array_equal(found, cut(a) @ cut(b).T)
    assert "tensormap T0: tf32[M, K]" in made.dump("kernel")


def test_a_call_of_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    text = wsched.with_tf32(definition("f32", "f32", "matmul"))  # [K, N]: copied, since K is apart
    x, w = torch.randn(40, 64), torch.randn(64, 24)
    (out,) = wsched.execute(text, [x, w])
    error = torch.linalg.norm(out - x @ w) / torch.linalg.norm(x @ w)
    assert out.dtype is torch.float32 and 1e-5 < error < 2e-3
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
    assert changed == ["x", "w"]


def test_nothing_to_change() -> None:
    """Operands of 16 bits; and one that is read elsewhere, so that its matmul would be mixed."""
    text = definition("f32", "f32").replace("fd.add_output(d)", "fd.add_output(d)\n    e = "
                                            "fd.ops.relu(w)\n    fd.add_output(e)")  # fmt: skip
    for found in (definition(), text):
        with pytest.raises(UnsupportedError, match="TF32 in a definition without a matmul of fp32"):
            wsched.with_tf32(found)
