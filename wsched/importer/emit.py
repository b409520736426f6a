"""From the steps of an epilogue to numbered tensors and expressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.expr import Var
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    DataType,
    Exprs,
    FusionExpr,
    IndexOp,
    IterDomain,
    IterType,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    MmaOp,
    PointwiseOp,
    ReductionOp,
    Scale,
    Scales,
    TensorBinding,
    TensorView,
)
from wsched.fusion.names import COLS, ROWS, SUMMED
from wsched.importer.steps import REDUCED, Step

__all__ = ["Emitted", "emit_fusion", "needed"]


@dataclass(frozen=True, slots=True)
class Emitted:
    """Tensors ``T0`` first, expressions in topological order, the outputs among the tensors."""

    tensors: tuple[TensorView, ...]
    exprs: Exprs
    outputs: tuple[TensorView, ...]
    next_id: int


def emit_fusion(
    inputs: Sequence[TensorBinding],
    operands: Mapping[str, tuple[str, str]],
    steps: Iterable[Step],
    outputs: Sequence[Step],
    memory: tuple[str, ...] = (ROWS, COLS),
    mn_major: Collection[str] = (),
    computed: Mapping[str, Sequence[Step]] | None = None,
    promotion: int = 0,
    scales: Scales | None = None,
) -> Emitted:
    """Number and connect everything: inputs, views of them, the mmas, then the epilogue.

    Args:
        inputs: in the caller's order, ``tensor`` their names in the definition.
        operands: of each matmul the names of the operand that has the result's rows, and of the
            other one.
        steps: in an order in which they can be computed; those that no output needs are left out.
        outputs: the step of each output, which becomes a tensor in global memory; a copy of it
            where it is read inside the kernel as well, or is an output twice.
        memory: dimensions of the result in memory: rows and columns last, M and N or exchanged.
        mn_major: inputs that are operands whose K is not contiguous.
        computed: the steps of operands that are no inputs, each list in order, the operand last.
        promotion: of the mmas.
        scales: of the one mma, their tensors by their names in the definition.
    """
    e = _Emitter()
    computed = computed or {}
    used, before = needed(*outputs), needed(*(made[-1] for made in computed.values()))
    spread = {s.source: s.spread for s in used | before if s.op == "input"}
    full = (*memory, SUMMED)
    for b in inputs:
        text = _axes(spread.get(b.tensor, frozenset(b.axes)), full)
        e.named[b.tensor] = e.input(b, text, b.tensor in mn_major, [s for s in scales or () if s])
    axes = {b.tensor: frozenset(b.axes) for b in inputs}
    sides = [dict.fromkeys(names) for names in zip(*operands.values(), strict=True)]
    views = {
        x: e.operand(computed[x], full) if x in computed else e.view(x, axes[x], full)
        for side in sides
        for x in side
    }
    # Inputs before the mmas and all else after it: the epilogue is what follows the accumulator.
    first = ("input", "mma")
    order = sorted((s for s in steps if s in used), key=lambda s: (*first, s.op).index(s.op))
    for s in order:
        if s.op == "input":
            whole = len(s.spread) == len(memory)
            e.made[s] = e.named[s.source] if whole else e.view(s.source, s.spread, memory)
    read = {x for s in order for x in s.inputs if isinstance(x, Step)}
    once = {s for s, times in Counter(outputs).items() if times == 1}
    for s in order:
        direct = s.op != "input" and s in once and s not in read
        where = MemoryType.Global if direct else MemoryType.Local
        if s.op == "mma":
            e.made[s] = e.add(s.dtype, where, " ".join((*memory, f"r{SUMMED}")))
            left, right = (views[x] for x in operands[s.source])
            e.exprs.append(MmaOp(e.made[s], left, right, promotion, e.renamed(scales)))
        elif s.op != "input":
            e.step(s, where, memory)
    return e.finish(outputs, memory)


def needed(*outputs: Step) -> set[Step]:
    """Everything that the outputs are computed from, and the matmuls."""
    found: set[Step] = set()
    pending = list(outputs)
    while pending:
        s = pending.pop()
        if s not in found:
            found.add(s)
            pending += [x for x in s.inputs if isinstance(x, Step)]
    return found


def _axes(spread: frozenset[str], memory: tuple[str, ...]) -> str:
    """The dimensions of an input."""
    return " ".join(axis for axis in memory if axis in spread)


def _spread(spread: frozenset[str], memory: tuple[str, ...]) -> str:
    """All dimensions: broadcast where there is no difference along them."""
    return " ".join(axis if axis in spread else f"b{axis}" for axis in memory)


def _summed_up(s: Step) -> Step | None:
    """What products were summed up to, where this is that in another type."""
    of = s.inputs[0] if s.op == "cast" else None
    return of if isinstance(of, Step) and of.op == "mma" else None


class _Emitter:
    """Tensors and expressions so far.

    Attributes:
        named: the tensor of each input, by its name in the definition.
        made: the tensor of each step.
    """

    def __init__(self) -> None:
        self.next_id = 0
        self.tensors: list[TensorView] = []
        self.exprs: list[FusionExpr] = []
        self.named: dict[str, str] = {}
        self.made: dict[Step, str] = {}

    def domains(self, text: str) -> tuple[IterDomain, ...]:
        """Domains from a text such as ``"M bN rK"``, ids in order."""
        kinds = {"b": IterType.Broadcast, "r": IterType.Reduction}
        made = []
        for word in text.split():
            kind = kinds.get(word[0], IterType.Iteration)
            made.append(self.domain(word[-1], kind))
        return tuple(made)

    def domain(self, name: str, kind: IterType = IterType.Iteration) -> IterDomain:
        """The next domain, of an extent of this name."""
        self.next_id += 1
        return IterDomain(self.next_id - 1, Var(name), name, kind)

    def input(self, b: TensorBinding, text: str, exchanged: bool, scales: Sequence[Scale]) -> str:
        """An input of such dimensions, or that blocks of an operand count times, as :class:`Scale`
        says it lies.
        """
        scale = next((s for s in scales if b.tensor in s.tensors), None)
        if scale is None:
            return self.add(b.dtype, MemoryType.Global, text, exchanged)
        along = next(axis for axis in b.axes if axis.startswith(SUMMED))
        (rows,) = (axis for axis in b.axes if axis != along)
        order = (along, rows) if scale.rows == 1 else (rows, along)
        domains, name = tuple(map(self.domain, order)), f"T{len(self.tensors)}"
        self.tensors.append(TensorView(name, b.dtype, MemoryType.Global, domains, domains))
        return name

    def renamed(self, scales: Scales | None) -> Scales | None:
        """They with their tensors in the fusion."""
        if scales is None:
            return None
        left, right = (
            s and Scale(self.named[s.tensor], s.rows, self.named[s.zero] if s.zero else "")
            for s in scales
        )
        return left, right

    def add(self, dtype: DataType, memory: MemoryType, text: str, exchanged: bool = False) -> str:
        """A new tensor, the last two dimensions exchanged in memory if asked for; its name."""
        domains = self.domains(text)
        name = f"T{len(self.tensors)}"
        allocation = (*domains[:-2], *domains[:-3:-1]) if exchanged else ()
        self.tensors.append(
            TensorView(name, dtype, memory, domains, domains, allocation=allocation)
        )
        return name

    def tensor(self, name: str) -> TensorView:
        """The tensor of that name."""
        return self.tensors[int(name[1:])]

    def view(self, source: str, axes: frozenset[str], full: tuple[str, ...]) -> str:
        """An input of dimensions ``axes`` with those of ``full``, the others broadcast."""
        name = self.named[source]
        made = self.add(self.tensor(name).dtype, MemoryType.Global, _spread(axes, full))
        self.exprs.append(BroadcastOp(made, name, tuple(axis not in axes for axis in full)))
        return made

    def operand(self, steps: Sequence[Step], full: tuple[str, ...]) -> str:
        """What these steps compute of an input, before the mma reads it."""
        for s in steps:
            if s.op == "input":
                self.made[s] = self.view(s.source, s.spread, full)
            else:
                self.step(s, MemoryType.Local, full)
        return self.made[steps[-1]]

    def step(self, s: Step, where: MemoryType, memory: tuple[str, ...]) -> None:
        """The expression of a cast or pointwise step."""
        inputs = tuple(self.made[x] if isinstance(x, Step) else x for x in s.inputs)
        if s.op in REDUCED and isinstance(inputs[0], str):
            text = " ".join(axis if axis in s.spread else f"r{axis}" for axis in memory)
            self.made[s] = name = self.add(s.dtype, where, text)
            self.exprs.append(ReductionOp(name, inputs[0], REDUCED[s.op], s.rounded))
            return
        self.made[s] = name = self.add(s.dtype, where, _spread(s.spread, memory))
        if s.op == "index" and s.places is not None:
            factors = dict(s.places.terms)
            each = tuple(factors.get(axis, 0) for axis in memory)
            self.exprs.append(IndexOp(name, each, -s.places.first))
            return
        if s.op == "cast" and isinstance(inputs[0], str):
            self.exprs.append(CastOp(name, inputs[0]))
        else:
            self.exprs.append(PointwiseOp(name, s.op, inputs))

    def finish(self, outputs: Sequence[Step], memory: tuple[str, ...]) -> Emitted:
        """Copies for the outputs that are not stored directly.

        Where reductions alone read products that are stored, these are rounded once more for
        memory: so stores have loops of their own, and no chunk is held for both.
        """
        names, reduced = [], [s for s in outputs if s.op in REDUCED]
        apart = reduced and all(s in reduced or _summed_up(s) for s in outputs)
        for s in outputs:
            name = self.made[s]
            if self.tensor(name).memory is not MemoryType.Global or name in self.named.values():
                text = _axes(s.spread, memory)
                copy = self.add(s.dtype, MemoryType.Global, text)
                if apart and (of := _summed_up(s)):
                    self.exprs.append(CastOp(copy, self.made[of]))
                else:
                    self.exprs.append(LoadStoreOp(copy, name, LoadStoreOpType.Set))
                name = copy
            names.append(name)
        return Emitted(
            tuple(self.tensors),
            Exprs(self.exprs),
            tuple(self.tensor(n) for n in names),
            self.next_id,
        )
