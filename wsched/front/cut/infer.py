"""Types and extents of all tensors of a definition, found from its inputs, operation by operation.

nvFuser knows them too, of live definitions; a text has no nvFuser behind it. What an operation does
to sizes is in :mod:`wsched.front.cut.shapes`, to types in :mod:`wsched.front.cut.dtypes`. Sizes
that an operation demands to be equal become one symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import add, floordiv, mul, sub

from lowering.ground.expr import Const, Expr, Var, free_vars, maximum, minimum, substitute
from wsched.front.cut.shapes import SHAPES, Dims, pointwise
from wsched.front.cut.tensors import Dim, Tensors, TensorType
from wsched.fusion import DataType
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
from wsched.importer.dtypes import result_types

__all__ = ["infer"]

_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": add, "sub": sub, "mul": mul, "div": floordiv, "minimum": minimum, "maximum": maximum,
}  # fmt: skip

_MAKES = ("full", "iota", "normal", "uniform")
"""What makes a tensor from numbers."""

_BY_ZERO = "div", Const(0)


def infer(definition: Definition) -> Tensors:
    """The tensors of a definition. What cannot be told is left open, nothing is refused.

    A dimension of an input whose size the definition leaves open is a symbol ``i0``, ``i1``, ...
    """
    walk = _Inference()
    for node in definition.nodes:
        walk.visit(node)
    for output, into in definition.into.items():
        for a, b in zip(walk.dims(Ref(output)) or (), walk.dims(Ref(into)) or (), strict=False):
            walk.same(a.extent, b.extent)
    return walk.settled()


@dataclass(slots=True)
class _Inference:
    """The walk; see ``Sizes`` in the rules for what they may ask."""

    types: dict[str, TensorType] = field(default_factory=dict)
    numbers: dict[str, Expr] = field(default_factory=dict)
    lists: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    _same: dict[Var, Expr] = field(default_factory=dict)
    _symbols: int = 0

    def visit(self, node: Node) -> None:
        """Enter the results of an operation."""
        if node.op == "define_tensor":
            self.types[node.results[0]] = self._declared(node)
        elif node.op == "define_scalar":
            value = node.operands[:1]
            if value and isinstance(value[0], int):
                self.numbers[node.results[0]] = Const(int(value[0]))
        elif node.op == "size":
            self._size(node)
        elif node.op == "shape":
            tensor = self._tensor(node.operands[0])
            found = [d.extent for d in tensor.dims or ()] if tensor else [None]
            known = tuple(e for e in found if e is not None)
            if len(known) == len(found):
                self.lists[node.results[0]] = known
        elif node.op in _MAKES or any(self._tensor(v) is not None for v in node.values):
            self._computed(node)
        else:
            self._number(node)

    def settled(self) -> Tensors:
        """What was found, each extent by one symbol."""
        self._same = {v: self._closed(e) for v, e in self._same.items()}

        def dim(d: Dim) -> Dim:
            extent = None if d.extent is None else substitute(d.extent, self._same)
            return Dim(extent, d.repeated)

        types = {
            name: TensorType(t.dtype, None if t.dims is None else tuple(map(dim, t.dims)))
            for name, t in self.types.items()
        }
        numbers = {n: substitute(e, self._same) for n, e in self.numbers.items()}
        return Tensors(types, numbers)

    # --- what the rules ask ---------------------------------------------------------------------

    def dims(self, value: Value) -> Dims | None:
        """Dimensions of an operand; of a number none."""
        if not isinstance(value, Ref) or value.name not in self.types:
            return ()
        return self.types[value.name].dims

    def number(self, value: Value) -> Expr | None:
        """A size; None if it is not known."""
        if isinstance(value, Ref):
            return self.numbers.get(value.name)
        if isinstance(value, float) and value.is_integer():
            return Const(int(value))
        return Const(value) if isinstance(value, int) and not isinstance(value, bool) else None

    def sizes(self, value: Value) -> tuple[Expr | None, ...] | None:
        """A list of sizes; None if not even its length is known."""
        if isinstance(value, Ref):
            return self.lists.get(value.name)
        return tuple(map(self.number, value)) if isinstance(value, tuple) else None

    def same(self, a: Expr | None, b: Expr | None) -> None:
        """Note that two extents are equal."""
        if a is None or b is None:
            return
        a, b = self._resolved(a), self._resolved(b)
        if isinstance(b, Var):
            a, b = b, a
        if a == b or not isinstance(a, Var) or a in free_vars(self._closed(b)):
            return  # no call has sizes of which one is a sum of itself and another
        self._same[a] = b

    def are_same(self, a: Expr | None, b: Expr | None) -> bool:
        """Whether two extents are known to be equal."""
        return a is not None and b is not None and self._closed(a) == self._closed(b)

    # --- kinds of nodes -------------------------------------------------------------------------

    def _closed(self, e: Expr) -> Expr:
        """An extent in which no symbol is left that is known to be another extent."""
        while not self._same.keys().isdisjoint(free_vars(e)):
            e = substitute(e, self._same)
        return e

    def _resolved(self, e: Expr) -> Expr:
        while isinstance(e, Var) and e in self._same:
            e = self._same[e]
        return e

    def _tensor(self, value: Value) -> TensorType | None:
        return self.types.get(value.name) if isinstance(value, Ref) else None

    def _declared(self, node: Node) -> TensorType:
        shape, dtype = node.get("shape"), node.get("dtype", DataType.Float)
        kind = dtype if isinstance(dtype, DataType) else None
        if not isinstance(shape, tuple):
            return TensorType(kind, None)
        spread = _broadcast(node, len(shape))
        dims = []
        for at, size in enumerate(shape):
            if isinstance(size, int) and size >= 0:
                extent: Expr = Const(size)
            else:
                extent = Var(f"i{self._symbols}")
                self._symbols += 1
            dims.append(Dim(extent, spread[at] and extent != Const(1)))
        return TensorType(kind, tuple(dims))

    def _size(self, node: Node) -> None:
        values = node.arguments
        dims, at = self.dims(values[0]), values[1] if len(values) > 1 else None
        if dims is not None and isinstance(at, int) and -len(dims) <= at < len(dims):
            extent = dims[at].extent
            if extent is not None:
                self.numbers[node.results[0]] = extent

    def _computed(self, node: Node) -> None:
        tensors = [t for v in node.values if (t := self._tensor(v)) is not None]
        real = any(self._is_real(v) for v in node.operands)
        kinds = result_types(node, [t.dtype for t in tensors], real)
        rule = SHAPES.get(node.op)
        shapes = pointwise(self, node) if rule is None else rule(self, node)
        for name, kind, dims in zip(node.results, kinds, shapes, strict=False):
            self.types[name] = TensorType(kind, dims)

    def _is_real(self, value: Value) -> bool:
        if isinstance(value, Ref):
            return value.name not in self.types and value.name not in self.numbers
        return isinstance(value, float)

    def _number(self, node: Node) -> None:
        """A number that is computed from numbers."""
        found = [self.number(v) for v in node.operands]
        known = [e for e in found if e is not None]
        if not known or len(known) < len(found):
            return
        if node.op == "cast":
            self.numbers[node.results[0]] = known[0]
        elif node.op == "neg":
            self.numbers[node.results[0]] = Const(0) - known[0]
        elif node.op in _ARITHMETIC and len(known) == 2 and (node.op, known[1]) != _BY_ZERO:
            self.numbers[node.results[0]] = _ARITHMETIC[node.op](*known)


def _broadcast(node: Node, rank: int) -> list[bool]:
    """Which dimensions of an input have no memory of their own: contiguity None, by strides."""
    contiguity, order = node.get("contiguity"), node.get("stride_order")
    if not isinstance(contiguity, tuple) or len(contiguity) != rank:
        return [False] * rank
    by_stride = range(rank)[::-1] if not isinstance(order, tuple) or len(order) != rank else order
    return [contiguity[rank - 1 - int(str(by_stride[at]))] is None for at in range(rank)]
