"""``wsched.scaled_mm`` and ``wsched.int_mm`` on the machine, beside fp64."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.front import written
from wsched.front.scaled import int_mm_call, scaled_mm_call
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 130, 72, 272
FLOATS = ("float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "uint8")
LIMITS = {"float32": 2e-4, "bfloat16": 4e-3, "float16": 7e-4}
"""Of floats of 8 bits, of whose products the tensor core keeps 13 bits behind the leading one."""


def drawn(rows: int, columns: int, dtype: str, seed: int = 0) -> Any:
    generator, kind = torch.Generator().manual_seed(seed), getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(rows, columns, generator=generator).to(kind)
    info = torch.iinfo(kind)
    return torch.randint(info.min, info.max + 1, (rows, columns), dtype=kind, generator=generator)


def operands(a: str, b: str) -> tuple[Any, Any, Any]:
    """[M, K], [K, N] with K contiguous, and what they come to."""
    left, right = drawn(M, K, a), drawn(N, K, b, 1).t()
    return left, right, left.double() @ right.double()


def scales(by_row: bool, by_column: bool) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(2)
    left, right = (torch.rand(s, generator=generator) + 0.5 for s in ((M, 1), (1, N)))
    return left if by_row else left[0, 0], right if by_column else right[0, :1]


def error(found: Any, wanted: Any) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.sampled
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "pair", [(FLOATS[0], FLOATS[0]), FLOATS, ("int8", "int8"), ("uint8", "int8")]
)
def test_every_pair(pair: tuple[str, str], fast: bool) -> None:
    a, b, product = operands(*pair)
    x, y = scales(True, True)
    found = wsched.scaled_mm(a, b, x, y, out_dtype=torch.float32, use_fast_accum=fast)
    limit = (2 if fast else 1) * LIMITS["float32"] if pair[0] in FLOATS else 1e-6
    assert error(found, product * x * y) < limit
    kernel = wsched.compile(*scaled_mm_call(a, b, x, y, None, torch.float32, fast))
    promoted = kernel.fusion.mmas[0].promotion
    assert promoted == (128 if pair[0] in FLOATS and not fast else 0)


def test_promoted_sums_do_not_grow_worse_with_k() -> None:
    """As measured: 1.0e-4 promoted, 5.6e-4 fast at K of 1500 (design/0030-eight-bits.md)."""
    a, b = drawn(64, 1536, FLOATS[0]), drawn(64, 1536, FLOATS[0], 1).t()
    product, one = a.double() @ b.double(), torch.ones(1)
    ways = (wsched.scaled_mm(a, b, one, one, None, torch.float32, fast) for fast in (False, True))
    promoted, fast = (error(found, product) for found in ways)
    assert 0.8e-4 < promoted < 1.5e-4 and 4e-4 < fast < 8e-4


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("by", "bias", "result"),
    [
        ((False, False), None, "float32"), ((True, False), "bfloat16", "float16"),
        ((False, True), "float32", "bfloat16"), ((True, True), "float16", "float32"),
    ],
)  # fmt: skip
def test_scales_and_bias(by: tuple[bool, bool], bias: str | None, result: str) -> None:
    a, b, product = operands(FLOATS[0], FLOATS[0])
    x, y = scales(*by)
    added = None if bias is None else torch.linspace(-9, 9, N).to(getattr(torch, bias))
    wanted = product * x * y + (0 if added is None else added.double())
    found = wsched.scaled_mm(a, b, x, y, added, getattr(torch, result))
    assert found.dtype is getattr(torch, result) and error(found, wanted) < LIMITS[result]


@pytest.mark.sampled
@pytest.mark.parametrize("result", FLOATS)
@pytest.mark.parametrize("pair", [(FLOATS[0], FLOATS[0]), ("int8", "int8")])
def test_results_of_8_bits(pair: tuple[str, str], result: str) -> None:
    """Scaled, rounded to the largest number at most; the largest value before both."""
    a, b, product = operands(*pair)
    (x, y), dtype = scales(True, True), getattr(torch, result)
    wanted, most = product * x * y, torch.finfo(dtype).max
    scale = most / wanted.abs().max().float() * 2
    found, amax = wsched.scaled_mm(a, b, x, y, None, dtype, scale_result=scale, amax=True)
    assert found.dtype is dtype and amax.shape == ()
    assert amax.double() == pytest.approx(wanted.abs().max().item(), rel=1e-3)
    wanted = (wanted * scale.double()).clamp(-most, most)
    assert error(found.float(), wanted) < (0.04 if result == FLOATS[0] else 0.08)
    assert found.float().abs().max() == most
    plain = wsched.scaled_mm(a, b, x, y, out_dtype=dtype)
    assert (
        plain.dtype is dtype and error(plain.float(), (product * x * y).clamp(-most, most)) < 0.08
    )


def test_a_kernel_is_looked_for_once_for_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, run = list[str](), written.compile
    monkeypatch.setattr(written, "_kernels", {})
    monkeypatch.setattr(
        written, "compile", lambda text, inputs: compiled.append(text) or run(text, inputs)
    )
    a, b, _ = operands("int8", "int8")
    for rows in (a[:16], a[16:32], a[:24]):  # one class, and another one
        assert torch.equal(wsched.int_mm(rows, b).double(), rows.double() @ b.double())
    assert len(compiled) == 2


def test_two_rows_with_a_scale_each() -> None:
    a, b, _ = operands(FLOATS[0], FLOATS[0])
    scale, one = torch.tensor([[0.5], [4.0]]), torch.ones(1)
    plain, found = (
        wsched.scaled_mm(a[:2], b, x, one, out_dtype=torch.float32) for x in (one, scale)
    )
    assert torch.equal(found, plain * scale)


def test_the_largest_value_of_other_results() -> None:
    """Of fp32 it is one of them; of scales of blocks, too."""
    a, b, _ = operands(FLOATS[0], FLOATS[0])
    found, amax = wsched.scaled_mm(a, b, ONE, ONE, out_dtype=torch.float32, amax=True)
    assert amax == found.abs().max()
    empty, amax = wsched.scaled_mm(a[:0], b, ONE, ONE, amax=True)
    assert empty.shape[0] == 0 and amax == 0
    blocks = torch.rand(M, 3), torch.rand(3, 1)
    found, amax = wsched.scaled_mm(a, b, *blocks, out_dtype=torch.float32, amax=True)
    assert amax == found.abs().max()


def test_bf16_where_nothing_is_said() -> None:
    a, b, _ = operands(FLOATS[0], FLOATS[0])
    assert wsched.scaled_mm(a, b, *scales(False, False)).dtype is torch.bfloat16


@pytest.mark.sampled
@pytest.mark.parametrize("layout", ["rows", "columns", "odd"])
def test_other_layouts_are_copied(layout: str) -> None:
    """K apart, which 16-bit operands may have; rows that TMA does not read."""
    a, b = drawn(M, 77, FLOATS[0]), drawn(77, N, FLOATS[0], 1)
    if layout == "columns":
        a = drawn(77, M, FLOATS[0]).t()
    elif layout == "rows":
        a, b = drawn(M, 96, FLOATS[0]), drawn(96, N, FLOATS[0], 1)
    found = wsched.scaled_mm(a, b, *scales(False, False), out_dtype=torch.float32)
    x, y = scales(False, False)
    assert error(found, a.double() @ b.double() * x * y) < LIMITS["float32"]


@pytest.mark.sampled
@pytest.mark.parametrize("pair", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("columns", [N, 71])
def test_int_mm(pair: tuple[str, str], columns: int) -> None:
    """Exact; rows of an odd number of results are stored by threads."""
    a, b, product = operands(*pair)
    found = wsched.int_mm(a, b[:, :columns])
    assert found.dtype is torch.int32
    assert torch.equal(found.double(), product[:, :columns])


def test_parts_of_k_are_exact_too() -> None:
    """Few tiles and much K: CTAs add up integers."""
    a, b = drawn(64, 4096, "int8"), drawn(16, 4096, "int8", 1).t()
    kernel = wsched.compile(*int_mm_call(a, b))
    assert kernel.params.splitk_factor > 1
    assert torch.equal(kernel(a, b)[0].double(), a.double() @ b.double())


def test_no_k() -> None:
    a, b = (torch.empty(s, dtype=torch.float8_e4m3fn) for s in ((32, 0), (0, 16)))
    found = wsched.scaled_mm(a, b, torch.ones(()), torch.ones(()), torch.ones(16))
    assert torch.equal(found, torch.ones(32, 16).bfloat16())


A, B = (torch.zeros(s, dtype=torch.float8_e4m3fn) for s in ((32, 64), (64, 16)))
ONE = torch.ones(())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((A, B[:32], ONE, ONE), "a has 64 columns, b has 32 rows"),
        ((A[0], B, ONE, ONE), "a has shape [64], not two dimensions"),
        ((A, None, ONE, ONE), "b is a NoneType, not a torch.Tensor"),
        (
            (A, B, torch.ones(1).to_sparse(), ONE),
            "scale_a is a tensor of layout torch.sparse_coo, not torch.strided",
        ),
        ((A, B, 1.0, ONE), "scale_a is a float, not a torch.Tensor"),
        ((A, B, ONE.half(), ONE), "scale_a is torch.float16, not torch.float32"),
        ((A, B, ONE, torch.ones(3)), "scale_b has shape [3]"),
        ((A, B, ONE, ONE, torch.ones(3)), "bias has shape [3]"),
    ],
)
def test_mistakes(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InputError) as found:
        wsched.scaled_mm(*arguments)
    assert str(found.value) == text


@pytest.mark.parametrize(
    ("arguments", "what", "supported"),
    [
        (
            (A.half(), B, ONE, ONE), "a product of torch.float16 and torch.float8_e4m3fn",
            "pairs of float8_e4m3fn, float8_e5m2; pairs of int8, uint8",
        ),
        (
            (A, B.to(torch.int8), ONE, ONE), "a product of torch.float8_e4m3fn and torch.int8",
            "pairs of float8_e4m3fn, float8_e5m2; pairs of int8, uint8",
        ),
        (
            (A, B, torch.ones(32, 4), ONE), "scale_a of shape [32, 4]", "one number, or [32, 1]",
        ),
        (
            (A, B, ONE, ONE, None, torch.int8), "scaled_mm into torch.int8",
            "bfloat16, float16, float32, float8_e4m3fn, float8_e5m2",
        ),
        (
            (A, B, ONE, ONE, torch.ones(16).double()), "a bias of torch.float64",
            "bfloat16, float16, float32",
        ),
    ],
)  # fmt: skip
def test_refused(arguments: tuple[Any, ...], what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as found:
        wsched.scaled_mm(*arguments)
    assert str(found.value) == f"{what} is not supported; supported: {supported}"


def test_a_scale_of_wide_results() -> None:
    with pytest.raises(UnsupportedError) as found:
        wsched.scaled_mm(A, B, ONE, ONE, scale_result=ONE)
    assert str(found.value) == (
        "scale_result of a result of bfloat16 is not supported; "
        "supported: float8_e4m3fn, float8_e5m2"
    )


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (torch.ones(2), "scale_result has shape [2]"),
        (torch.ones(()).half(), "scale_result is torch.float16, not torch.float32"),
        (2.0, "scale_result is a float, not a torch.Tensor"),
    ],
)
def test_a_scale_that_is_none(scale: Any, text: str) -> None:
    with pytest.raises(InputError) as found:
        wsched.scaled_mm(A, B, ONE, ONE, None, torch.float8_e5m2, scale_result=scale)
    assert str(found.value) == text


def test_int_mm_takes_integers_alone() -> None:
    with pytest.raises(UnsupportedError) as found:
        wsched.int_mm(A, B)
    assert str(found.value) == (
        "a product of torch.float8_e4m3fn and torch.float8_e4m3fn is not supported; "
        "supported: pairs of int8, uint8"
    )


def test_explained() -> None:
    a, b, _ = operands("int8", "int8")
    assert wsched.explain(*int_mm_call(a, b)).route == "wsched"
