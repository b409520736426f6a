"""Matmuls of rows in groups: imported as one of matrices, and made a batch of groups behind that.

``fd.ops.grouped_mm`` of [M, K] and [G, K, N] multiplies the rows of each group with a matrix of its
own, and adds a row of [G, N] to them where there is a bias; what follows it is written for [M, N].
So the definition is read as that of a matmul, and of the fusion every tensor gets a dimension that
counts groups: rows have it in memory in one with M (:class:`~wsched.fusion.groups.Groups`), what is
the same for all rows is the same for all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Var
from wsched.fusion import (
    BroadcastOp,
    DataType,
    Fusion,
    FusionExpr,
    Groups,
    IterDomain,
    IterType,
    MemoryType,
    ReductionOp,
    TensorBinding,
    TensorView,
    inputs_of,
)
from wsched.fusion.names import BATCH, COLS, ROWS
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.operands import dtype_of, fixed_sizes
from wsched.importer.ops import GROUPED

__all__ = ["build_grouped", "grouped_matmuls"]

_CALL = f"fd.ops.{GROUPED}"
_FORM = "rows [M, K] by matrices [G, K, N], with the ends of G groups of rows"


def grouped_matmuls(definition: Definition) -> tuple[Node, ...]:
    """The grouped matmuls that outputs depend on, in the order of the definition."""
    found = definition.behind(definition.outputs)
    return tuple(n for n in definition.nodes if n.op == GROUPED and n.results[0] in found)


def build_grouped(definition: Definition, build: Callable[[Definition], Fusion]) -> Fusion:
    """The fusion of a definition with grouped matmuls of one first operand.

    Args:
        definition: what to import.
        build: imports one whose matmuls are of matrices.

    Raises:
        UnsupportedError: another form of it, other ends for each of several, something that has a
            value for each row, or what ``build`` refuses.
    """
    nodes = grouped_matmuls(definition)
    ends = {_ends(definition, n) for n in nodes}
    if len(ends) > 1:
        what = f"{_CALL} with the ends {' and '.join(sorted(ends))}"
        raise UnsupportedError(what, "the same ends for all")
    (name,) = ends
    weights = frozenset(
        w for n in nodes for w in (*_rewritten(definition, n), *_bias(definition, n))
    )
    plain = Definition(tuple(_plain(definition, weights, name)), definition.outputs)
    node = definition.node(name)
    assert node is not None
    fusion = build(plain)
    places = [n.results[0] for n in definition.inputs]
    bound = dict(zip((n.results[0] for n in plain.inputs), fusion.inputs, strict=True))
    operands = {bound[w].tensor for w in weights if w in bound}
    sizes = {fixed_sizes(n)[:1] for w in bound if w in weights and (n := definition.node(w))}
    lifted = _Lift(fusion, operands).fusion()
    tensor = f"T{len(fusion.tensors)}"
    (dim,) = _fresh(lifted, IterType.Iteration)
    view = TensorView(tensor, DataType.Int32, MemoryType.Global, (dim,), (dim,))
    of_ends = TensorBinding(tensor, (BATCH,), _agreed(fixed_sizes(node), sizes), DataType.Int32)
    inputs = dict(zip(bound, lifted.inputs, strict=True)) | {name: of_ends}
    return replace(
        lifted.updated((view,), next_id=lifted.next_id + 1),
        inputs=tuple(inputs[n] for n in places),
        groups=Groups(tensor, BATCH, ROWS),
    )


def _agreed(
    own: tuple[int | None, ...], others: Collection[tuple[int | None, ...]]
) -> tuple[int | None, ...]:
    """The number of groups that a definition fixes, if it does."""
    found = {n for sizes in (own, *others) for n in sizes if n is not None}
    if len(found) > 1:
        raise UnsupportedError(f"{_CALL} with {' and '.join(map(str, sorted(found)))} groups",
                               "an end for each matrix")  # fmt: skip
    return (found.pop() if found else None,)


def _ends(definition: Definition, node: Node) -> str:
    """Name of the ends, an input that nothing else reads."""
    others = [(k, v) for k, v in node.kwargs if k not in (*_NAMES, "bias") and v is not None]
    others += [(f"argument {p}", v) for p, v in enumerate(node.operands[3:], 3) if v is not None]
    if others:
        what = f"{_CALL} with {', '.join(f'{k}={text_of(v)}' for k, v in others)}"
        raise UnsupportedError(what, "mat1, mat2, offsets and bias")
    value = node.argument(_NAMES[2], 2)
    made = definition.node(value.name) if isinstance(value, Ref) else None
    shape = made.get("shape") if made is not None else None
    if made is None or made.op != "define_tensor" or not isinstance(shape, tuple):
        raise UnsupportedError(f"{_CALL} with offsets {value}", "an input")
    if len(shape) != 1 or dtype_of(made) is not DataType.Int32:
        what = f"{_CALL} with offsets of {len(shape)} dimensions, {dtype_of(made)}"
        raise UnsupportedError(what, "the ends of the groups, [G] of Int32")
    name = made.results[0]
    if any(name in n.refs and n.op != GROUPED for n in definition.nodes):
        raise UnsupportedError(f"{name}, the ends of groups, read by something else", _FORM)
    return name


_NAMES = ("mat1", "mat2", "offsets")


def _bias(definition: Definition, node: Node) -> tuple[str, ...]:
    """Name of what is added to the rows of each group, if there is something."""
    value = node.get("bias")
    if value is None:
        return ()
    made = definition.node(value.name) if isinstance(value, Ref) else None
    shape = made.get("shape") if made is not None and made.op == "define_tensor" else None
    if made is None or not isinstance(shape, tuple) or len(shape) != 2:
        raise UnsupportedError(f"{_CALL} with bias={text_of(value)}", "an input [G, N]")
    name = made.results[0]
    if any(name in n.refs and n.op != GROUPED for n in definition.nodes):
        raise UnsupportedError(f"{name}, a bias of groups, read by something else", _FORM)
    return (name,)


def _rewritten(definition: Definition, node: Node) -> Iterator[str]:
    """Names on the way of the second operand from its input, which lose the groups."""
    first, second = (node.argument(name, at) for at, name in enumerate(_NAMES[:2]))
    for operand, legal in ((first, ("define_tensor",)), (second, ("define_tensor", "permute"))):
        given = definition.node(operand.name) if isinstance(operand, Ref) else None
        if given is not None and given.op not in legal:
            supported = "an input" + (", or its transpose" if legal[1:] else " as it is")
            raise UnsupportedError(f"fd.ops.{given.op} on an operand of {_CALL}", supported)
    ranks = [_source_rank(definition, v) for v in (first, second)]
    if ranks != [2, 3]:
        raise UnsupportedError(f"{_CALL} of {ranks[0]} and {ranks[1]} dimensions", _FORM)
    value: Value = second
    while isinstance(value, Ref):
        made = definition.node(value.name)
        if made is None or made.op not in ("define_tensor", "permute"):
            op = value.name if made is None else f"fd.ops.{made.op}"
            raise UnsupportedError(f"{op} on an operand of {_CALL}", "an input, or its transpose")
        readers = [n for n in definition.nodes if value.name in n.refs]
        if any(n.op not in (GROUPED, "permute") for n in readers):
            raise UnsupportedError(f"{value.name} as operand of {_CALL} and in the epilogue",
                                   "one way to read it")  # fmt: skip
        yield made.results[0]
        value = made.operands[0] if made.op == "permute" else None


def _source_rank(definition: Definition, value: Value) -> int:
    node = definition.node(value.name) if isinstance(value, Ref) else None
    while node is not None and node.op == "permute" and isinstance(node.operands[0], Ref):
        node = definition.node(node.operands[0].name)
    shape = node.get("shape") if node is not None else None
    return len(shape) if isinstance(shape, tuple) else 0


def _plain(definition: Definition, weights: Collection[str], ends: str) -> Iterator[Node]:
    """The definition without groups: of matrices, multiplied."""
    for node in definition.nodes:
        name = node.results[0]
        if name == ends:
            continue
        if node.op == GROUPED:
            yield from _matmul(node)
        elif name in weights and node.op == "permute":
            if node.argument("dims", 1) != (0, 2, 1):
                what = f"fd.ops.permute with dims={text_of(node.argument('dims', 1))}"
                raise UnsupportedError(what, "dims=[0, 2, 1]")
            yield replace(node, operands=node.operands[:1], kwargs=(("dims", (1, 0)),))
        elif name in weights:
            yield replace(node, kwargs=tuple(_matrix(node)))
        else:
            yield node


def _matmul(node: Node) -> Iterator[Node]:
    """The product of the rows of one group; with a bias a linear of the transposed matrix."""
    rows, matrix = (node.argument(x, at) for at, x in enumerate(_NAMES[:2]))
    bias = node.get("bias")
    if bias is None:
        yield replace(node, op="matmul", operands=(rows, matrix), kwargs=())
        return
    turned = f"{node.results[0]}@columns"
    yield Node("permute", (turned,), (matrix,), (("dims", (1, 0)),), node.line)
    yield replace(node, op="linear", operands=(rows, Ref(turned), bias), kwargs=())


def _matrix(node: Node) -> Iterator[tuple[str, Value]]:
    """What a definition says of one matrix of a tensor of them."""
    for key, value in node.kwargs:
        if key == "stride_order" and isinstance(value, tuple):
            if value[0] != len(value) - 1:
                what = f"{node.results[0]} with stride_order={text_of(value)}"
                raise UnsupportedError(what, "groups one behind the other in memory")
            value = value[1:]
        elif key in ("shape", "contiguity") and isinstance(value, tuple):
            value = value[1:]
        yield key, value


@dataclass
class _Lift:
    """The fusion of one matmul as that of a batch of groups.

    Args:
        plain: of matrices.
        weights: inputs of which each group has one of its own.
    """

    plain: Fusion
    weights: Collection[str]

    def fusion(self) -> Fusion:
        """With a dimension in front of those of all tensors but inputs that all groups share."""
        found = self._kinds()
        self._require_rows()
        fresh = _fresh(self.plain, *(found[n] for n in self.plain.names if n in found))
        made = {t.name: t for t in self.plain.tensors}
        for name, d in zip((n for n in self.plain.names if n in found), fresh, strict=True):
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
        lifted = self.plain.updated(made.values(), exprs, self.plain.next_id + len(fresh))
        return replace(lifted, inputs=inputs)

    def _kinds(self) -> Mapping[str, IterType]:
        """What the new dimension is to each tensor that gets it."""
        whole, same = IterType.Iteration, IterType.Broadcast
        found = {
            b.tensor: whole for b in self.plain.inputs if b.tensor in self.weights or ROWS in b.axes
        }
        for e in self.plain.exprs:
            alike = all(found.get(name, same) is same for name in inputs_of(e))
            found[e.output] = same if alike else whole
        return found

    def _expr(self, e: FusionExpr, found: Mapping[str, IterType]) -> FusionExpr:
        return (
            replace(e, flags=(e.input not in found, *e.flags)) if isinstance(e, BroadcastOp) else e
        )

    def _require_rows(self) -> None:
        """What has rows is a matrix by rows.

        Raises:
            UnsupportedError: it is not.
        """
        for b in (*self.plain.inputs, *self.plain.outputs):
            t = self.plain.tensor(b.tensor)
            if self.plain.reduction(b.tensor) is not None:
                raise UnsupportedError(f"a reduction of {_CALL}", "results [M, N]")
            names = tuple(str(d.extent) for d in t.in_memory)
            if ROWS in names and names[0] != ROWS:
                what = f"{_CALL} beside [{', '.join(names)}] in memory"
                raise UnsupportedError(what, f"matrices of whole rows, [{ROWS}, {COLS}] say")
        if any(isinstance(e, ReductionOp) for e in self.plain.exprs):
            raise UnsupportedError(f"a reduction of {_CALL}", "results [M, N]")


def _fresh(fusion: Fusion, *kinds: IterType) -> tuple[IterDomain, ...]:
    """New dimensions that count groups."""
    return tuple(
        IterDomain(fusion.next_id + n, Var(BATCH), BATCH, kind) for n, kind in enumerate(kinds)
    )
