"""A definition cut into segments: each matmul with its epilogue for wsched, the rest for nvFuser.

The order of execution is rest 0, matmul 1, rest 1, matmul 2, … where rest i is what depends on
matmul i and no later one. So every segment reads only what stands before it.

Where the cut runs matters for rounding: a value that crosses is rounded to its own type. nvFuser
cuts around matmuls, too, so the product is rounded there; in a kernel of wsched's the epilogue
reads the fp32 accumulator (``wsched.importer.epilogue``). No cast is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from lowering.ground.errors import UnsupportedError
from wsched.doors.dropin.graph import Graph
from wsched.doors.dropin.tensors import TensorType
from wsched.fusion import DataType
from wsched.importer import Definition, Node, build_fusion
from wsched.importer.definition import Value

__all__ = ["Epilogues", "Segment", "cut"]


class Epilogues(Enum):
    """How much of what follows a matmul goes into its kernel."""

    ALL = "all that fits"
    NARROW = "as long as what leaves the kernel has 16 bits"
    NONE = "nothing, as nvFuser does by default"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a definition that is a definition itself.

    Args:
        definition: with the names of the whole; what other segments make is declared as an input.
        matmul: whether wsched makes a kernel of it; otherwise it is nvFuser's.
    """

    definition: Definition
    matmul: bool

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what it reads, in the order of its definition."""
        return tuple(n.results[0] for n in self.definition.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it makes for others."""
        return self.definition.outputs


def cut(
    definition: Definition, types: Mapping[str, TensorType], epilogues: Epilogues
) -> tuple[Segment, ...]:
    """The segments of a definition, in an order in which they can be executed.

    A matmul that wsched does not schedule is left to nvFuser; of an epilogue that it does not, as
    much as it does is taken.

    Args:
        definition: of a live FusionDefinition.
        types: its tensors.
        epilogues: what to take.

    Raises:
        UnsupportedError: no matmul that wsched schedules, or a definition that may not be cut.
    """
    graph = Graph(definition, types)
    graph.check()
    kernels: list[frozenset[int]] = []
    refusal = UnsupportedError("a definition whose results need no matmul", "linear or matmul")
    for matmul in graph.matmuls:
        taken = _kernel(graph, matmul, frozenset().union(*kernels), epilogues)
        if isinstance(taken, UnsupportedError):
            refusal = taken
        else:
            kernels.append(taken)
    if not kernels:
        raise UnsupportedError(refusal.what, refusal.supported, refusal.hint)
    groups = list(_groups(graph, kernels))
    if len(groups) > 1 and any(_reordered(n) for n in definition.inputs):
        raise UnsupportedError(
            "an input with another stride order in a definition of several segments", "row-major"
        )
    needed, segments = set(definition.outputs), list[Segment]()
    for group, matmul in reversed(groups):
        made = [n for i in sorted(group) for n in graph.nodes[i].results if n in needed]
        if made:
            segments.append(Segment(_part(graph, group, tuple(made)), matmul))
            needed |= set(segments[-1].inputs)
    segments[0:] = segments[::-1]
    if len(segments) == 1:  # with outputs in the caller's order
        segments[0] = Segment(_part(graph, groups[0][0], definition.outputs), matmul=True)
    return tuple(segments)


def _reordered(node: Node) -> bool:
    order = node.get("stride_order")
    return isinstance(order, tuple) and order != tuple(range(len(order)))[::-1]


# --- a matmul and its epilogue --------------------------------------------------------------------


def _kernel(
    graph: Graph, matmul: int, taken: frozenset[int], epilogues: Epilogues
) -> frozenset[int] | UnsupportedError:
    """The operations of a matmul's kernel, or why wsched does not schedule it."""
    if epilogues is Epilogues.NONE:
        followers: list[int] = []
    else:
        followers = _followers(graph, matmul, taken)
    while True:
        kernel = frozenset({matmul, *followers})
        if epilogues is Epilogues.NARROW:
            kernel = _narrowed(graph, kernel)
        kernel = _with_private(graph, matmul, kernel, taken)
        try:
            build_fusion(_part(graph, kernel, _leaving(graph, kernel)))
        except UnsupportedError as e:
            if not followers:
                return e
            followers.pop()
            continue
        return kernel


def _followers(graph: Graph, matmul: int, taken: frozenset[int]) -> list[int]:
    """Pointwise operations on the matmul's result, whose other operands are there before it."""
    found = [matmul]
    for i in sorted(graph.live):
        if i <= matmul or i in taken:
            continue
        last = graph.nodes[i].op == "stride_order" and graph.is_output(i)
        operands = graph.operands(i)
        ready = all(j in found or graph.last_matmul[j] < matmul for j in operands)
        if (graph.is_pointwise(i) or last) and ready and any(j in found for j in operands):
            found.append(i)
    return found[1:]


def _narrowed(graph: Graph, kernel: frozenset[int]) -> frozenset[int]:
    """Without what leaves the kernel in more than 16 bits and is no result of the definition."""
    while True:
        wide = {
            graph.home[name]
            for name in _leaving(graph, kernel)
            if name not in graph.definition.outputs
            and graph.types[name].dtype not in (DataType.BFloat16, DataType.Half)
        }
        fewer = frozenset(i for i in kernel if not wide & graph.reached([i], kernel))
        if not wide or not fewer:
            return kernel
        kernel = fewer


def _with_private(
    graph: Graph, matmul: int, kernel: frozenset[int], taken: frozenset[int]
) -> frozenset[int]:
    """With the pointwise operations before the epilogue that nobody else reads."""
    while True:
        epilogue = kernel - {matmul}
        private = {
            j
            for i in epilogue
            for j in graph.operands(i)
            if j not in kernel | taken | graph.free
            and graph.is_pointwise(j)
            and not graph.is_output(j)
            and graph.readers[j] <= epilogue
        }
        if not private:
            return kernel
        kernel |= private


def _leaving(graph: Graph, kernel: frozenset[int]) -> tuple[str, ...]:
    """Names that others need of a kernel, in the order of the definition."""
    outside = (i for i in graph.live if i not in kernel | graph.free and not graph.is_given(i))
    needed = {name for i in outside for name in graph.needs(i)} | set(graph.definition.outputs)
    return tuple(n for i in sorted(kernel) for n in graph.nodes[i].results if n in needed)


# --- all of it ------------------------------------------------------------------------------------


def _groups(graph: Graph, kernels: list[frozenset[int]]) -> Iterator[tuple[frozenset[int], bool]]:
    """The operations of each segment in order of execution, and whether it is wsched's."""
    own = {i: k for k, kernel in enumerate(kernels) for i in kernel}
    earliest = [0] * len(graph.nodes)
    for i in range(len(graph.nodes)):
        before = max((earliest[j] for j in graph.operands(i)), default=0)
        earliest[i] = own[i] + 1 if i in own else before
    rest: dict[int, int] = {}
    for i in sorted(graph.live, reverse=True):
        if i not in own and i not in graph.free and not graph.is_given(i):
            graph.check_rest(i)
            rest[i] = _with_readers(graph, i, own, rest, earliest[i])
    for k in range(len(kernels) + 1):
        if others := frozenset(i for i, level in rest.items() if level == k):
            yield others, False
        if k < len(kernels):
            yield kernels[k], True


def _with_readers(
    graph: Graph, i: int, own: Mapping[int, int], rest: Mapping[int, int], earliest: int
) -> int:
    """The rest that an operation runs in: that of its first reader, so that they are one kernel.

    As early as possible where a matmul or nobody reads it first.
    """
    pending, levels = list(graph.readers[i]), list[tuple[int, bool]]()
    while pending:
        j = pending.pop()
        if j in graph.free and j not in own:
            pending += graph.readers[j]
        else:
            levels.append((own[j], True) if j in own else (rest[j], False))
    first, by_kernel = min(levels, default=(earliest, True))
    return earliest if by_kernel else first


def _part(graph: Graph, group: frozenset[int], outputs: tuple[str, ...]) -> Definition:
    """A group of operations as a definition with these outputs."""
    made = [graph.home[name] for name in outputs]
    group &= graph.reached(made, group | graph.free)  # what is free may lie between two of them
    nodes: dict[int, list[Node]] = {i: [graph.nodes[i]] for i in group}
    pending = [name for i in group for name in graph.nodes[i].refs]
    declared: set[str] = set()
    while pending:
        name = pending.pop()
        i = graph.home[name]
        if i in group or name in declared:
            continue
        if graph.is_given(i) or i in graph.free:
            nodes[i] = [graph.nodes[i]]
            pending += graph.nodes[i].refs
        else:
            nodes.setdefault(i, []).append(_declared(name, graph.types[name], graph.nodes[i].line))
        declared.add(name)
    return Definition(tuple(n for i in sorted(nodes) for n in nodes[i]), outputs)


def _declared(name: str, tensor: TensorType, line: int) -> Node:
    """What another segment makes, as an input: row-major and dense."""
    if tensor.dtype is None or None in tensor.extents:
        raise UnsupportedError(
            f"{name}, expanded or of an unknown type, between segments", "tensors in memory"
        )
    shape: tuple[Value, ...] = tuple(
        int(e) if e is not None and e.isdigit() else -1 for e in tensor.extents
    )
    kwargs: tuple[tuple[str, Value], ...] = (
        ("shape", shape),
        ("contiguity", tuple(None if size == 1 else True for size in shape)),
        ("dtype", tensor.dtype),
        ("is_cpu", False),
    )
    return Node("define_tensor", (name,), (), kwargs, line)
