"""Integers of 4 bits from definitions: on the machine, proved, as machine code."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.proof.prove import prove
from tests.computed import drawn, words
from tests.int4 import CAT, IOTA, definition, scaled, scales
from wsched.run.counts import admitted_by

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 24, 200, 768
SIZES: dict[str, int] = {"n": N, "k": K}
LINEAR = "d = fd.ops.linear(x, w)"
ZERO = "z = fd.ops.sub(e, 8)"


def given(reverse: bool = False) -> tuple[Any, Any, Any]:
    """Rows, words, and their integers."""
    w = torch.randint(0, 16, (N, K), generator=torch.Generator().manual_seed(1))
    own = w.view(N, K // 8, 8).flip(2).reshape(N, K) if reverse else w
    return drawn("bfloat16", M, K), words(w), own.double()


def error(found: Any, exact: Any) -> float:
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("way", "group", "kind"),
    [(IOTA, 128, "float32"), (CAT, 64, "bfloat16"), (IOTA, 32, "float16"), (CAT, 0, "float32")],
)
def test_a_definition_is_one_kernel(way: tuple[str, ...], group: int, kind: str) -> None:
    x, q, wide = given()
    named = {"float32": "Float", "bfloat16": "BFloat16", "float16": "Half"}[kind]
    if group:
        s = (torch.rand(N, K // group, generator=torch.Generator().manual_seed(2)) + 0.5).to(
            getattr(torch, kind)
        )
        lines = [x.replace("mul(f, g)", "mul(f, g1)").replace("mul(g, f)", "mul(g1, f)")
                 for x in scaled(group, "z", **SIZES)["by groups"]]  # fmt: skip
        at = lines.index("h = fd.ops.mul(f, g1)")
        lines.insert(at, "g1 = fd.ops.cast(g, dtype=DataType.Float)")
        more = tuple(x.replace("Float", named) for x in scales(group, **SIZES))
        text = definition(*way, ZERO, *lines, LINEAR, more=more, m=M, **SIZES)
        inputs, factor = [x, q, s], s.double().repeat_interleave(group, 1)
    else:
        to = f"r = fd.ops.reshape(z, new_shape=[{N}, {K}])"
        cast = "w = fd.ops.cast(r, dtype=DataType.BFloat16)"
        text = definition(*way, ZERO, to, cast, LINEAR, m=M, **SIZES)
        inputs, factor = [x, q], torch.ones(())
    exact = x.double() @ ((wide - 8) * factor).T
    (found,) = wsched.execute(text, inputs)
    assert error(found, exact) < 3e-3
    assert wsched.explain(text, inputs).route == "wsched"
    kernel = wsched.compile(text, inputs)
    result = prove(kernel.kernel, admitted_by(kernel.plan))
    assert result.proved, "\n".join(map(str, result.open))
    assert kernel.resources.clean


@pytest.mark.parametrize("shift", ["bitwise_right_shift", "logical_right_shift"])
def test_another_order_is_taken_apart_in_front(shift: str) -> None:
    """The product has a kernel all the same, with the weights that others make for it."""
    x, q, wide = given(reverse=True)
    lines = [x.replace("start=0, step=4", "start=28, step=-4") for x in IOTA]
    lines = [x.replace("bitwise_right_shift", shift) for x in lines]
    to = f"r = fd.ops.reshape(e, new_shape=[{N}, {K}])"
    text = definition(*lines, to, "w = fd.ops.cast(r, dtype=DataType.BFloat16)", LINEAR,
                      m=M, **SIZES)  # fmt: skip
    found = wsched.explain(text, [x, q])
    assert found.route == "cut"
    (reason,) = (r.reason for r in found.refusals if r.what == "wsched")
    assert "shifted by [28, 24, 20, 16, 12, 8, 4, 0], masks 15" in reason
    (made,) = wsched.execute(text, [x, q])
    assert error(made, x.double() @ wide.T) < 3e-3


def test_words_whose_rows_tma_cannot_read() -> None:
    """Rows of 12 bytes: nobody copies words, so others take them apart."""
    w = torch.randint(0, 16, (N, 24), generator=torch.Generator().manual_seed(1))
    x, q = drawn("bfloat16", M, 24), words(w)
    to = f"r = fd.ops.reshape(e, new_shape=[{N}, 24])"
    text = definition(*IOTA, to, "w = fd.ops.cast(r, dtype=DataType.BFloat16)", LINEAR,
                      m=M, n=N, k=24)  # fmt: skip
    (made,) = wsched.execute(text, [x, q])
    assert error(made, x.double() @ w.double().T) < 3e-3
    assert wsched.explain(text, [x, q]).route == "cut"
