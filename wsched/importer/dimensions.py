"""Dimensions that an operation cannot have: refused by their line, where a text alone tells them.

nvFuser refuses them while a definition is built. Sizes are another question: most are open until a
call, which compares them.
"""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Node, Ref, Value, text_of
from wsched.importer.ops import MATMULS
from wsched.importer.ranks import REDUCING, Ranks, argument_of, places, reduced
from wsched.importer.signatures import parameters

__all__ = ["check_dimensions", "check_type", "reduced_dims"]


def check_dimensions(node: Node, ranks: Ranks) -> None:
    """Check an operation that makes tensors.

    Args:
        node: the next one.
        ranks: of all in front of it.

    Raises:
        UnsupportedError: it names dimensions that it cannot have.
    """
    rank = ranks.get(node.operands[0]) if node.operands else None
    if rank is not None:
        _check(node, rank)
    if node.op == "cat":
        _check_cat(node, ranks)
    if node.op in MATMULS:
        _check_product(node, ranks)


def _check_cat(node: Node, ranks: Ranks) -> None:
    listed = node.argument("tensors", 0)
    if not isinstance(listed, tuple):
        return
    for value in listed:
        if not ranks.is_tensor(value):
            raise _refusal(node, f" of {text_of(value)}, which is no tensor,", "tensors")
    found = {r for v in listed if (r := ranks.get(v)) is not None}
    if len(found) > 1:
        several = " and ".join(map(str, sorted(found)))
        raise _refusal(node, f" of {several} dimensions", "tensors of as many dimensions each")
    if found:
        _check_dim(node, *found)


def _check_product(node: Node, ranks: Ranks) -> None:
    for value in node.factors:
        if ranks.get(value) == 0:
            what = f" of {text_of(value)}, which has no dimensions,"
            raise _refusal(node, what, "vectors, matrices and batches of them")


def _refusal(node: Node, what: str, supported: str) -> UnsupportedError:
    return UnsupportedError(f"line {node.line}: fd.ops.{node.op}{what}", supported)


def _wrong(node: Node, name: str, value: Value, rank: int, supported: str) -> UnsupportedError:
    what = f" of {rank} dimensions with {name}={text_of(value)}"
    return _refusal(node, what, supported)


def check_type(node: Node) -> None:
    """What is called ``dtype`` is one; a cast has one."""
    dtype = argument_of(node, "dtype")
    if isinstance(dtype, DataType) or (dtype is None and node.op != "cast"):
        return
    call = node.op if node.op.startswith("define_") else f"ops.{node.op}"
    raise UnsupportedError(
        f"line {node.line}: fd.{call} with dtype={text_of(dtype)}", "a type, as DataType.Float"
    )


def _check(node: Node, rank: int) -> None:
    """An operation on a tensor of so many dimensions."""
    match node.op:
        case "broadcast":
            _check_flags(node, rank)
        case "broadcast_in_dim":
            into, shape = argument_of(node, "broadcast_dims"), argument_of(node, "shape")
            if not isinstance(into, tuple) or not isinstance(shape, tuple):
                return
            if {len(into), len(places(into, len(shape)))} != {rank}:
                supported = f"{rank} of {len(shape)} dimensions"
                raise _wrong(node, "broadcast_dims", into, rank, supported)
        case "expand":
            shape = argument_of(node, "shape")
            if isinstance(shape, tuple) and len(shape) < rank:
                raise _wrong(node, "shape", shape, rank, f"{rank} sizes or more")
        case "pad":
            widths = argument_of(node, "pad_widths")
            if isinstance(widths, tuple) and (len(widths) % 2 or len(widths) > 2 * rank):
                raise _wrong(node, "pad_widths", widths, rank, f"pairs for {rank} or fewer")
        case "permute" | "stride_order":
            name: str = "dims" if node.op == "permute" else node.op
            order = argument_of(node, name)
            if isinstance(order, tuple) and {len(order), len(places(order, rank))} != {rank}:
                raise _wrong(node, name, order, rank, f"dimensions of {rank}, each of them once")
        case "reshape":
            _check_sizes(node, argument_of(node, "new_shape"), rank)
        case "slice":
            for name in ("start_indices", "end_indices", "strides"):
                given = argument_of(node, name)
                if isinstance(given, tuple) and len(given) != rank:
                    raise _wrong(node, name, given, rank, f"{rank} numbers")
        case "squeeze":
            _check_dims(node, argument_of(node, "dims"), rank)
        case op if op in REDUCING:
            reduced_dims(node, rank)
            kept = argument_of(node, "keepdim")
            if kept is not None and not isinstance(kept, bool):
                raise _refusal(node, f" with keepdim={text_of(kept)}", "True or False")
        case op if op != "cat" and "dim" in (parameters(op) or ()):
            _check_dim(node, rank)


def _check_sizes(node: Node, sizes: Value, rank: int) -> None:
    """What a tensor is reshaped to; a -1 is what is left over, so there is one at most."""
    if not isinstance(sizes, tuple):
        return
    numbers = [n for n in sizes if type(n) is int]
    if numbers.count(-1) > 1 or min(numbers, default=0) < -1:
        raise _wrong(node, "new_shape", sizes, rank, "sizes, of which one may be -1")


def _check_flags(node: Node, rank: int) -> None:
    flags = argument_of(node, "is_broadcast_dim")
    if not isinstance(flags, tuple):
        return
    kinds = all(isinstance(f, bool) for f in flags)
    if not kinds or flags.count(False) != rank:
        supported = f"a list of True and {rank} times False"
        raise _wrong(node, "is_broadcast_dim", flags, rank, supported)


def _check_dim(node: Node, rank: int) -> None:
    dim = argument_of(node, "dim")
    if dim is not None and not isinstance(dim, Ref) and not places((dim,), rank):
        raise _wrong(node, "dim", dim, rank, f"a dimension of {rank}")


def _check_dims(node: Node, dims: Value, rank: int) -> None:
    """Each of some dimensions is there, and named once."""
    named = dims if isinstance(dims, tuple) else (dims,)
    if len(places(named, rank)) < len(named):
        supported = f"dimensions of {rank}, each once" if rank else "tensors with dimensions"
        raise _wrong(node, "dims", dims, rank, supported)


def reduced_dims(node: Node, rank: int) -> set[int]:
    """The dimensions that a reduction of a tensor of that rank is over, all by default.

    Raises:
        UnsupportedError: dimensions that there are not, or one twice.
    """
    dims = argument_of(node, "dims")
    dims = node.get("dim") if dims is None else dims
    if dims is not None:
        _check_dims(node, dims, rank)
    if dims == () and rank:
        raise _wrong(node, "dims", dims, rank, "one dimension or more, or no dims for all of them")
    return reduced(node, rank)
