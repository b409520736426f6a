"""Matmuls of groups: imported as one of matrices or of batches, with the groups put in behind that.

``fd.ops.grouped_mm`` multiplies a part of a matrix for each group, which ends where the offsets
say. Of [M, K] and [G, K, N] a group has rows and a matrix of its own, of [G, M, K] and [K, N]
columns and a matrix of its own; a row of [G, N] is added to its rows where there is a bias. What
follows is written for [M, N]: so the definition is read as that of a matmul, and in the fusion each
tensor gets a dimension that counts groups (:mod:`wsched.importer.lift`). Of [M, K] and [K, N] a
group has a part of K, and there is a result [M, N] for each: that is read as one of batches. The
caller's tensors have the groups in one dimension (:class:`~wsched.fusion.groups.Groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from lowering.ground.errors import UnsupportedError
from wsched.fusion import (
    DataType,
    Fusion,
    Groups,
    IndexOp,
)
from wsched.fusion.names import BATCH, ROWS, SUMMED
from wsched.importer.added import added_rows, with_added, without_added
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.lift import Lift, by_groups, with_unread
from wsched.importer.operands import dtype_of, fixed_sizes
from wsched.importer.ops import FORMS, GROUPED
from wsched.importer.products import UNROUNDED, wide_product

__all__ = ["build_grouped", "grouped_matmuls"]

T = TypeVar("T")

_CALL = f"fd.ops.{GROUPED}"
_NAMES = ("mat1", "mat2", "offsets")

_FORM = "[M, K] by [G, K, N], [G, M, K] by [K, N] or [M, K] by [K, N], with the ends of G groups"


def grouped_matmuls(definition: Definition) -> tuple[Node, ...]:
    """The grouped matmuls that outputs depend on, in the order of the definition."""
    found = definition.behind(definition.outputs)
    return tuple(n for n in definition.nodes if n.op == GROUPED and n.results[0] in found)


def build_grouped(definition: Definition, build: Callable[[Definition], Fusion]) -> Fusion:
    """The fusion of a definition with grouped matmuls that share an operand.

    Args:
        definition: what to import.
        build: imports one whose matmuls are of matrices, or of batches of them.

    Raises:
        UnsupportedError: another form of it, several forms, other ends for each of several,
            operands that are computed, or what ``build`` refuses.
    """
    added, given = added_rows(definition), definition
    definition = without_added(definition, added) if added else definition
    nodes = grouped_matmuls(definition)
    ends = _one([_ends(definition, n) for n in nodes], "the ends", "the same ends for all")
    ranks = _one([_ranks(definition, n) for n in nodes], "operands of", "one form of it")
    form = _Form(definition, nodes, ranks)
    plain = Definition(tuple(form.plain(ends)), definition.outputs)
    fusion = build(plain)
    if any(isinstance(e, IndexOp) for e in fusion.exprs):
        raise UnsupportedError(f"fd.ops.iota behind {_CALL}", "masks that are inputs")
    bound = dict(zip((n.results[0] for n in plain.inputs), fusion.inputs, strict=True))
    lifted = form.lifted(fusion, {n: b.tensor for n, b in bound.items()})
    node = definition.node(ends)
    assert node is not None
    whole = {w for w in (*form.matrices, *form.biases) if w in bound}
    sizes = {fixed_sizes(n)[:1] for w in whole if (n := definition.node(w)) is not None}
    count = _agreed(fixed_sizes(node), sizes)
    made, of_ends = with_unread(lifted, (BATCH,), count, DataType.Int32)
    made = replace(made, groups=Groups(of_ends.tensor, BATCH, form.along))
    made, beside = with_added(made, given, added)
    inputs = dict(zip(bound, lifted.inputs, strict=True)) | {ends: of_ends} | beside
    return replace(made, inputs=tuple(inputs[n.results[0]] for n in given.inputs))


def _one(found: list[T], what: str, supported: str) -> T:
    """What all have."""
    several = sorted({*found}, key=str)
    if len(several) > 1:
        raise UnsupportedError(f"{_CALL} with {what} {' and '.join(map(str, several))}", supported)
    return several[0]


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
    wide_product(node)
    known = (*_NAMES, "bias", *UNROUNDED)
    others = [(k, v) for k, v in node.kwargs if k not in known and v is not None]
    others += [(f"argument {p}", v) for p, v in enumerate(node.operands[3:], 3) if v is not None]
    if others:
        what = f"{_CALL} with {', '.join(f'{k}={text_of(v)}' for k, v in others)}"
        raise UnsupportedError(what, "mat1, mat2, offsets, bias and dtype")
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


def _ranks(definition: Definition, node: Node) -> tuple[int, int]:
    """Dimensions of both operands."""
    first, second = (_rank(definition, node.argument(x, at)) for at, x in enumerate(_NAMES[:2]))
    if (first, second) not in FORMS:
        raise UnsupportedError(f"{_CALL} of {first} and {second} dimensions", _FORM)
    return first, second


def _rank(definition: Definition, value: Value) -> int:
    """Dimensions of the input that an operand is, or is the transpose of."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    while node is not None and node.op == "permute":
        value = node.operands[0]
        node = definition.node(value.name) if isinstance(value, Ref) else None
    shape = node.get("shape") if node is not None and node.op == "define_tensor" else None
    if not isinstance(shape, tuple):
        what = text_of(value) if node is None else f"fd.ops.{node.op}"
        raise UnsupportedError(f"{what} on an operand of {_CALL}", "an input, or its transpose")
    return len(shape)


class _Form:
    """One form of grouped matmuls.

    Args:
        definition: where they are.
        nodes: the matmuls.
        ranks: dimensions of their operands.
    """

    def __init__(
        self, definition: Definition, nodes: tuple[Node, ...], ranks: tuple[int, int]
    ) -> None:
        self._definition, self._nodes, self._ranks = definition, nodes, ranks
        self.along = FORMS[ranks]
        pairs = [[n.argument(x, at) for at, x in enumerate(_NAMES[:2])] for n in nodes]
        sides = list(zip(*pairs, strict=True))
        ways = [[w for v in side for w in self._way(v)] for side in sides]
        self.shared = frozenset(
            w for way, r in zip(ways, ranks, strict=True) for w in way if r == 2
        )
        self.matrices = frozenset(w for way, r in zip(ways, ranks, strict=True) for w in way
                                  if r == 3)  # fmt: skip
        self.biases = frozenset(b for n in nodes for b in self._bias(n))

    def _way(self, value: Value) -> Iterator[str]:
        """Names from an operand to the input that it is, which change with the groups."""
        while isinstance(value, Ref) and (made := self._definition.node(value.name)) is not None:
            yield made.results[0]
            value = made.operands[0] if made.op == "permute" else None

    def _bias(self, node: Node) -> tuple[str, ...]:
        """Name of what is added to the rows of each group, if there is something."""
        value = node.get("bias")
        if value is None:
            return ()
        made = self._definition.node(value.name) if isinstance(value, Ref) else None
        shape = made.get("shape") if made is not None and made.op == "define_tensor" else None
        if made is None or not isinstance(shape, tuple) or len(shape) != 2:
            raise UnsupportedError(f"{_CALL} with bias={text_of(value)}", "an input [G, N]")
        if self.along != ROWS:
            raise UnsupportedError(f"{_CALL} of {self._ranks[0]} and {self._ranks[1]} dimensions "
                                   "with a bias", "a bias of groups of rows")  # fmt: skip
        name = made.results[0]
        if any(name in n.refs and n.op != GROUPED for n in self._definition.nodes):
            raise UnsupportedError(f"{name}, a bias of groups, read by something else", _FORM)
        return (name,)

    def plain(self, ends: str) -> Iterator[Node]:
        """The definition without groups: of matrices, multiplied; or of a batch of them, where each
        group has a result of its own.
        """
        batched = self.along == SUMMED
        changed = {*self.shared} if batched else {*self.matrices, *self.biases}
        for node in self._definition.nodes:
            name = node.results[0]
            if name == ends:
                continue
            if node.op == GROUPED:
                yield from _matmul(node)
            elif name not in changed:
                yield node
            else:
                self._require_alone(name, changed)
                yield _with_groups(node) if batched else _without_groups(node)

    def _require_alone(self, name: str, changed: Collection[str]) -> None:
        readers = [n for n in self._definition.nodes if name in n.refs]
        if any(n.op != GROUPED and n.results[0] not in changed for n in readers):
            raise UnsupportedError(f"{name} as operand of {_CALL} and in the epilogue",
                                   "one way to read it")  # fmt: skip

    def lifted(self, fusion: Fusion, tensors: Mapping[str, str]) -> Fusion:
        """The fusion of a batch of groups.

        Args:
            fusion: of the plain definition.
            tensors: names of its inputs, by those of the definition.
        """
        ragged = {tensors[n] for n in self.shared if n in tensors}
        if self.along == SUMMED:
            inputs = tuple(
                replace(b, axes=b.axes[1:], sizes=b.sizes[1:]) if b.tensor in ragged else b
                for b in fusion.inputs
            )
            return by_groups(replace(fusion, inputs=inputs), ragged, self.along)
        own = {tensors[n] for n in (*self.matrices, *self.biases) if n in tensors}
        return by_groups(Lift(fusion, own, self.along).fusion(), ragged, self.along)


def _matmul(node: Node) -> Iterator[Node]:
    """The product of one group; with a bias a linear of the transposed matrix."""
    rows, matrix = (node.argument(x, at) for at, x in enumerate(_NAMES[:2]))
    bias, said = node.get("bias"), tuple(UNROUNDED.items()) if wide_product(node) else ()
    if bias is None:
        yield replace(node, op="matmul", operands=(rows, matrix), kwargs=said)
        return
    turned = f"{node.results[0]}@columns"
    yield Node("permute", (turned,), (matrix,), (("dims", (1, 0)),), node.line)
    yield replace(node, op="linear", operands=(rows, Ref(turned), bias), kwargs=said)


def _without_groups(node: Node) -> Node:
    """What a definition says of one matrix of a tensor of them."""
    if node.op == "permute":
        if node.get("dims") != (0, 2, 1):
            what = f"fd.ops.permute with dims={text_of(node.get('dims'))}"
            raise UnsupportedError(what, "dims=[0, 2, 1]")
        return replace(node, kwargs=(("dims", (1, 0)),))
    kwargs: dict[str, Value] = dict(node.kwargs)
    order = kwargs.get("stride_order")
    if isinstance(order, tuple) and order[0] != len(order) - 1:
        what = f"{node.results[0]} with stride_order={text_of(order)}"
        raise UnsupportedError(what, "groups one behind the other in memory")
    for key in ("shape", "contiguity", "stride_order"):
        if isinstance(value := kwargs.get(key), tuple):
            kwargs[key] = value[1:]
    return replace(node, kwargs=tuple(kwargs.items()))


def _with_groups(node: Node) -> Node:
    """The same of a batch of matrices, for a definition of one."""
    if node.op == "permute":
        return replace(node, operands=node.operands[:1], kwargs=(("dims", (0, 2, 1)),))
    kwargs: dict[str, Value] = dict(node.kwargs)
    front: dict[str, Value] = {"shape": -1, "contiguity": None, "stride_order": 2}
    for key, value in front.items():
        if isinstance(old := kwargs.get(key), tuple):
            kwargs[key] = (value, *old)
    return replace(node, kwargs=tuple(kwargs.items()))
