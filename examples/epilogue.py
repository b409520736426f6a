"""``tanh(x wᵀ + bias)`` and, for the backward pass, its argument: one kernel, two results.

``python -m examples.epilogue``, on a GPU by the kernel, else on the machine model.
"""

from __future__ import annotations

import torch

import wsched

__all__ = ["TANH", "main"]

TANH = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16)
    h = fd.ops.linear(x, w, b)
    f = fd.ops.cast(h, dtype=DataType.Float)
    y = fd.ops.tanh(f)
    d = fd.ops.cast(y, dtype=DataType.BFloat16)
    fd.add_output(h)
    fd.add_output(d)
"""


def main() -> tuple[float, float]:
    """Print what is fused; the relative errors of both results against fp32."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = (torch.randn(n, 128, device=where).bfloat16() for n in (136, 192))
    bias = torch.randn(192, device=where).bfloat16()
    print(wsched.explain(TANH, [x, w, bias], gpu="H200"))
    kept, result = wsched.execute(TANH, [x, w, bias])
    expected = x.float() @ w.float().T + bias.float()
    pairs = ((kept, expected), (result, expected.tanh()))
    first, second = (float((a.float() - b).norm() / b.norm()) for a, b in pairs)
    print(f"relative errors {first:.1e} and {second:.1e}")
    return first, second


if __name__ == "__main__":
    main()
