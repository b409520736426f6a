"""Which operations are in one segment: those of a kernel, and what stands between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wsched.front.cut.graph import Graph

__all__ = ["groups_of"]


def groups_of(graph: Graph, kernels: list[frozenset[int]]) -> Iterator[tuple[frozenset[int], bool]]:
    """The operations of each segment in order of execution, and whether it is wsched's.

    Args:
        graph: what is cut.
        kernels: the operations of each kernel, in the order in which they run.

    Raises:
        UnsupportedError: a rest has an operation that nobody may run in a segment of its own.
    """
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
    if not levels:
        return earliest
    first, by_kernel = min(levels)
    return earliest if by_kernel else first
