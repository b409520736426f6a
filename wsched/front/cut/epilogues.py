"""A matmul and as much of what follows it, and beside it, as one kernel takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ZERO
from wsched.front.cut.graph import Graph
from wsched.front.cut.part import kernel_part
from wsched.fusion import DataType
from wsched.importer import Node, build_fusion
from wsched.importer.ops import ADDED, PRODUCTS
from wsched.importer.steps import REDUCED

__all__ = ["Kernel", "Take", "kernel_of_matmul", "refusal"]


class Take(Enum):
    """How much of what follows a matmul goes into its kernel."""

    ALL = "all that fits"
    SHARED = "all that fits, and the matmuls behind it that share an operand or are added"
    NARROW = "as long as what leaves the kernel has 16 bits"
    NONE = "nothing, as nvFuser does by default"
    LEFT = "not even the matmul"


@dataclass(frozen=True, slots=True)
class Kernel:
    """What goes into a kernel.

    Args:
        ops: positions of its operations, without those that every segment does for itself.
        stop: the first operation that would have followed and does not, None if all do.
        why: why it does not.
    """

    ops: frozenset[int]
    stop: Node | None = None
    why: UnsupportedError | None = None


def kernel_of_matmul(
    graph: Graph, matmul: int, taken: frozenset[int], take: Take
) -> Kernel | UnsupportedError:
    """The operations of a matmul's kernel, or why wsched does not schedule it.

    Args:
        graph: what it is of.
        matmul: its position.
        taken: what other kernels have.
        take: how much, not ``LEFT``.
    """
    groups = _sharing(graph, matmul, taken) if take is Take.SHARED else ()
    grown = (_grown(graph, [matmul, *others], taken, take) for others in groups)
    kernels = [k for k in grown if isinstance(k, Kernel)]
    if kernels:
        return max(kernels, key=lambda k: len(k.ops))
    return _grown(graph, [matmul], taken, take)


def _grown(
    graph: Graph, together: list[int], taken: frozenset[int], take: Take
) -> Kernel | UnsupportedError:
    """The kernel of matmuls with what follows them, or why there is none."""
    followers = [] if take is Take.NONE else _followers(graph, together, taken)
    stop: Node | None = None
    why: UnsupportedError | None = None
    while True:
        kernel = frozenset({*together, *followers})
        if take is Take.NARROW:
            kernel = _narrowed(graph, kernel)
        first, *others = _with_private(graph, together, kernel, taken)
        plain = refusal(graph, first)
        if plain is None:
            return Kernel(first, stop, why)
        for kernel in others:
            if refusal(graph, kernel) is None:
                return Kernel(kernel, stop, why)
        if not followers:
            return plain
        stop, why = graph.nodes[followers.pop()], plain


def refusal(graph: Graph, kernel: frozenset[int]) -> UnsupportedError | None:
    """Why the importer does not take operations as one kernel, None if it does; found once.

    Args:
        graph: what they are of.
        kernel: their positions.
    """
    if kernel not in graph.tried:
        graph.tried[kernel] = None
        try:
            _require_elements(graph, kernel)
            build_fusion(kernel_part(graph, kernel, _leaving(graph, kernel))[0])
        except UnsupportedError as e:
            graph.tried[kernel] = UnsupportedError(e.what, e.supported, e.hint)  # without frames
    return graph.tried[kernel]


def _require_elements(graph: Graph, kernel: frozenset[int]) -> None:
    """Refuse a product that is told to have no element, or none to add up: beside others in one
    grid it has no tile, and a call whose sizes turn out so is not cut either.
    """
    for node in (graph.nodes[i] for i in sorted(kernel) if graph.nodes[i].op in PRODUCTS):
        for name in node.refs:
            if any(d.extent == ZERO for d in graph.types[name].dims or ()):
                what = f"line {node.line}: fd.ops.{node.op} of {name}, a dimension of size 0,"
                raise UnsupportedError(what, "at least one element")


def _sharing(graph: Graph, matmul: int, taken: frozenset[int]) -> list[tuple[int, ...]]:
    """The matmuls behind one that may be in its kernel: those that have an operand of it, and all
    of theirs before it, of those of its first and of its second operand the more; or of these
    those whose results are as large. Or the one that it is only read to be added to.
    """
    mine = graph.nodes[matmul].refs[:2]
    ready = [
        i
        for i in graph.matmuls
        if i > matmul
        and i not in taken
        and all(graph.last_matmul[j] < matmul for j in graph.operands(i))
    ]
    if graph.partners.get(matmul) in ready:
        return [(graph.partners[matmul],)]
    by_side = (
        [
            i
            for i in ready
            if graph.nodes[i].refs[:2][side : side + 1] == (name,)
            and _are_batched_alike(graph, matmul, i)
        ]
        for side, name in enumerate(mine)
    )
    most: list[int] = max(by_side, key=len, default=[])
    dims = graph.types[graph.nodes[matmul].results[0]].dims
    alike = (i for i in most if graph.types[graph.nodes[i].results[0]].dims == dims)
    return [group for group in dict.fromkeys((tuple(most), tuple(alike))) if group]


def _are_batched_alike(graph: Graph, matmul: int, other: int) -> bool:
    """Whether two products have the same batches: parts of a list differ in rows or columns."""
    names = (graph.nodes[i].results[0] for i in (matmul, other))
    mine, its = (graph.types[n].dims or () for n in names)
    return [d.extent for d in mine[:-2]] == [d.extent for d in its[:-2]]


def _followers(graph: Graph, together: list[int], taken: frozenset[int]) -> list[int]:
    """Pointwise operations on the results of matmuls, whose other operands are there before, and
    what adds rows of a result to those of a tensor; then reductions of these, on which no other one
    depends but a cast that is a result.
    """
    found, matmul, reduced = [*together], together[0], list[int]()
    for i in sorted(graph.live):
        if i <= matmul or i in taken or i in found:
            continue
        node, operands = graph.nodes[i], graph.operands(i)
        last = node.op == ADDED or (node.op == "stride_order" and graph.is_output(i))
        if node.op in REDUCED or any(graph.nodes[j].op in REDUCED for j in operands):
            last = node.op == "cast" and graph.is_output(i) and operands[0] in reduced
            if last or (node.op in REDUCED and operands[0] in found):
                reduced.append(i)
            continue
        ready = all(j in found or graph.last_matmul[j] < matmul for j in operands)
        if (graph.is_pointwise(i) or last) and ready and any(j in found for j in operands):
            found.append(i)
    return found[len(together) :] + reduced


def _narrowed(graph: Graph, kernel: frozenset[int]) -> frozenset[int]:
    """Without what leaves the kernel in more than 16 bits and is no result of the definition."""
    while True:
        wide = {
            graph.home[name]
            for name in _leaving(graph, kernel)
            if name not in graph.definition.outputs
            and graph.types[name].dtype not in (DataType.BFloat16, DataType.Half)
            and graph.nodes[graph.home[name]].op not in REDUCED
        }
        fewer = frozenset(i for i in kernel if not wide & graph.reached([i], kernel))
        if not wide or not fewer:
            return kernel
        kernel = fewer


def _with_private(
    graph: Graph, together: list[int], kernel: frozenset[int], taken: frozenset[int]
) -> list[frozenset[int]]:
    """With the pointwise operations before the epilogue that nobody else reads, and the indices
    that these compare; where masks are among them, also without those and what they are made of,
    for masks of what no epilogue has.

    What follows a reduction and is a vector is done with that.
    """
    whole = _before(graph, together, kernel, taken, masks=True)
    return list(dict.fromkeys((whole, _before(graph, together, kernel, taken, masks=False))))


def _before(
    graph: Graph, together: list[int], kernel: frozenset[int], taken: frozenset[int], masks: bool
) -> frozenset[int]:
    """With those; ``masks`` says whether these are among them."""
    while True:
        epilogue = kernel.difference(together)
        private = {
            j
            for i in epilogue
            for j in (graph.home[name] for name in graph.needs(i))
            if j not in kernel | taken | graph.free
            and (graph.is_pointwise(j) or graph.nodes[j].op == "iota")
            and not graph.is_output(j)
            and (masks or graph.types[graph.nodes[j].results[0]].dtype is not DataType.Bool)
            and graph.readers_behind(j) <= epilogue
            and not _is_statistic(graph, j)
        }
        if not private:
            return kernel
        kernel |= private


def _is_statistic(graph: Graph, i: int) -> bool:
    """Whether an operation's result has a dimension of size 1 or less than two, and follows a
    reduction.
    """
    dims = graph.types[graph.nodes[i].results[0]].dims
    if dims is None or (len(dims) > 1 and not any(d.is_one for d in dims)):
        return False
    before = graph.reached([i], frozenset(range(i + 1)).difference(graph.matmuls))
    return any(graph.nodes[j].op in REDUCED for j in before)


def _leaving(graph: Graph, kernel: frozenset[int]) -> tuple[str, ...]:
    """Names that others need of a kernel, in the order of the definition."""
    outside = (i for i in graph.live if i not in kernel | graph.free and not graph.is_given(i))
    needed = {name for i in outside for name in graph.needs(i)} | set(graph.definition.outputs)
    return graph.results(kernel, needed)
