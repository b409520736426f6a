"""Mutants that do nothing wrong, and why: what nobody catches has to be here.

An argument is about what a statement means, at all sizes and in all orders. It is one method; it is
given for what the proof lets pass, and most take from there that nothing which is claimed of a
kernel is broken. The second method is the machine, which has found no other number at a few sizes,
and nothing that an order decides, neither an access nor a phase (``lowering.machine.phases``): such
a kernel does the same in every order of its size.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

from lowering.ground.expr import (
    ZERO,
    Binary,
    Const,
    Expr,
    Select,
    Var,
    children,
)
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    Break,
    BulkCommit,
    BulkWait,
    ClusterSync,
    CtaSync,
    FenceMBarrierInit,
    FenceProxyAsync,
    For,
    GridDepLaunchDependents,
    GridDepWait,
    Let,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierRef,
    MBarrierWait,
    NamedBarrierRef,
    OnWarp,
    Roles,
    SetMaxNReg,
    Stmt,
    StWord,
    Tcgen05Fence,
    Tcgen05Mma,
    TmaLoad,
    TmaStore,
    WarpSync,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.visit import bodies, used, walk
from lowering.proof.ends import tables_of
from tests.mutants.edits import Mutant
from tests.mutants.first_trips import not_yet
from tests.mutants.others import of_another_place
from tests.mutants.places import after
from tests.mutants.values import same

__all__ = ["argument"]

_AGAIN: dict[type[Stmt], str] = {
    BarSync: "all of its threads meet twice at once, each time in the same number",
    BulkCommit: "the second group is empty; waits that leave some pending count it, so cover more",
    BulkWait: "what has been waited for is over",
    ClusterSync: "all meet twice at once",
    CtaSync: "all meet twice at once",
    FenceMBarrierInit: "a fence behind a fence orders nothing more",
    FenceProxyAsync: "a fence behind a fence orders nothing more",
    GridDepLaunchDependents: "only the first one of a CTA counts",
    GridDepWait: "what has been waited for is over",
    MBarrierWait: "no phase ends between the two: that needs an arrival of this very warp",
    SetMaxNReg: "the warp has that many already",
    StWord: "the same word is stored to the same place twice, by one thread",
    TmaStore: "the same bytes are stored to the same place twice, in one group",
    Tcgen05Fence: "a fence behind a fence orders nothing more",
    WarpSync: "all meet twice at once",
    WgmmaCommit: "the second group is empty; waits that leave some pending count it, so cover more",
    WgmmaFence: "a fence behind a fence orders nothing more",
}
"""Why a statement may stand twice."""

_MOVED: dict[type[Stmt], str] = {
    BarArrive: "a turn is handed on later, and no circle of waits comes of it",
    FenceMBarrierInit: "still behind all inits of its warp and in front of the sync",
    GridDepLaunchDependents: "when the next grid may start is a hint; it waits for our end itself",
    GridDepWait: "still in front of the warp's first access to global memory",
    MBarrierExpectTx: "bytes may land before they are announced: the arrival itself is awaited too",
    MBarrierWait: "still in front of all that needs its phase, and of the next arrival for it",
    MBarrierArrive: "arrivals of one warp at different barriers, of one phase, are in no order",
    MBarrierInit: "inits of different barriers are in no order",
    MBarrierInval: "nobody uses a barrier any more, whichever is first",
    SetMaxNReg: "what it passes needs no more registers",
    StWord: "words of one entry are in no order: the arrival behind them tells of all",
    Tcgen05Mma: "products of one step behind the one that begins a sum are added in any order",
    TmaLoad: "loads of one step into different buffers are in no order, and their bytes add up",
    TmaStore: "stores of one group to different places are in no order",
    WgmmaCommit: "still behind the wgmmas of the group, in front of other ones and of waits for it",
    WgmmaFence: "still behind the last access to the registers and in front of the wgmma",
    WgmmaWait: "still in front of all that needs it",
}
"""Why a statement may stand one further, where proof and machine see nothing wrong."""


def _unread(kernel: Kernel, loop: For) -> bool:
    """Whether what a loop of a kernel carries that ``loop`` carries otherwise is read by nothing
    but what it becomes in the next trip.
    """
    (new,) = (s for s in walk(kernel.body) if isinstance(s, For) and s.var == loop.var)
    pairs = list(zip(new.carries, new.yields, strict=True))
    old = list(zip(loop.carries, loop.yields, strict=True))
    (changed,) = (n for n, pair in enumerate(pairs) if pair != old[n])
    rest = [pair for n, pair in enumerate(pairs) if n != changed]
    without = replace(new, carries=tuple(c for c, _ in rest), yields=tuple(y for _, y in rest))
    read = {n for s in walk(kernel.body) for n in used(without if s is new else s)}
    carry = new.carries[changed]
    return read.isdisjoint({carry.var.name, carry.result.name})


def _beside(kernel: Kernel, wait: WgmmaWait) -> bool:
    """Whether a wait that leaves one more group pending stands beside one that leaves as many as
    it left.
    """
    new = replace(wait, pending=wait.pending + 1)
    lists = [kernel.body, *(inner for s in walk(kernel.body) for inner in bodies(s))]
    pairs = [pair for body in lists for pair in pairwise(body) if new in pair]
    waits = (s for pair in pairs for s in pair if isinstance(s, WgmmaWait) and s != new)
    return any(s.pending <= wait.pending for s in waits)


def _innermost(old: Expr, new: Expr) -> list[tuple[Expr, Expr]]:
    """Where an expression with one edit is another one: from the whole to the edit."""
    inner = list(zip(children(old), children(new), strict=False))
    alike = getattr(old, "op", None) == getattr(new, "op", None)
    changed = [pair for pair in inner if pair[0] != pair[1]]
    deeper = alike and type(old) is type(new) and len(changed) == 1
    return [(old, new), *(_innermost(*changed[0]) if deeper else ())]


def _decides(path: list[tuple[Expr, Expr]]) -> bool:
    """Whether an edit is in what decides whether a tile is in a whole group or in the rest."""
    return any(isinstance(a, Select) and b == a.cond and isinstance(b, Binary) and b.op == "<"
               for (a, _), (b, _) in pairwise(path))  # fmt: skip


def _lets(kernel: Kernel) -> dict[Expr, Expr]:
    """What names of a kernel stand for."""
    return {s.var: s.value for s in walk(kernel.body) if isinstance(s, Let)}


def _modulo(kernel: Kernel, path: list[tuple[Expr, Expr]], divisor: Var) -> bool:
    """Whether of a choice by an edited comparison only the rest is used modulo a factor of its
    divisor.
    """
    lets = _lets(kernel)
    match path[-3:-1], lets.get(divisor):
        case [(Binary("%", Select(), Const(n)), _), (Select(), _)], Binary("*", _, Const(factor)):
            return factor % n == 0
    return False


def _not_put_right(kernel: Kernel, path: list[tuple[Expr, Expr]]) -> bool:
    """Whether a rest, of which the remainder modulo a factor of its divisor is taken, is no more
    put right where it is the divisor or more: what is asked instead is never so large.
    """
    for one, other in path:
        match one, other:
            case (
                Binary("%", Select(Binary("<=", d, r), Binary("-", a, b), c), Const(n)),
                Binary("%", Select(Binary("<=", e, Var() as new)), Const()),
            ) if a == c == r and b == d == e and _factor(kernel, d) % n == 0:
                return _below(kernel, new, d, r)
    return False


def _below(kernel: Kernel, asked: Var, divisor: Expr, rest: Expr) -> bool:
    """Whether a name is less than a divisor: a rest of its rest put right, or the number of a
    warpgroup, of which there are no more than a factor of it.
    """
    lets = _lets(kernel)
    match lets.get(asked):
        case Binary("-", Var() as whole, Binary("*")):
            return lets.get(whole) == Select(divisor <= rest, rest - divisor, rest)
    roles = (r for s in walk(kernel.body) if isinstance(s, Roles) for r in s.roles)
    return any(r.group == asked and r.warps // 4 <= _factor(kernel, divisor) for r in roles)


def _factor(kernel: Kernel, e: Expr) -> int:
    """A number that divides an expression, by its form."""
    lets = _lets(kernel)
    match lets.get(e, e) if isinstance(e, Var) else e:
        case Const(int() as value):
            return value
        case Binary("*", lhs, rhs):
            return _factor(kernel, lhs) * _factor(kernel, rhs)
    return 1


def _residue(kernel: Kernel, path: list[tuple[Expr, Expr]]) -> bool:
    """Whether what is added in place of subtracted changes nothing modulo the number that the
    choice which it is in is taken by: neither is negative.
    """
    match path[-3:]:
        case [
            (Binary("%", Select(), Const(n)), _),
            (Select(cond), Select(same)),
            (Binary("-", _, rhs), Binary("+", _, added)),
        ] if cond == same and rhs == added:
            return 2 * _factor(kernel, rhs) % n == 0
    return False


def _bounds(kernel: Kernel, var: Var) -> bool:
    """Whether a number is only made into how many trips loops take that end by words of memory."""
    names, stmts = {var.name}, list(walk(kernel.body))
    for s in stmts:
        if isinstance(s, Let) and names & used(s):
            names.add(s.var.name)
    users = [s for s in stmts if not isinstance(s, Let) and names & used(s)]
    loops = [s for s in users if isinstance(s, For) and any(isinstance(b, Break) for b in s.body)]
    return len(loops) == len(users) and not any(
        names & used(replace(s, start=ZERO, stop=ZERO)) for s in loops
    )


def _of_k(kernel: Kernel, steps: Var) -> bool:
    """Whether a number is that of the steps that K has."""
    lets = _lets(kernel)
    match lets.get(steps):
        case Binary("ceildiv", Var("K"), Const()):
            return True
    return False


def _of_scalar(kernel: Kernel, let: Let, new: Expr) -> str | None:
    """Why another number or operator in what a name stands for is harmless."""
    if same(kernel, let.value, new):
        return "the same number, whatever the names in it stand for"
    path = _innermost(let.value, new)
    match path[-2:]:
        case [(Binary("ceildiv", _, Const(n)), _), (Const(), Const(m))] if m < n:
            return "of tiles and steps behind the end zeros are loaded, and nothing is stored"
        case [(Binary("ceildiv", Var()), _), (Const(n), Const(m))] if m == n + 1 > 8:
            if _bounds(kernel, let.var):
                return "trips for nearly all tiles of a grid; one cluster has all of few tiles only"
        case [*_, (Binary("ceildiv", Var(), n), Binary("//", Var(), m))] if n == m:
            # Each group has a trip beside its whole tiles: its last one, which may not be whole.
            if tables_of(kernel) and _bounds(kernel, let.var):
                return "trips for the whole tiles of all groups, beside one for each group"
        case [(Select(), _), (Binary("<", Const(0), Var() as steps), Binary("<="))]:
            if _of_k(kernel, steps):
                return "where K has no step, all take one of zeros"
        case [(Binary("max", Var() as d, _), _), (Const(1), Const(m))] if m <= _factor(kernel, d):
            return "what is divided by is a multiple of that, or nothing is"
    match path[-3:]:
        case [(Binary("ceildiv"), _), (Binary("max"), _), (Binary("-"), Binary("+"))]:
            return "a CTA takes tiles behind the last one, too: nothing of them is in the result"
        case [(Binary("ceildiv"), _), (Binary("max", _, Const(0)), _), (Const(0), Const(1))]:
            return "there are no more CTAs than tiles, so the first of each is there"
    if _not_put_right(kernel, path):
        return "what is left is less by a whole divisor or not: the same modulo its factor"
    match path[-1]:
        case Binary("<="), Binary("<") if _decides(path):
            return "what is left is a whole divisor: a first tile, which both orders begin with"
        case Binary("<=", Var() as d, _), Binary("<") if _modulo(kernel, path, d):
            return "what is left is a whole divisor, which leaves no rest modulo its factor either"
        case Binary("-"), Binary("+") if _residue(kernel, path):
            return "the rest is the same: the sum is more by a multiple of what it is taken modulo"
    return None


def _meetings(kernel: Kernel, bar: NamedBarrierRef) -> int:
    """How many syncs at a named barrier stand in a kernel."""
    return sum(isinstance(s, BarSync) and s.bar == bar for s in walk(kernel.body))


def _ends(kernel: Kernel, end: Expr, new: Stmt | None) -> bool:
    """Whether a word that is stored is the number from which on loops end, or one more than that,
    and ``new`` stores one more.
    """
    ends = {s.cond.lhs for s in walk(kernel.body) if isinstance(s, Break)
            and isinstance(s.cond, Binary) and s.cond.op == "<="}  # fmt: skip
    more = isinstance(new, StWord) and new.value == end + 1
    return more and any(end in (e, e + 1) for e in ends)


def _turns(kernel: Kernel, bar: NamedBarrierRef) -> bool:
    """Whether a named barrier hands on turns: who arrives there does not wait."""
    return any(isinstance(s, BarArrive) and s.bar.array == bar.array for s in walk(kernel.body))


def _only(kernel: Kernel, old: Stmt, new: Stmt) -> bool:
    """Whether a statement names the first barrier of an array of one in other words."""
    pairs = ((getattr(old, f.name), getattr(new, f.name)) for f in fields(old))
    ((was, now),) = (pair for pair in pairs if pair[0] != pair[1])
    barriers = isinstance(was, MBarrierRef) and isinstance(now, MBarrierRef)
    return barriers and now.index == ZERO and kernel.mbarrier(now.array).stages == 1


def _alike(kernel: Kernel, old: Stmt, new: Stmt) -> bool:
    """Whether the name that a statement reads in place of another one is bound by a statement of
    the same operation and operands, which reads no memory. Of a name that it reads elsewhere, too,
    nothing is said.
    """
    gone, come = used(old) - used(new), used(new) - used(old)
    if len(gone) != 1 or len(come) != 1:
        return False
    (was,), (now,) = gone, come
    by = {n.name: s for s in walk(kernel.body) for n in after(s) if not s.TRAITS.touches}
    if not {was, now} <= by.keys():
        return False
    one, other = by[was], by[now]
    binds = {n: getattr(one, n) for n in one.TRAITS.binds} if type(one) is type(other) else {}
    return bool(binds) and replace(other, **binds) == one


def argument(mutant: Mutant) -> str | None:
    """Why a mutant is harmless that proof and machine let pass; None if nobody knows.

    Of one that they catch it says nothing: a statement that may stand twice where nothing is
    claimed of it is no reason where something is.
    """
    stmt, new = mutant.stmt, mutant.new
    match mutant.kind, stmt:
        case "double", Stmt():
            return _AGAIN.get(type(stmt))
        case "swap", BarSync() if " and bar.sync " in mutant.what:
            return "the same warps meet at either, one in place of the other"
        case (("move" | "drop" | "further" | "nest"), BarSync(bar=bar)) if (
            _meetings(mutant.kernel, bar) > 2
        ):
            return "the warps meet at that barrier between any other two uses of the buffer, too"
        case "move", BarSync(bar=bar) if _turns(mutant.kernel, bar):
            return "a turn is waited for earlier, and no circle of waits comes of it"
        case (("move" | "swap"), Stmt()):
            return _MOVED.get(type(stmt))
        case "drop", GridDepLaunchDependents():
            return _MOVED[GridDepLaunchDependents]
        case "order", BulkWait() if "read=true ->" in mutant.what:
            return "waiting for writes is waiting for more than the reads"
        case "registers", SetMaxNReg():
            return "the pool has eight more for each thread, so nobody waits for ever"
        case "carry" | "name", For() if _unread(mutant.kernel, stmt):
            return "nobody reads what the loop carries there"
        case "carry", For() if not_yet(mutant.kernel, stmt):
            return "nobody reads what the loop begins with: there is no tile yet"
        case "pending", WgmmaWait() if _beside(mutant.kernel, stmt):
            return "the wait beside it covers as many groups"
        case "trips", For(step=Const(value=step)) if step > 1:
            return "a trip that begins behind the end loads nothing, and adds that"
        case "threads", OnWarp():
            return "the warps do the same, each for itself: a hint, or a wait of nothing"
        case "order", MBarrierArrive():
            return "copies alone, or nothing, are told of, which a relaxed order hands on as well"
        case "scalar" | "name", Let() if isinstance(new, Let):
            return _of_scalar(mutant.kernel, stmt, new.value)
        case "name", Stmt() if new is not None and _alike(mutant.kernel, stmt, new):
            return "both names stand for the same"
        case "stage", Stmt() if new is not None and _only(mutant.kernel, stmt, new):
            return "the one barrier that there is"
        case "value", StWord(value=end) if _ends(mutant.kernel, end, new):
            return "any number behind the last one ends the loop"
        case "value", StWord(value=Const()):
            return "of an entry that ends the loop one word is read, and this is another"
        case "offset", None:
            return "any place is as good that is aligned, in the CTA's bytes and nobody else's"
        case "barrier", None:
            return "hardware ids that no other barrier has are as good"
        case "swizzle", None:
            return "who writes and who reads go by the buffer's own swizzle, and no tensor map does"
        case _:
            return of_another_place(mutant)
