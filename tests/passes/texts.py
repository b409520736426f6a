"""Kernels written as what stands between the braces, and what a pass makes of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent, indent

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from passes.options import LoweringOptions

Pass = Callable[[Kernel, LoweringOptions], Kernel]


def full(inner: str, threads: int | None = None) -> str:
    """The text of a kernel, of as many threads as its roles; empty lines count for nothing."""
    if threads is None:
        ends = [int(end) for end in re.findall(r"warps \d+ \.\. (\d+)", inner)]
        threads = 32 * max(ends, default=12)
    lines = [line for line in dedent(inner).splitlines() if line]
    inside = indent("\n".join(lines), "  ")
    return f"kernel k threads {threads} cluster 1 grid 1 {{\n{inside}\n}}\n"


def kernel(inner: str, threads: int | None = None) -> Kernel:
    """A well-formed kernel."""
    parsed = parse_kernel(full(inner, threads))
    assert verify(parsed) == []
    return parsed


def lowered(run: Pass, inner: str, threads: int | None = None, **options: object) -> str:
    """The text of the kernel after the pass ``run``, which leaves it well-formed."""
    new = run(kernel(inner, threads), LoweringOptions(**options))  # type: ignore[arg-type]
    assert verify(new) == []
    return print_kernel(new)


def unchanged(run: Pass, inner: str, **options: object) -> bool:
    """Whether ``run`` leaves the kernel as it is."""
    before = kernel(inner)
    return run(before, LoweringOptions(**options)) == before  # type: ignore[arg-type]
