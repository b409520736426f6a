"""Batches of matrices, and the same weight for each of them.

``python -m examples.batched``, on a GPU by the kernels, else on the machine model.
"""

from __future__ import annotations

import torch

import wsched

__all__ = ["BATCHES", "ONE_WEIGHT", "main"]

BATCHES = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    a = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], dtype=DataType.Half)
    b = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], dtype=DataType.Half)
    d = fd.ops.matmul(a, b)
    fd.add_output(d)
"""
ONE_WEIGHT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], dtype=DataType.Half)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)
    d = fd.ops.linear(x, w)
    fd.add_output(d)
"""


def main() -> tuple[float, float]:
    """The relative errors of both against fp32."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(*shape, device=where).half() for shape in ((3, 72, 64), (3, 64, 136)))
    w = torch.randn(136, 64, device=where).half()
    errors = []
    for text, inputs, expected in (
        (BATCHES, [a, b], a.float() @ b.float()),
        (ONE_WEIGHT, [a, w], a.float() @ w.float().T),
    ):
        (result,) = wsched.execute(text, inputs)
        errors.append(float((result.float() - expected).norm() / expected.norm()))
        print(f"{tuple(result.shape)}: relative error {errors[-1]:.1e}")
    return errors[0], errors[1]


if __name__ == "__main__":
    main()
