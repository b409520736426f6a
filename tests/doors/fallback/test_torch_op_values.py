"""What torch computes for operations of nvFuser: numbers that a hand finds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback.torch_ops import operations

torch = pytest.importorskip("torch", reason="torch is not installed")

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
WIDE = torch.tensor([[4.0, 1.0, 3.0], [2.0, 6.0, 5.0]])


def call(name: str, *operands: Any, **named: Any) -> Any:
    return operations()[name](*operands, **named)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: call("addcmul", X, X, X), [[2.0, 6.0], [12.0, 20.0]]),
        (lambda: call("addcmul", X, X, X, 0.5), [[1.5, 4.0], [7.5, 12.0]]),
        (lambda: call("addcmul", X, X, 1.0, value=-1), [[0.0, 0.0], [0.0, 0.0]]),
        (lambda: call("clamp", X, 2.0, 3.0), [[2.0, 2.0], [3.0, 3.0]]),
        (lambda: call("threshold", X, 2.0, 7.0), [[7.0, 7.0], [3.0, 4.0]]),
        (lambda: call("where", X > 2, X, 0.0), [[0.0, 0.0], [3.0, 4.0]]),
        (lambda: call("truediv", X, 2), [[0.5, 1.0], [1.5, 2.0]]),
        (lambda: call("cumsum", WIDE, 1), [[4.0, 5.0, 8.0], [2.0, 8.0, 13.0]]),
        (lambda: call("cumprod", X, 0), [[1.0, 2.0], [3.0, 8.0]]),
        (lambda: call("matmul", X, X), [[7.0, 10.0], [15.0, 22.0]]),
        (lambda: call("linear", X, X), [[5.0, 11.0], [11.0, 25.0]]),
        (lambda: call("linear", X, X, X[0]), [[6.0, 13.0], [12.0, 27.0]]),
        (lambda: call("linear", X, X, bias=X[1]), [[8.0, 15.0], [14.0, 29.0]]),
        (lambda: call("div", X, 2), [[0.5, 1.0], [1.5, 2.0]]),
        (lambda: call("div", X.long(), 2), [[0, 1], [1, 2]]),
        (lambda: call("div", -X.long(), 2), [[0, -1], [-1, -2]]),
        (lambda: call("div", X.long(), 2.0), [[0.5, 1.0], [1.5, 2.0]]),
        (lambda: call("div", 7.0, X.long()[1, 1]), 1.75),
        (lambda: call("sum", X), 10.0),
        (lambda: call("sum", X, 0), [4.0, 6.0]),
        (lambda: call("sum", X, [-1], True), [[3.0], [7.0]]),
        (lambda: call("sum", X, dim=1), [3.0, 7.0]),
        (lambda: call("sum", X, dims=[0, 1], keepdim=True), [[10.0]]),
        (lambda: call("prod", X), 24.0),
        (lambda: call("prod", X, [0], True), [[3.0, 8.0]]),
        (lambda: call("prod", X, dim=-1), [2.0, 12.0]),
        (lambda: call("max", WIDE), 6.0),
        (lambda: call("max", WIDE, [0]), [4.0, 6.0, 5.0]),
        (lambda: call("max", WIDE, 1, True), [[4.0], [6.0]]),
        (lambda: call("min", WIDE, [0]), [2.0, 1.0, 3.0]),
        (lambda: call("min", WIDE, dim=1), [1.0, 2.0]),
        (lambda: call("var", X), pytest.approx(5 / 3)),
        (lambda: call("var", X, [0]), [2.0, 2.0]),
        (lambda: call("var", X, 1, 0, True), [[0.25], [0.25]]),
        (lambda: call("var_mean", X, [1])[1], [1.5, 3.5]),
        (lambda: call("var_mean", X, [1])[0], [0.5, 0.5]),
        (lambda: call("var_mean", X, 0, 0, True)[0], [[1.0, 1.0]]),
        (lambda: call("var_mean", X, 0, 0, True)[1], [[2.0, 3.0]]),
        (lambda: call("welford", X, [0, 1])[0], 2.5),
        (lambda: call("welford", X, [0, 1])[1], 5.0),
        (lambda: call("welford", X, [0, 1])[2], 4),
        (lambda: call("argsort", WIDE, 1), [[1, 2, 0], [0, 2, 1]]),
        (lambda: call("argsort", WIDE, 0, True), [[0, 1, 1], [1, 0, 0]]),
        (lambda: call("argsort", torch.zeros(40), 0, True, True), [*range(40)]),
        (lambda: call("topk", WIDE, 2)[0], [[4.0, 3.0], [6.0, 5.0]]),
        (lambda: call("topk", WIDE, 2.0, 1, False)[1].sort(1)[0], [[1, 2], [0, 2]]),
        (lambda: call("topk", WIDE, 1, 0)[0], [[4.0, 6.0, 5.0]]),
        (lambda: call("topk", WIDE, 3, 1, True, True)[0], [[4.0, 3.0, 1.0], [6.0, 5.0, 2.0]]),
        (lambda: call("iota", 3), [0, 1, 2]),
        (lambda: call("iota", 3, 2, 5), [2, 7, 12]),
        (lambda: call("iota", 2, None, None), [0, 1]),
        (lambda: call("iota", 2, 1, 2, torch.float32), [1.0, 3.0]),
        (lambda: call("full", [2, 1], 3, torch.float32), [[3.0], [3.0]]),
        (lambda: call("broadcast", X[0], [True, False, True]), [[[1.0], [2.0]]]),
        (lambda: call("broadcast_in_dim", X[0], [2, 2], [0]), [[1.0, 1.0], [2.0, 2.0]]),
        (lambda: call("broadcast_in_dim", X[0], [2, 2], [1]), [[1.0, 2.0], [1.0, 2.0]]),
        (lambda: call("expand", X[:1], [3, 2]), [[1.0, 2.0]] * 3),
        (lambda: call("cat", [X, X[:1]]), [[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]),
        (lambda: call("cat", [X, X[:, :1]], 1), [[1.0, 2.0, 1.0], [3.0, 4.0, 3.0]]),
        (lambda: call("cat", [X, 2 * X, X], 0, True), [[4.0, 8.0], [12.0, 16.0]]),
        (lambda: call("cat", [X > 3, X < 2, X > 3], 1, True), [[True, False], [False, True]]),
        (lambda: call("gather", X, torch.tensor([[1, 1], [0, 0]]), 0), [[3.0, 4.0], [1.0, 2.0]]),
        (lambda: call("take_along_axis", X, torch.tensor([[1]]), 1), [[2.0], [4.0]]),
        (lambda: call("scatter", X, torch.tensor([[1], [0]]), 9 * X, 1), [[1.0, 9.0], [27.0, 4.0]]),
        (lambda: call("scatter", X, torch.tensor([[1, 0]]), 7.0, 0), [[1.0, 7.0], [7.0, 4.0]]),
        (lambda: call("embedding_fwd", torch.tensor([[1], [0]]), X), [[[3.0, 4.0]], [[1.0, 2.0]]]),
        (lambda: call("embedding_fwd", torch.tensor([1]), 2 * X, 0, 5.0)[0].round(decimals=4),
         [3.0, 4.0]),
        (lambda: call("index_select", WIDE, torch.tensor([2, 0]), 1), [[3.0, 4.0], [5.0, 2.0]]),
        (lambda: call("pad", X, [1, 0]), [[0.0, 1.0, 2.0], [0.0, 3.0, 4.0]]),
        (lambda: call("pad", X, [0, 1], None), [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]),
        (lambda: call("pad", X, (0, 0, 0, 1), 9.0), [[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]),
        (lambda: call("permute", WIDE, [1, 0]), [[4.0, 2.0], [1.0, 6.0], [3.0, 5.0]]),
        (lambda: call("reshape", WIDE, [3, 2]), [[4.0, 1.0], [3.0, 2.0], [6.0, 5.0]]),
        (lambda: call("select", WIDE, 1, 0), [2.0, 6.0, 5.0]),
        (lambda: call("select", WIDE, 2, -1), [3.0, 5.0]),
        (lambda: call("slice", WIDE, [0, 1], [1, 3]), [[1.0, 3.0]]),
        (lambda: call("slice", WIDE, [0, 0], [2, 3], [1, 2]), [[4.0, 3.0], [2.0, 5.0]]),
        (lambda: call("squeeze", X[None], [0]), X.tolist()),
        (lambda: call("squeeze", X[:, None, :, None], [-1, 1]), X.tolist()),
        (lambda: call("squeeze", X[0].expand(3, 2), [0], True), [1.0, 2.0]),
        (lambda: call("squeeze", X[0].expand(3, 2).clone(), [0], True), [1.0, 2.0]),
        (lambda: call("triu", WIDE), [[4.0, 1.0, 3.0], [0.0, 6.0, 5.0]]),
        (lambda: call("triu", WIDE, 1), [[0.0, 1.0, 3.0], [0.0, 0.0, 5.0]]),
    ],
)  # fmt: skip
def test_values(found: Callable[[], Any], wanted: Any) -> None:
    assert found().tolist() == wanted


ELEMENT: dict[str, Callable[..., float]] = {
    "abs": abs, "acos": math.acos, "asin": math.asin, "asinh": math.asinh, "atan": math.atan,
    "atan2": math.atan2, "atanh": math.atanh, "ceil": math.ceil, "cos": math.cos,
    "cosh": math.cosh, "erf": math.erf, "erfc": math.erfc, "exp": math.exp,
    "exp2": lambda x: 2.0**x, "expm1": math.expm1, "floor": math.floor, "fmod": math.fmod,
    "frac": lambda x: x - math.trunc(x), "lerp": lambda x, y, z: x + z * (y - x),
    "lgamma": math.lgamma, "maximum": max, "minimum": min, "mod": math.fmod,
    "neg": lambda x: -x, "reciprocal": lambda x: 1 / x, "relu": lambda x: max(x, 0.0),
    "remainder": lambda x, y: x - y * math.floor(x / y),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sign": lambda x: math.copysign(1, x), "silu": lambda x: x / (1 + math.exp(-x)),
    "sin": math.sin, "sinh": math.sinh, "sub": lambda x, y: x - y, "tan": math.tan,
    "tanh": math.tanh, "truediv": lambda x, y: x / y, "trunc": math.trunc,
}  # fmt: skip
OPERANDS = (-0.75, 0.25, 0.5, -0.3), (0.6, -0.9, 0.2, -0.45), (0.5, 1.5, -0.25, 2.0)


@pytest.mark.parametrize("name", ELEMENT)
def test_element_by_element(name: str) -> None:
    count = {"lerp": 3} | dict.fromkeys(("atan2", "fmod", "maximum", "minimum", "mod"), 2)
    count |= dict.fromkeys(("remainder", "sub", "truediv"), 2)
    given = OPERANDS[: count.get(name, 1)]
    wanted = [ELEMENT[name](*values) for values in zip(*given, strict=True)]
    found = call(name, *(torch.tensor(v, dtype=torch.float64) for v in given))
    assert found.tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_what_a_reduction_gives_is_of_the_type_that_is_asked_for() -> None:
    for name in ("sum", "prod", "max", "min"):
        assert call(name, X, [0]).dtype is torch.float32
        assert call(name, X, [0], dtype=torch.float64).dtype is torch.float64
    ones = torch.full((3,), 2.0**60, dtype=torch.float32)
    assert call("prod", ones, dtype=torch.float64).item() == 2.0**180  # no infinity of fp32 first


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (2.75, torch.int32, 2), (-2.75, torch.int64, -2), (3, torch.float32, 3.0),
        (3, torch.bfloat16, 3.0), (2, torch.bool, True), (0.0, torch.bool, False),
        (True, torch.int64, 1), (False, torch.float32, 0.0),
    ],
)  # fmt: skip
def test_a_number_of_another_type(value: Any, dtype: Any, wanted: Any) -> None:
    found = call("cast", value, dtype)
    assert (found, type(found)) == (wanted, type(wanted))


def test_infinities_of_8_bits_stay_where_the_type_does() -> None:
    given = torch.tensor([torch.inf, -torch.inf, 2.0]).to(torch.float8_e5m2)
    assert call("cast", given, torch.float8_e5m2).float().tolist() == [torch.inf, -torch.inf, 2.0]
    assert call("cast", given.float(), torch.float16).tolist() == [torch.inf, -torch.inf, 2.0]


def test_weights_with_scales_of_groups() -> None:
    """Two groups of K, of which the last one has an element less."""
    x = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.bfloat16)
    w = torch.tensor([[1.0, 1.0, 1.0], [1.0, -1.0, 2.0]], dtype=torch.bfloat16)
    scales = torch.tensor([[2.0, 10.0], [1.0, 100.0]])
    found = call("linear", x, w, scale_b=scales, group=2)
    assert found.dtype is torch.bfloat16 and found.tolist() == [[36.0, 600.0]]
    bias = torch.tensor([1.0, -8.0], dtype=torch.bfloat16)
    assert call("linear", x, w, bias, scale_b=scales, group=2).tolist() == [[37.0, 592.0]]


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"group": 2}, "group without scale_b"),
        ({"scale_b": X}, "scale_b without group"),
        ({"zero_b": X}, "zero_b without scale_b"),
    ],
)
def test_half_of_the_scales(named: dict[str, Any], said: str) -> None:
    text = f"a linear with {said} is not supported; supported: both or none"
    with pytest.raises(UnsupportedError, match=f"^{re.escape(text)}$"):
        call("linear", X, X, **named)


@pytest.mark.parametrize("name", ["linear", "matmul"])
@pytest.mark.parametrize("at", [0, 1])
def test_torch_multiplies_no_8_bits(name: str, at: int) -> None:
    operands = [X, X]
    operands[at] = X.to(torch.int8)
    with pytest.raises(UnsupportedError) as error:
        call(name, *operands)
    assert str(error.value) == (
        "a matmul of torch.int8 by torch is not supported; supported: 16 bits and more"
    )


@pytest.mark.parametrize("dim", [0, 1])
def test_what_cannot_be_squeezed(dim: int) -> None:
    with pytest.raises(ValueError, match=f"^dimension {dim} of extent 2 is squeezed$"):
        call("squeeze", X, [dim], False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("a", "b"),
    [((6, 4), (4, 4, 2)), ((2, 4), (4, 4, 3)), ((4, 2, 4), (4, 6)), ((2, 6), (6, 4))],
    ids=["rows", "fewer rows than groups", "columns", "sums"],
)
def test_products_of_groups(a: tuple[int, ...], b: tuple[int, ...], bias: bool) -> None:
    """Groups of 1, 0, 1 and, but for the fewest rows, 3; what is behind the last one is zero."""
    x, w = (torch.arange(float(math.prod(s))).reshape(s) - 5 for s in (a, b))
    last = 2 if a == (2, 4) else 5
    spans = (0, 1), (1, 1), (1, 2), (2, last)
    added = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    ends = torch.tensor([end for _, end in spans], dtype=torch.int32)
    found = call("grouped_mm", x, w, ends, added if bias else None)
    wanted = torch.zeros(found.shape)
    for g, (i, j) in enumerate(spans):
        along = slice(i, j)
        match len(a), len(b):
            case 2, 3:
                out, left, right = wanted[along], x[along], w[g]
            case 3, 2:
                out, left, right = wanted[:, along], x[g], w[:, along]
            case _:
                out, left, right = wanted[g], x[:, along], w[along]
        out += left @ right + (g + 1) * bias
    assert torch.equal(found, wanted)
