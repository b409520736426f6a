"""Constants, conversions, parts of fragments, and pointwise operations on fp32."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.pointwise import OPS
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir
from lowering.mlir.pointwise import OPERATIONS
from tests.lowering.mlir.interpreter import Thread, run


def kernel(body: str) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param K: i32
          shared S: f32[1][64x32] swizzle 128 at 0
          {body}
        }}
        """
    )


def executed(body: str) -> Thread:
    return run(emit_mlir(kernel(body)).splitlines(), {"%smem": 0, "%K": 1, "tid.x": 0})


def stored(op: str, *args: float) -> list[object]:
    """What a thread stores of an operation on numbers."""
    text = ", ".join(map(str, args))
    body = f"v: frag<f32, 64x8> = frag.pointwise {op}, {text}\n st.shared S[0, 0, 0], v"
    calls = executed(body).of("st.shared.v2.f32")
    return [value for c in calls for value in c.values[-2:]]


@pytest.mark.parametrize(("dtype", "sums"), [("f32", True), ("s32", True), ("bf16", False)])
def test_only_what_products_sum_up_in_is_filled_ahead_of_them(dtype: str, sums: bool) -> None:
    text = emit_mlir(kernel(f"v: frag<{dtype}, 64x8> = frag.fill 0.0"))
    assert ('att ""' in text) is sums


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("add", (1.5, 2.25), 3.75),
        ("sub", (1.5, 2.25), -0.75),
        ("mul", (1.5, 3.0), 4.5),
        ("div", (1.0, 3.0), np.float32(1) / np.float32(3)),
        ("reciprocal", (3.0,), np.float32(1) / np.float32(3)),
        ("relu", (-2.0,), 0.0),
        ("maximum", (-2.0, 5.0), 5.0),
        ("minimum", (-2.0, 5.0), -2.0),
        ("pow", (1.5, 3.0), 3.375),
    ],
)
def test_values(op: str, args: tuple[float, ...], expected: float) -> None:
    assert stored(op, *args) == [np.float32(expected)] * 4


@pytest.mark.parametrize("op", ["exp", "tanh", "erf", "rsqrt", "log1p", "floor", "round", "pow"])
def test_functions_of_libdevice_are_declared_once(op: str) -> None:
    args = "v, v" if OPS[op].arity == 2 else "v"
    body = f"v: frag<f32, 64x8> = frag.fill 2.0\n w: frag<f32, 64x8> = frag.pointwise {op}, {args}"
    text = emit_mlir(kernel(body))
    name = {"round": "rintf"}.get(op, f"{op}f")
    types = ", ".join(["f32"] * OPS[op].arity)
    assert text.count(f"llvm.func @__nv_{name}({types}) -> f32") == 1
    assert text.count(f"llvm.call @__nv_{name}(") == 4


def test_every_operation_has_a_way() -> None:
    assert set(OPS) == set(OPERATIONS)


def test_conditions_choose() -> None:
    body = """
    c: frag<pred, 64x8> = frag.pointwise lt, 1.0, 2.0
    n: frag<pred, 64x8> = frag.pointwise logical_not, c
    b: frag<pred, 64x8> = frag.pointwise logical_or, n, c
    v: frag<f32, 64x8> = frag.pointwise where, b, 3.0, 4.0
    st.shared S[0, 0, 0], v
    """
    calls = executed(body).of("st.shared.v2.f32")
    assert [c.values[-2:] for c in calls] == [(np.float32(3), np.float32(3))] * 2


def test_products_and_sums_may_become_one() -> None:
    text = emit_mlir(kernel("v: frag<f32, 64x8> = frag.pointwise add, 1.0, 2.0"))
    assert "arith.addf %f3f800000, %f40000000 fastmath<contract> : f32" in text


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_pairs_are_rounded_together(dtype: str) -> None:
    body = f"v: frag<f32, 64x16> = frag.fill 0.5\n w: frag<{dtype}, 64x16> = frag.cast v"
    calls = executed(body).of(f"cvt.rn.{dtype}x2.f32")
    assert len(calls) == 4
    lines = emit_mlir(kernel(body)).splitlines()
    taken = [re.findall(r"%\d+\[(\d+)\]", line)[0] for line in lines if "extractvalue" in line]
    assert sorted(map(int, taken)) == list(range(8))
    operands = [re.findall(r'" (%\d+), (%\d+) :', c.text)[0] for c in calls]
    high, low = operands[0]
    assert int(high[1:]) > int(low[1:])  # PTX has the upper half first


def test_parts_of_fragments_are_no_operations() -> None:
    head = "v: frag<f32, 128x32> = frag.fill 0.5\n"
    parts = """
    c: frag<f32, 128x8> = frag.columns v, 16
    r: frag<f32, 64x8> = frag.rows c, 64
    """
    without = emit_mlir(kernel(head)).count("\n")
    assert emit_mlir(kernel(head + parts)).count("\n") == without + 2  # comments
    used = emit_mlir(kernel(f"{head}{parts} st.shared S[0, 0, 0], r"))
    assert re.findall(r"extractvalue %\d+\[(\d+)\]", used) == ["8", "9", "10", "11"]


def test_columns_inside_a_group_are_refused() -> None:
    with pytest.raises(InternalError, match="columns 4 of"):
        emit_mlir(
            kernel("v: frag<f32, 64x16> = frag.fill 0.5\n c: frag<f32, 64x8> = frag.columns v, 4")
        )


def test_a_row_is_the_same_in_all_rows() -> None:
    body = """
    r: frag<f32, 1x8> = frag.fill 2.0
    c: frag<f32, 64x1> = frag.fill 3.0
    v: frag<f32, 64x8> = frag.pointwise mul, r, c
    """
    text = emit_mlir(kernel(body))
    assert text.count("arith.mulf") == 4
    assert len(set(re.findall(r"arith.mulf (%\d+), %\d+", text))) == 2
    assert len(set(re.findall(r"arith.mulf %\d+, (%\d+)", text))) == 2
