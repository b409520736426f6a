"""Epilogues on the machine against torch in fp64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wsched
from tests.epilogues import GELU, RESIDUAL, SILU, TWO_OUTPUTS, WHERE, epilogue
from tests.schedules import cooperative, ping_pong
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 137, 72, 40
F64 = torch.float64
BF16 = torch.bfloat16
PARAMS = {
    "cooperative": cooperative(128, 64),
    "ping_pong": ping_pong(64, 64),
    "tile_per_cta": cooperative(128, 64, persistent=False),
}
LIMITS = {torch.bfloat16: 4e-3, torch.float16: 6e-4, torch.float32: 2e-6}


def normal(*shape: int, dtype: Any = BF16, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=F64).to(dtype)


def eighths(*shape: int, seed: int) -> Any:
    """So rounded, products add up exactly in fp32, and to the same 16 bits."""
    return ((normal(*shape, seed=seed) * 8).round() / 8).to(BF16)


def rounded(y: Any) -> Any:
    """A product as operations read it."""
    return y.to(BF16).to(F64)


X, W = eighths(M, K, seed=0), eighths(N, K, seed=1)
SUMS = X.to(F64) @ W.to(F64).T
Y = rounded(SUMS)
ROW, FULL = normal(N, seed=2), normal(M, N, seed=3)
COLUMN = normal(M, 1, seed=4, dtype=torch.float32)


def check(results: list[Any], *wanted: Any) -> None:
    assert len(results) == len(wanted)
    for got, exact in zip(results, wanted, strict=True):
        error = (got.to(F64) - exact).norm() / exact.norm()
        assert error < LIMITS[got.dtype], error


def gelu(y: Any) -> Any:
    return torch.nn.functional.gelu(y, approximate="tanh")


CASES: dict[str, tuple[str, list[Any], list[Any]]] = {
    "gelu": (GELU, [ROW], [gelu(rounded(SUMS + ROW.to(F64)))]),
    "residual": (RESIDUAL, [FULL], [Y + FULL.to(F64)]),
    "silu": (SILU, [], [torch.nn.functional.silu(Y)]),
    "two_outputs": (TWO_OUTPUTS, [ROW], [Y, torch.relu(Y + ROW.to(F64))]),
    "types": (
        epilogue(
            "c: [-1, 1] Float",
            "s = fd.ops.mul(y, c)",
            "h = fd.ops.cast(s, dtype=DataType.Half)",
            outputs="s h y",
        ),
        [COLUMN],
        [Y * COLUMN.to(F64), Y * COLUMN.to(F64), Y],
    ),
    "column_of_M": (
        epilogue(
            "b: [-1] Float",
            "c = fd.ops.broadcast(b, [False, True])",
            "d = fd.ops.add(y, c)",
        ),
        [COLUMN[:, 0]],
        [Y + COLUMN.to(F64)],
    ),
    "computed_row": (
        epilogue("b: [1, -1]", "e = fd.ops.exp(b)", "d = fd.ops.mul(y, e)"),
        [ROW[None]],
        [Y * ROW.to(F64).exp()],
    ),
    "one_element": (
        epilogue("b: [1] Float", "d = fd.ops.sub(y, b)"),
        [torch.full((1,), 0.3)],
        [Y - 0.3],
    ),
    "run_time_scalar": (
        epilogue("s = fd.define_scalar(None, dtype=DataType.Double)", "d = fd.ops.mul(y, s)"),
        [0.7],
        [Y * 0.7],
    ),
}


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, params: str) -> None:
    text, inputs, wanted = CASES[name]
    check(wsched.execute(text, [X, W, *inputs], params=PARAMS[params]), *wanted)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_the_heuristic_finds_a_schedule(name: str) -> None:
    text, inputs, wanted = CASES[name]
    check(wsched.execute(text, [X, W, *inputs]), *wanted)


def test_where() -> None:
    """Integers, so that no comparison hangs on a rounding."""
    x, w, r = (t.round() for t in (X, W, FULL))
    y = x.float() @ w.float().T
    (d,) = wsched.execute(WHERE, [x, w, r])
    assert torch.equal(d, torch.where(y > r, y * 0.01, r.float()))


def test_an_intermediate_used_twice() -> None:
    text = epilogue(
        "s = fd.ops.sigmoid(y)", "t = fd.ops.mul(y, s)", "u = fd.ops.sub(1.0, s)",
        "v = fd.ops.mul(u, t)", "d = fd.ops.add(v, s)",
    )  # fmt: skip
    s = torch.sigmoid(Y)
    check(wsched.execute(text, [X, W]), (1 - s) * (Y * s) + s)


def test_a_live_definition() -> None:
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    kind = {"shape": [-1, -1], "contiguity": [True, True], "dtype": nvfuser.DataType.BFloat16}
    with nvfuser.FusionDefinition() as fd:
        x, w = fd.define_tensor(**kind), fd.define_tensor(**kind)
        b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=nvfuser.DataType.BFloat16)
        r = fd.define_tensor(**kind)
        s = fd.ops.add(fd.ops.relu(fd.ops.linear(x, w, b)), r)
        fd.add_output(fd.ops.mul(s, 0.7071067811865476))
    wanted = (torch.relu(rounded(SUMS + ROW.to(F64))) + FULL.to(F64)) * 0.7071067811865476
    check(wsched.execute(fd, [X, W, ROW, FULL]), wanted)


def _shifted(t: Any) -> Any:
    wide = torch.zeros(M, N + 2, dtype=t.dtype)
    wide[:, 1 : N + 1] = t
    return wide[:, 1 : N + 1]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "wider_rows": lambda t: torch.cat([t, t], 1)[:, :N],
    "odd_start": _shifted,
    "columns": lambda t: t.T.contiguous().T,
    "one_row": lambda t: t[:1].expand(M, N),
    "one_column": lambda t: t[:, :1].expand(M, N),
    "every_second_row": lambda t: torch.stack([t, t], 1).reshape(2 * M, N)[::2],
}


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_a_matrix(layout: str) -> None:
    r = LAYOUTS[layout](FULL)
    check(wsched.execute(RESIDUAL, [X, W, r]), Y + r.to(F64))


def test_out() -> None:
    d = torch.empty(M, N)
    y = torch.empty(M, N, dtype=BF16)
    found = wsched.compile(TWO_OUTPUTS, [X, W, ROW])(X, W, ROW, out=[y, d])
    assert found[0] is y and found[1] is d
    check([y, d], Y, torch.relu(Y + ROW.to(F64)))


def test_a_sum_over_nothing_leaves_the_epilogue_of_zero() -> None:
    (d,) = wsched.execute(RESIDUAL, [X[:, :0], W[:, :0], FULL])
    assert torch.equal(d, FULL)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (normal(N + 8), "N is 72 in dimension 0 of input 1 and 80 in dimension 0 of input 2"),
        (ROW.float(), "input 2 is torch.float32, the definition says torch.bfloat16"),
        (ROW[None], "input 2 has shape [1, 72], the definition has 1 dimensions"),
        (3.0, "input 2 is a float, not a torch.Tensor"),
    ],
)
def test_inputs_that_do_not_fit(bad: Any, text: str) -> None:
    with pytest.raises(InputError) as error:
        wsched.execute(GELU, [X, W, bad])
    assert str(error.value) == text


def test_a_dimension_of_one() -> None:
    text = epilogue("b: [1, -1]", "d = fd.ops.add(y, b)")
    with pytest.raises(InputError) as error:
        wsched.execute(text, [X, W, FULL])
    assert str(error.value) == "dimension 0 of input 2 is 137, the definition says 1"
