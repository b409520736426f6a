"""The two ends of a ring: which warps fill a step and how, and which read it and how.

Nobody declares this. The warps that acquire a step fill it, with what they write behind that; those
that wait for a step read it. Which warps these are is said by roles and ``on`` alone. From this
follow how many arrivals a phase of either barrier takes, and which proxies meet in the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.errors import InternalError
from lowering.ground.frozen import quick
from lowering.kernel.kernel import Kernel, Ring
from lowering.kernel.nodes import (
    Acquire,
    Body,
    Commit,
    CpAsync,
    Elect,
    For,
    OnWarp,
    Role,
    Roles,
    Stmt,
    WaitFull,
)
from lowering.kernel.operands import IN_STAGES, TmemRef
from lowering.kernel.traits import Memory
from lowering.kernel.visit import bodies, defined, operands, used, walk

__all__ = ["Ends", "Fill", "Reader", "announces", "copies", "ends_of", "stores", "sums", "teams_of"]


@dataclass(frozen=True, slots=True)
class Fill:
    """What some warps of the CTA do for each step that they fill.

    Args:
        warps: their numbers.
        announcements: threads that announce the bytes that TMA brings.
        commits: arrivals behind stores, one a warp.
        copies: arrivals behind ``cp.async``, one a thread.
        issuers: those of the warps that issue products in tensor memory, an arrival each.
    """

    warps: frozenset[int]
    announcements: int = 0
    commits: int = 0
    copies: int = 0
    issuers: frozenset[int] = frozenset()

    @property
    def arrivals(self) -> int:
        """Arrivals for each step."""
        return self.announcements + self.commits + self.copies + len(self.issuers)


@dataclass(frozen=True, slots=True)
class Reader:
    """Warps of the CTA that read steps.

    Args:
        warps: their numbers.
        teams: of these warps, which take different steps.
        proxies: through which they read, ``SHARED``, ``SHARED_ASYNC`` or ``TENSOR``, or several.
        issues: whether what reads is complete at any time later: products in tensor memory.
    """

    warps: frozenset[int]
    teams: int
    proxies: Memory
    issues: bool = False

    @property
    def arrivals(self) -> int:
        """Arrivals for each step, one a warp."""
        return len(self.warps) // self.teams


@dataclass(frozen=True, slots=True)
class Ends:
    """Who fills and who reads the steps of a ring; ``readers`` by role."""

    fills: tuple[Fill, ...]
    readers: Mapping[str, tuple[Reader, ...]]

    @property
    def full(self) -> int:
        """Arrivals that make a stage full."""
        return sum(f.arrivals for f in self.fills)

    @property
    def empty(self) -> int:
        """Arrivals of one CTA that make a stage empty."""
        return sum(r.arrivals for readers in self.readers.values() for r in readers)

    @property
    def stored_in_place(self) -> bool:
        """Whether warps store, or copy by ``cp.async``, what they read."""
        reading = frozenset(w for found in self.readers.values() for r in found for w in r.warps)
        return any((f.commits or f.copies) and f.warps & reading for f in self.fills)

    @property
    def summed(self) -> bool:
        """Whether products in tensor memory fill it."""
        return any(f.issuers for f in self.fills)

    @property
    def issuers(self) -> tuple[int, ...]:
        """Warps that issue products for others that begin the step with them."""
        return tuple(sorted(w for f in self.fills if f.issuers < f.warps for w in f.issuers))

    @property
    def issued(self) -> bool:
        """Whether products read it, which no thread sees the end of."""
        return any(map(self.issues, self.readers))

    def issues(self, role: str) -> bool:
        """Whether products that a role issues read it."""
        return any(r.issues for r in self.readers.get(role, ()))

    def reads(self, proxy: Memory, role: str | None = None) -> bool:
        """Whether a role, or any, reads through a proxy."""
        found = self.readers.values() if role is None else (self.readers.get(role, ()),)
        return any(proxy & r.proxies for readers in found for r in readers)


def ends_of(kernel: Kernel, ring: Ring) -> Ends:
    """The ends of a ring whose steps are acquired and waited for, in roles.

    Raises:
        InternalError: nobody fills or reads it; warps fill their steps in several ways; a turn is
            no whole number of warps.
    """
    roles = [r for s in kernel.body if isinstance(s, Roles) for r in s.roles]
    fills = tuple(f for r in roles for f in _fills(ring, r))
    readers = {r.name: found for r in roles if (found := tuple(_readers(ring, r)))}
    for what, there in (("fills", fills), ("reads", readers)):
        if not there:
            raise InternalError("ring", f"nobody {what} {ring.name}")
    return Ends(fills, readers)


def stores(ring: Ring, body: Body) -> bool:
    """Whether threads store into the ring's buffers, at any depth."""
    return any(_writes(s, ring, Memory.SHARED) and not isinstance(s, CpAsync) for s in walk(body))


def copies(ring: Ring, body: Body) -> bool:
    """Whether ``cp.async`` writes into the ring's buffers, at any depth."""
    return any(_writes(s, ring, Memory.SHARED) and isinstance(s, CpAsync) for s in walk(body))


def sums(ring: Ring, body: Body) -> bool:
    """Whether products are summed up in the ring's buffers, at any depth."""
    return any(_writes(s, ring, Memory.TENSOR) for s in walk(body))


def announces(ring: Ring, stmt: Stmt) -> bool:
    """Whether TMA writes into the ring's buffers."""
    return _writes(stmt, ring, Memory.SHARED_ASYNC)


def teams_of(ring: Ring, role: Role) -> int:
    """In how many teams the warpgroups of a role take different steps of the ring.

    Those of the ring that take turns, and those that deal out a turn's steps, where the step that
    is waited for depends on the warpgroup. Where it does not, all warpgroups of the role wait for
    each step, whoever else takes turns.
    """
    if ring.takers == 1 or role.group is None:
        return 1
    of_group = _follows(role.group.name, tuple(walk(role.body)))
    waits = (s for s in walk(role.body) if isinstance(s, WaitFull) and s.ring == ring.name)
    return ring.takers if any(used(s) & of_group for s in waits) else 1


def _follows(name: str, stmts: Sequence[Stmt]) -> set[str]:
    """The name, and those of all that is computed from it, also by way of what a loop carries."""
    found, before = {name}, 0
    while len(found) > before:
        before = len(found)
        for stmt in stmts:
            if used(stmt) & found:
                found.update(defined(stmt))
    return found


@quick
@dataclass(frozen=True, slots=True)
class _Block:
    """Statements in a row, who executes them, and whether a loop in the step does."""

    body: Body
    warps: frozenset[int]
    one: bool = False
    looped: bool = False


def _fills(ring: Ring, role: Role) -> Iterator[Fill]:
    found: dict[frozenset[int], Fill] = {}
    for block in _blocks(_Block(role.body, frozenset(role.span)), role):
        for n, stmt in enumerate(block.body):
            if isinstance(stmt, Acquire) and stmt.ring == ring.name:
                rest = _Block(block.body[n + 1 :], block.warps, block.one)
                fill = _fill(ring, role, rest)
                first = found.setdefault(block.warps, fill)
                if fill != first or any(w & block.warps for w in found if w != block.warps):
                    why = f"role {role.name} fills steps of {ring.name} in several ways"
                    raise InternalError("ring", why)
    yield from found.values()


def _fill(ring: Ring, role: Role, rest: _Block) -> Fill:
    """What is done between an ``acquire`` and the next one."""
    stored, copied = stores(ring, rest.body), copies(ring, rest.body)
    announcements = commits = landed = 0
    issuers = frozenset[int]()
    for block in _blocks(rest, role, until=ring.name):
        threads = len(block.warps) * (1 if block.one else 32)
        if any(announces(ring, s) for s in block.body):
            if block.looped:
                raise InternalError("ring", f"role {role.name} loads {ring.name} in a loop")
            announcements += threads
        for stmt in block.body:
            if isinstance(stmt, Commit) and stmt.ring == ring.name:
                commits += len(block.warps) * stored
                landed += threads * copied
            if _writes(stmt, ring, Memory.TENSOR):
                issuers |= block.warps
    return Fill(rest.warps, announcements, commits, landed, issuers)


def _readers(ring: Ring, role: Role) -> Iterator[Reader]:
    proxies, issues = Memory.NONE, False
    for stmt in walk(role.body):
        for x in operands(stmt):
            found = stmt.TRAITS.reads & _through(x, ring)
            proxies |= found
            issues |= bool(found) and Memory.TENSOR in stmt.TRAITS.writes
    teams = teams_of(ring, role)
    alone = {
        block.warps
        for block in _blocks(_Block(role.body, frozenset(role.span)), role)
        if any(isinstance(s, WaitFull) and s.ring == ring.name for s in block.body)
    }
    for warps in sorted(alone, key=min):
        if len(warps) % teams:
            why = f"{len(warps)} warps of role {role.name} are no {teams} teams, of {ring.name}"
            raise InternalError("ring", why)
        yield Reader(warps, teams, proxies, issues)


def _blocks(block: _Block, role: Role, until: str | None = None) -> Iterator[_Block]:
    """The block and those in it; each up to the next ``acquire`` of a ring, where one is given."""
    if until is not None:
        stops = (n for n, s in enumerate(block.body) if isinstance(s, Acquire) and s.ring == until)
        block = _Block(block.body[: next(stops, None)], block.warps, block.one, block.looped)
    yield block
    for stmt in block.body:
        one, looped = block.one or isinstance(stmt, Elect), block.looped or isinstance(stmt, For)
        for n, inner in enumerate(bodies(stmt)):
            warps = block.warps
            if isinstance(stmt, OnWarp):
                warps = frozenset(filter(stmt.runs, warps))
            elif isinstance(stmt, Roles):
                warps &= frozenset(stmt.roles[n].span)
            yield from _blocks(_Block(inner, warps, one, looped), role, until)


def _writes(stmt: Stmt, ring: Ring, through: Memory) -> bool:
    if not stmt.TRAITS.writes & through:
        return False
    return any(through & _through(x, ring) for x in operands(stmt))


def _through(operand: object, ring: Ring) -> Memory:
    """Through what an operand of a statement is accessed, if it is in one of the ring's buffers."""
    if not isinstance(operand, IN_STAGES) or operand.buffer not in ring.buffers:
        return Memory.NONE
    in_cells = isinstance(operand, TmemRef)
    return Memory.TENSOR if in_cells else Memory.SHARED | Memory.SHARED_ASYNC
