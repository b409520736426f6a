"""``r + x wᵀ`` written over ``r``: each element is read before it is written, by the same thread.

``python -m examples.residual``, on a GPU by the kernel, else on the machine model.
"""

from __future__ import annotations

import torch

import wsched

__all__ = ["RESIDUAL", "main"]

RESIDUAL = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)
    r = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)
    h = fd.ops.linear(x, w)
    d = fd.ops.add(h, r)
    e = fd.ops.cast(d, dtype=DataType.Half)
    fd.add_output(e)
"""


def main() -> float:
    """The relative error of the sum that replaced ``r``; over ``x`` it is refused."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = (torch.randn(n, 64, device=where).half() for n in (256, 64))
    r = torch.randn(256, 64, device=where).half()
    expected = x.float() @ w.float().T + r.float()
    kernel = wsched.compile(RESIDUAL, [x, w, r])
    kernel(x, w, r, out=[r])
    error = float((r.float() - expected).norm() / expected.norm())
    print(f"relative error {error:.1e}")
    try:
        kernel(x, w, r, out=[x])
    except wsched.WschedError as e:
        print(f"over an operand, which other tiles still read: {e}")
    return error


if __name__ == "__main__":
    main()
