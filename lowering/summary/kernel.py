"""The kernel of a summary: loads by threads, reductions of fragments, and what follows them.

A warpgroup holds a tile in the accumulator's layout, so all that the epilogue of a matmul has is
there: pointwise operations, and reductions in a fixed order. Several warpgroups of a CTA take
tiles in turn and meet in shared memory, once. A CTA has all that comes to its results, so nothing
has to be put together behind it.
"""

from __future__ import annotations

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Expr, Special, Var, minimum
from lowering.kernel.kernel import GlobalTensor, Kernel, NamedBarrierArray, SharedBuffer, Storage
from lowering.kernel.nodes import (
    BarSync,
    For,
    FragStoreGlobal,
    GmemRef,
    If,
    NamedBarrierRef,
    Role,
    Roles,
)
from lowering.kernel.tensors import WIDEST_ACCESS
from lowering.summary.axes import (
    BEHIND,
    FRONT,
    GROUP,
    MEETING,
    REDUCED,
    Form,
    Totals,
    form_of,
    trips,
)
from lowering.summary.builder import Builder
from lowering.summary.tile import Tile
from lowering.target import ptx
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion.summary import REDUCTIONS, Extent, Summary, Value

__all__ = ["ALONGSIDE_REGISTERS", "summary_kernel"]

_EVERYONE = "everyone"

ALONGSIDE_REGISTERS = 56
"""Of a thread of a CTA that stands beside another grid's: what keeps 64 bytes of each thread on
their way. The other CTA has 7168 registers less than a multiprocessor."""


def summary_kernel(
    summary: Summary,
    name: str,
    tile: Tile,
    vector: int,
    target: Target = DEFAULT,
    alongside: bool = False,
) -> Kernel:
    """The kernel before the passes of ``passes.summary``.

    Parameters are ``front``, ``reduced`` and ``behind``, as ``Summary.sizes`` gives them. A tensor
    is ``[front, reduced, behind]``, without ``behind`` where columns are reduced, and
    ``[reduced, 1]`` where all is; what is kept is ``[front, behind]``, what is one ``[1, 1]``.

    Args:
        summary: what is computed.
        name: of the kernel, a C identifier.
        tile: of a warpgroup.
        vector: columns that threads access at once, 1, 2 or as many as the layout has together.
        target: the GPU.
        alongside: whether there is a CTA for each multiprocessor, which takes blocks of rows in
            turn and leaves a CTA of the grid behind it its place there. Of a tile of one warpgroup.
    """
    block = Var("block") if alongside else Special("ctaid.x")
    form = form_of(summary.axis, tile, block)
    b = Builder(summary=summary, layout=tile.layout)
    for v in summary.values:
        if v.extent is Extent.ONE:
            _before(b, v)
    with b.inside() as made:
        totals = trips(b, form, tile)
        form.share(b, tile, totals)
        if form.meeting[0]:
            b.emit(BarSync(NamedBarrierRef(_EVERYONE, ZERO)))
        with b.inside() as body:
            _finish(b, form, tile, totals)
        b.emit(If(GROUP.eq(0), tuple(body)))
    (x, y), registers = form.grid, None
    if isinstance(block, Var):
        made = [For(block, Special("ctaid.x"), x, tuple(made), Special("nctaid.x"))]
        x, registers = minimum(x, Var("sms")), ALONGSIDE_REGISTERS
    b.body.extend(made)
    threads = tile.groups * ptx.WARPGROUP
    storage: list[Storage] = [_declared(v, v.name, form, vector) for v in summary.inputs]
    written = dict.fromkeys(r.value for r in summary.results)
    storage += [_declared(summary.value(n), f"{n}_out", form, vector) for n in written]
    if form.meeting[0]:
        count = len(summary.reductions)
        storage.append(SharedBuffer(MEETING, DType.F32, count, form.meeting))
        storage.append(NamedBarrierArray(_EVERYONE, 1, threads))
    role = Role("compute", 0, threads // 32, tuple(b.body), GROUP)
    return Kernel(
        name, threads, x, (FRONT, REDUCED, BEHIND), tuple(storage), (Roles((role,)),),
        target=target, grid_y=y, registers=registers,
    )  # fmt: skip


def _before(b: Builder, value: Value) -> None:
    """A single value, which no reduction has a part in."""
    if value.op == "input":
        b.load(value, (ZERO, ZERO), 1, 1)
    else:
        b.compute(value)


def _finish(b: Builder, form: Form, tile: Tile, totals: Totals) -> None:
    """What follows the reductions, and the results."""
    wholes = iter(form.join(b, tile, totals))
    for v in b.summary.values:
        if v.op in REDUCTIONS:
            b.reduced(v, next(wholes))
        elif v.extent is Extent.KEPT and v.op == "input":
            b.load(v, form.kept_at, *form.result)
        elif v.extent is Extent.KEPT:
            b.compute(v)
    for name in dict.fromkeys(r.value for r in b.summary.results):
        b.emit(FragStoreGlobal(GmemRef(f"{name}_out", form.kept_at), b.held[name]))


def _declared(value: Value, name: str, form: Form, vector: int) -> GlobalTensor:
    """An input or a result in global memory; only rows are accessed by several elements at once."""
    sizes: dict[Extent, tuple[Expr, ...]] = {
        Extent.TENSOR: form.tensor, Extent.KEPT: form.kept, Extent.ONE: (ONE, ONE),
    }  # fmt: skip
    shape, element = sizes[value.extent], value.dtype.element
    together = vector if shape[-1] != ONE else 1
    return GlobalTensor(name, element, shape, min(together * element.bytes, WIDEST_ACCESS))
