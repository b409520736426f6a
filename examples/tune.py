"""Three tiles for a problem; on a GPU, which of them is the fastest.

``python -m examples.tune``. ``wsched tune 512 8192 8192`` does this with what the cost model ranks
first, and keeps the winner.
"""

from __future__ import annotations

import torch

import wsched
from examples.linear import LINEAR

__all__ = ["main"]

TILES = ("128x64x64", "128x128x64", "128x256x64")


def main() -> list[str]:
    """Names of the kernels, the fastest first where a GPU tells, else in the order of the tiles."""
    where = "cuda" if torch.cuda.is_available() else "cpu"
    rows = 4096 if where == "cuda" else 256
    x, w = (torch.randn(rows, rows, device=where).bfloat16() for _ in range(2))
    found = []
    for choice in wsched.legal_tiles(LINEAR):
        if not choice.legal or choice.ping_pong or choice.warpgroups != 2:
            continue
        if choice.across > 1 or str(choice.tile) not in TILES:
            continue
        kernel = wsched.compile(LINEAR, [x, w], params=choice.params)
        took = _microseconds(kernel.bind(x, w)) if where == "cuda" else 0.0
        found.append((took, kernel.kernel.name))
        print(f"{choice}: {took:.1f} us" if took else f"{choice}: {kernel.resources}")
    return [name for _, name in sorted(found, key=lambda f: f[0])]


def _microseconds(launch: object, count: int = 50) -> float:
    """Of one launch, from a graph of several."""
    graph, begin, end = torch.cuda.CUDAGraph(), *(torch.cuda.Event(True) for _ in range(2))
    launch()
    with torch.cuda.graph(graph):
        for _ in range(count):
            launch()
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3 / count


if __name__ == "__main__":
    main()
