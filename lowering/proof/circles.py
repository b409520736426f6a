"""No circle of waits: an order of all warps exists in which everybody comes to an end.

No warp asks whether a wait would be over; what it does next depends on what it has waited for, and
on words and tickets that it was given. So if one order of the warps comes to an end, all do, and if
one stops, all stop there (a network of processes with first-in-first-out channels): it is enough to
follow one, with copies that land at once. It is followed at sizes at which each loop takes no, one,
two and more trips than all rings have stages, and tiles make up one and two of the groups that they
are dealt into; see design/0033 for what that says of other sizes.

On the way it is noted what is written where, and which counters are left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from lowering.ground.expr import evaluate
from lowering.ground.sharing import sizes_of_parts
from lowering.kernel.atomic import CounterWait
from lowering.kernel.compute import Wgmma
from lowering.kernel.kernel import Kernel
from lowering.kernel.tensor_memory import Tcgen05Mma
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.beyond import Beyond
from lowering.proof.board import Board, Env, Walker
from lowering.proof.clusters import draws
from lowering.proof.ends import Tables, Way, Words, grouped
from lowering.proof.flow import unused
from lowering.proof.moves import ALONE, TOGETHER
from lowering.proof.obligation import Obligation, UnknownError, Verdict
from lowering.proof.places import STEPS, misplaced
from lowering.proof.sizes import Group, grids_of, groups_of, listed, lists_of, units_of
from lowering.proof.skeleton import Skeleton, alike

__all__ = ["circles"]

NAME, PLACES, OPERANDS = "circles of waits", "results", "operands"

CLUSTERS = 64
"""Of a grid of which all are followed where two parameters are many tiles, of a larger one the
first and the last; and of one of which all wait for each other, no larger one is followed.
"""

GROUP = 32
"""Tiles of the largest group that is followed."""

MANY = 16
"""Multiprocessors for each CTA of a cluster: more than two tiles of two steps have shares for."""

LIMIT, ALL = 20_000, 400_000
"""Steps of an agent between two waits, and of a grid, beyond which a claim is not decided."""


def circles(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """Everybody comes to an end; what was written, and counters, are then as they have to be."""
    claims = {name: Obligation(name, kernel.name) for name in (NAME, PLACES, OPERANDS)}
    for name in unused(kernel):
        why = f"at no size: nobody loads or stores {name}"
        claims[OPERANDS] = Obligation(OPERANDS, kernel.name, Verdict.REFUTED, why)
    try:
        for found in _all(kernel, agents):
            claims[found.name] = found
    except UnknownError as e:
        for name in (n for n, o in claims.items() if not o.why):
            claims[name] = Obligation(name, kernel.name, Verdict.UNPROVED, str(e))
    yield from claims.values()


def _all(kernel: Kernel, agents: tuple[Agent, ...]) -> Iterator[Obligation]:
    """What is wrong with launches of all sizes that are looked at, up to the first such.

    Raises:
        UnknownError: some that are looked at cannot be followed, or there are none.
    """
    plain = alike([Skeleton(kernel, a, (STEPS,)) for a in agents])
    moving = alike([_with_data(kernel, a) for a in agents])
    followed, left, sums = set[Sized](), dict[Sized, str](), set[frozenset[str]]()
    seen = set[tuple[object, ...]]()
    units, waiting = units_of(kernel), any(isinstance(s, CounterWait) for s in walk(kernel.body))
    most, least, drawn = _most(kernel), kernel.cluster * kernel.splits, draws(kernel)
    tables = Tables.of(kernel, units)
    beyond = Beyond(units, least, {n: _size(most, u) for n, u in units.items()})
    larger, usual = deque[_Size](), _sizes(kernel, units, waiting)
    while size := larger.popleft() if larger else next(usual, None):
        grid = _grid(kernel, size, waiting, drawn)
        memory = tables.ends(size.way, size.sizes)
        parts = size.way is Way.PARTS
        if (key := (*size.sizes.values(), grid.ctas, size.many, parts, *memory.all)) in seen:
            followed |= size.chosen  # on more multiprocessors than it has tiles
            continue
        if grid.clusters > CLUSTERS and grid.waiting:
            left |= dict.fromkeys(size.chosen, str(grid))
        elif grid.clusters:
            skeletons = plain if size.many else moving
            board = Board(kernel, grid.ctas, grid.rows, grid.sizes, memory)
            wrong = list(_followed(grid, board, skeletons, not size.many))
            yield from wrong
            if wrong:
                return
            sums.update(*board.flow.sums.values())
            for name, sizes in beyond.sizes(size.sizes, board.flow.ends):
                larger.append(_Size(listed(sizes, units), frozenset({(name, sizes[name])}), least))
            followed |= size.chosen
            seen.add(key)
    for at in (at for n, at in left.items() if n not in followed):
        raise UnknownError(f"{at} wait for each other, of whom at most {CLUSTERS} are followed")
    if not followed:
        raise UnknownError("there is no launch at any size that is looked at")
    if not sums and any(isinstance(s, Wgmma | Tcgen05Mma) for s in walk(kernel.body)):
        why = "at no size: no result is made of any product"
        yield Obligation(OPERANDS, kernel.name, Verdict.REFUTED, why)


def _with_data(kernel: Kernel, agent: Agent) -> Skeleton:
    """The steps of an agent and what data they move; of warps that do something together the first
    one stands for all.
    """
    first = any(warp % 4 == 0 for warp in agent.warps)
    return Skeleton(kernel, agent, (STEPS, TOGETHER if first else ALONE), first)


Sized = tuple[str, int]
"""A parameter and its size."""


@dataclass(frozen=True, slots=True)
class _Size:
    """A launch that is looked at.

    Args:
        sizes: values of the parameters; ``chosen`` are those that it is there for.
        sms: multiprocessors.
        many: whether two parameters are many tiles; data is not followed there, since where it lies
            depends on each of them by itself.
        way: which groups memory makes, if it does.
    """

    sizes: Env
    chosen: frozenset[Sized]
    sms: int
    many: bool = False
    way: Way = Way.UNEQUAL


_Chosen = tuple[tuple[str, ...], tuple[int, ...], Env, frozenset[Sized]]
"""Parameters that are chosen, how many units each has, and with those of all others the sizes."""


def _sizes(kernel: Kernel, units: Mapping[str, int], waiting: bool) -> Iterator[_Size]:
    """Any two parameters so large that what they are divided by is in them no, one, two times, and
    once more for each stage of each ring and for each step that one who reads it has released;
    then all parameters at once, each one and a half of them; then each parameter beside one part of
    a list that is as wide as all of it; then each as large as one and two of its groups, with two
    tiles of the others. Where memory says where groups end, several groups of several tiles are all
    that there may be; many tiles of something else are beside many groups of a few rows each, too,
    and where kernels share groups out one of each way there is to divide one up.
    CTAs that wait for each other are followed where there are as many as steps as well; and all
    where there are as many as something is compared with, or one more.
    """
    most, least = _most(kernel), kernel.cluster * kernel.splits
    groups, found = grouped(kernel), dict[tuple[int, ...], _Chosen]()
    for pair in combinations(units, min(2, len(units))):
        for counts in product((0, 1, 2, most), repeat=len(pair)):
            sizes = {n: _size(1, u) for n, u in units.items()}
            some = {n: _size(c, units[n]) for n, c in zip(pair, counts, strict=True)}
            sizes = listed(sizes | some, units)
            found.setdefault(tuple(sizes.values()), (pair, counts, sizes, frozenset(some.items())))
    for pair, counts, sizes, chosen in found.values():
        several = [1, 3] if min(counts, default=0) < most else [1]
        several += [MANY] if waiting and {*counts} == {2} else []
        many = min(counts, default=0) == most and len(pair) > 1
        for n in several:
            yield _Size(sizes, chosen, n * least, many)
        further = min(counts, default=0) > 1 and groups.issuperset(pair)
        for way in (w for w in Way if further and w is not Way.PARTS):
            n = 1 if many else 3
            yield _Size(sizes, frozenset(), n * least, many, way)
        if many and len(groups.intersection(pair)) == 1:
            yield _Size(sizes, frozenset(), least, many, Way.TILES)
    yield _Size(listed({n: _half(u) for n, u in units.items()}, units), frozenset(), 3 * least)
    if kernel.share:
        yield _in_parts(kernel, {n: _size(2, u) for n, u in units.items()}, 3 * least)
    for name, parts in lists_of(units).items():
        if any(units[name] % units[part] for part in parts):
            raise UnknownError(f"{name} is divided by {units[name]}, its parts by other numbers")
        for part, other in product(parts, (n for n in units if n not in (name, *parts))):
            sizes = {n: _size(1, u) for n, u in units.items()} | dict.fromkeys(parts, 0)
            some = {part: _size(1, units[part]), other: _size(most, units[other])}
            yield _Size(listed(sizes | some, units), frozenset(some.items()), least)
    for group in sorted(groups_of(kernel, most)):
        if group.count > GROUP:
            raise UnknownError(f"{group.param} is dealt out in groups of {group.count} tiles, of "
                               f"which at most {GROUP} are followed")  # fmt: skip
        for size, others, n in _of_group(group, units[group.param], most):
            sizes = {n: _size(others, u) for n, u in units.items()} | {group.param: size}
            chosen = frozenset({(group.param, size)})
            yield _Size(listed(sizes, units), chosen, n * least)
    for ctas in sorted(grids_of(kernel)):
        if ctas > GROUP:
            raise UnknownError(f"{ctas} CTAs may do otherwise than more of them, of which at most "
                               f"{GROUP} are followed")  # fmt: skip
        for name, n in product(units, (ctas, ctas + 1)):  # and more tiles than CTAs
            sizes = {other: _size(2, u) for other, u in units.items()}
            sizes |= {name: _size(n + 1, units[name])}
            yield _Size(listed(sizes, units), frozenset(), -(-n // least) * least)


def _in_parts(kernel: Kernel, sizes: Env, sms: int) -> _Size:
    """Groups of which kernels that share them out have parts of every kind, and all else twice."""
    of, along = sizes_of_parts(kernel.share), Words.of(kernel).bounds
    groups = dict.fromkeys(grouped(kernel) - along, len(of)) | dict.fromkeys(along, sum(of))
    return _Size({**sizes, **groups}, frozenset(), sms, way=Way.PARTS)


def _most(kernel: Kernel) -> int:
    """More trips than all rings have stages, and steps that one who reads them has released."""
    return 2 + sum(m.stages + 1 for m in kernel.mbarriers) // 2


def _size(count: int, unit: int) -> int:
    """So many units; of several the last one is almost empty."""
    return (count - 1) * unit + 1 if count > 1 else count * unit


def _half(unit: int) -> int:
    """Two units, of which the second is neither whole nor almost empty."""
    return unit + unit // 2 + 1


def _of_group(group: Group, unit: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Sizes of a group's parameter, units of the others, and clusters along x: those of one group,
    and of two with a rest, that are none of the numbers of tiles at which every kernel is followed;
    and so many groups as there are trips at most, if they are such.
    """
    if group.one not in (2 * unit, most * unit):
        yield group.one, 2, 1
    if most * unit < 2 * group.one or most * unit % group.one == 0:
        yield group.two, 2, 3
    if group.extent:
        yield most * group.one, 1, 1


@dataclass(frozen=True, slots=True)
class _Grid:
    """A launch: CTAs along x, rows of them, and clusters in all; ``waiting`` for each other or
    not, with tickets ``drawn`` or not. ``way`` says which groups memory makes.
    """

    kernel: Kernel
    sizes: Env
    way: Way
    ctas: int
    rows: int
    clusters: int
    waiting: bool
    drawn: bool

    def __str__(self) -> str:
        at = ", ".join(f"{n} = {v}" for n, v in self.sizes.items())
        way = "" if self.way is Way.UNEQUAL else f", {self.way.value},"
        return f"at {at}{way} on {self.ctas} x {self.rows} x {self.kernel.splits} CTAs"


def _grid(kernel: Kernel, size: _Size, waiting: bool, drawn: bool) -> _Grid:
    """The launch at some sizes; of no cluster where nothing is launched."""
    try:
        ctas = evaluate(kernel.grid, size.sizes | {"sms": size.sms})
        rows = kernel.rows(size.sizes)
    except ZeroDivisionError:  # by an extent of 0: the result has no element
        return _Grid(kernel, size.sizes, size.way, 0, 0, 0, waiting, drawn)
    clusters = ctas // kernel.cluster * rows * kernel.splits
    return _Grid(kernel, size.sizes, size.way, ctas, rows, clusters, waiting, drawn)


def _followed(
    at: _Grid, board: Board, skeletons: list[Skeleton], whole: bool
) -> Iterator[Obligation]:
    """What is wrong with a launch; ``whole`` if all clusters are followed however many they are."""
    kernel, sizes, clusters = at.kernel, at.sizes, at.clusters

    def refuted(name: str, why: str, trace: tuple[str, ...] = ()) -> Obligation:
        return Obligation(name, kernel.name, Verdict.REFUTED, f"{at} {why}", trace)

    whole, steps = whole or clusters <= CLUSTERS, 0
    for together in _together(clusters, at.waiting, whole, at.drawn):
        walkers = [(s, _walker(board, s.agent, c)) for c in together for s in skeletons]
        while taken := sum(s.go(w, LIMIT) for s, w in walkers):
            steps += taken
            if steps > ALL:
                raise UnknownError(f"more than {ALL} steps {at}")
        stuck = tuple(s.said(w) for s, w in walkers if w.at < len(s.steps))
        if stuck:
            yield refuted(NAME, "warps wait for each other for ever", stuck)
            return
    if whole and (why := _left(kernel, board)):
        yield refuted(NAME, why)
    if whole and (why := misplaced(kernel, board, sizes)):
        yield refuted(PLACES, why)
    for why in [*board.flow.wrong, *board.flow.apart()][:1]:
        yield refuted(OPERANDS, why)


def _together(clusters: int, waiting: bool, whole: bool, drawn: bool) -> list[Sequence[int]]:
    """The clusters of a grid that are followed, those together that wait for each other. Those that
    draw tickets are as well, the last one first: alone each would draw all that there are.
    """
    if waiting or drawn:
        some = range(clusters) if waiting or whole else sorted({0, clusters - 1})
        return [some[::-1] if drawn else some]
    return [[c] for c in (range(clusters) if whole else (0, clusters - 1))]


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
    cta, group = number * kernel.cluster + rank, agent.warps[0] // 4
    return Walker(cta, board, groups, env, group=group)
