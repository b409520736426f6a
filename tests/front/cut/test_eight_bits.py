"""Operands of 8 bits in definitions that are cut, and what torch alone does not compute."""

from __future__ import annotations

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback.interpret import interpret
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

TEXT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.{0})
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.{0})
    s = fd.ops.linear(x, w)
    f = fd.ops.cast(s, dtype=DataType.Float)
    m = fd.ops.max(f, dims=[1], keepdim=True)
    b = fd.ops.expand(m, shape=[fd.ops.size(x, 0), fd.ops.size(w, 0)])
    d = fd.ops.cast(fd.ops.sub(f, b), dtype=DataType.BFloat16)
    fd.add_output(d)
"""
"""A reduction that an operation reads, which no kernel has."""

TYPES = [("Float8_e4m3fn", torch.float8_e4m3fn), ("Int8", torch.int8)]


@pytest.mark.parametrize(("name", "dtype"), TYPES)
def test_a_matmul_of_ours_and_the_rest(name: str, dtype: object) -> None:
    draw = torch.Generator().manual_seed(1)
    x, w = (torch.randint(-9, 9, (n, 64), generator=draw).to(dtype) for n in (100, 48))
    text = TEXT.format(name)
    assert wsched.explain(text, [x, w]).route == "cut"
    (found,) = wsched.execute(text, [x, w])
    product = x.double() @ w.double().t()
    wanted = product - product.amax(1, keepdim=True)
    assert (found.double() - wanted).norm() < 4e-3 * wanted.norm()


@pytest.mark.parametrize(("name", "dtype"), TYPES)
def test_torch_multiplies_no_8_bits(name: str, dtype: object) -> None:
    """It would give 8 bits of an integer, which are others."""
    x, w = torch.zeros(4, 16).to(dtype), torch.zeros(8, 16).to(dtype)
    with pytest.raises(UnsupportedError) as error:
        interpret(record_text(TEXT.format(name)), [x, w])
    assert str(error.value) == (
        f"a matmul of {dtype} by torch is not supported; supported: 16 bits and more"
    )
