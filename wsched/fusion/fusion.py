"""A fusion: tensors, the expressions between them, and how it came to be scheduled as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lowering.ground.errors import InternalError
from lowering.ground.frozen import replaced
from wsched.fusion.domain import IterDomain
from wsched.fusion.expr import FusionExpr, LoadStoreOp, MmaOp, ReductionOp, inputs_of
from wsched.fusion.exprs import Exprs
from wsched.fusion.groups import Groups
from wsched.fusion.history import History
from wsched.fusion.names import ROWS, TOKENS
from wsched.fusion.primitive_call import PrimitiveCall
from wsched.fusion.tensor import TensorView
from wsched.fusion.types import DataType, IterType, LoadStoreOpType, MemoryType
from wsched.fusion.unknown import Unknown

__all__ = ["Added", "Entry", "Fusion", "TensorBinding"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One of several tensors of the caller's that are one tensor of the fusion, side by side.

    Args:
        axis: name of the extent along which they stand, ``N`` of weights of different widths.
        index: which of them, from 0 on.
    """

    axis: str
    index: int

    @property
    def extent(self) -> str:
        """Name of its own extent along the axis, ``N1``."""
        return f"{self.axis}{self.index}"


@dataclass(frozen=True, slots=True)
class Added:
    """Rows of a result that are added to rows of a tensor, by an index and in any order.

    Args:
        rows: name of the input [M] that says for each row of the result to which row of the tensor
            it is added; one that the tensor does not have is left out.
        onto: name of the input [T, N] whose elements the tensor has before that.
        there: whether a kernel finds these in the result's memory.
    """

    rows: str
    onto: str
    there: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of both, which no expression reads."""
        return self.rows, self.onto


@dataclass(frozen=True, slots=True)
class TensorBinding:
    """How a tensor that the caller passes or receives corresponds to a tensor of the fusion.

    Args:
        tensor: name in the fusion.
        axes: for each dimension of the caller's tensor the extent's name; ``("K", "N")`` for the
            second operand of a matmul, which the fusion holds as [N, K]. The caller's result is
            ``("M", "N")`` of a fusion that holds [N, M] where it is stored by columns. See
            :mod:`wsched.fusion.names`; ``"1"`` is that of a dimension of size 1.
        sizes: sizes that the definition fixes, None where any is allowed.
        dtype: element type.
        entry: which part of the fusion's tensor it is; None where it is all of it.
        of_parts: whether it is the parts that a kernel stores, where these are to be put together.
        added: of a result whose rows are added to others, which the caller has: to which.
    """

    tensor: str
    axes: tuple[str, ...]
    sizes: tuple[int | None, ...]
    dtype: DataType
    entry: Entry | None = None
    of_parts: bool = False
    added: Added | None = None

    @property
    def extents(self) -> tuple[str, ...]:
        """Names of its own extents: ``("N1", "K")`` of the second weight of a list, ``("T", "N")``
        of what rows are added to.
        """
        e = self.entry
        if self.added is not None:
            return tuple(TOKENS if a == ROWS else a for a in self.axes)
        return self.axes if e is None else tuple(e.extent if a == e.axis else a for a in self.axes)

    @property
    def key(self) -> str:
        """What a launch calls it: ``T1``, of a list ``T1[2]``."""
        return self.tensor if self.entry is None else f"{self.tensor}[{self.entry.index}]"


class _Kept:
    """What is found of a fusion when it is first asked for, and kept with it."""

    _loads: ClassVar[tuple[TensorView, ...] | None] = None
    _products: ClassVar[Any] = None  # see :mod:`wsched.fusion.product`


@dataclass(frozen=True, slots=True)
class Fusion(_Kept):
    """Immutable; every scheduling primitive returns a new one.

    Args:
        inputs: bindings of the caller's tensors, in the order of the definition.
        outputs: bindings of the results.
        tensors: all tensors, ``T0`` first; a tensor's number is its position.
        exprs: in topological order; any tuple of them becomes :class:`Exprs`.
        history: the primitives applied so far; likewise.
        next_id: the first unused :class:`IterDomain` id.
        unknowns: what only the device knows and extents of loops may depend on.
        groups: what says which part of a caller's matrix is which matrix of the batch, where it
            has them in one dimension.
    """

    inputs: tuple[TensorBinding, ...]
    outputs: tuple[TensorBinding, ...]
    tensors: tuple[TensorView, ...]
    exprs: Exprs
    next_id: int
    history: History = field(default_factory=History)
    unknowns: tuple[Unknown, ...] = ()
    groups: Groups | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors."""
        return tuple(t.name for t in self.tensors)

    def __post_init__(self) -> None:
        if type(self.exprs) is not Exprs:
            object.__setattr__(self, "exprs", Exprs(self.exprs))
        if type(self.history) is not History:
            object.__setattr__(self, "history", History(self.history))

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return self.find(name) is not None

    def tensor(self, name: str) -> TensorView:
        """The tensor of this name; InternalError if there is none (primitives check before)."""
        found = self.find(name)
        if found is None:
            raise InternalError("fusion", f"no tensor {name} among {', '.join(self.names)}")
        return found

    def find(self, name: str) -> TensorView | None:
        """The tensor of this name, None if there is none; its place is in its name."""
        try:
            found = self.tensors[int(name[1:])]
        except (TypeError, ValueError, LookupError):  # what a caller took for a name, too
            return None
        return found if found.name == name else None

    def definition(self, name: str) -> FusionExpr | None:
        """The expression that makes a tensor, None for an input."""
        return self.exprs.making.get(name)

    def uses(self, name: str) -> tuple[FusionExpr, ...]:
        """The expressions that read a tensor."""
        return self.exprs.reading.get(name, ())

    def consumers(self, name: str) -> tuple[TensorView, ...]:
        """The tensors made from a tensor."""
        return tuple(self.tensor(e.output) for e in self.uses(name))

    def producers(self, name: str) -> tuple[TensorView, ...]:
        """The tensors that a tensor is made from."""
        e = self.definition(name)
        return tuple(self.tensor(n) for n in inputs_of(e)) if e is not None else ()

    @property
    def in_order(self) -> tuple[str, ...]:
        """Names of all tensors in topological order, those that no expression makes first."""
        made = self.exprs.making
        return (*(n for n in self.names if n not in made), *(e.output for e in self.exprs))

    def made_from(self, names: Iterable[str]) -> tuple[str, ...]:
        """These tensors and all that they are made from, in topological order."""
        found = set(names)
        for e in reversed(self.exprs):
            if e.output in found:
                found.update(inputs_of(e))
        return tuple(n for n in self.in_order if n in found)

    def source(self, name: str) -> TensorView:
        """The input that a tensor is a copy of, or is computed from: of several the first with most
        dimensions, beside which the others are vectors and numbers.
        """
        inputs = {b.tensor for b in self.inputs}
        while name not in inputs:
            name = max(self.producers(name), key=_dimensions).name
        return self.tensor(name)

    @property
    def mmas(self) -> tuple[MmaOp, ...]:
        """The matrix multiplications, in topological order."""
        return self.exprs.mmas

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the inputs that matrix multiplications read, seen through their copies."""
        read = {self.source(name).name for e in self.mmas for name in (e.a, e.b)}
        return tuple(dict.fromkeys(b.tensor for b in self.inputs if b.tensor in read))

    @property
    def scales(self) -> frozenset[str]:
        """Names of the inputs that blocks of operands count times, and of their zero points."""
        found = (s for e in self.mmas for s in e.scales or () if s is not None)
        return frozenset(name for s in found for name in s.tensors)

    @property
    def added(self) -> Mapping[str, Added]:
        """What rows of results are added to, by the results' names."""
        return {b.tensor: b.added for b in self.outputs if b.added is not None}

    @property
    def beside(self) -> frozenset[str]:
        """Names of the inputs that no expression reads: where groups end, and what says where rows
        are added.
        """
        ends = () if self.groups is None else (self.groups.ends,)
        return frozenset((*ends, *(name for a in self.added.values() for name in a.inputs)))

    @property
    def inside(self) -> frozenset[str]:
        """Names of the inputs that are none of the epilogue: operands with their scales, and what
        no expression reads.
        """
        return frozenset((*self.operands, *self.scales, *self.beside))

    @property
    def lists(self) -> Mapping[str, tuple[str, ...]]:
        """Of each axis along which the caller's tensors stand side by side the names of their
        extents there, in order. The extent of that name is their sum; of a scheduled fusion each
        is rounded up to whole tiles in it, so that no tile has a part of two of them.
        """
        found: dict[str, dict[int, str]] = {}
        for b in (*self.inputs, *self.outputs):
            if b.entry is not None:
                found.setdefault(b.entry.axis, {})[b.entry.index] = b.entry.extent
        return {axis: tuple(names[i] for i in sorted(names)) for axis, names in found.items()}

    def entries(self, name: str) -> tuple[TensorBinding, ...]:
        """The bindings of a tensor: one, or those of a list in its order."""
        found = [b for b in (*self.inputs, *self.outputs) if b.tensor == name]
        return tuple(sorted(found, key=lambda b: 0 if b.entry is None else b.entry.index))

    def ragged(self, name: str) -> bool:
        """Whether the caller passes or receives a tensor with all groups in one dimension."""
        found = self.entries(name)
        if self.groups is None or not found:
            return False
        return self.groups.along in found[0].axes and self.groups.axis not in found[0].axes

    @property
    def sums_of_groups(self) -> bool:
        """Whether groups share out what products sum over, so that each result has all of it."""
        return self.groups is not None and self.groups.along not in self.result_axes

    def order(self, binding: TensorBinding) -> tuple[str, ...]:
        """The axes of a caller's tensor in the order of memory, the contiguous one last."""
        if self.reduction(binding.tensor) is not None:
            return binding.axes
        stored = self.tensor(binding.tensor).in_memory
        if self.in_parts(binding):
            stored = tuple(d for d in stored if not d.rfactor_product)
        names = tuple(str(d.extent) for d in stored)
        if self.groups is not None and self.ragged(binding.tensor):
            return tuple(n for n in names if n != self.groups.axis)
        return names

    @property
    def result_axes(self) -> tuple[str, ...]:
        """Names of all extents of the results, in the fusion's order: rows and columns last."""
        whole = [b.tensor for b in self.outputs if self.reduction(b.tensor) is None]
        name = whole[0] if whole else self.mmas[-1].output
        return tuple(str(d.extent) for d in self.tensor(name).stored)

    def reduction(self, name: str) -> ReductionOp | None:
        """The reduction that a tensor is, or is a copy of; None of any other."""
        e = self.definition(name)
        while isinstance(e, LoadStoreOp):
            e = self.definition(e.input)
        return e if isinstance(e, ReductionOp) else None

    def together(self, name: str) -> str | None:
        """What puts the parts of a result together: the operation of a reduction, and ``sum`` of
        a product; None where it is made as a whole.
        """
        if not any(d.rfactor_product for d in self.tensor(name).stored):
            return None
        reduction = self.reduction(name)
        return "sum" if reduction is None else reduction.op

    def in_parts(self, binding: TensorBinding) -> bool:
        """Whether a result is stored in parts, and ``binding`` is of the whole."""
        return not binding.of_parts and self.together(binding.tensor) is not None

    @property
    def matrices(self) -> tuple[TensorBinding, ...]:
        """The results that have all dimensions of the product: those that are no reductions; of a
        list the first stands for all.
        """
        found = {b.tensor: b for b in self.outputs[::-1] if self.reduction(b.tensor) is None}
        return tuple(found.values())[::-1]

    @property
    def reduced(self) -> tuple[TensorBinding, ...]:
        """The results that are reductions."""
        return tuple(b for b in self.outputs if self.reduction(b.tensor) is not None)

    @property
    def loads(self) -> tuple[TensorView, ...]:
        """Copies from global into shared memory, by TMA (the TMA cacheAfter tensors) or by threads
        (``Set``).
        """
        found = self._loads
        if found is None:
            found = tuple(self.tensor(e.output) for e in self.exprs if self._loads_by(e))
            object.__setattr__(self, "_loads", found)
        return found

    def _loads_by(self, e: FusionExpr) -> bool:
        if not isinstance(e, LoadStoreOp):
            return False
        if self.tensor(e.input).memory is not MemoryType.Global:
            return False
        return e.op is LoadStoreOpType.CpAsyncBulkTensorTile or self._set_into_shared(e)

    @property
    def loaded_by_threads(self) -> tuple[str, ...]:
        """Names of those of ``loads`` that threads copy: whose rows may begin anywhere."""
        found = (self.definition(t.name) for t in self.loads)
        return tuple(
            e.output for e in found
            if isinstance(e, LoadStoreOp) and e.op is LoadStoreOpType.Set
        )  # fmt: skip

    @property
    def filled_in_place(self) -> tuple[str, ...]:
        """Names of what fills a ring in the part that reads it, in the trip that does: loads, and
        sums in tensor memory, that are inlined and in no circular buffer.
        """
        sums = (t for t in self.tensors if t.memory is MemoryType.Tensor)
        return tuple(t.name for t in (*self.loads, *sums) if t.in_place)

    def _set_into_shared(self, e: LoadStoreOp) -> bool:
        shared = self.tensor(e.output).memory is MemoryType.Shared
        return e.op is LoadStoreOpType.Set and shared

    def updated(
        self,
        changed: Iterable[TensorView] = (),
        exprs: Iterable[FusionExpr] | None = None,
        next_id: int | None = None,
        call: PrimitiveCall | None = None,
    ) -> Fusion:
        """With tensors replaced by name (new names appended), with expressions if given, and with
        one more call in the history.
        """
        tensors = list(self.tensors)
        for t in changed:
            if self.has(t.name):
                tensors[int(t.name[1:])] = t
            else:
                tensors.append(t)
        return replaced(
            self,
            tensors=tuple(tensors),
            exprs=self.exprs if exprs is None else Exprs(exprs),
            next_id=self.next_id if next_id is None else next_id,
            history=self.history if call is None else self.history.and_then(call),
        )

    def after(self, call: PrimitiveCall) -> Fusion:
        """With one more step in the history."""
        return replaced(self, history=self.history.and_then(call))

    def fresh(self, domains: Iterable[IterDomain]) -> tuple[tuple[IterDomain, ...], int]:
        """Copies of ``domains`` under new ids, and the next unused id after them."""
        copies = tuple(replaced(d, id=self.next_id + n) for n, d in enumerate(domains))
        return copies, self.next_id + len(copies)


def _dimensions(t: TensorView) -> int:
    """Number of those along which a tensor is not repeated."""
    return sum(d.iter_type is not IterType.Broadcast for d in t.logical)
