"""Why a definition that is one kernel of wsched's goes another way all the same: one answer for all
who ask, whoever runs it or only explains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from lowering.ground.errors import UnsupportedError
from wsched.choose.copy_cost import Copy, slower_than_direct
from wsched.choose.price import price
from wsched.choose.problem import Problem
from wsched.front.cut.choose import Chosen
from wsched.front.cut.order import Orders
from wsched.front.cut.route import cutter_of
from wsched.front.cut.segments import Cutter
from wsched.fusion import Fusion, computed_inputs
from wsched.importer import Definition
from wsched.run.compiled import CompiledFusion

__all__ = ["why_instead"]


def why_instead(
    kernel: CompiledFusion,
    problem: Problem,
    needed: Sequence[Copy],
    definition: Definition | UnsupportedError,
    chosen: Callable[[Cutter], Chosen],
    direct: bool,
) -> str:
    """Why not the kernel; empty where it is what is run.

    Args:
        kernel: of the definition as a whole.
        problem: that it is for.
        needed: copies of operands.
        definition: as recorded, or why it cannot be read.
        chosen: how it is cut for that problem.
        direct: whether there is a way without copies: nvFuser's, on a GPU.
    """
    slower = _slower(kernel, problem, needed) if direct else ""
    if slower or not isinstance(definition, Definition):
        return slower
    try:
        return _otherwise(kernel.fusion, definition) or _apart(
            kernel.fusion, problem, lambda: chosen(cutter_of(definition))
        )
    except UnsupportedError:  # there is no other way
        return ""


def _slower(kernel: CompiledFusion, problem: Problem, needed: Sequence[Copy]) -> str:
    """Why a kernel for operands that TMA cannot read is expected to lose against one that reads
    them as they lie.
    """
    if not needed and not kernel.by_threads:
        return ""
    us = price(problem).us
    work = bool(problem.work)
    matmuls = problem.products * problem.batch
    m, n, k = problem.m, problem.n, problem.k
    return slower_than_direct(needed, m, n, k, us, work, matmuls, bool(kernel.by_threads))


def _apart(fusion: Fusion, problem: Problem, chosen: Callable[[], Chosen]) -> str:
    """Why a kernel of several products, in one tile or side by side, is expected to lose against
    a kernel for each; or one that computes an operand against one behind what computes it.
    """
    count = len(fusion.mmas) * prod(map(len, fusion.lists.values()))
    computed = computed_inputs(fusion)
    if count == 1 and not computed:
        return ""
    cut = chosen()
    if len(cut.cut.segments) == 1:
        return ""
    us = price(problem).us
    if computed:
        both = f"{us:.1f} us, in front of it {cut.cost.us:.1f} us"
        slower = us > cut.cost.us
        return f"an operand computed in the kernel takes {both}" if slower else ""
    return f"{count} products in one kernel take {us:.1f} us, apart {cut.cost.us:.1f} us"


def _otherwise(fusion: Fusion, definition: Definition) -> str:
    """Which result nvFuser has in another order in memory, which a cut knows to ask of a kernel.

    Of inputs that all lie row by row a definition that moves nothing has results that do.
    """
    if not any(n.op == "permute" or n.get("stride_order") for n in definition.nodes):
        return ""
    orders = cutter_of(definition).graph.orders
    for name, binding in zip(definition.outputs, fusion.outputs, strict=True):
        wanted = _order(orders, name)
        several = {axis for axis in _several(orders, name, binding.axes) if axis != "1"}
        found = [axis for axis in fusion.order(binding) if axis in several]
        if wanted is not None and found != [
            axis for at in wanted if (axis := binding.axes[at]) in several
        ]:
            return f"{name} lies in another order in memory than nvFuser's"
    return ""


def _order(orders: Orders, name: str) -> Sequence[int] | None:
    if not orders.is_settled(name):
        return orders.of(name)
    layout = orders.layout(name)
    return None if layout is None else layout[0]


def _several(orders: Orders, name: str, axes: Sequence[str]) -> Sequence[str]:
    """The axes of a result that are not known to be of size 1."""
    dims = orders.dimensions.dims(name) or ()
    return [axis for axis, dim in zip(axes, dims, strict=False) if not dim.is_one]
