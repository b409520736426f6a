"""A fusion of one product of matrices as that of a batch of groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Var
from wsched.fusion import (
    BroadcastOp,
    DataType,
    Fusion,
    FusionExpr,
    IterDomain,
    IterType,
    MemoryType,
    ReductionOp,
    TensorBinding,
    TensorView,
    inputs_of,
)
from wsched.fusion.names import BATCH, COLS, ROWS
from wsched.importer.ops import GROUPED

__all__ = ["Lift", "by_groups", "fresh", "with_unread"]

_CALL = f"fd.ops.{GROUPED}"


@dataclass
class Lift:
    """The fusion of one matmul as that of a batch of groups of its rows or columns.

    Args:
        plain: of matrices.
        weights: inputs of which each group has one of its own.
        along: what groups share out, the extent of rows or of columns.
    """

    plain: Fusion
    weights: Collection[str]
    along: str

    def fusion(self) -> Fusion:
        """With a dimension in front of those of all tensors but inputs that all groups share."""
        found = self._kinds()
        self._require_rows()
        new = fresh(self.plain, *(found[n] for n in self.plain.names if n in found))
        made = {t.name: t for t in self.plain.tensors}
        for name, d in zip((n for n in self.plain.names if n in found), new, strict=True):
            t = made[name]
            allocation = (d, *t.allocation) if t.allocation else ()
            made[name] = replace(
                t, logical=(d, *t.logical), loop=(d, *t.loop), allocation=allocation
            )
        inputs = tuple(
            replace(b, axes=(BATCH, *b.axes), sizes=(None, *b.sizes))
            if b.tensor in self.weights else b
            for b in self.plain.inputs
        )  # fmt: skip
        exprs = tuple(self._expr(e, found) for e in self.plain.exprs)
        lifted = self.plain.updated(made.values(), exprs, self.plain.next_id + len(new))
        return replace(lifted, inputs=inputs)

    def _kinds(self) -> Mapping[str, IterType]:
        """What the new dimension is to each tensor that gets it."""
        whole, same = IterType.Iteration, IterType.Broadcast
        found = {
            b.tensor: whole
            for b in self.plain.inputs if b.tensor in self.weights or self.along in b.axes
        }  # fmt: skip
        for e in self.plain.exprs:
            alike = all(found.get(name, same) is same for name in inputs_of(e))
            found[e.output] = same if alike else whole
        return found

    def _expr(self, e: FusionExpr, found: Mapping[str, IterType]) -> FusionExpr:
        return (
            replace(e, flags=(e.input not in found, *e.flags)) if isinstance(e, BroadcastOp) else e
        )

    def _require_rows(self) -> None:
        """What has rows and is no operand is a matrix by rows.

        Raises:
            UnsupportedError: it is not.
        """
        if any(isinstance(e, ReductionOp) for e in self.plain.exprs):
            raise UnsupportedError(f"a reduction of {_CALL}", "results [M, N]")
        for b in (*self.plain.inputs, *self.plain.outputs):
            names = tuple(str(d.extent) for d in self.plain.tensor(b.tensor).in_memory)
            if {ROWS, COLS} <= {*names} and names != (ROWS, COLS):
                what = f"{_CALL} beside [{', '.join(names)}] in memory"
                raise UnsupportedError(what, f"matrices of whole rows, [{ROWS}, {COLS}] say")


def by_groups(fusion: Fusion, names: Collection[str], along: str) -> Fusion:
    """The fusion with operands that lie in memory such that a group is rows of them, wherever they
    have groups in one dimension: TMA begins a box at any row, but not at any column.

    Args:
        fusion: of a batch of groups.
        names: of those operands.
        along: what groups share out.
    """
    changed = []
    for name in names:
        t = fusion.tensor(name)
        order = sorted(t.logical, key=lambda d: (str(d.extent) != BATCH, str(d.extent) != along))
        allocation = () if tuple(order) == t.logical else tuple(order)
        changed.append(replace(t, allocation=allocation))
    return fusion.updated(changed)


def with_unread(
    fusion: Fusion, axes: tuple[str, ...], sizes: tuple[int | None, ...], dtype: DataType
) -> tuple[Fusion, TensorBinding]:
    """The fusion with an input that no expression reads, and how that is passed."""
    name = f"T{len(fusion.tensors)}"
    dims = tuple(
        IterDomain(fusion.next_id + n, Var(axis), axis, IterType.Iteration)
        for n, axis in enumerate(axes)
    )
    view = TensorView(name, dtype, MemoryType.Global, dims, dims)
    made = fusion.updated((view,), next_id=fusion.next_id + len(dims))
    return made, TensorBinding(name, axes, sizes, dtype)


def fresh(fusion: Fusion, *kinds: IterType) -> tuple[IterDomain, ...]:
    """New dimensions that count groups."""
    return tuple(
        IterDomain(fusion.next_id + n, Var(BATCH), BATCH, kind) for n, kind in enumerate(kinds)
    )
