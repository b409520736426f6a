"""nvFuser's type promotion: what its own IR says and what the importer says of the same operation.

nvFuser's text has every cast written out; the same operation without them must become the same
fusion, and the result the type that nvFuser gives it.
"""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.epilogues import epilogue
from wsched.fusion import fusion_text
from wsched.importer import build_fusion, definition_of, record_text

TYPES = ("BFloat16", "Half", "Float")
UNARY = (
    "abs", "erf", "exp", "log", "neg", "reciprocal", "relu", "rsqrt", "sigmoid", "sign", "silu",
    "sqrt", "tanh", "ceil", "erfc", "exp2", "expm1", "floor", "frac", "log10", "log1p", "log2",
    "round", "trunc",
)  # fmt: skip
BINARY = ("add", "div", "maximum", "minimum", "mul", "pow", "sub", "truediv")
COMPARE = ("eq", "ge", "gt", "le", "lt", "ne")


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")


def live(nvf: Any, lines: list[str], other: str | None) -> tuple[Any, str]:
    """nvFuser's definition of the lines, and the type of their last result."""
    tensor = {"shape": [-1, -1], "contiguity": [True, True]}
    half = nvf.DataType.BFloat16
    with nvf.FusionDefinition() as fd:
        names: dict[str, Any] = {"fd": fd, "DataType": nvf.DataType}
        x, w = fd.define_tensor(**tensor, dtype=half), fd.define_tensor(**tensor, dtype=half)
        if other is not None:
            names["r"] = fd.define_tensor(**tensor, dtype=getattr(nvf.DataType, other))
        names["y"] = fd.ops.linear(x, w)
        exec("\n".join(lines), names)
        fd.add_output(names["d"])
    return fd, names["d"].dtype().name


def compare(nvf: Any, lines: list[str], other: str | None = None) -> None:
    fd, dtype = live(nvf, lines, other)
    inputs = [] if other is None else [f"r: [-1, -1] {other}"]
    ours = build_fusion(record_text(epilogue(*inputs, *lines)))
    assert ours.outputs[0].dtype.name == dtype
    assert fusion_text(ours) == fusion_text(build_fusion(definition_of(fd)))


@pytest.mark.parametrize("op", UNARY)
def test_unary(nvf: Any, op: str) -> None:
    compare(nvf, [f"d = fd.ops.{op}(y)"])


@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("op", BINARY)
def test_binary(nvf: Any, op: str, other: str) -> None:
    compare(nvf, [f"d = fd.ops.{op}(y, r)"], other)


@pytest.mark.parametrize("scalar", ["0.5", "2", "-3.25"])
@pytest.mark.parametrize("op", BINARY)
def test_number(nvf: Any, op: str, scalar: str) -> None:
    compare(nvf, [f"d = fd.ops.{op}(y, {scalar})"])
    compare(nvf, [f"d = fd.ops.{op}({scalar}, y)"])


@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("op", COMPARE)
def test_comparison(nvf: Any, op: str, other: str) -> None:
    compare(nvf, [f"c = fd.ops.{op}(y, r)", "d = fd.ops.where(c, y, r)"], other)


@pytest.mark.parametrize(
    "lines",
    [
        ["c = fd.ops.lt(y, 0.0)", "d = fd.ops.where(c, y, 0.0)"],
        ["c = fd.ops.lt(y, 0.0)", "d = fd.ops.mul(c, y)"],
        ["c = fd.ops.lt(y, 0.0)", "d = fd.ops.cast(c, dtype=DataType.BFloat16)"],
        ["c = fd.ops.lt(y, 0.0)", "e = fd.ops.logical_not(c)", "d = fd.ops.where(e, y, 1.0)"],
        [
            "a = fd.ops.lt(y, 0.0)",
            "b = fd.ops.gt(y, 1.0)",
            "c = fd.ops.logical_and(a, b)",
            "e = fd.ops.logical_or(a, c)",
            "d = fd.ops.where(e, y, 1.0)",
        ],
        [
            "a = fd.ops.lt(y, 0.0)",
            "b = fd.ops.gt(y, 1.0)",
            "c = fd.ops.bitwise_and(a, b)",
            "e = fd.ops.bitwise_or(a, c)",
            "d = fd.ops.where(e, y, 1.0)",
        ],
        [
            "a = fd.ops.lt(y, 0.0)",
            "b = fd.ops.gt(y, 1.0)",
            "c = fd.ops.bitwise_xor(a, b)",
            "d = fd.ops.where(c, y, 1.0)",
        ],
        ["d = fd.ops.clamp(y, -1.0, 1.0)"],
        ["d = fd.ops.threshold(y, 0.5, 1.0)"],
        ["d = fd.ops.lerp(y, r, 0.25)"],
        ["d = fd.ops.addcmul(y, r, r, fd.define_scalar(0.5))"],
        ["e = fd.ops.logical_not(y)", "d = fd.ops.where(e, y, 1.0)"],
        ["d = fd.ops.set(y)"],
        ["c = fd.ops.isnan(y)", "d = fd.ops.where(c, y, 1.0)"],
        ["c = fd.ops.isinf(y)", "d = fd.ops.where(c, y, 1.0)"],
        ["c = fd.ops.isfinite(y)", "d = fd.ops.where(c, y, 1.0)"],
        ["s = fd.define_scalar(None, dtype=DataType.Double)", "d = fd.ops.mul(y, s)"],
        ["e = fd.ops.cast(y, dtype=DataType.Half)", "d = fd.ops.add(e, y)"],
    ],
    ids=lambda lines: lines[-2 if "where" in lines[-1] else -1].split("ops.")[1].split("(")[0],
)
def test_others(nvf: Any, lines: list[str]) -> None:
    other = "Half" if any(", r" in line for line in lines) else None
    fd, dtype = live(nvf, lines, other)
    if "define_scalar(0.5)" in lines[-1]:
        lines = ["s = fd.define_scalar(0.5)", lines[-1].replace("fd.define_scalar(0.5)", "s")]
    inputs = [] if other is None else [f"r: [-1, -1] {other}"]
    ours = build_fusion(record_text(epilogue(*inputs, *lines)))
    assert ours.outputs[0].dtype.name == dtype
    assert fusion_text(ours) == fusion_text(build_fusion(definition_of(fd)))


def test_a_type_that_kernels_do_not_have(nvf: Any) -> None:
    """nvFuser computes a predicate times a number in double precision."""
    lines = ["c = fd.ops.lt(y, 0.0)", "d = fd.ops.mul(c, 2.0)"]
    fd, dtype = live(nvf, lines, None)
    assert dtype == "Double"
    with pytest.raises(UnsupportedError) as error:
        build_fusion(definition_of(fd))
    assert str(error.value) == (
        "fd.ops.cast to DataType.Double is not supported; supported: BFloat16, Half, Float, Bool, "
        "Float8_e4m3fn, Float8_e5m2"
    )
    with pytest.raises(UnsupportedError) as error:
        build_fusion(record_text(epilogue(*lines)))
    assert str(error.value) == (
        "fd.ops.mul of Bool is not supported; supported: BFloat16, Half, Float"
    )
