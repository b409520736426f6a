"""From a definition without matmuls to a summary: reductions, and what is pointwise around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.fusion.summary import Extent, Result, Summary, Value
from wsched.importer.constants import number
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.dimensions import reduced_dims
from wsched.importer.epilogue import EpilogueImport, Key, Making
from wsched.importer.steps import REDUCED, Dims, Operand, Step, inputs_of

__all__ = ["import_summary"]

_STORED = (DataType.BFloat16, DataType.Half, DataType.Float)
_SHAPES = "values of a tensor, of what is kept of it, and single ones"


def import_summary(definition: Definition) -> Summary:
    """The summary that a definition is: reductions of tensors of one shape over the same
    dimensions, pointwise operations in front and behind.

    Its inputs are those of the definition. Dimensions of size 1 may stand for any.

    Raises:
        UnsupportedError: it is none, or has an operation, a type or a use that is not supported.
    """
    definition.check_complete()
    nodes = [n for n in definition.nodes if n.op in REDUCED]
    if not nodes:
        raise UnsupportedError("a definition without a reduction", "sum, max or min")
    steps = _Import(definition, {}, DataType.Float, where="of a summary")
    ranks = {steps.ranks.of(n.operands[0]) for n in nodes}
    if len(ranks) > 1:
        raise UnsupportedError("reductions of tensors of several ranks", "of one shape")
    rank = ranks.pop()
    runs = {frozenset(reduced_dims(n, rank)) for n in nodes}
    if len(runs) > 1:
        raise UnsupportedError("reductions over several dimensions", "over the same")
    steps.dims = tuple(f"d{n}" for n in range(rank))
    steps.over = frozenset(steps.dims[n] for n in runs.pop())
    made = [steps.made(name) for name in definition.outputs]
    return _Writer(definition, steps).summary(made)


@dataclass
class _Import(EpilogueImport):
    """Steps of a summary; ``over`` are the dimensions that are reduced."""

    ROUNDED: ClassVar[tuple[DataType, ...]] = ()

    over: frozenset[str] = frozenset()
    read: set[int] = field(default_factory=set)

    @property
    def kept(self) -> Dims:
        """The dimensions that are left."""
        return tuple(d for d in self.dims if d not in self.over)

    def made(self, name: str) -> tuple[Step, Dims]:
        """The step of a result and its dimensions."""
        rank = self.ranks.of(Ref(name))
        dims = {len(self.dims): self.dims, len(self.kept): self.kept}.get(rank)
        if dims is None:
            raise UnsupportedError(f"the output {name} with {rank} dimensions", _SHAPES)
        step = self.operand(Ref(name), dims)
        if not isinstance(step, Step):
            raise UnsupportedError(f"the output {name}, which is a number,", "computed outputs")
        if step.dtype not in _STORED:
            raise UnsupportedError(f"the output {name} of {step.dtype}", "BFloat16, Half, Float")
        return step, dims

    def node(self, key: Key) -> Making:
        """A reduction, or what an epilogue may have, too."""
        name, dims = key
        node = self.definition.node(name)
        if node is None or node.op not in REDUCED:
            return (yield from super().node(key))
        if dims not in (self.kept, self.dims):
            raise UnsupportedError(f"fd.ops.{node.op} as [{', '.join(dims)}]", _SHAPES)
        source = yield from self.asked(node.operands[0], self.dims)
        if not isinstance(source, Step):
            raise UnsupportedError(f"fd.ops.{node.op} of a number", "of tensors")
        asked = node.get("dtype")
        dtype = asked if isinstance(asked, DataType) else source.dtype
        if not {source.dtype, dtype} <= set(_STORED):
            what = f"fd.ops.{node.op} of {source.dtype} as {dtype}"
            raise UnsupportedError(what, "BFloat16, Half, Float")
        wide = self.cast(source, DataType.Float)
        made = Step(node.op, dtype, (wide,), source.spread - self.over)
        self.steps.append(made)
        return made

    def check_shape(self, node: Node, dims: Dims) -> None:
        """There is no result of a matmul that an expand may go to."""
        if node.op == "expand":
            raise UnsupportedError("fd.ops.expand in front of a reduction", "tensors as they are")


@dataclass
class _Writer:
    """Steps as values of a summary."""

    definition: Definition
    steps: _Import
    extents: dict[Step, Extent] = field(default_factory=dict)
    names: dict[Step, str] = field(default_factory=dict)

    def summary(self, made: list[tuple[Step, Dims]]) -> Summary:
        """All of them, the inputs first, in the order of the definition."""
        steps = self.steps
        inputs = inputs_of(self.definition, steps.steps)
        used = frozenset().union(*(s.spread for s in inputs))
        self._require_spread(frozenset(steps.dims) - used)
        full, kept = used, used - steps.over
        for s in [*inputs, *(s for s in steps.steps if s.op != "input")]:
            self.extents[s] = self._extent(s, full, kept)
            self.names[s] = f"v{len(self.names)}"
        dims = self._dims(inputs)
        values = tuple(
            Value(self.names[s], s.op, s.dtype, tuple(map(self._operand, s.inputs)), e)
            for s, e in self.extents.items()
        )
        places = {d: at for at, d in enumerate(dims) if d in steps.dims}
        results = tuple(self._result(step, own, used, places) for step, own in made)
        if len({r.value for r in results}) < len(results):
            raise UnsupportedError("a value that is two results", "different results")
        over = tuple(at for d, at in places.items() if d in steps.over)
        return Summary(len(dims), over, values, results)

    def _require_spread(self, alone: frozenset[str]) -> None:
        """Refuse a broadcast to more than one element along a dimension that no input has: what is
        reduced would be one of them, and a result have a single one.
        """
        steps = self.steps
        for node in self.definition.nodes if alone else ():
            if node.op != "broadcast_in_dim":
                continue
            shape = node.argument("shape", 1)
            sizes = shape if isinstance(shape, tuple) else ()
            dims = {len(steps.dims): steps.dims, len(steps.kept): steps.kept}.get(len(sizes), ())
            pairs = zip(sizes, dims, strict=False)
            if not dims or any(d in alone and number(self.definition, n) != 1 for n, d in pairs):
                what = f"line {node.line}: fd.ops.broadcast_in_dim along what no input has"
                raise UnsupportedError(what, "tensors as they are")

    def _dims(self, inputs: list[Step]) -> Dims:
        """The dimensions of the tensors that are reduced, where a ``squeeze`` is in front of that
        with those of size 1.
        """
        found = {s.axes for s in inputs if self.extents[s] is Extent.TENSOR}
        if all(len(axes) == len(self.steps.dims) for axes in found):
            return self.steps.dims
        if len(found) > 1:
            raise UnsupportedError("tensors of several shapes", "reductions of tensors of one")
        return found.pop()

    def _extent(self, step: Step, full: frozenset[str], kept: frozenset[str]) -> Extent:
        """Where a step differs; one that follows a reduction has what is kept."""
        behind = [self.extents[x] for x in step.inputs if isinstance(x, Step)]
        if step.op in REDUCED:
            if behind != [Extent.TENSOR]:
                raise UnsupportedError(f"fd.ops.{step.op} of a reduction", "of tensors")
            return Extent.KEPT
        if step.spread == full and full > kept:
            if Extent.KEPT in behind:
                raise UnsupportedError(
                    f"fd.ops.{step.op} of a tensor and its reduction", "reductions of tensors"
                )
            if step.op != "input" and set(behind) - {Extent.TENSOR, Extent.ONE}:
                raise UnsupportedError(f"fd.ops.{step.op} in front of a reduction", _SHAPES)
            return Extent.TENSOR
        small = Extent.TENSOR not in behind and step.spread <= kept
        if small and (Extent.KEPT in behind or (step.spread == kept and kept)):
            return Extent.KEPT
        if step.spread or not small:
            raise UnsupportedError(f"a value of [{', '.join(sorted(step.spread))}]", _SHAPES)
        return Extent.ONE

    def _operand(self, x: Operand) -> str | float:
        return self.names[x] if isinstance(x, Step) else x

    def _result(
        self, step: Step, dims: Dims, used: frozenset[str], places: Mapping[str, int]
    ) -> Result:
        if self.extents[step] is not Extent.KEPT:
            raise UnsupportedError("a result that no reduction has a part in", "reductions")
        alone = [None if d in self.steps.over or d not in used else places[d] for d in dims]
        return Result(self.names[step], tuple(alone))
