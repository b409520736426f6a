"""The front of a gated MLP, ``silu(x gᵀ) * (x uᵀ)``: one kernel that loads ``x`` once.

``python -m examples.gated_mlp``, on a GPU by the kernel, else on the machine model.
"""

from __future__ import annotations

import torch

import wsched

__all__ = ["GATED", "main"]

GATED = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    g = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    u = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    a = fd.ops.linear(x, g)
    b = fd.ops.linear(x, u)
    c = fd.ops.cast(a, dtype=DataType.Float)
    s = fd.ops.silu(c)
    e = fd.ops.cast(b, dtype=DataType.Float)
    p = fd.ops.mul(s, e)
    d = fd.ops.cast(p, dtype=DataType.BFloat16)
    fd.add_output(d)
"""


def main() -> float:
    """Print the parts of the kernel; the relative error of the result against fp32."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, g, u = (torch.randn(n, 128, device=where).bfloat16() for n in (136, 192, 192))
    kernel = wsched.compile(GATED, [x, g, u])
    print(kernel.dump("subdags"))
    (result,) = kernel(x, g, u)
    gate, up = (x.float() @ t.float().T for t in (g, u))
    expected = torch.nn.functional.silu(gate) * up
    error = float((result.float() - expected).norm() / expected.norm())
    print(f"relative error {error:.1e}")
    return error


if __name__ == "__main__":
    main()
