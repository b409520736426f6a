"""Sizes at which a kernel is looked at: what its parameters are divided by, and which belong
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import Binary, Const, Expr, Select, Special, Var, children, parts_of
from lowering.kernel.control import For, Let
from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.cp_async import CpAsync
from lowering.kernel.group_part import GroupPart
from lowering.kernel.kernel import GlobalTensor, Kernel, TensorMap
from lowering.kernel.memory import TmaLoad
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import expressions, walk
from lowering.proof.ends import Words
from lowering.proof.numbering import depends
from lowering.proof.obligation import UnknownError

__all__ = ["Group", "grids_of", "groups_of", "listed", "lists_of", "units_of"]

_DIVISIONS = ("ceildiv", "//", "%")
_COMPARISONS = ("<", "<=", "==", "!=", "min", "max")


def units_of(kernel: Kernel) -> dict[str, int]:
    """The largest number that each parameter is divided by, or what words of memory say, up to
    where groups go that it bounds; not less than what one box, or one copy by threads, has of it.
    """
    found, words = {p.name: 1 for p in kernel.params}, Words.of(kernel)
    for name, extent in _copied(kernel):
        found[name] = max(found[name], extent)
    for part in _parts(kernel):
        match part:
            case Binary("ceildiv" | "//", Var(name), Const(value)) if name in found:
                found[name] = max(found[name], value)
            case Binary("ceildiv" | "//", x, Const(value)) if words.say(x):
                found |= {name: max(found[name], value) for name in words.bounds}
    return found


def _copied(kernel: Kernel) -> Iterator[tuple[str, int]]:
    """Parameters that are extents of tensors, and how much of them is loaded at once."""
    params = {p.name for p in kernel.params}
    for stmt in walk(kernel.body):
        match stmt:
            case TmaLoad(src=src):
                boxed = kernel.named(TensorMap, src.map)
                sizes, lengths = boxed.sizes, boxed.box
            case CpAsync(src=src, rows=rows, cols=cols) | CopyTile(src=src, rows=rows, cols=cols):
                sizes, lengths = kernel.named(GlobalTensor, src.map).sizes, (rows, cols)
            case _:
                continue
        for size, length in zip(reversed(sizes), reversed(lengths), strict=False):
            if isinstance(size, Var) and size.name in params:
                yield size.name, length


def listed(sizes: Mapping[str, int], units: Mapping[str, int]) -> dict[str, int]:
    """Sizes in which that of a list is the sum of its parts, which begin at whole units: ``N0`` and
    ``N1`` are side by side in ``N``.
    """
    found = dict(sizes)
    for name, parts in lists_of(sizes).items():
        found[name] = sum(units[p] * -(-sizes[p] // units[p]) for p in parts)
    return found


def lists_of(names: Iterable[str]) -> dict[str, list[str]]:
    """The parameters that are sums of others, with these: ``N`` of ``N0``, ``N1``."""
    known = list(names)
    parts = {n: [p for p in known if p.startswith(n) and p[len(n) :].isdecimal()] for n in known}
    return {name: of for name, of in parts.items() if of}


@dataclass(frozen=True, order=True, slots=True)
class Group:
    """A number by which a kernel divides how many tiles, or steps, a parameter has.

    Args:
        param: the parameter.
        unit: elements of one of those tiles.
        count: the number; what is beyond a whole group of so many may be dealt with otherwise.
        extent: whether how many groups there are, rounded up, is an extent: of a part of K, or of
            tiles of clusters.
    """

    param: str
    unit: int
    count: int
    extent: bool

    @property
    def one(self) -> int:
        """Elements of a group."""
        return self.unit * self.count

    @property
    def two(self) -> int:
        """Of two groups and a rest of two tiles, or of one where two make a group, the last of
        which is almost empty.
        """
        return self.unit * (2 * self.count + min(2, self.count - 1) - 1) + 1


def groups_of(kernel: Kernel, most: int) -> frozenset[Group]:
    """The groups that quotients of parameters are dealt into: by what these are divided, taken
    modulo, compared with and cut at; parameters themselves where that is of ``most`` tiles or more.

    A number that only something else is divided by, which depends on the CTA or on the trip, may be
    one of any parameter, where ``most`` tiles are no two groups, and so may one that such is
    compared with or cut at, where they are not beyond it; the CTAs of a cluster, and of a
    place, are followed one by one, as are the trips of loops that have a number of them.

    Raises:
        UnknownError: it does so with where parts of groups begin, of which few are followed.
    """
    units = units_of(kernel)
    walked = list(walk(kernel.body))
    lets = {s.var: s.value for s in walked if isinstance(s, Let)}
    words = frozenset(s.out for s in walked if isinstance(s, LdGlobalScalar))
    parts = [s for s in walked if isinstance(s, GroupPart)]
    begins = frozenset(s.begin.name for s in parts)
    lets |= {v: s.whole for s in parts for v in (s.begin, s.size)}  # numbers of the same kind
    quotients = _Quotients(frozenset(units), words, lets)
    loops = [s for s in walked if isinstance(s, For) and type(s.start) is type(s.stop) is Const]
    counted = frozenset(s.var for s in loops)
    found, digits, ctas = set[Group](), set[int](), kernel.cluster * kernel.splits
    for op, x, n in _beside_numbers(kernel):
        if depends(x, begins, lets):
            raise UnknownError(f"where a part of a group begins is {op} {n}")
        of = quotients.of(x)
        if of is not None:
            extent = op == "ceildiv"
            found |= {Group(p, unit, n, extent) for p, unit in of if unit > 1}
            cut = {p: -(-n // units[p]) for p, unit in of if unit == 1 and op in _COMPARISONS}
            found |= {Group(p, units[p], c, False) for p, c in cut.items() if c >= most}
        elif op in _COMPARISONS:
            known = x in kernel.params or _of_grid(x, lets) or _only(x, counted, lets)
            digits |= {n} if n >= max(most, ctas) and not known else set()
        elif op != "ceildiv" and ctas % n and 2 * n >= most:
            digits |= set() if _only(x, counted, lets) else {n}
    digits -= {g.count for g in found}
    more = (Group(p, unit, n, False) for n in digits for p, unit in units.items())
    return frozenset({*found, *more})


def grids_of(kernel: Kernel) -> frozenset[int]:
    """The numbers of CTAs along x around which a kernel may do otherwise: by what it divides that
    number, or what is made of it alone, and what it compares it with and cuts it at.
    """
    lets = {s.var: s.value for s in walk(kernel.body) if isinstance(s, Let)}
    return frozenset(n for _, x, n in _beside_numbers(kernel) if _of_grid(x, lets))


def _beside_numbers(kernel: Kernel) -> Iterator[tuple[str, Expr, int]]:
    """What a kernel divides by a number of two or more, compares with one, or cuts at it."""
    for part in _parts(kernel):
        match part:
            case Binary(op, x, Const(n)) if n > 1 and op in _DIVISIONS + _COMPARISONS:
                yield op, x, n
            case Binary(op, Const(n), x) if n > 1 and op in _COMPARISONS:
                yield op, x, n


def _of_grid(e: Expr, lets: Mapping[Var, Expr]) -> bool:
    """Whether an expression depends on the number of CTAs along x, and on nothing else."""
    match e:
        case Var():
            return e in lets and _of_grid(lets[e], lets)
        case Special(name):
            return name == "nctaid.x"
    parts = [c for c in children(e) if not isinstance(c, Const)]
    return bool(parts) and all(_of_grid(c, lets) for c in parts)


def _only(e: Expr, names: frozenset[Var], lets: Mapping[Var, Expr]) -> bool:
    """Whether an expression depends on some names alone."""
    match e:
        case Var():
            return e in names or (e in lets and _only(lets[e], names, lets))
        case Special():
            return False
    return all(_only(c, names, lets) for c in children(e))


@dataclass
class _Quotients:
    """What expressions are quotients of, but for words of memory; ``known`` are the answers for
    names.
    """

    params: frozenset[str]
    words: frozenset[Var]
    lets: Mapping[Var, Expr]
    known: dict[Var, frozenset[tuple[str, int]] | None] = field(default_factory=dict)

    def of(self, e: Expr) -> frozenset[tuple[str, int]] | None:
        """The parameters that ``e`` grows with, each with how much of it makes one of ``e``; None
        if it depends on anything else.
        """
        match e:
            case Var(name) if name in self.params:
                return frozenset({(name, 1)})
            case Var() if e in self.lets:
                if e not in self.known:
                    self.known[e] = self.of(self.lets[e])
                return self.known[e]
            case Var() if e not in self.words:
                return None
            case Special():
                return None
        found = frozenset[tuple[str, int]]()
        for part in children(e)[isinstance(e, Select) :]:  # what decides is no number
            inner = self.of(part)
            if inner is None:
                return None
            found |= inner
        match e:
            case Binary("ceildiv" | "//", _, Const(n)):
                return frozenset((p, unit * n) for p, unit in found)
        return found


def _parts(kernel: Kernel) -> Iterator[Expr]:
    """All expressions of a kernel, and those in them, once each."""
    whole = [kernel.grid, kernel.grid_y, *(e for s in walk(kernel.body) for e in expressions(s))]
    return iter({part for e in whole for part in parts_of(e)})
