"""Plain doors under ``torch.compile``: one operator each."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.computed import drawn, words
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.slow


M, N, K = 16, 24, 64
ONE = torch.ones(())


def compiled(door: Any, *given: Any, dynamic: bool = False) -> Any:
    """What a graph without breaks makes of it, in the second call."""
    torch.compiler.reset()
    traced = torch.compile(door, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    traced(*given)
    return traced(*given)


@pytest.mark.parametrize("dynamic", [False, True])
def test_linear(dynamic: bool) -> None:
    x, w, q = drawn("bfloat16", M, K), drawn("int8", N, K, 1), words(drawn("uint8", N, K) & 15)
    scale, groups = torch.rand(N), torch.rand(N, 2)

    def both(x: Any) -> tuple[Any, Any]:
        wide = wsched.linear(2 * x[None], w, scale, bias=scale) + 1
        return wide, wsched.linear(x, q, groups, group=32)

    for found, wanted in zip(compiled(both, x, dynamic=dynamic), both(x), strict=True):
        assert torch.equal(found, wanted)


def test_int_mm() -> None:
    a, b = drawn("int8", M, K), drawn("uint8", K, N)
    assert torch.equal(compiled(lambda a: wsched.int_mm(a, b) + 1, a), wsched.int_mm(a, b) + 1)


def test_scaled_mm() -> None:
    a, b = drawn("float8_e4m3fn", M, K), drawn("float8_e4m3fn", N, K, 1).t()

    def several(a: Any, scale: Any) -> tuple[Any, ...]:
        wide = wsched.scaled_mm(a, b, scale, ONE, out_dtype=torch.float16, use_fast_accum=True)
        given = {"out_dtype": torch.float8_e5m2, "scale_result": ONE, "amax": True}
        return wide, *wsched.scaled_mm(a, b, scale, ONE, **given)

    scale = torch.rand(M, 1)
    for found, wanted in zip(compiled(several, a, scale), several(a, scale), strict=True):
        assert found.dtype is wanted.dtype and torch.equal(found.float(), wanted.float())


def test_results_stop_gradients() -> None:
    x, w = drawn("bfloat16", M, K).requires_grad_(), drawn("int8", N, K, 1)
    assert not compiled(lambda x: wsched.linear(x, w), x).requires_grad


def test_inputs_that_do_not_fit() -> None:
    x, w = drawn("bfloat16", M, K), drawn("int8", N, K - 1)
    with pytest.raises(Exception, match="x has 64 columns, w 63") as e:
        compiled(wsched.linear, x, w)
    with pytest.raises(InputError):
        wsched.linear(x, w)
    assert type(e.value).__module__.startswith("torch.")  # Dynamo's, with ours in it
