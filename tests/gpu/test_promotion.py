"""nvFuser's type promotion on the GPU: the same definition run by nvFuser and by wsched's kernel.

The product is of small integers, so it is the same number in every type that it may be rounded to;
what is left is the operation, the types that it computes in, and the type of its result.
"""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from tests.importer.test_promotion import BINARY, COMPARE, TYPES, UNARY, live

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.gpu

M, N, K = 64, 96, 16
NUMBERS = ("0.5", "2", "-3.25")

NOT_BY_NVFUSER = frozenset({"relu", "silu", "frac", "ceil", "round", "trunc", "floor"})
"""Operations that this nvFuser, 0.2.36, fails to compile where their operand is not fp32."""


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")


def integers(*shape: int, seed: int, dtype: Any = torch.bfloat16) -> Any:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator, device="cuda").to(dtype)


def compare(nvf: Any, lines: list[str], other: str | None = None) -> None:
    fd, _ = live(nvf, lines, other)
    inputs = [integers(M, K, seed=1), integers(N, K, seed=2)]
    if other is not None:
        dtype = {"BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32}[other]
        inputs.append(integers(M, N, seed=3, dtype=dtype))
    (ours,) = wsched.compile(fd, inputs)(*inputs)
    (theirs,) = fd.execute(inputs)
    assert ours.dtype == theirs.dtype
    digits = {torch.bfloat16: 2**-7, torch.float16: 2**-9, torch.float32: 2e-6}[ours.dtype]
    torch.testing.assert_close(ours, theirs, rtol=digits, atol=digits / 8, equal_nan=True)


@pytest.mark.parametrize("op", UNARY)
def test_unary(nvf: Any, op: str) -> None:
    if op in NOT_BY_NVFUSER:
        with pytest.raises(RuntimeError, match="INTERNAL ASSERT"):
            compare(nvf, [f"d = fd.ops.{op}(y)"])
    else:
        compare(nvf, [f"d = fd.ops.{op}(y)"])


@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("op", BINARY)
def test_binary(nvf: Any, op: str, other: str) -> None:
    compare(nvf, [f"d = fd.ops.{op}(y, r)"], other)


@pytest.mark.parametrize("scalar", NUMBERS)
@pytest.mark.parametrize("op", BINARY)
def test_number(nvf: Any, op: str, scalar: str) -> None:
    compare(nvf, [f"d = fd.ops.{op}(y, {scalar})"])
    compare(nvf, [f"d = fd.ops.{op}({scalar}, y)"])


@pytest.mark.parametrize("other", TYPES)
@pytest.mark.parametrize("op", COMPARE)
def test_comparison(nvf: Any, op: str, other: str) -> None:
    compare(nvf, [f"c = fd.ops.{op}(y, r)", "d = fd.ops.where(c, y, r)"], other)


@pytest.mark.parametrize("other", TYPES)
def test_cast_before_an_operation(nvf: Any, other: str) -> None:
    """A cast of the product to a narrower type rounds, also where an operation follows."""
    lines = [f"c = fd.ops.cast(y, dtype=DataType.{other})", "d = fd.ops.mul(c, r)"]
    compare(nvf, lines, other)
