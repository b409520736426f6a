"""What memory holds where a launch is followed: where groups end, in several ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate

from lowering.ground.dtypes import DType
from lowering.ground.expr import Binary, Expr, Var, evaluate, parts_of
from lowering.ground.sharing import INTEGERS, WHOLE, Part, Sharing, sizes_of_parts
from lowering.kernel.control import Let
from lowering.kernel.group_part import GroupPart
from lowering.kernel.kernel import GlobalTensor, Kernel
from lowering.kernel.operands import Stmt
from lowering.kernel.scalar_memory import LdGlobalScalar
from lowering.kernel.visit import expressions, walk
from lowering.proof.numbering import depends

__all__ = ["Ends", "Tables", "Way", "Words", "grouped", "tables_of"]


class Way(Enum):
    """Which groups there are; the value says it for people.

    ``UNEQUAL``: a small one, of more than two one that is most of all, one that is left, and empty
    ones, as numbers that are too large make them. ``FEW``: a small one, and, of several, most of
    the rest, so that some rows are nobody's. ``HALVES``: two alike, of more groups behind an empty
    one. ``ONE``: empty ones, one with everything, and empty ones again. ``TILES``: of a tile and a
    row each, or where that is too much of as many rows each, and the last one of all that is left.
    ``PARTS``: of sizes at which kernels that share groups out have parts of every kind
    (:func:`sizes_of_parts`). Where nothing else is said, a single group has everything.
    """

    UNEQUAL = "unequal groups"
    FEW = "rows behind all groups"
    HALVES = "halves in two groups"
    ONE = "all in one group"
    TILES = "a tile and a row in each group"
    PARTS = "groups of which kernels have parts"


@dataclass(frozen=True, slots=True)
class Ends:
    """Numbers in memory, by tensor and coordinates, the entry of an array of tensors among them.

    Args:
        way: which groups they make.
        largest: extent of what the groups are of.
        tile: elements of a tile of that.
        counts: how many numbers a table has, by its name.
        share: of each group, of a kernel that shares them out.
        bounds: the parameters that are the extent.
    """

    way: Way
    largest: int
    tile: int
    counts: Mapping[str, int]
    share: Sharing = WHOLE
    bounds: frozenset[str] = frozenset()

    def __call__(self, tensor: str, at: Sequence[int]) -> int:
        """A number."""
        group, whole = sum(at), self.largest
        count = self.counts.get(tensor, group + 1)
        step = max(whole // 8, 1)
        most = max(whole - step, step)
        match self.way:
            case Way.UNEQUAL:
                ends = (step, *(most for _ in range(count > 2)), whole) if count > 1 else (whole,)
            case Way.FEW:
                ends = (step, *(most for _ in range(count - 1)))
            case Way.HALVES:
                ends = (0, (whole + 1) // 2, whole)[max(3 - count, 0) :]
            case Way.ONE:
                ends = (*(0 for _ in range(count // 2)), whole)
            case Way.TILES:
                rows = max(min(self.tile + 1, whole // max(count, 1)), 1)
                ends = (*(min(rows * n, whole) for n in range(1, count)), whole)
            case Way.PARTS:
                ends = tuple(accumulate(sizes_of_parts(self.share)))
        return ends[group] if group < len(ends) else (group - len(ends) + 2) * whole

    def part(self, size: int) -> Part:
        """What the kernel has of a group of so many elements: of :attr:`Way.PARTS` what its share
        says, else all of it, so that the kernel is followed as one without a share is.
        """
        return self.share.part(size, INTEGERS) if self.way is Way.PARTS else Part(0, size)

    def parts(self) -> list[range] | None:
        """The elements of all groups that are the kernel's; None where not one table has their
        ends.
        """
        if not self.bounds or len(self.counts) != 1:
            return None
        (name,), begin, found = self.counts, 0, list[range]()
        for group in range(self.counts[name]):
            end = min(max(self(name, (group,)), begin), self.largest)
            part = self.part(end - begin)
            found.append(range(begin + part.begin, begin + part.begin + part.size))
            begin = end
        return found

    @property
    def all(self) -> tuple[int, ...]:
        """All of them that say where groups end."""
        return tuple(self(name, (n,)) for name, count in self.counts.items() for n in range(count))


def tables_of(kernel: Kernel) -> tuple[GlobalTensor, ...]:
    """The tensors that say where groups end."""
    read = {s.src.map for s in walk(kernel.body) if isinstance(s, LdGlobalScalar)}
    return tuple(
        t for t in kernel.globals if t.name in read and t.rank == 1 and t.dtype is DType.S32
    )


@dataclass(frozen=True, slots=True)
class Tables:
    """The tensors of a kernel that say where groups end, with how many numbers they have; the
    parameters that bound these, the elements of a tile of those, and the kernel's share.
    """

    counts: Mapping[str, Expr]
    bounds: frozenset[str]
    tile: int
    share: Sharing

    @staticmethod
    def of(kernel: Kernel, units: Mapping[str, int]) -> Tables:
        """Those of a kernel whose parameters are divided by ``units``."""
        bounds = Words.of(kernel).bounds
        tile = max((units[b] for b in bounds), default=1)
        counts = {t.name: t.sizes[0] for t in tables_of(kernel)}
        return Tables(counts, bounds, tile, kernel.share)

    def ends(self, way: Way, sizes: Mapping[str, int]) -> Ends:
        """What they hold at some sizes."""
        counts = {name: evaluate(e, sizes) for name, e in self.counts.items()}
        largest = max((sizes[b] for b in self.bounds or sizes), default=0)
        return Ends(way, largest, self.tile, counts, self.share, self.bounds)


def _scalars_in_memory(stmts: Iterable[Stmt]) -> Iterator[Var]:
    """What statements read in memory, and parts of groups, whose sizes are that."""
    for stmt in stmts:
        match stmt:
            case LdGlobalScalar(out=out):
                yield out
            case GroupPart(begin=begin, size=size):
                yield from (begin, size)


@dataclass(frozen=True, slots=True)
class Words:
    """Scalars that a kernel reads in memory.

    Args:
        names: of those; ``lets`` are what other names stand for.
        bounds: the parameters that bound them.
    """

    names: frozenset[str]
    lets: Mapping[Var, Expr]
    bounds: frozenset[str]

    @staticmethod
    def of(kernel: Kernel) -> Words:
        """Those of a kernel."""
        walked = list(walk(kernel.body))
        names = frozenset(v.name for v in _scalars_in_memory(walked))
        found = Words(names, {s.var: s.value for s in walked if isinstance(s, Let)}, frozenset())
        if not names:
            return found
        parts = (p for s in walked for e in expressions(s) for p in parts_of(e))
        least = (p for p in parts if isinstance(p, Binary) and p.op == "min")
        bounds = {p.rhs.name for p in least if isinstance(p.rhs, Var) and found.say(p.lhs)}
        return replace(found, bounds=frozenset(p.name for p in kernel.params) & bounds)

    def say(self, e: Expr) -> bool:
        """Whether a number depends on one of them, within a trip of a loop."""
        return bool(self.names) and depends(e, self.names, self.lets)


def grouped(kernel: Kernel) -> frozenset[str]:
    """The parameters that say how many groups there are, and those up to where groups go."""
    counts = (e for t in tables_of(kernel) for e in t.sizes)
    return Words.of(kernel).bounds | {e.name for e in counts if isinstance(e, Var)}
