"""Several kernels as one function: a *stack*, whose grid has a row of CTAs for each.

CTA (x, y) of the grid is CTA x of kernel y, of as many as the row is long. A GPU places CTAs in the
order of their numbers, x first, so those of a kernel come where CTAs of the one in front have left
their multiprocessors; nothing is launched between them, and none waits for another's end
(design/0031-grouped.md). Who stands in a stack reads nothing that another of it writes. A row may
be longer than its kernel's own grid: what tells a CTA its tiles counts CTAs by ``gridDim.x``, and
one that gets none ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.cuda.emit import Parts, device_header, parts_of
from lowering.cuda.names import Writer
from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE
from lowering.kernel.early import loads_early
from lowering.kernel.kernel import Kernel

__all__ = ["alike", "emit_stack"]


def alike(kernel: Kernel) -> tuple[object, ...] | None:
    """What kernels of one stack have in common; None of one that stands in none: it has CTAs along
    y or z, memory or registers of a launch of its own, or loads before the grid in front has ended.
    """
    one_row = kernel.grid_y == ONE and kernel.splits == 1
    own = kernel.counters or kernel.workspaces or kernel.traces or kernel.watch
    if not one_row or own or kernel.registers is not None or loads_early(kernel):
        return None
    return kernel.threads, kernel.cluster, kernel.dependent, kernel.target.arch


def emit_stack(name: str, kernels: Sequence[Kernel]) -> str:
    """The complete source of a stack: the device header, a function for each kernel, and the one
    that is launched, which takes the parameters of all, one kernel's behind the other's.

    Raises:
        InternalError: kernels that are not :func:`alike`, or as of ``emit_cuda``.
    """
    if len({alike(k) for k in kernels}) != 1 or alike(kernels[0]) is None:
        names = ", ".join(k.name for k in kernels)
        raise InternalError("emit_stack", f"{names} are not alike")
    parts = [parts_of(k) for k in kernels]
    helpers = dict.fromkeys(text for p in parts for text in p.helpers)
    functions = [_function(k.name, p) for k, p in zip(kernels, parts, strict=True)]
    texts = [device_header(), *helpers, *functions, _rows(name, kernels, parts)]
    return "\n\n".join(text.rstrip("\n") for text in texts) + "\n"


def _function(name: str, parts: Parts) -> str:
    """A kernel as a function of the stack's."""
    out, taken = Writer(), (p.handed for p in parts.parameters)
    out.call(f"__device__ __forceinline__ void {name}", *taken, end=" {")
    return "\n".join([*out.lines, *parts.frame, *parts.body, "}"])


def _rows(name: str, kernels: Sequence[Kernel], parts: Sequence[Parts]) -> str:
    """The function that is launched."""
    rows = [[p.of_row(y) for p in each.parameters] for y, each in enumerate(parts)]
    out = Writer()
    out.line(f'extern "C" __global__ void {parts[0].attributes}')
    out.call(name, *(str(p) for row in rows for p in row), end=" {")
    out.depth = 1
    with out.block("switch (blockIdx.y)"):
        for y, (kernel, row) in enumerate(zip(kernels, rows, strict=True)):
            out.call(f"case {y}: return {kernel.name}", *(p.name for p in row))
    return "\n".join([*out.lines, "}"])
