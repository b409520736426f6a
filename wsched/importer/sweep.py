"""From a definition of pointwise operations to a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.fusion.sweep import Place, Sweep, Term
from wsched.importer.definition import Definition, Node, Ref, text_of
from wsched.importer.epilogue import EpilogueImport, Key, Making
from wsched.importer.ranks import Ranks
from wsched.importer.steps import Dims, Operand, Step

__all__ = ["import_sweep"]

_STORED = (DataType.BFloat16, DataType.Half, DataType.Float, DataType.Bool)


def import_sweep(definition: Definition, orders: Sequence[tuple[int, ...]] = ()) -> Sweep:
    """The sweep that a definition is: all its results have one shape, and each element is made of
    elements at its place. A dimension along which no input differs is taken to be of size 1.

    Its inputs are those of the definition that something reads, which all are.

    Args:
        definition: without a matmul.
        orders: of each result in memory, its dimensions outermost first; by default row by row.

    Raises:
        UnsupportedError: it is none, or has an operation, a type or a use that is not supported.
    """
    definition.check_complete()
    steps = _Import(definition, {}, DataType.Float, where="of a sweep")
    ranks = {steps.ranks.of(Ref(name)) for name in definition.outputs}
    if len(ranks) > 1:
        raise UnsupportedError("results of several ranks", "results of one shape")
    rank = ranks.pop()
    steps.dims = tuple(f"d{n}" for n in range(rank))
    made = [steps.made(name) for name in definition.outputs]
    return _Writer(definition, steps).sweep(made, orders or [tuple(range(rank))] * len(made))


@dataclass
class _Import(EpilogueImport):
    """Steps of a sweep."""

    LOADED: ClassVar[tuple[DataType, ...]] = _STORED

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ranks = Ranks(self.definition, 0)

    def made(self, name: str) -> Step:
        """The step of a result."""
        step = self.operand(Ref(name), self.dims)
        if not isinstance(step, Step):
            raise UnsupportedError(f"the output {name}, which is a number,", "computed outputs")
        if step.dtype not in _STORED:
            raise UnsupportedError(
                f"the output {name} of {step.dtype}", ", ".join(map(str, _STORED))
            )
        return step

    def node(self, key: Key) -> Making:
        """A permutation, or what an epilogue may have, too."""
        name, dims = key
        node = self.definition.node(name)
        if node is None or node.op != "permute":
            return (yield from super().node(key))
        places = node.argument("dims", 1)
        if not isinstance(places, tuple) or len(places) != len(dims):
            raise UnsupportedError(
                f"fd.ops.permute to {text_of(places)}", f"{len(dims)} dimensions"
            )
        inner = [""] * len(dims)
        for at, place in enumerate(places):
            inner[int(str(place)) % len(dims)] = dims[at]
        return (yield from self.asked(node.operands[0], tuple(inner)))

    def check_shape(self, node: Node, dims: Dims) -> None:
        """An expand goes to the index space, wherever it stands."""


@dataclass
class _Writer:
    """Steps as terms of a sweep."""

    definition: Definition
    steps: _Import
    names: dict[Step, str] = field(default_factory=dict)

    def sweep(self, made: list[Step], orders: Sequence[tuple[int, ...]]) -> Sweep:
        """All of them, the inputs first, in the order of the definition."""
        steps, inputs = self.steps, self._inputs()
        for s in [*inputs, *(s for s in steps.steps if s.op != "input")]:
            self.names[s] = f"v{len(self.names)}"
        at = {d: n for n, d in enumerate(steps.dims)}
        terms = tuple(
            Term(name, s.op, s.dtype, tuple(map(self._operand, s.inputs)), _numbers(s.spread, at))
            for s, name in self.names.items()
        )
        reads = tuple(Place(self.names[s], tuple(at.get(a) for a in s.axes)) for s in inputs)
        if len({s.spread for s in made}) > 1:
            raise UnsupportedError("results that differ along several dimensions", "of one shape")
        has = tuple(n if d in made[0].spread else None for d, n in at.items())
        writes = (Place(self.names[s], has, o) for s, o in zip(made, orders, strict=True))
        return Sweep(len(at), terms, reads, tuple(writes))

    def _inputs(self) -> list[Step]:
        found = {s.source: s for s in self.steps.steps if s.op == "input"}
        order = [n.results[0] for n in self.definition.inputs]
        if set(found) != set(order):
            unread = ", ".join(n for n in order if n not in found)
            raise UnsupportedError(f"the input {unread}, which nothing reads,", "inputs that are")
        return [found[name] for name in order]

    def _operand(self, x: Operand) -> str | float:
        return self.names[x] if isinstance(x, Step) else x


def _numbers(spread: frozenset[str], at: dict[str, int]) -> frozenset[int]:
    return frozenset(at[d] for d in spread)
