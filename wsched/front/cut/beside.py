"""What a kernel makes beside its results, because it reads all that it is made of anyway.

A backward pass needs ``gelu(h)`` for one product and the derivative of gelu at ``h`` behind another
one: the epilogue with the derivative has ``h`` in registers, and its tanh. A kernel of its own for
``gelu(h)`` reads ``h`` once more. Who reads what is made beside comes behind the kernel that makes
it, so kernels may change places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wsched.front.cut.epilogues import refusal
from wsched.front.cut.graph import Graph

__all__ = ["with_beside"]


def with_beside(graph: Graph, kernels: Sequence[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Kernels with what can be made beside their results, in an order in which they can run.

    As they are where there is nothing to add.

    Args:
        graph: what they are of.
        kernels: positions of each one's operations, in an order in which they can run.
    """
    found, order = list(kernels), tuple(range(len(kernels)))
    for cone in _cones(graph, frozenset().union(*kernels)):
        read = {name for i in cone for name in graph.needs(i) if graph.home[name] not in cone}
        for at, kernel in enumerate(found):
            if not read or not read <= _read_behind(graph, kernel):
                continue
            if any(graph.readers_behind(i) - kernel - cone for i in cone - {max(cone)}):
                continue
            more = [*found[:at], kernel | cone, *found[at + 1 :]]
            then = _order(graph, more)
            if then is not None and refusal(graph, kernel | cone) is None:
                found, order = more, then
                break
    return tuple(found[at] for at in order)


def _cones(graph: Graph, own: frozenset[int]) -> Iterator[frozenset[int]]:
    """Pointwise operations that lead to what kernels read, or to a result, each with those in front
    of it that are in no kernel; the last one is what is stored.
    """
    for i in sorted(graph.live - own - graph.free):
        wanted = graph.is_output(i) or bool(graph.readers_behind(i) & own)
        if not wanted or not graph.is_pointwise(i):
            continue
        cone, pending = {i}, [i]
        while pending:
            before = (graph.home[name] for name in graph.needs(pending.pop()))
            more = {j for j in before if j not in own and graph.is_pointwise(j)} - cone
            cone |= more
            pending += more
        if not any(graph.is_output(j) for j in cone - {i}):
            yield frozenset(cone)


def _read_behind(graph: Graph, kernel: frozenset[int]) -> set[str]:
    """Names that lie in memory and that a kernel reads behind its products."""
    behind = kernel.difference(graph.matmuls)
    read = {name for i in behind for name in graph.needs(i)}
    return {name for name in read if graph.home[name] not in kernel}


def _order(graph: Graph, kernels: Sequence[frozenset[int]]) -> tuple[int, ...] | None:
    """An order in which they can run, that of the arguments where it does; None if two wait for
    each other.
    """
    own = {i: at for at, kernel in enumerate(kernels) for i in kernel}
    before: list[set[int]] = [set() for _ in kernels]
    behind = list[frozenset[int]]()
    for i in range(len(graph.nodes)):
        needed = frozenset[int]().union(
            *(frozenset((own[j],)) if j in own else behind[j] for j in graph.operands(i))
        )
        behind.append(needed)
        if i in own:
            before[own[i]] |= needed - {own[i]}
    found = list[int]()
    while len(found) < len(kernels):
        ready = (at for at in range(len(kernels)) if at not in found and before[at] <= {*found})
        if (first := next(ready, None)) is None:
            return None
        found.append(first)
    return tuple(found)
