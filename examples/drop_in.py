"""A program on nvFuser that knows nothing of wsched, with and without its kernels.

``python -m examples.drop_in`` needs nvFuser; without a GPU, where nvFuser runs nothing, it says
what would be taken.
"""

from __future__ import annotations

import torch

import wsched

__all__ = ["main"]


def main() -> str:
    """What became of the matmul: what ``explain`` says of it."""
    from nvfuser_direct import DataType, FusionDefinition

    with FusionDefinition() as fd:
        x, w = (
            fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
            for _ in range(2)
        )
        fd.add_output(fd.ops.relu(fd.ops.linear(x, w)))
    where = "cuda" if torch.cuda.is_available() else "cpu"
    inputs = [torch.randn(n, 4096, device=where).bfloat16() for n in (2048, 4096)]
    if where == "cuda":
        (before,) = fd.execute(inputs)
        with wsched.enabled():  # wsched.install() does the same for good
            (after,) = fd.execute(inputs)
        torch.testing.assert_close(before, after, rtol=2e-2, atol=2e-2)
    said = str(wsched.explain(fd, inputs, gpu="H200"))
    print(said)
    return said


if __name__ == "__main__":
    main()
