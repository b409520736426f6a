"""One kernel over many shapes, each result compared with torch: nothing is compiled again.

``python -m examples.stress [COUNT]``, on a GPU by the kernel, else on the machine model.
"""

from __future__ import annotations

import random
import sys

import torch

import wsched
from examples.linear import LINEAR

__all__ = ["main"]


def main(count: str = "8", seed: int = 0) -> int:
    """How many shapes were right; all are, or it raises."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    most = 2048 if where == "cuda" else 160
    draw = random.Random(seed)
    for at in range(int(count)):
        m, n, k = (8 * draw.randint(1, most // 8) for _ in range(3))
        x, w = (torch.randn(rows, k, device=where).bfloat16() for rows in (m, n))
        (result,) = wsched.execute(LINEAR, [x, w])
        expected = (x.float() @ w.float().T).bfloat16()
        torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)
        print(f"{at + 1}: {m}x{n}x{k} is right")
    return int(count)


if __name__ == "__main__":
    main(*sys.argv[1:2])
