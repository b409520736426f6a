"""A matmul of any rank as one of matrices, or of batches of matrices.

Dimensions that lie side by side in every tensor of a kernel are one to it: the rows of ``linear``
of ``[*, K]``, the batches of ``[*, M, K]`` and ``[*, K, N]``. A vector is a matrix of one row. The
kernel's part of a definition is written anew with such shapes, and says which tensors it sees in
another shape than the definition; a tensor that does not lie so is copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Expr
from wsched.front.cut.forms import BEFORE_OPERANDS, Form, form_of, product_of
from wsched.front.cut.tensors import TensorType, dense_input
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
from wsched.importer.dimensions import reduced_dims
from wsched.importer.ops import MATMULS
from wsched.importer.steps import REDUCED

__all__ = ["Seen", "flattened"]

Seen = tuple[tuple[str, tuple[Expr, ...]], ...]
"""Names of tensors and the extents in which a kernel sees them."""

Places = tuple[int | None, ...]
"""For each dimension of a tensor the place of the result's that it is; None of size 1 alone."""


def flattened(definition: Definition, types: Mapping[str, TensorType]) -> tuple[Definition, Seen]:
    """A definition with tensors of as many dimensions as kernels have.

    Args:
        definition: a kernel's part.
        types: of its tensors.

    Returns:
        It, itself where it needs no other shapes, and the shapes of inputs and outputs that differ.

    Raises:
        UnsupportedError: batches that are not one behind the other in all tensors.
    """
    matmuls = tuple(n for n in definition.nodes if n.op in MATMULS)
    forms = [form_of(definition, n, types) for n in matmuls]
    known = [f for f in forms if f is not None]
    if not known:
        return definition, ()
    if len(known) < len(forms) or len({(f.runs, f.extra, f.spread) for f in known}) > 1:
        raise UnsupportedError("matmuls of different ranks in a kernel", "matmuls of one rank")
    result = types[matmuls[0].results[0]].dims or ()
    return _Writer(definition, types, matmuls, tuple(known), len(result)).written()


@dataclass(slots=True)
class _Writer:
    """Writes a definition anew.

    Args:
        definition: a kernel's part.
        types: of its tensors.
        matmuls: of it.
        forms: how each is written; they merge alike.
        rank: dimensions of their results.
    """

    definition: Definition
    types: Mapping[str, TensorType]
    matmuls: tuple[Node, ...]
    forms: tuple[Form, ...]
    rank: int

    @property
    def form(self) -> Form:
        """What they have in common."""
        return self.forms[0]

    @property
    def _runs(self) -> list[range]:
        """The result's dimensions that become one, and those behind them that become another."""
        ends = [*accumulate(self.form.runs, initial=0)]
        return [range(*pair) for pair in pairwise(ends)]

    def written(self) -> tuple[Definition, Seen]:
        places = self._places()
        operands = self._operands()
        seen: list[tuple[str, tuple[Expr, ...]]] = []
        nodes: list[Node] = []
        needed = self._needed()
        for node in self.definition.nodes:
            (name, *_) = node.results
            if name not in needed:
                continue
            if node in self.matmuls:
                nodes += self._product(node)
            elif name in operands:
                extents = operands[name]
                nodes.append(self._of_operand(node, extents))
                if node.op == "define_tensor" and extents != self._extents(name):
                    seen.append((name, extents))
            elif name in places:
                nodes.append(self._beside(node, places))
                extents = self._merged(name, places[name])
                if node.op == "define_tensor" and extents != self._extents(name):
                    seen.append((name, extents))
            else:
                nodes.append(node)
        for name in self.definition.outputs:
            extents = self._merged(name, places[name])
            seen.append((name, (*(ONE for _ in range(self.form.extra)), *extents)))
        return Definition(tuple(nodes), self.definition.outputs), tuple(seen)

    # --- what stands for what -------------------------------------------------------------------

    def _places(self) -> dict[str, Places]:
        """Of each tensor beside the operands, which dimensions of the result its own are."""
        found: dict[str, Places] = {}
        whole = tuple(range(self.rank))
        for name in (*self.definition.outputs, *(n.results[0] for n in self.matmuls)):
            if len(self._extents(name)) != self.rank:
                raise UnsupportedError(f"the result {name}", "results of the matmul's shape")
            found[name] = whole
        for node in reversed(self.definition.nodes):
            if node.results[0] not in found or node.op == "define_tensor":
                continue
            for name, places in self._read(node, found[node.results[0]]):
                if found.setdefault(name, places) != places:
                    raise UnsupportedError(
                        f"{name} along different dimensions", "one way to read it"
                    )
        return found

    def _read(self, node: Node, places: Places) -> list[tuple[str, Places]]:
        """The same of what an operation reads."""
        names = [n for n in node.refs if n in self.types]
        if node in self.matmuls:
            return [(n, places[-1:]) for n in names[2:]]  # the bias
        match node.op:
            case "broadcast":
                flags = node.get("is_broadcast_dim")
                new = flags if isinstance(flags, tuple) else ()
                return [(names[0], tuple(p for p, n in zip(places, new, strict=True) if not n))]
            case "broadcast_in_dim":
                into = node.get("broadcast_dims")
                at = [p for p in into if isinstance(p, int)] if isinstance(into, tuple) else []
                return [(names[0], tuple(places[p] for p in at))]
            case "squeeze":
                rank = len(self._extents(names[0]))
                said = node.get("dims")
                dims = said if isinstance(said, tuple) else ()
                gone = {d % rank for d in dims if isinstance(d, int)}
                left = iter(places)
                return [(names[0], tuple(None if d in gone else next(left) for d in range(rank)))]
            case "stride_order" if node.get("stride_order") != _rows_of(len(places)):
                raise UnsupportedError(f"{node.results[0]} in another stride order", "row by row")
            case "permute" | "reshape":
                raise UnsupportedError(f"fd.ops.{node.op} in an epilogue", "pointwise operations")
        return [(n, places[len(places) - len(self._extents(n)) :]) for n in names]

    def _operands(self) -> dict[str, tuple[Expr, ...]]:
        """The operands and what they are transposed from, with their extents."""
        found: dict[str, tuple[Expr, ...]] = {}
        pairs = [
            pair
            for matmul, form in zip(self.matmuls, self.forms, strict=True)
            for pair in zip(matmul.refs[:2], (form.first, form.second), strict=True)
        ]
        for name, extents in pairs:
            node = self.definition.node(name)
            while node is not None:
                found[node.results[0]] = extents
                if node.op not in BEFORE_OPERANDS:
                    break
                if node.op == "permute":
                    extents = (*extents[:-2], *extents[:-3:-1])
                node = self.definition.node(node.refs[0])
        return found

    def _needed(self) -> set[str]:
        """Names that the matmul and the results need once sizes are implied."""
        pending, found = [*self.definition.outputs], set[str]()
        while pending:
            node = self.definition.node(pending.pop())
            if node is not None and node.results[0] not in found:
                found |= set(node.results)
                moves = node.op in ("broadcast_in_dim", "expand")
                pending += node.refs[:1] if moves else node.refs
        return found

    # --- shapes ---------------------------------------------------------------------------------

    def _extents(self, name: str) -> tuple[Expr, ...]:
        return tuple(d.extent or ONE for d in self.types[name].dims or ())

    def _kept(self, places: Places) -> Places:
        """With each run of dimensions as one, whose place is that of its first."""
        kept: list[int | None] = []
        for place in places:
            of = next((run.start for run in self._runs if place in run), place)
            if of is None or of not in kept:
                kept.append(of)
        return tuple(kept)

    def _merged(self, name: str, places: Places) -> tuple[Expr, ...]:
        """The extents of a tensor with each run of dimensions as one."""
        extents = [*self._extents(name)]
        result = self._extents(self.matmuls[0].results[0])
        for run in reversed(self._runs):
            inside = [at for at, p in enumerate(places) if p in run]
            if not inside:
                continue
            ones = {extents[at] == ONE for at in inside}
            mixed = (
                len(run) > 1
                and ones != {True}
                and any((extents[at] == ONE) != (result[places[at] or 0] == ONE) for at in inside)
            )
            first = inside[0]
            if [places[at] for at in inside] != [*run] or inside[-1] - first >= len(run) or mixed:
                raise UnsupportedError(
                    f"{name} along some of the dimensions that are the rows or the batches of "
                    f"fd.ops.{self.matmuls[0].op}",
                    "along all of them, or none",
                )
            extents[first : first + len(run)] = [product_of(extents[first : first + len(run)])]
        return tuple(extents)

    # --- operations -----------------------------------------------------------------------------

    def _product(self, node: Node) -> list[Node]:
        """The product, behind broadcasts of operands that have not all batches."""
        a, b = node.factors
        if self.form.swapped:
            return [replace(node, op="linear", operands=(b, a))]
        made, operands = list[Node](), list[Value]()
        for at, (value, flags) in enumerate(zip((a, b), self.form.spread, strict=True)):
            operands.append(value)
            if any(flags):
                name = f"{node.results[0]}@{at}"
                new = (("is_broadcast_dim", flags),)
                made.append(Node("broadcast", (name,), (value,), new, node.line))
                operands[-1] = Ref(name)
        return [*made, replace(node, operands=(*operands, *node.operands[2:]))]

    def _of_operand(self, node: Node, extents: tuple[Expr, ...]) -> Node:
        if node.op == "cast":
            return node
        if node.op == "permute":
            rows = tuple(range(len(extents)))
            order: Value = (*rows[:-2], *rows[:-3:-1])
            return replace(node, operands=node.operands[:1], kwargs=(("dims", order),))
        if node.op == "stride_order":
            return Node("set", node.results, node.operands[:1], (), node.line)
        by_columns = False
        order = node.get("stride_order")
        if isinstance(order, tuple):
            rows = _rows_of(len(order))
            by_columns = order == (*rows[:-2], *rows[:-3:-1])
        return _declared(node, extents, by_columns)

    def _beside(self, node: Node, places: Mapping[str, Places]) -> Node:
        name = node.results[0]
        extents = self._merged(name, places[name])
        match node.op:
            case "define_tensor":
                return _declared(node, extents)
            case "broadcast" | "broadcast_in_dim":
                source = self._kept(places[node.refs[0]])
                flags = tuple(p not in source for p in self._kept(places[name]))
                new = (("is_broadcast_dim", flags),)
                return Node("broadcast", node.results, node.operands[:1], new, node.line)
            case "squeeze":
                kept = self._kept(places[node.refs[0]])
                gone = tuple(at for at, p in enumerate(kept) if p is None)
                return Node(
                    "squeeze", node.results, node.operands[:1], (("dims", gone),), node.line
                )
            case "expand":
                return Node("set", node.results, node.operands[:1], (), node.line)
            case "stride_order":
                order = (("stride_order", _rows_of(len(extents))),)
                return replace(node, operands=node.operands[:1], kwargs=order)
            case op if op in REDUCED:
                return self._reduction(node, places[node.refs[0]])
        return node

    def _reduction(self, node: Node, places: Places) -> Node:
        """A reduction, which counts the dimensions that there are to a kernel."""
        over = {places[d] for d in reduced_dims(node, len(places))}
        if any(over & {*run} and not {*run} <= over for run in self._runs):
            what = f"fd.ops.{node.op} over some of the dimensions that are one to a kernel"
            raise UnsupportedError(what, "all of them, or none")
        kept = enumerate(self._kept(places), self.form.extra)
        dims = tuple(at for at, place in kept if place in over)
        others = tuple((key, v) for key, v in node.kwargs if key not in ("dims", "dim"))
        return replace(node, operands=node.operands[:1], kwargs=(*others, ("dims", dims)))


def _rows_of(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))[::-1]


def _declared(node: Node, extents: tuple[Expr, ...], by_columns: bool = False) -> Node:
    """An input in another shape, dense."""
    rows = _rows_of(len(extents))
    order = [("stride_order", (*rows[:-2], *rows[:-3:-1]))] if by_columns else []
    return dense_input(node.results[0], extents, node.get("dtype"), node.line, *order)
