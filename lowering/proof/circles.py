"""No circle of waits: an order of all warps exists in which everybody comes to an end.

No warp asks whether a wait would be over; what it does next depends on what it has waited for, and
on words and tickets that it was given. So if one order of the warps comes to an end, all do, and if
one stops, all stop there (a network of processes with first-in-first-out channels): it is enough to
follow one, with copies that land at once. It is followed at sizes at which each loop takes no, one,
two and more trips than all rings have stages; see design/0033 for why that is enough.

On the way it is noted what is written where, and which counters are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from lowering.ground.expr import evaluate
from lowering.kernel.atomic import CounterWait
from lowering.kernel.kernel import Kernel
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.board import Board, Env, Walker
from lowering.proof.flow import unused
from lowering.proof.moves import ALONE, TOGETHER
from lowering.proof.obligation import Obligation, UnknownError, Verdict
from lowering.proof.places import STEPS, misplaced
from lowering.proof.sizes import listed, units_of
from lowering.proof.skeleton import Skeleton

__all__ = ["circles"]

NAME, PLACES, OPERANDS = "circles of waits", "results", "operands"

CLUSTERS = 12
"""Of a grid of which all are followed."""

LIMIT = 20_000
"""Steps of an agent, beyond which a claim is not decided."""


def circles(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """Everybody comes to an end; what was written, and counters, are then as they have to be."""
    claims = {name: Obligation(name, kernel.name) for name in (NAME, PLACES, OPERANDS)}
    for name in unused(kernel):
        why = f"at no size: nobody loads or stores {name}"
        claims[OPERANDS] = Obligation(OPERANDS, kernel.name, Verdict.REFUTED, why)
    try:
        plain = [Skeleton(kernel, a, (STEPS,)) for a in agents]
        moving = [_with_data(kernel, a) for a in agents]
        for sizes, sms, many in _sizes(kernel):
            for found in _followed(kernel, plain if many else moving, sizes, sms):
                claims[found.name] = found
            if any(o.why for o in claims.values()):
                break
    except UnknownError as e:
        claims[NAME] = Obligation(NAME, kernel.name, Verdict.UNPROVED, str(e))
    yield from claims.values()


def _with_data(kernel: Kernel, agent: Agent) -> Skeleton:
    """The steps of an agent and what data they move; of warps that do something together the first
    one stands for all.
    """
    first = any(warp % 4 == 0 for warp in agent.warps)
    return Skeleton(kernel, agent, (STEPS, TOGETHER if first else ALONE), first)


def _sizes(kernel: Kernel) -> Iterator[tuple[Env, int, bool]]:
    """Values of the parameters, and of multiprocessors: any two parameters so large that what they
    are divided by is in them no, one, two times, and once more for each stage of each ring and
    for each step that one who reads it has released. The last value says whether both take many:
    data is not followed there, since where it lies depends on each of them by itself.
    """
    most = 2 + sum(m.stages + 1 for m in kernel.mbarriers) // 2
    units = units_of(kernel)
    seen = set[tuple[int, ...]]()
    for pair in combinations(units, min(2, len(units))):
        for counts in product((0, 1, 2, most), repeat=len(pair)):
            chosen = dict.fromkeys(units, 1) | dict(zip(pair, counts, strict=True))
            sizes = listed({name: _size(chosen[name], u) for name, u in units.items()}, units)
            if (key := tuple(sizes.values())) not in seen:
                seen.add(key)
                several = (1, 3) if min(counts) < most else (1,)
                many = min(counts) == most and len(pair) > 1
                yield from ((sizes, n * kernel.cluster, many) for n in several)


def _size(count: int, unit: int) -> int:
    """So many units; of two one that is almost empty."""
    return unit + 1 if count == 2 else count * unit


def _followed(
    kernel: Kernel, skeletons: list[Skeleton], sizes: Env, sms: int
) -> Iterator[Obligation]:
    """What is wrong with a launch at some sizes."""
    try:
        grid, rows = evaluate(kernel.grid, sizes | {"sms": sms}), kernel.rows(sizes)
    except (
        ZeroDivisionError
    ):  # by an extent of 0: where a result has no element nothing is launched
        return
    clusters = grid // kernel.cluster * rows * kernel.splits
    waiting = any(isinstance(s, CounterWait) for s in walk(kernel.body))
    if not clusters or (waiting and clusters > CLUSTERS):
        return
    at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
    at = f"at {at} on {grid} x {rows} x {kernel.splits} CTAs"

    def refuted(name: str, why: str, trace: tuple[str, ...] = ()) -> Obligation:
        return Obligation(name, kernel.name, Verdict.REFUTED, f"{at} {why}", trace)

    whole = clusters <= CLUSTERS
    board = Board(kernel, grid, rows, sizes, _Memory(max(sizes.values(), default=0)))
    for together in _together(clusters, waiting):
        walkers = [(s, _walker(board, s.agent, c)) for c in together for s in skeletons]
        while sum(s.go(w, LIMIT) for s, w in walkers):
            pass
        stuck = tuple(s.said(w) for s, w in walkers if w.at < len(s.steps))
        if stuck:
            yield refuted(NAME, "warps wait for each other for ever", stuck)
            return
    if whole and (why := _left(kernel, board)):
        yield refuted(NAME, why)
    if whole and (why := misplaced(kernel, board, sizes)):
        yield refuted(PLACES, why)
    for why in board.flow.wrong[:1]:
        yield refuted(OPERANDS, why)


def _together(clusters: int, waiting: bool) -> list[Sequence[int]]:
    """The clusters of a grid that are followed, those together that wait for each other."""
    if waiting:
        return [range(clusters)]
    return [[c] for c in (range(clusters) if clusters <= CLUSTERS else (0, clusters - 1))]


def _left(kernel: Kernel, board: Board) -> str:
    """What is wrong with the counters that a grid has left; empty if nothing is."""
    left = [f"{n}[{i}]" for (n, i), v in board.counters.items() if v]
    if left:
        return f"counters are not zero in the end: {', '.join(left)}"
    for array in kernel.counters:
        count = evaluate(array.count, board.sizes | {"ctas": board.grid})
        for index in (i for n, i in board.counters if n == array.name):
            if not 0 <= index < count:
                return f"counter {index} of {count} is used, {array.name}"
    return ""


def _walker(board: Board, agent: Agent, number: int) -> Walker:
    """An agent of a CTA of a cluster, in front of its first step."""
    kernel, rank = board.kernel, agent.rank
    env = board.sizes | board.place(number, rank)
    env |= {"%nctaid.x": board.grid, "%nctaid.y": board.rows, "%cluster.ctarank": rank}
    groups = sum(warp % 4 == 0 for warp in agent.warps)
    return Walker(number * kernel.cluster + rank, board, groups, env)


class _Memory:
    """What tensors hold: numbers that grow, up to some that are too large."""

    def __init__(self, largest: int) -> None:
        self.step = max(largest // 3, 1)

    def __call__(self, tensor: str, at: Sequence[int]) -> int:
        return (sum(at) + 1) * self.step
