"""A linear layer: run it, and look at what was decided.

``python -m examples.linear``, on a GPU by the kernel, else on the machine model.
"""

from __future__ import annotations

import torch

import wsched

__all__ = ["LINEAR", "main"]

LINEAR = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    d = fd.ops.linear(x, w)
    fd.add_output(d)
"""
"""What ``repr`` of a live definition prints; a live one can stand in its place everywhere."""


def main() -> float:
    """Print the loops and the parameters; the relative error of the result against fp32."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = (torch.randn(n, 192, device=where).bfloat16() for n in (200, 264))
    (result,) = wsched.execute(LINEAR, [x, w])
    kernel = wsched.compile(LINEAR, [x, w])
    print(kernel.dump("loops"), kernel.params, sep="\n")
    print(kernel.resources)
    expected = x.float() @ w.float().T
    error = float((result.float() - expected).norm() / expected.norm())
    print(f"relative error {error:.1e}")
    return error


if __name__ == "__main__":
    main()
