"""Several kernels as one function: a *stack*, whose grid has a row of CTAs for each.

CTA (x, y) of the grid is CTA x of kernel y, of as many as the row is long. A GPU places CTAs in the
order of their numbers, x first, so those of a kernel come where CTAs of the one in front have left
their multiprocessors; nothing is launched between them, and none waits for another's end
(design/0031-grouped.md). Who stands in a stack reads nothing that another of it writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.cuda.emit import Parts, device_header, parts_of
from lowering.cuda.names import Writer
from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE
from lowering.kernel.kernel import Kernel

__all__ = ["alike", "emit_stack"]

_BY_VALUE = "__grid_constant__ "
"""What a parameter says that is read where the launch has put it."""


def alike(kernel: Kernel) -> tuple[object, ...] | None:
    """What kernels of one stack have in common; None of one that stands in none: it has CTAs along
    y or z, or memory or registers of a launch of its own.
    """
    one_row = kernel.grid_y == ONE and kernel.splits == 1
    own = kernel.counters or kernel.workspaces or kernel.traces or kernel.watch
    if not one_row or own or kernel.registers is not None:
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
    """A kernel as a function of the stack's, to which tensor maps are handed by reference."""
    out = Writer()
    out.call(f"__device__ __forceinline__ void {name}", *map(_taken, parts.parameters), end=" {")
    return "\n".join([*out.lines, *parts.frame, *parts.body, "}"])


def _taken(parameter: str) -> str:
    if _BY_VALUE not in parameter:
        return parameter
    kind, name = _split(parameter)
    return f"{kind.replace(_BY_VALUE, '')}& {name}"


def _rows(name: str, kernels: Sequence[Kernel], parts: Sequence[Parts]) -> str:
    """The function that is launched."""
    given = [[_split(p) for p in each.parameters] for each in parts]
    taken = [f"{kind} {p}_{y}" for y, each in enumerate(given) for kind, p in each]
    out = Writer()
    out.line(f'extern "C" __global__ void {parts[0].attributes}')
    out.call(name, *taken, end=" {")
    out.depth = 1
    with out.block("switch (blockIdx.y)"):
        for y, (kernel, each) in enumerate(zip(kernels, given, strict=True)):
            out.call(f"case {y}: return {kernel.name}", *(f"{p}_{y}" for _, p in each))
    return "\n".join([*out.lines, "}"])


def _split(parameter: str) -> tuple[str, str]:
    """Type and name of a parameter."""
    kind, _, name = parameter.rpartition(" ")
    return kind, name
