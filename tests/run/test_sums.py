"""A sum of two matmuls in one accumulator, K over a list of pairs of operands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.cuda import nvrtc
from lowering.ground.errors import UnsupportedError
from tests.importer.test_build import COLUMNS, X, build
from tests.run.test_lists import EVERY, drawn
from tests.schedules import cooperative
from wsched.choose.heuristics import candidates
from wsched.front.sizes import Extents
from wsched.fusion import Fusion
from wsched.run.compiled import compile_fusion
from wsched.run.registers import compile_clean

torch = pytest.importorskip("torch")

INPUTS = (f"x = {X}", f"w = {X}", f"t = {X}", f"b = {X}")
FP32, BF16 = "dtype=DataType.Float", "dtype=DataType.BFloat16"
SUM = (
    *INPUTS, "y = fd.ops.linear(x, w)", "u = fd.ops.linear(t, b)", f"f = fd.ops.cast(y, {FP32})",
    f"g = fd.ops.cast(u, {FP32})", "s = fd.ops.add(f, g)", f"z = fd.ops.cast(s, {BF16})",
)  # fmt: skip


def summed(x: Any, w: Any, t: Any, b: Any) -> Any:
    return (x.float() @ w.float().T + t.float() @ b.float().T).bfloat16()


def of(m: int, n: int, k: int, rank: int) -> list[Any]:
    return [drawn(m, k), drawn(n, k), drawn(m, rank), drawn(n, rank)]


def ran(fusion: Fusion, name: str, *inputs: Any) -> Any:
    (found,) = compile_fusion(fusion, EVERY[name])(*inputs)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
def test_pairs_of_operands(name: str) -> None:
    fusion = build(*SUM)
    assert len(fusion.mmas) == 1 and fusion.lists == {"K": ("K0", "K1")}
    for size in ((136, 72, 200, 8), (60, 24, 64, 72)):
        inputs = of(*size)
        assert torch.equal(ran(fusion, name, *inputs), summed(*inputs))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 140), st.integers(1, 20), st.integers(1, 30), st.integers(1, 20))
def test_any_ranks(m: int, n: int, k: int, rank: int) -> None:
    inputs = of(m, 8 * n, 8 * k, 8 * rank)
    assert torch.equal(ran(build(*SUM), "ping_pong", *inputs), summed(*inputs))


def test_a_bias_and_what_follows() -> None:
    row = X.replace("-1, -1", "-1").replace("True, True", "True")
    lines = (
        *INPUTS, f"c = {row}", "u = fd.ops.linear(t, b)", "y = fd.ops.linear(x, w, c)",
        "s = fd.ops.add(u, y)", "r = fd.ops.relu(s)", f"z = fd.ops.cast(r, {BF16})",
    )  # fmt: skip
    fusion = build(*lines)
    assert [b.key for b in fusion.inputs] == ["T0[0]", "T1[0]", "T0[1]", "T1[1]", "T2"]
    inputs, c = of(70, 24, 40, 16), drawn(24)
    x, w, t, b = inputs
    wanted = (x.float() @ w.float().T + t.float() @ b.float().T + c.float()).relu().bfloat16()
    assert torch.equal(ran(fusion, "cooperative", *inputs, c), wanted)


def test_operands_by_columns() -> None:
    lines = [f"x = {X}", f"w = {COLUMNS}", f"t = {X}", f"b = {COLUMNS}", "y = fd.ops.matmul(x, w)",
             "u = fd.ops.matmul(t, b)", "z = fd.ops.add(y, u)"]  # fmt: skip
    x, w, t, b = of(70, 24, 40, 16)
    found = ran(build(*lines), "cooperative", x, w.T, t, b.T)
    assert torch.equal(found.bfloat16(), summed(x, w, t, b))


@pytest.mark.parametrize(
    ("lines", "out"),
    [
        ((*SUM, "fd.add_output(u)"), "z"),
        ((*SUM[:-1], "v = fd.ops.mul(g, s)"), "v"),
        ((*SUM[:4], "y = fd.ops.linear(x, w)", "u = fd.ops.matmul(t, b)", "z = fd.ops.add(y, u)"),
         "z"),
    ],
)  # fmt: skip
def test_refused(lines: tuple[str, ...], out: str) -> None:
    """A summand that is read elsewhere, other operations."""
    with pytest.raises(UnsupportedError) as error:
        build(*lines, out=out)
    assert error.value.what.endswith(" with no operand in common")


def test_costs_a_few_steps_more() -> None:
    fusion, whole = build(*SUM), build(*INPUTS[:2], "z = fd.ops.linear(x, w)")
    asked = Extents(8192, 4096, 4160, own=(("K0", 4096), ("K1", 64))).problem(fusion, 132)
    assert (asked.k, asked.k_entries, asked.steps(64)) == (4160, (4096, 64), 65)
    us = candidates(asked)[0].cost.by_laws
    bare = min(c.cost.by_laws for c in candidates(Extents(8192, 4096, 4096).problem(whole, 132)))
    assert bare < us < 1.03 * bare


@pytest.mark.slow
def test_it_compiles_clean() -> None:
    if nvrtc.nvrtc_version() is None:
        pytest.skip("needs NVRTC")
    fusion = build(*SUM)
    asked = Extents(8192, 4096, 4160, own=(("K0", 4096), ("K1", 64))).problem(fusion, 132)
    for params in (candidates(asked)[0].params, cooperative(128, 256, stages=4)):
        assert compile_clean(fusion, params).resources.clean
