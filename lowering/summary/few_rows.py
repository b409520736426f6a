"""The kernel of a summary of few rows: each thread sums all rows of some neighbouring columns.

Parts of a product, as split-K leaves them, are few rows of very many columns, and nothing is made
of a row before it is added. So no warps meet: the columns are taken in pieces of as many as a
thread has together, each piece a row of a fragment, whose rows follow each other in memory. A warp
reads whole lines; a CTA of one warpgroup has as many pieces as its fragments have rows, and asks
for several rows of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Const, Expr, Special, Var, ceildiv
from lowering.ground.layouts import RegisterLayout
from lowering.kernel.kernel import GlobalTensor, Kernel, Storage
from lowering.kernel.nodes import (
    Carry,
    For,
    Frag,
    FragLoadGlobal,
    FragStoreGlobal,
    FragUpdate,
    GmemRef,
    Role,
    Roles,
)
from lowering.summary.axes import BEHIND, FRONT, REDUCED
from lowering.summary.builder import Builder
from lowering.target import ptx
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion.summary import REDUCTIONS, Axis, Extent, Summary, Value

__all__ = ["FewRows", "adds_rows", "few_rows_kernel", "few_rows_of"]

_MOST = 128
"""Rows that a thread sums by itself. A CTA of the other kernel has 32 columns and 128 rows."""

_LOADED = 64
"""Elements of all tensors that a thread asks for before it adds the first: 32 KB a warpgroup,
which cover the way to the L2 where a multiprocessor has one of them (design/0026)."""

_NARROW, _WIDE = 2, 4
"""Columns that a thread has together: 8 bytes of fp32, or 16 where there are CTAs enough."""

_MANY, _FEWEST, _SHORT = 2.0, 0.48, 16
"""CTAs for each multiprocessor: enough of them, and what there is at least for more rows than the
few that are on their way at once: 128 rows of 4096 columns take 8 CTAs 14 us, the 128 of the other
kernel 3.4 (a bias gradient's parts, H200, 2026-11-28)."""


@dataclass(frozen=True, slots=True)
class FewRows:
    """What a CTA of one warpgroup has.

    Args:
        span: columns that a thread has together.
        deep: rows that are loaded at once.
    """

    span: int
    deep: int

    @property
    def layout(self) -> RegisterLayout:
        """Of the fragments: a piece of columns is a row, which one lane has."""
        return RegisterLayout(self.span, 1)

    @property
    def columns(self) -> int:
        """Of a CTA."""
        return self.layout.rows * self.span


def adds_rows(summary: Summary) -> bool:
    """Whether a summary sums tensors over rows as they are: what lies behind the last row counts
    as zeros.
    """
    tensors = [v for v in summary.values if v.extent is Extent.TENSOR]
    bare = all(v.op == "input" and v.dtype.element is DType.F32 for v in tensors)
    sums = all(r.op == "sum" for r in summary.reductions)
    return summary.axis is Axis.ROWS and bare and sums


def few_rows_of(summary: Summary, front: int, reduced: int, behind: int) -> FewRows | None:
    """What a CTA has of a summary of these sizes; None where another kernel is for it: of many
    rows, of columns that are no whole pieces, or too few for a CTA on nearly every other
    multiprocessor of the GPU that kernels are made for.
    """
    if reduced > _MOST or behind % _NARROW or not adds_rows(summary):
        return None
    narrow, wide = (front * -(-behind // FewRows(span, 1).columns) for span in (_NARROW, _WIDE))
    if reduced > _SHORT and narrow < _FEWEST * DEFAULT.sms:
        return None
    many = wide >= _MANY * DEFAULT.sms
    span = _WIDE if many and behind % _WIDE == 0 else _NARROW
    tensors = sum(v.extent is Extent.TENSOR for v in summary.inputs)
    return FewRows(span, max(_LOADED // (2 * span * tensors), 1))


def few_rows_kernel(summary: Summary, name: str, few: FewRows, target: Target = DEFAULT) -> Kernel:
    """The kernel before the passes of ``passes.summary``.

    Parameters are those of ``summary_kernel``; of every tensor what is behind the reduced rows is
    ``[behind / span, span]``, and what is one ``[1, 1]``.

    Args:
        summary: what is computed, of which :func:`adds_rows` holds.
        name: of the kernel, a C identifier.
        few: what a CTA has.
        target: the GPU.
    """
    b = Builder(summary=summary, layout=few.layout)
    rows, columns = few.layout.rows, few.span
    outer, first = Special("ctaid.y"), Special("ctaid.x") * rows
    at = outer, first, ZERO
    for v in summary.values:
        if v.extent is Extent.ONE and v.op == "input":
            b.load(v, (ZERO, ZERO), 1, 1)
        elif v.extent is Extent.ONE:
            b.compute(v)
    totals = iter(_sums(b, few, (outer, first)))
    for v in summary.values:
        if v.op in REDUCTIONS:
            b.reduced(v, next(totals))
        elif v.extent is Extent.KEPT and v.op == "input":
            b.load(v, at, rows, columns)
        elif v.extent is Extent.KEPT:
            b.compute(v)
    written = dict.fromkeys(r.value for r in summary.results)
    for value in written:
        b.emit(FragStoreGlobal(GmemRef(f"{value}_out", at), b.held[value]))
    storage: list[Storage] = [_declared(v, v.name, few) for v in summary.inputs]
    storage += [_declared(summary.value(value), f"{value}_out", few) for value in written]
    role = Role("compute", 0, ptx.WARPS, tuple(b.body))
    return Kernel(
        name, ptx.WARPGROUP, ceildiv(BEHIND, few.columns), (FRONT, REDUCED, BEHIND), tuple(storage),
        (Roles((role,)),), target=target, grid_y=FRONT,
    )  # fmt: skip


def _sums(b: Builder, few: FewRows, at: tuple[Expr, Expr]) -> list[Frag]:
    """What each reduction comes to: some rows are loaded, then added in their order; those behind
    the last are zeros.
    """
    found = b.summary.reductions
    shape = few.layout.rows, few.span
    starts = [b.filled(f"{r.name}_start", 0.0, *shape) for r in found]
    befores = [b.new(f"{r.name}_so_far", DType.F32, *shape) for r in found]
    totals = [b.new(f"{r.name}_total", DType.F32, *shape) for r in found]
    row, (outer, first) = Var(b.name("at")), at
    read = [v for v in b.summary.inputs if v.extent is Extent.TENSOR]
    with b.inside() as body:
        parts = list[dict[str, Frag]]()
        for n in range(few.deep):
            parts.append({v.name: b.new(v.name, DType.F32, *shape) for v in read})
            for name, part in parts[-1].items():
                b.emit(FragLoadGlobal(part, GmemRef(name, (outer, row + n, first, ZERO))))
        sums = list(befores)
        for part_of in parts:
            for i, r in enumerate(found):
                after = b.new(f"{r.name}_next", DType.F32, *shape)
                b.emit(FragUpdate(after, "add", sums[i], (part_of[str(r.inputs[0])],)))
                sums[i] = after
    carries = tuple(Carry(*c) for c in zip(befores, starts, totals, strict=True))
    b.emit(For(row, ZERO, REDUCED, tuple(body), Const(few.deep), carries, tuple(sums)))
    return totals


def _pieces(few: FewRows) -> Expr:
    return BEHIND // few.span


def _declared(value: Value, name: str, few: FewRows) -> GlobalTensor:
    """An input or a result in global memory, of which threads access whole pieces."""
    element = value.dtype.element
    if value.extent is Extent.ONE:
        return GlobalTensor(name, element, (Const(1), Const(1)), element.bytes)
    rows = (REDUCED,) if value.extent is Extent.TENSOR else ()
    sizes = (FRONT, *rows, _pieces(few), Const(few.span))
    return GlobalTensor(name, element, sizes, few.span * element.bytes)
