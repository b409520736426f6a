"""From a definition of pointwise operations to a sweep.

Rows that an index selects are selected from inputs: an ``index_select`` of what is computed element
by element is that of what it is computed from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.fusion.sweep import Place, Sweep, Term
from wsched.importer.definition import Definition, Node, Ref, text_of
from wsched.importer.dimensions import reduced_dims
from wsched.importer.epilogue import EpilogueImport, Key, Making
from wsched.importer.ops import HALVES
from wsched.importer.ranks import argument_of
from wsched.importer.steps import REDUCED, Dims, Operand, Step, inputs_of

__all__ = ["import_sweep"]

_FLOATS = (DataType.BFloat16, DataType.Half, DataType.Float)
_STORED = (*_FLOATS, DataType.Bool)
_INDEX = (DataType.Int, DataType.Int32)
_MOMENTS = {"var": ("var",), "var_mean": ("var", "mean"), "welford": ("mean", "squares", "count")}
"""Operations about how far the elements of a row lie apart, and what they result in."""
_REDUCING = frozenset((*REDUCED, *_MOMENTS))
_BY = "@"
"""Between a dimension of the index space and the index that says which place is read there."""


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
    steps.over = steps.rows()
    made = [steps.made(name) for name in definition.outputs]
    orders = orders or [tuple(range(rank))] * len(made)
    steps.check_rows(made, orders)
    return _Writer(definition, steps).sweep(made, orders)


@dataclass
class _Import(EpilogueImport):
    """Steps of a sweep; ``over`` are the dimensions of rows that are reduced, ``by_index`` the one
    whose places are looked up.
    """

    LOADED: ClassVar[tuple[DataType, ...]] = _STORED

    over: frozenset[str] = frozenset()
    by_index: str = ""

    def made(self, name: str) -> Step:
        """The step of a result."""
        step = self.operand(Ref(name), self.dims)
        if not isinstance(step, Step):
            raise UnsupportedError(f"the output {name}, which is a number,", "computed outputs")
        known = (*_STORED, *self.ROUNDED)
        if step.dtype not in known:
            raise UnsupportedError(f"the output {name} of {step.dtype}", ", ".join(map(str, known)))
        return step

    def node(self, key: Key) -> Making:
        """A permutation, or what an epilogue may have, too."""
        name, dims = key
        node = self.definition.node(name)
        if node is not None and node.op in _REDUCING:
            return (yield from self._reduced(node, name, dims))
        if node is not None and node.op == "index_select":
            return (yield from self.asked(node.operands[0], self._looked_up(node, dims)))
        if node is not None and node.op == "uniform":
            return (yield from self._random(node, dims))
        if node is not None and node.op == HALVES:
            return (yield from self._halves(node, dims))
        if node is None or node.op != "permute":
            return (yield from super().node(key))
        places = node.get("dims")
        if not isinstance(places, tuple) or len(places) != len(dims):
            raise UnsupportedError(
                f"fd.ops.permute to {text_of(places)}", f"{len(dims)} dimensions"
            )
        inner = [""] * len(dims)
        for at, place in enumerate(places):
            inner[int(str(place)) % len(dims)] = dims[at]
        return (yield from self.asked(node.operands[0], tuple(inner)))

    def scalar(self, node: Node) -> Step:
        """A run-time scalar; a seed or an offset, which nothing else reads, as it is."""
        readers = [n.op for n in self.definition.nodes if node.results[0] in n.refs]
        if node.get("dtype") is DataType.Int and {*readers} == {"uniform"}:
            return self._input(node.results[0], DataType.Int, (), (), weak=True)
        return super().scalar(node)

    def input(self, node: Node, dims: Dims) -> Step:
        """An input, or of one whose rows an index says those rows."""
        looked = [d for d in dims if _BY in d]
        if not looked:
            return super().input(node, dims)
        place, _, by = looked[0].partition(_BY)
        if self.by_index not in ("", place) or len(looked) > 1:
            raise UnsupportedError(f"{by} along another dimension", "indices along one dimension")
        self.by_index = place
        table = super().input(node, tuple(place + _BY if d in looked else d for d in dims))
        if place + _BY not in table.axes:
            raise UnsupportedError(f"a table of one row, {node.results[0]}", "of any number")
        kind = _made(self.definition, by).get("dtype")
        assert isinstance(kind, DataType)
        index = self._input(by, kind, (place,), (place,), weak=False)
        key = ("index_select", table, index)
        if key not in self._same:
            spread = (table.spread - {place + _BY}) | {place}
            self._same[key] = Step("index_select", table.dtype, (table, index), spread)
            self.steps.append(self._same[key])
        return self._same[key]

    def _looked_up(self, node: Node, dims: Dims) -> Dims:
        """The dimensions along which what rows are selected of is read.

        Raises:
            UnsupportedError: the index is no input [n] of Int or Int32.
        """
        along, value = node.get("dim"), node.argument("index", 1)
        index = self.definition.node(value.name) if isinstance(value, Ref) else None
        while index is not None and index.op == "set" and index.refs:
            index = self.definition.node(index.refs[0])
        shape = index.get("shape") if index is not None and index.op == "define_tensor" else None
        at = along % len(dims) if isinstance(along, int) else -1
        if (
            index is None or not isinstance(shape, tuple) or len(shape) != 1
            or index.get("dtype") not in _INDEX
        ):  # fmt: skip
            raise UnsupportedError(
                f"fd.ops.index_select by {text_of(value)}", "by an input [n] of Int or Int32"
            )
        if at < 0 or len(dims) < 2 or dims[at] not in self.dims or dims[at] in self.over:
            raise UnsupportedError(
                f"fd.ops.index_select along {text_of(along)} of [{', '.join(dims)}]",
                "along one dimension of results of several, which is not reduced",
            )
        return (*dims[:at], f"{dims[at]}{_BY}{index.results[0]}", *dims[at + 1 :])

    def _random(self, node: Node, dims: Dims) -> Making:
        """Numbers from 0 to 1 by their places, which are those of the results."""
        low, high = (self.numbers.of(x) for x in node.operands[:2])
        if (low, high) != (0.0, 1.0) or dims != self.dims:
            raise UnsupportedError(
                f"fd.ops.uniform from {low:g} to {high:g} as [{', '.join(dims)}]",
                "from 0 to 1, of the results' shape",
            )
        state = []
        for name in ("rng_seed", "rng_offset"):
            found = yield from self.asked(node.get(name), ())
            if not isinstance(found, Step) or found.dtype is not DataType.Int:
                raise UnsupportedError("fd.ops.uniform without seed and offset", "inputs of Int")
            state.append(found)
        drawn = Step("random", DataType.Float, tuple(state), frozenset(self.dims))
        self.steps.append(drawn)
        return drawn

    def _halves(self, node: Node, dims: Dims) -> Making:
        """The first of two tensors where the place along a dimension is 0, else the second."""
        at = node.get("dim")
        assert isinstance(at, int)
        if dims[at] not in self.dims or dims[at] in self.over:
            raise UnsupportedError(f"halves of [{', '.join(dims)}]", "halves that results have")
        inner = (*dims[:at], *dims[at + 1 :])
        first = yield from self.asked(node.operands[0], inner)
        second = yield from self.asked(node.operands[1], inner)
        if first is second:
            return first
        key = ("first", dims[at])
        if key not in self._same:
            self._same[key] = Step("first", DataType.Bool, (), frozenset((dims[at],)))
            self.steps.append(self._same[key])
        return self.pointwise("where", self._same[key], first, second)

    def rows(self) -> frozenset[str]:
        """The dimensions that reductions are over.

        Raises:
            UnsupportedError: these are several sets, or of tensors of another rank.
        """
        nodes = [n for n in self.definition.nodes if n.op in _REDUCING]
        found = {frozenset(reduced_dims(n, self.ranks.of(n.operands[0]))) for n in nodes}
        several = any(len(over) > 1 for over in found) or len(found) > 1
        if several or any(self.ranks.of(n.operands[0]) != len(self.dims) for n in nodes):
            raise UnsupportedError("reductions of several kinds", "over one dimension")
        return frozenset(self.dims[n] for over in found for n in over)

    def check_rows(self, made: Sequence[Step], orders: Sequence[tuple[int, ...]]) -> None:
        """Refuse results of reductions alone, which are summaries, and other orders of rows."""
        drawn = any(s.op == "random" for s in self.steps)
        if drawn and any(o != tuple(range(len(o))) for o in orders):
            raise UnsupportedError("random numbers in another order", "results row by row")
        if not self.over:
            return
        if any(not self.over <= s.spread for s in made):
            raise UnsupportedError("a result that is a reduction", "results that have whole rows")
        if any({self.dims[o[-1]]} != self.over for o in orders):
            raise UnsupportedError("rows that are not the last in memory", "contiguous rows")

    def _reduced(self, node: Node, name: str, dims: Dims) -> Making:
        """A value of each row, which whoever reads it spreads over the row."""
        source = yield from self.asked(node.operands[0], self._rows_of(node, dims))
        if not isinstance(source, Step) or not self.over & source.spread:
            raise UnsupportedError(f"fd.ops.{node.op} of what is the same in a row", "of rows")
        wide = self.cast(source, DataType.Float)
        assert isinstance(wide, Step)
        asked = node.get("dtype") if node.op in REDUCED else None
        to = asked if isinstance(asked, DataType) else source.dtype
        if not {source.dtype, to} <= set(_FLOATS):
            raise UnsupportedError(f"fd.ops.{node.op} of {source.dtype} as {to}", "floats")
        if node.op in REDUCED:
            return self._row(REDUCED[node.op], to, wide)
        if node.op != "welford" and source.dtype is not DataType.Float:
            raise UnsupportedError(
                f"fd.ops.{node.op} of {source.dtype}", "of what is cast to Float"
            )
        return self._moment(node, _MOMENTS[node.op][node.results.index(name)], wide)

    def _rows_of(self, node: Node, dims: Dims) -> Dims:
        """The dimensions along which what is reduced is read: results may have them in another
        order.

        Args:
            node: a reduction.
            dims: along which its result is read, with the one that it is over or without.

        Raises:
            UnsupportedError: it is over another dimension than rows are along.
        """
        (row,), rank = self.over, self.ranks.of(node.operands[0])
        (at,) = reduced_dims(node, rank)
        inner = dims if len(dims) == rank else (*dims[:at], row, *dims[at:])
        if inner[at] != row or sorted(inner) != sorted(self.dims):
            raise UnsupportedError(f"fd.ops.{node.op} as [{', '.join(dims)}]", "rows as they are")
        return inner

    def _moment(self, node: Node, asked: str, wide: Step) -> Step:
        """What is asked of a row's elements: their mean, or what their deviations from it come to,
        in a second pass, since a difference of sums has few digits where the mean is large.
        """
        if asked == "count":
            raise UnsupportedError("the count of fd.ops.welford", "its mean and squares")
        mean = self._row("mean", DataType.Float, wide)
        if asked == "mean":
            return mean
        apart = self.make("sub", DataType.Float, wide, mean)
        squares = self.make("mul", DataType.Float, apart, apart)
        if asked == "squares":
            return self._row("sum", DataType.Float, squares)
        correction = argument_of(node, "correction")
        if self.numbers.of(1 if correction is None else correction) != 0.0:
            said = "1, the default" if correction is None else text_of(correction)
            raise UnsupportedError(f"fd.ops.{node.op} with correction={said}", "correction=0")
        return self._row("mean", DataType.Float, squares)

    def _row(self, op: str, dtype: DataType, value: Step) -> Step:
        """A reduction, the one that there is if it was made before."""
        key = (op, dtype, value)
        if key not in self._same:
            self._same[key] = Step(op, dtype, (value,), value.spread - self.over)
            self.steps.append(self._same[key])
        return self._same[key]

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
        steps = self.steps
        inputs = inputs_of(self.definition, steps.steps)
        for s in [*inputs, *(s for s in steps.steps if s.op != "input")]:
            self.names[s] = f"v{len(self.names)}"
        at = {d: n for n, d in enumerate(steps.dims)}
        terms = tuple(
            Term(name, s.op, s.dtype, tuple(map(self._operand, s.inputs)), _numbers(s.spread, at))
            for s, name in self.names.items()
        )
        reads = tuple(
            Place(
                self.names[s], tuple(at.get(a.removesuffix(_BY)) for a in s.axes),
                table=any(a.endswith(_BY) for a in s.axes),
            )
            for s in inputs
        )  # fmt: skip
        if len({s.spread for s in made}) > 1:
            raise UnsupportedError("results that differ along several dimensions", "of one shape")
        has = tuple(n if d in made[0].spread else None for d, n in at.items())
        writes = (Place(self.names[s], has, o) for s, o in zip(made, orders, strict=True))
        over, by_index = _numbers(steps.over, at), at.get(steps.by_index)
        return Sweep(len(at), terms, reads, tuple(writes), over, by_index)

    def _operand(self, x: Operand) -> str | float:
        return self.names[x] if isinstance(x, Step) else x


def _made(definition: Definition, name: str) -> Node:
    node = definition.node(name)
    assert node is not None
    return node


def _numbers(spread: Iterable[str], at: dict[str, int]) -> frozenset[int]:
    return frozenset(at[d.removesuffix(_BY)] for d in spread)
