"""Sizes at which a kernel is looked at: what its parameters are divided by, and which belong
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lowering.ground.expr import Binary, Const, Expr, Select, Special, Var, children
from lowering.kernel.control import For, Role, Roles
from lowering.kernel.copy_tile import CopyTile
from lowering.kernel.cp_async import CpAsync
from lowering.kernel.group_part import GroupPart
from lowering.kernel.kernel import GlobalTensor, Kernel, TensorMap
from lowering.kernel.memory import TmaLoad
from lowering.kernel.operands import Stmt
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import walk
from lowering.proof.compared import COMPARISONS, EQUALITIES, Scalars
from lowering.proof.ends import Words
from lowering.proof.numbering import depends
from lowering.proof.obligation import UnknownError

__all__ = ["Group", "grids_of", "groups_of", "listed", "lists_of", "units_of"]

_OWN = frozenset({"cluster.ctarank", "ctaid.z", "warp", "lane", "warpgroup.warp"})
"""Special registers of which all values are followed."""


def units_of(kernel: Kernel) -> dict[str, int]:
    """The largest number that each parameter is divided by, or what words of memory say, up to
    where groups go that it bounds; not less than what one box, or one copy by threads, has of it.
    """
    found, words = {p.name: 1 for p in kernel.params}, Words.of(kernel)
    for name, extent in _copied(kernel):
        found[name] = max(found[name], extent)
    for part in Scalars.of(kernel).parts:
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
    one of any parameter, where ``most`` tiles are no two groups and no quotient of a parameter is
    divided by it, and so may one that such is compared with or cut at, where they are not beyond
    it; the CTAs of a cluster, and of a place, are followed one by one, as are the trips of loops
    that have a number of them. What a group has is a part of the parameter that bounds its end.

    Raises:
        UnknownError: it does so with where parts of groups begin, of which few are followed; or it
            asks whether something is a number that it may be at no size that is followed.
    """
    units, scalars = units_of(kernel), Scalars.of(kernel)
    walked = list(walk(kernel.body))
    words = frozenset(s.out for s in walked if isinstance(s, LdGlobalScalar))
    parts = [s for s in walked if isinstance(s, GroupPart)]
    bounds = Words.of(kernel).bounds
    begins = frozenset(s.begin.name for s in parts)
    same = {v: s.whole for s in parts for v in (s.begin, s.size)}  # numbers of the same kind
    lets = scalars.lets | same
    quotients = _Quotients(frozenset(units), words, lets)
    loops = [s for s in walked if isinstance(s, For) and type(s.start) is type(s.stop) is Const]
    counted = frozenset(s.var for s in loops)
    found, digits, dealt = set[Group](), set[int](), set[int]()
    ctas = kernel.cluster * kernel.splits
    equal = _Equal(units, counted | {r.group for r in _roles(walked) if r.group}, lets)
    for op, x, n in scalars.beside():
        if depends(x, begins, lets):
            raise UnknownError(f"where a part of a group begins is {op} {n}")
        of = quotients.of(x)
        of = _of_group(x, bounds, lets) if of is None else of
        if op in EQUALITIES:
            equal.check(x, n, of)
        if of is not None:
            extent = op == "ceildiv"
            groups = {Group(p, unit, n, extent) for p, unit in of if unit > 1}
            found |= groups
            dealt |= {n} if groups and op not in COMPARISONS else set()
            cut = {p: -(-n // units[p]) for p, unit in of if unit == 1 and op in COMPARISONS}
            found |= {Group(p, units[p], c, False) for p, c in cut.items() if c >= most}
        elif op in COMPARISONS:
            known = x in kernel.params or _of_grid(x, lets) or _only(x, counted, lets)
            digits |= {n} if n >= max(most, ctas) and not known else set()
        elif op != "ceildiv" and ctas % n and 2 * n >= most:
            digits |= set() if _only(x, counted, lets) else {n}
    digits -= dealt
    more = (Group(p, unit, n, False) for n in digits for p, unit in units.items())
    return frozenset({*found, *more})


def _of_group(
    e: Expr, bounds: frozenset[str], lets: Mapping[Var, Expr]
) -> frozenset[tuple[str, int]] | None:
    """The parameter that bounds where a group ends, if ``e`` is what it has up to there; as of
    :meth:`_Quotients.of`.
    """
    match _said(e, lets):
        case Binary("-", end, _):
            match _said(end, lets):
                case Binary("min", _, Var(param)) if param in bounds:
                    return frozenset({(param, 1)})
    return None


def _said(e: Expr, lets: Mapping[Var, Expr]) -> Expr:
    """What a name stands for."""
    while isinstance(e, Var) and e in lets:
        e = lets[e]
    return e


def grids_of(kernel: Kernel) -> frozenset[int]:
    """The numbers of CTAs along x around which a kernel may do otherwise: by what it divides that
    number, or what is made of it alone, and what it compares it with and cuts it at.
    """
    scalars = Scalars.of(kernel)
    return frozenset(n for _, x, n in scalars.beside() if _of_grid(x, scalars.lets))


def _roles(stmts: Iterable[Stmt]) -> Iterator[Role]:
    """The roles among statements."""
    return (role for s in stmts if isinstance(s, Roles) for role in s.roles)


@dataclass(slots=True)
class _Equal:
    """Conditions that something is a number, or that it is not, of which no others can be seen
    from sizes around that number.

    Args:
        units: of each parameter.
        each: names of which all values are followed.
        lets: what other names stand for.
        params: those that are compared with numbers, by what is divided.
    """

    units: Mapping[str, int]
    each: frozenset[Var]
    lets: Mapping[Var, Expr]
    params: set[str] = field(default_factory=set)

    def check(self, x: Expr, n: int, of: frozenset[tuple[str, int]] | None) -> None:
        """Fail if ``x``, which is of those parameters, need not be the number at any size."""
        if _only(x, self.each, self.lets, _OWN) or self.grid(x):
            return
        for name, unit in of or ():
            self.params.add(name)
            if unit == 1 < self.units[name]:
                raise UnknownError(f"{x} is compared with {n}, a size that is not looked at")
        if len(self.params) > 1 or (of is not None and len(of) != 1) or self.by_cta(x):
            raise UnknownError(f"{x} is compared with {n}, of which no size is looked at")

    def grid(self, x: Expr) -> bool:
        """Whether it is the number of CTAs along x, as many of which are followed."""
        while isinstance(x, Var) and x in self.lets:
            x = self.lets[x]
        return x == Special("nctaid.x")

    def by_cta(self, e: Expr) -> bool:
        """Whether it depends on which CTA, or of how many, executes."""
        match e:
            case Var() if e in self.lets:
                return self.by_cta(self.lets[e])
            case Special(name):
                return name not in _OWN
        return any(map(self.by_cta, children(e)))


def _of_grid(e: Expr, lets: Mapping[Var, Expr]) -> bool:
    """Whether an expression depends on the number of CTAs along x, and on nothing else."""
    match e:
        case Var():
            return e in lets and _of_grid(lets[e], lets)
        case Special(name):
            return name == "nctaid.x"
    parts = [c for c in children(e) if not isinstance(c, Const)]
    return bool(parts) and all(_of_grid(c, lets) for c in parts)


def _only(
    e: Expr, names: frozenset[Var], lets: Mapping[Var, Expr], own: frozenset[str] = frozenset()
) -> bool:
    """Whether an expression depends on some names, and on special registers, alone."""
    match e:
        case Var():
            return e in names or (e in lets and _only(lets[e], names, lets, own))
        case Special(name):
            return name in own
    return all(_only(c, names, lets, own) for c in children(e))


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
