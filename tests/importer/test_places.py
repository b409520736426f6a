"""Places of a broadcast that are counted from the end, as nvFuser takes them."""

from __future__ import annotations

import pytest

import wsched
from wsched.importer import record_text

HEAD = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[-1], contiguity=True, dtype=DataType.BFloat16)
    y = fd.ops.linear(x, w)
"""


def text(shape: str, places: str) -> str:
    end = "    fd.add_output(fd.ops.cast(fd.ops.add(y, z), dtype=DataType.BFloat16))\n"
    return f"{HEAD}    z = fd.ops.broadcast_in_dim(b, {shape}, {places})\n{end}"


@pytest.mark.parametrize("shape", ["[48, 32]", "shape=[48, 32]", "fd.ops.shape(y)", "y.shape()"])
@pytest.mark.parametrize("places", ["[-1]", "broadcast_dims=[-1]", "[1]"])
def test_from_the_end(shape: str, places: str) -> None:
    if "=" in shape and "=" not in places:
        places = f"broadcast_dims={places}"
    (node,) = (n for n in record_text(text(shape, places)).nodes if n.op == "broadcast_in_dim")
    assert node.get("broadcast_dims") == (1,)


def test_several() -> None:
    body = HEAD + "    z = fd.ops.broadcast_in_dim(y, [48, 1, 32], broadcast_dims=[-3, -1])\n"
    assert record_text(f"{body}    fd.add_output(z)\n").nodes[-1].get("broadcast_dims") == (0, 2)


def test_what_is_no_place_is_refused() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    inputs = [torch.zeros(n, dtype=torch.bfloat16) for n in ((48, 64), (32, 64), (32,))]
    with pytest.raises(wsched.UnsupportedError, match=r"with broadcast_dims=\[-3\]"):
        wsched.execute(text("[48, 32]", "[-3]"), inputs)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", ["[48, 32]", "fd.ops.shape(y)"])
def test_a_bias_is_in_the_kernel(shape: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, w, b = (torch.randn(n).bfloat16() for n in ((48, 64), (32, 64), (32,)))
    asked = text(shape, "[-1]")
    assert all(m.kernel for m in wsched.explain(asked, [x, w, b], gpu="H200").matmuls)
    (found,) = wsched.execute(asked, [x, w, b])
    torch.testing.assert_close(found, torch.nn.functional.linear(x, w) + b, rtol=2e-2, atol=6e-2)
