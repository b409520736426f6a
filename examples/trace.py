"""When each warp waits, computes and stores: a table, and a file for ui.perfetto.dev.

``python -m examples.trace [FILE.json]``, by a GPU's clocks or in the model's steps.
"""

from __future__ import annotations

import sys

import torch

import wsched
from examples.linear import LINEAR

__all__ = ["main"]


def main(path: str | None = None) -> str:
    """The table."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    x, w = (torch.randn(256, 256, device=where).bfloat16() for _ in range(2))
    trace = wsched.compile(LINEAR, [x, w]).trace(x, w)
    table = str(trace.table())
    print(table)
    if path is not None:
        trace.save(path)
    return table


if __name__ == "__main__":
    main(*sys.argv[1:2])
