"""Numbers that CTAs take as they start: each has one of its own, and whom it waits for has started.

CTAs wait through counters for CTAs of smaller numbers. What is claimed here is that a number is
what an atomic of the whole grid gave this cluster, so that smaller ones were given before, to
clusters that run; that each thread reads it behind the store; and that the counter comes back to
zero. Who waits for whom is the schedule's (design/0019).
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.expr import ONE, Expr, Special, parts_of
from lowering.ground.poly import poly
from lowering.kernel.atomic import Atom, CounterWait
from lowering.kernel.control import Elect, For, If, OnWarp
from lowering.kernel.kernel import Kernel
from lowering.kernel.operands import Body, CounterRef, SmemRef, Stmt
from lowering.kernel.queue import LdWord, StWord
from lowering.kernel.sync import ClusterSync, CtaNumber, CtaSync, GridDepWait
from lowering.kernel.visit import expressions, operands, walk
from lowering.proof.obligation import Obligation, Verdict

__all__ = ["given", "numbered", "words"]

NAME = "numbers of CTAs"


def numbered(kernel: Kernel) -> list[Obligation]:
    """CTAs that wait for each other are numbered as they start; nothing of other kernels."""
    numbers = [s for s in walk(kernel.body) if isinstance(s, CtaNumber)]
    if not numbers and not any(isinstance(s, CounterWait) for s in walk(kernel.body)):
        return []
    if not numbers:
        why = "CTAs wait for CTAs of other places, which need not have started"
        return [Obligation(NAME, kernel.name, Verdict.UNPROVED, why)]
    why = _wrong(kernel)
    return [Obligation(NAME, kernel.name, Verdict.REFUTED if why else Verdict.PROVED, why)]


def words(kernel: Kernel) -> frozenset[str]:
    """Buffers that hold numbers."""
    loads = {s.out.name: s.src.buffer for s in kernel.body if isinstance(s, LdWord)}
    numbers = (str(s.number) for s in kernel.body if isinstance(s, CtaNumber))
    return frozenset(loads[n] for n in numbers if n in loads)


def given(kernel: Kernel) -> frozenset[str]:
    """Counters that numbers are taken from."""
    held = words(kernel)
    stored = {
        str(s.value) for s in walk(kernel.body) if isinstance(s, StWord) and s.dst.buffer in held
    }
    atoms = (s for s in walk(kernel.body) if isinstance(s, Atom))
    return frozenset(s.counter.array for s in atoms if s.out.name in stored)


def _wrong(kernel: Kernel) -> str:
    """What is wrong; empty if nothing is."""
    at = [n for n, s in enumerate(kernel.body) if isinstance(s, CtaNumber)]
    if len(at) != 1 or at[0] < 3 + (kernel.cluster > 1):
        return "a number is not taken once, behind a sync, on the outermost level"
    taken, sync, load, number = kernel.body[at[0] - 3 : at[0] + 1]
    meets = ClusterSync if kernel.cluster > 1 else CtaSync | ClusterSync
    if not isinstance(load, LdWord) or not isinstance(number, CtaNumber):
        return "the number is no word that was handed over"
    if str(number.number) != load.out.name:
        return f"the number is {number.number}, not what was loaded"
    if not isinstance(sync, meets):
        return "no sync of all who share a number between its store and its load"
    if kernel.cluster > 1 and not isinstance(kernel.body[at[0] - 4], ClusterSync):
        return "a number is stored into CTAs that may not have started"
    if any(s.name.startswith("ctaid.") for s in _specials(kernel.body[: at[0]])):
        return "%ctaid is read before the number is taken"
    return _badly_taken(kernel, taken, load)


def _badly_taken(kernel: Kernel, stmt: Stmt, load: LdWord) -> str:
    if kernel.cluster > 1:
        first = Special("cluster.ctarank").eq(0)
        if not (isinstance(stmt, If) and stmt.cond == first and not stmt.other):
            return "not the first CTA of the cluster alone takes a number"
        (stmt,) = stmt.then if len(stmt.then) == 1 else (stmt,)
    inner: list[Stmt] = []
    if isinstance(stmt, OnWarp) and sum(map(stmt.runs, range(kernel.threads // 32))) == 1:
        inner = [s for s in stmt.body if not isinstance(s, GridDepWait)]
    if len(inner) != 1 or not isinstance(inner[0], Elect) or len(inner[0].body) != 2:
        return "not one thread takes a number and stores it"
    atom, store = inner[0].body
    if not isinstance(atom, Atom) or atom.op != "inc":
        return "the number is not taken by atom.inc"
    if poly(atom.value) != poly(_clusters(kernel) - 1):
        return f"the counter comes back to zero behind {atom.value} requests, not the grid's"
    touched = [s for s in walk(kernel.body) if _touches(s, atom.counter)]
    if len(touched) != 1:
        return f"{atom.counter.array} is used by {len(touched)} statements"
    stores = [s for s in walk(kernel.body) if _touches(s, load.src)]
    if len(stores) != 2:
        return f"{load.src.buffer} is used by {len(stores)} statements, not stored and loaded once"
    return _badly_stored(kernel, (store,), atom, load)


def _badly_stored(kernel: Kernel, body: Body, atom: Atom, load: LdWord) -> str:
    rank: Expr | None = None
    if kernel.cluster > 1:
        (loop,) = body
        whole = isinstance(loop, For) and (str(loop.start), str(loop.stop)) == (
            "0", str(kernel.cluster)
        ) and not loop.carries and len(loop.body) == 1  # fmt: skip
        if not isinstance(loop, For) or not whole:
            return "not every CTA of the cluster gets the number"
        body, rank = loop.body, loop.var
    (store,) = body
    right = isinstance(store, StWord) and store.dst == load.src and store.cta == rank
    if not right or not isinstance(store, StWord) or str(store.value) != atom.out.name:
        return "what is stored is not the number that was taken, where it is loaded"
    return ""


def _clusters(kernel: Kernel) -> Expr:
    """How many there are in the grid."""
    found: Expr = Special("nctaid.x")
    if kernel.cluster > 1:
        found = found // kernel.cluster
    if kernel.grid_y != ONE:
        found = found * Special("nctaid.y")
    return found * kernel.splits


def _touches(stmt: Stmt, ref: CounterRef | SmemRef) -> bool:
    """Whether a statement itself uses the array or buffer."""
    name = ref.array if isinstance(ref, CounterRef) else ref.buffer
    return any(
        isinstance(x, type(ref)) and name in (getattr(x, "array", ""), getattr(x, "buffer", ""))
        for x in operands(stmt)
    )


def _specials(body: Body) -> Iterator[Special]:
    parts = (x for stmt in walk(body) for e in expressions(stmt) for x in parts_of(e))
    return (x for x in parts if isinstance(x, Special))
