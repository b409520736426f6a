"""Operands that are views: a kernel reads what they are views of, by strides.

``permute``, ``reshape``, ``select``, ``slice``, ``squeeze`` and ``broadcast`` in front of a matmul
move nothing where the operand's matrices still lie one behind the other: the kernel's tensor map
has the strides of the view. Any other operand is made by the rest, or copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from lowering.ground.expr import Const
from wsched.front.cut.order import Orders
from wsched.front.cut.tensors import TensorType, dense_input, sizes_of
from wsched.front.look import Look, Move
from wsched.importer import Definition, Node, Ref
from wsched.importer.definition import Value
from wsched.importer.input_error import InputError
from wsched.importer.ops import PRODUCTS

__all__ = [
    "LOOKS", "exchanges", "folded", "is_part", "is_strided", "looked", "looking", "move_of",
    "pruned", "sliced",
]  # fmt: skip

LOOKS = ("broadcast", "permute", "reshape", "select", "slice", "squeeze")
"""Operations that a view of an operand may be made of."""


def sliced(made: str, source: str, box: Sequence[tuple[int, int]], line: int) -> Node:
    """The operation that gives a part of a tensor a name.

    Args:
        made: the name.
        source: the tensor.
        box: along each dimension the first element and the place behind the last one.
        line: of the text.
    """
    said: dict[str, Value] = {
        "start_indices": tuple(first for first, _ in box),
        "end_indices": tuple(end for _, end in box),
    }
    return Node("slice", (made,), (Ref(source),), tuple(said.items()), line)


def move_of(node: Node, types: Mapping[str, TensorType]) -> Move | None:
    """A view's step; None of another operation, or where its sizes are not known."""
    found = types.get(node.results[0])
    extents = None if found is None else found.extents
    if node.op not in LOOKS or extents is None:
        return None
    if node.op == "select":
        where = _numbers((node.get("dim"), node.argument("index", 1)))
        return None if where is None else Move("select", where, extents)
    if node.op not in ("permute", "slice"):
        return Move("reshape", (), extents)
    places = _numbers(node.get("dims")) if node.op == "permute" else _begins(node, types)
    if places is None or len(places) != len(extents):
        return None
    return Move(node.op, places, extents)


def _begins(node: Node, types: Mapping[str, TensorType]) -> tuple[int, ...] | None:
    """Where a ``slice`` begins, counted from the front; None where it leaves gaps, or is not told:
    nvFuser counts what is negative from the end.
    """
    starts, steps = _numbers(node.get("start_indices")), _numbers(node.get("strides"))
    dims = types[node.refs[0]].dims if node.refs[0] in types else None
    if starts is None or steps is None or set(steps) - {1} or len(starts) != len(dims or ()):
        return None
    sizes = [d.extent.value if isinstance(d.extent, Const) else None for d in dims or ()]
    pairs = zip(starts, sizes, strict=True)
    found = [at if at >= 0 or n is None else max(at + n, 0) for at, n in pairs]
    return tuple(found) if min(found, default=0) >= 0 else None


def _numbers(value: Value) -> tuple[int, ...] | None:
    if value is None:
        return ()
    whole = isinstance(value, tuple) and all(isinstance(v, int) for v in value)
    return tuple(int(str(v)) for v in value) if whole and isinstance(value, tuple) else None


def is_strided(orders: Orders, matmul: Node, name: str) -> bool:
    """Whether a tensor map has the matrices of an operand as they lie.

    A row or a column is dense, and what becomes one dimension of the kernel lies side by side: the
    rows of ``linear``, more than two batch dimensions. Two have a stride each.
    """
    layout, dims = orders.layout(name), orders.dimensions.dims(name)
    if layout is None or dims is None or len(dims) < 2 or any(d.repeated for d in dims):
        return False
    order, dense = layout
    full = [at for at in order if not dims[at].is_one]
    runs = dict(zip(order, dense, strict=True))
    if not full or full[-1] < len(dims) - 2 or not runs[full[-1]]:
        return False
    if len(dims) <= 3:
        return True
    pair = [orders.dimensions.dims(n) for n in matmul.refs[:2]]
    if all(x is not None and len(x) == 4 and not any(d.is_one for d in x[:2]) for x in pair):
        return True  # both batch dimensions are the kernel's
    other = pair[1]
    rows = matmul.op == "linear" or (other is not None and len(other) == 2)
    one = [at for at in full if at < len(dims) - (1 if rows else 2)]
    side_by_side = full[full.index(one[0]) :][: len(one)] == sorted(one) if one else True
    return side_by_side and all(runs[at] for at in one[:-1])


def is_part(bias: Node, orders: Orders) -> bool:
    """Whether a bias is a part of a vector, elements side by side: a kernel reads other views of it
    by itself.
    """
    layout = orders.layout(bias.results[0]) if bias.op == "slice" else None
    return layout is not None and layout[1] == (True,)


def folded(
    definition: Definition, types: Mapping[str, TensorType]
) -> tuple[Definition, dict[str, Look]]:
    """A kernel's part with operands and biases that are views declared as they look.

    Args:
        definition: a kernel's part; views that are in it are not for others to make.
        types: of its tensors.

    Returns:
        It without those views, and each by the name of what is one.
    """
    found: dict[str, Look] = {}
    declared: dict[str, Node] = {}
    operands = [n for node in definition.nodes if node.op in PRODUCTS for n in node.refs[:2]]
    sliced = [n.results[0] for n in definition.nodes if n.op == "slice"]
    for name in (*operands, *sliced):
        while (node := definition.node(name)) is not None and _is_read_through(node):
            name = node.refs[0]
        look = _look(definition, types, name)
        if look is not None and look.moves:
            found[name] = look
            declared[name] = _declared(definition, look)
    if not found:
        return definition, {}
    nodes = tuple(declared.get(n.results[0], n) for n in definition.nodes)
    return pruned(Definition(nodes, definition.outputs)), found


def _look(definition: Definition, types: Mapping[str, TensorType], name: str) -> Look | None:
    moves: list[Move] = []
    source = name
    while (node := definition.node(source)) is not None and node.op != "define_tensor":
        move = move_of(node, types)
        if move is None:
            return None
        moves.insert(0, move)
        source = node.refs[0]
    return Look(name, source, tuple(moves))


def _is_read_through(node: Node) -> bool:
    """Whether the importer does a step of an operand itself; of casts only exact ones are here."""
    return node.op == "cast" or (node.op == "permute" and exchanges(node))


def exchanges(node: Node) -> bool:
    """Whether a permutation exchanges the last two dimensions, which a kernel does itself."""
    order = _numbers(node.get("dims")) or ()
    rows = tuple(range(len(order)))
    return order == (*rows[:-2], *rows[:-3:-1])


def _declared(definition: Definition, look: Look) -> Node:
    """The view as an input."""
    source, extents = definition.node(look.source), look.moves[-1].extents
    assert source is not None
    return dense_input(look.name, extents, source.get("dtype"), source.line)


def pruned(definition: Definition) -> Definition:
    """Without what no result needs any more."""
    needed = definition.behind(definition.outputs)
    nodes = tuple(n for n in definition.nodes if n.results[0] in needed)
    return Definition(nodes, definition.outputs)


# --- tensors --------------------------------------------------------------------------------------


def looked(tensor: Any, moves: Sequence[Move], sizes: Mapping[str, int]) -> Any:
    """A tensor as its view; a copy where there is none.

    Args:
        tensor: of torch, with or without memory.
        moves: how to look at it.
        sizes: value of each symbol.

    Raises:
        InputError: another number of elements than the definition says.
    """
    for move in moves:
        shape = sizes_of(move.extents, sizes)
        if move.op == "permute":
            tensor = tensor.permute(move.places)
        elif move.op == "select":
            dim, at = move.places
            size = tensor.shape[dim]
            if not -size <= at < size:
                text = f"place {at} is selected of dimension {dim} of {list(tensor.shape)}"
                raise InputError(text, "inputs", str(at), f"{-size} to {size - 1}")
            tensor = tensor.select(dim, at)
        elif move.op == "slice":
            ends = zip(move.places, shape, strict=True)
            tensor = tensor[tuple(slice(at, at + n) for at, n in ends)]
        elif prod(shape) != tensor.numel():
            found, wanted = list(tensor.shape), list(shape)
            text = f"a tensor of {found}, {tensor.numel()} elements, is viewed as one of {wanted}"
            raise InputError(text, "inputs", str(found), f"{prod(shape)} elements")
        else:
            tensor = tensor.reshape(shape)
    return tensor


def looking(tensor: Any, moves: Sequence[Move], sizes: Mapping[str, int]) -> Callable[[Any], Any]:
    """A function that looks so at tensors of the same shape, and fast at those that lie alike."""
    view = looked(tensor, moves, sizes)
    if view.untyped_storage()._cdata != tensor.untyped_storage()._cdata:
        return lambda other: looked(other, moves, sizes)
    lies, shape, strides = tensor.stride(), tuple(view.shape), view.stride()
    first = view.storage_offset() - tensor.storage_offset()
    if (view.shape, strides, first) == (tensor.shape, lies, 0):
        return lambda other: other if other.stride() == lies else looked(other, moves, sizes)

    def look(other: Any) -> Any:
        if other.stride() != lies:
            return looked(other, moves, sizes)
        return other.as_strided(shape, strides, first + other.storage_offset())

    return look
