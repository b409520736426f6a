"""fp8 with a scale for each row and column, and int8: without a definition.

``python -m examples.eight_bits``, on a GPU by the kernel, else on the machine model.
"""

from __future__ import annotations

import torch

import wsched

__all__ = ["main", "quantized"]


def quantized(
    x: torch.Tensor, dtype: torch.dtype, most: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of a matrix in 8 bits, the largest value of each at ``most``; and their scales."""
    scale = x.abs().amax(dim=1, keepdim=True) / most
    wanted = x / scale
    return (wanted if dtype.is_floating_point else wanted.round()).to(dtype), scale


def main() -> dict[str, float]:
    """Print and return the relative error of each product against fp32."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = (torch.randn(n, 256, device=where) for n in (200, 144))
    expected, errors = x @ w.T, {}
    for dtype, most in ((torch.float8_e4m3fn, 448.0), (torch.int8, 127.0)):
        (a, scale_a), (b, scale_b) = (quantized(t, dtype, most) for t in (x, w))
        found = wsched.scaled_mm(a, b.T, scale_a, scale_b.T, out_dtype=torch.float32)
        error = (found - expected).norm() / expected.norm()
        errors[str(dtype)] = float(error)
        print(f"{dtype}: relative error {error:.1e}")
    exact = wsched.int_mm(a, b.T)
    print(f"int_mm: {exact.dtype} {list(exact.shape)}")
    return errors


if __name__ == "__main__":
    main()
