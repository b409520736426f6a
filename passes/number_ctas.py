"""Let CTAs that wait for each other be numbered as they start.

Requires: the waits for earlier grids are placed; the first sync of the CTA or cluster, which
follows the inits of the mbarriers, stands on the outermost level.
Guarantees: in a kernel that waits for counters ``%ctaid`` is no place that the launch gave, but a
number that the CTA's cluster took from a counter: they are given out in the order in which clusters
ask. The counter is zero again when all have asked.

*Why.* CTAs of split-K and stream-K wait for parts of CTAs with smaller numbers. If numbers are the
launch's, that ends if CTAs start in their order, which CUDA does not promise: one that holds a
multiprocessor would wait for one that gets none. Whoever has taken a number runs, so a CTA waits
for CTAs that run or have ended, and those with the smallest numbers wait for nobody.

*What it costs.* A wait for the grid in front and the latency of an atomic before the first load.
The inits of the mbarriers and the prefetch of the descriptors stand in front of it.

*Clusters.* The first CTA takes the number and stores it into all; its peers run when the first sync
is over. A traced kernel keeps the launch's numbers, by which its records are found.

After ``wait_for_earlier_grids`` and before ``allocate_shared``, which places the word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, ZERO, Expr, Special, Var
from lowering.kernel.kernel import CounterArray, Kernel, SharedBuffer
from lowering.kernel.nodes import (
    Atom,
    Body,
    ClusterSync,
    CounterRef,
    CounterWait,
    CtaNumber,
    CtaSync,
    Elect,
    For,
    GridDepWait,
    If,
    LdWord,
    Let,
    OnWarp,
    Roles,
    SmemRef,
    Stmt,
    StWord,
)
from lowering.kernel.visit import Names, used, walk
from passes.options import LoweringOptions

__all__ = ["number_ctas"]


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What numbers are taken with.

    Args:
        kernel: whose CTAs take them.
        counter: what has been given out.
        word: where a CTA finds its own.
        names: to define scalars with.
    """

    kernel: Kernel
    counter: CounterArray
    word: SharedBuffer
    names: Names

    @staticmethod
    def of(kernel: Kernel) -> _Numbers:
        names = Names(kernel)
        word = SharedBuffer(names.new("ticket"), DType.S32, 1, (1, 1))
        return _Numbers(kernel, CounterArray(names.new("tickets"), ONE), word, names)

    def placed(self, inits: Body, sync: Stmt) -> Body:
        """The statements in front of the first sync, the sync, and numbers behind."""
        number = Var(self.names.new("number"))
        take: Body = (OnWarp(0, (*self.wait, Elect(self.take()))),)
        if self.kernel.cluster > 1:  # peers run behind the first sync, and have it behind another
            sync = sync if isinstance(sync, ClusterSync) else ClusterSync()
            take = (sync, If(Special("cluster.ctarank").eq(0), take))
        return (*inits, *take, sync, LdWord(number, self.place), CtaNumber(number))

    @property
    def wait(self) -> Body:
        """Counters are memory that the grid in front may still use."""
        return (GridDepWait(),) if self.kernel.dependent else ()

    @property
    def place(self) -> SmemRef:
        return SmemRef(self.word.name, ZERO, (ZERO, ZERO))

    def take(self) -> Body:
        """One thread takes the cluster's number and stores it into each of its CTAs."""
        taken, rank = Var(self.names.new("taken")), Var(self.names.new("rank"))
        atom = Atom(taken, "inc", CounterRef(self.counter.name, ZERO), self.clusters - 1)
        if self.kernel.cluster == 1:
            return atom, StWord(self.place, taken)
        ranks = ZERO + self.kernel.cluster
        return atom, For(rank, ZERO, ranks, (StWord(self.place, taken, cta=rank),), unroll=True)

    @property
    def clusters(self) -> Expr:
        """Of the whole grid."""
        k = self.kernel
        found: Expr = Special("nctaid.x") // k.cluster if k.cluster > 1 else Special("nctaid.x")
        if k.grid_y != ONE:
            found = found * Special("nctaid.y")
        return found * k.splits if k.splits > 1 else found


def number_ctas(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """The kernel with numbers that CTAs take; as it is where nobody waits for a counter.

    before::

        let place: i32 = %nctaid.x - 1 - %ctaid.x
        (inits)
        cta.sync
        roles { ... counter.wait ready[place], 1 ... }

    after::

        counter tickets[1]
        shared ticket: s32[1][1x1]
        (inits)
        on %warp 0 {
          griddepcontrol.wait
          elect {
            taken: i32 = atom inc, tickets[0], %nctaid.x - 1
            st.word ticket[0, 0, 0], taken
          }
        }
        cta.sync
        number: i32 = ld.word ticket[0, 0, 0]
        cta.number number
        let place: i32 = %nctaid.x - 1 - %ctaid.x
        roles { ... counter.wait ready[place], 1 ... }

    Raises:
        InternalError: no sync in front of the roles, or something but a scalar that is made from
            ``%ctaid`` there.
    """
    waits = any(isinstance(s, CounterWait) for s in walk(kernel.body))
    if not waits or kernel.traces:
        return kernel
    at = next((n for n, s in enumerate(kernel.body) if isinstance(s, Roles)), len(kernel.body))
    front, rest = kernel.body[:at], kernel.body[at:]
    lets = tuple(s for s in front if isinstance(s, Let))
    others = tuple(s for s in front if not isinstance(s, Let))
    names = {let.var.name for let in lets}
    if not others or not isinstance(others[-1], CtaSync | ClusterSync):
        raise InternalError("number_ctas", f"{kernel.name} has no sync in front of its roles")
    if any(used(s) & names for s in walk(others)):
        raise InternalError(
            "number_ctas", f"{kernel.name} reads scalars in front of its first sync"
        )
    taken = _Numbers.of(kernel)
    return replace(
        kernel.declare(taken.counter, taken.word),
        body=(*taken.placed(others[:-1], others[-1]), *lets, *rest),
    )
