"""What has a state while a cluster runs: its CTAs, their warps, and what these have issued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Frag, Stmt
from lowering.kernel.text import print_stmt
from lowering.machine.barriers import Copy, MBarrier, NamedBarrier, RegisterPool, heard
from lowering.machine.cells import Cells, Ordered, together
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array
from lowering.machine.handed import Handed
from lowering.machine.issued import BulkQueue, Fragment, GenericRead, Registers, Store, WgmmaQueue
from lowering.machine.memory import SHARED_BASE, SharedMemory
from lowering.machine.order import Known
from lowering.machine.phases import Phases
from lowering.machine.races import Races, name_of, units
from lowering.machine.scalars import Env
from lowering.machine.scheduler import Blocked, Scheduler
from lowering.machine.tensor_map import Descriptor
from lowering.machine.trace import TraceRow
from lowering.machine.workspace import Counters, Slots

__all__ = [
    "BulkQueue", "Cluster", "Cta", "Fragment", "Registers", "Sent", "Store", "Warp", "WgmmaQueue",
]  # fmt: skip


@dataclass(slots=True, eq=False)
class Sent:
    """Words that a warp stores into the shared memory of a CTA; ``number`` is the event.

    They land at any time, at the latest when somebody who knows of them releases at cluster scope.
    """

    number: int
    cta: Cta
    what: str
    words: Array
    data: Array
    landed: bool = False

    def land(self) -> None:
        """Write them, unless that has happened."""
        if not self.landed:
            self.landed = True
            self.cta.signalled(self.what)
            self.cta.memory.write_words(self.words, self.data)
            self.cta.memory.mark(self.words, self.number)
            self.cta.cluster.sent.remove(self)


class Warp:
    """A warp: 32 threads in lockstep.

    ``env`` has its scalars, ``fragments`` its parts of fragments, ``unpublished`` the shared words
    that it wrote through the generic proxy since its last ``fence.proxy.async``, ``waited`` whether
    it has executed ``griddepcontrol.wait``, ``stamps`` how many it has made for each trace buffer,
    ``known`` which events precede what it does next.
    """

    def __init__(self, cta: Cta, index: int, env: Mapping[str, int]) -> None:
        self.cta = cta
        self.index, self.rank = index, cta.rank
        self.scheduler = cta.cluster.scheduler
        self.env = Env(env)
        self.env.update({
            **cta.cluster.place(cta.ctaid), "%warp": index,
            "%warpgroup.warp": index % 4, "%cluster.ctarank": cta.rank,
            "%smid": cta.ctaid,
        })  # fmt: skip
        self.thread: Iterator[Blocked | None] = iter(())
        self.stmt: Stmt | None = None
        self.blocked: Blocked | None = None
        self.role, self.group = "", 0
        self.elected = False
        self.loops: list[str] = []
        self.fragments: dict[str, Fragment] = {}
        self.unpublished: list[Array] = []
        self.epoch = 0
        self.waited = False
        self.known = Known()
        self.registers = cta.registers_at_entry
        self.setmaxnregs = 0
        self.wgmma = WgmmaQueue()
        self.tensor = Ordered()
        self.bulk = BulkQueue()
        self.stamps: Counter[str] = Counter()
        self.visits: Counter[int] = Counter()
        self.copies: list[Copy] = []

    @property
    def place(self) -> str:
        """CTA, role and group."""
        role = f", role {self.role}, group {self.group}" if self.role else ""
        return f"CTA {self.cta.ctaid}{role}"

    @property
    def who(self) -> str:
        """CTA, role, group and warp."""
        return f"{self.place}, warp {self.index}"

    @property
    def threads(self) -> int:
        """How many of its threads execute the current statement."""
        return 1 if self.elected else 32

    def whole(self, op: str) -> None:
        """Raise FaultError inside ``elect``, where ``op`` is not allowed."""
        if self.elected:
            raise FaultError(f"{op} needs all threads of the warp and stands in elect")

    def reads(self, words: Array) -> None:
        """Note a read of 8-byte words of shared memory through the generic proxy."""
        self.cta.reads.append(GenericRead(self, words >> 1))

    def fence_reads(self) -> None:
        """``fence.proxy.async`` by all threads of the warp."""
        for read in self.cta.reads:
            read.fenced |= read.warp is self

    def order_reads(self) -> None:
        """Reads behind which each thread has executed a fence precede what any thread does next,
        as does what single threads know of.
        """
        self.known.sync()
        self.cta.reads = [r for r in self.cta.reads if r.warp is not self or not r.fenced]

    def event(self) -> int:
        """The number of what the current statement does, as an event."""
        assert self.stmt is not None
        return self.scheduler.events.add(self, self.stmt)

    def touches(self, cta: Cta, places: Array, size: int, write: bool = False) -> None:
        """The current statement's own access to a CTA's shared memory, see ``Cta.touch``."""
        if cta.races is not None:
            assert self.stmt is not None
            before = self.known.before(self.elected)
            events = cta.touch(self, self.stmt, before, places, size, write)
            self.known.did(events, self.elected)

    def touches_global(self) -> None:
        """Raise FaultError where a kernel that is launched dependently reads or writes too early.

        Each warp has to wait itself. The hardware would also let one wait and then meet others in a
        barrier; no kernel does that.
        """
        if self.cta.cluster.kernel.dependent and not self.waited:
            raise FaultError(
                "global memory before griddepcontrol.wait: earlier grids may still use it"
            )

    def define(self, frag: Frag, registers: Registers) -> None:
        """Bind the result of the current statement, which writes where its last one was.

        Raises FaultError if a wgmma may still read that.
        """
        assert self.stmt is not None
        last = self.fragments.get(frag.name)
        if last is not None and last.registers.root is not registers.root:
            self._writable(frag, last.registers)
        self.fragments[frag.name] = Fragment(registers, self.stmt)

    def value(self, frag: Frag) -> Fragment:
        """The value of a fragment; raises FaultError if it has none or its registers were taken."""
        found = self.fragments.get(frag.name)
        if found is None:
            raise FaultError(f"fragment {frag.name} has no value here")
        if found.consumed is not None:
            taken = print_stmt(found.consumed)
            raise FaultError(f"the registers of fragment {frag.name} were taken by: {taken}")
        return found

    def take(self, frag: Frag) -> Registers:
        """The registers of a fragment which the current statement consumes."""
        found = self.value(frag)
        self._writable(frag, found.registers)
        found.consumed = self.stmt
        return found.registers

    def _writable(self, frag: Frag, registers: Registers) -> None:
        root = registers.root
        if root.reads > self.wgmma.covered and root.reader is not None:
            reader = print_stmt(root.reader)
            raise FaultError(f"fragment {frag.name} is written while it may be read by: {reader}")

    def read(self, frag: Frag) -> Array:
        """The elements of a settled fragment; raises FaultError if a wgmma may still write it."""
        found = self.value(frag)
        if found.registers.wgmma > self.wgmma.covered:
            writer = print_stmt(found.writer)
            raise FaultError(f"fragment {frag.name} may still be written by: {writer}")
        if found.registers.loading:
            raise FaultError(f"fragment {frag.name} is read before tcgen05.wait.ld")
        found.registers.epoch = self.epoch
        return found.registers.data

    def record(
        self, op: str, target: str, index: int, *, parity: int = -1, at: tuple[int, ...] = (),
        ctas: tuple[int, ...] = (), value: int = -1,
    ) -> None:  # fmt: skip
        """Count an event, and note it if the run is traced."""
        cluster = self.cta.cluster
        cluster.counts[op] += 1
        if cluster.trace is not None:
            row = TraceRow(
                self.cta.ctaid, self.role, self.group, self.index, op, target, index, parity, at,
                ctas, value, tuple((name, self.env[name]) for name in self.loops),
            )  # fmt: skip
            cluster.trace.append(row)

    def finish(self) -> None:
        """Leave the kernel; raises FaultError if something that needs this warp is in flight."""
        if self.wgmma.covered < self.wgmma.issued:
            raise FaultError("the warp ends with a wgmma in flight")
        if not all(copy.landed for copy in self.copies):
            raise FaultError("the warp ends while a cp.async may still write shared memory")
        if self.bulk.open:
            store = print_stmt(self.bulk.open[0].stmt)
            raise FaultError(f"the warp ends without bulk.commit for: {store}")
        if any(self.bulk.groups[self.bulk.covered :]):
            raise FaultError("the warp ends while a tma.store may still read shared memory")
        self.cta.running -= 1
        if not self.cta.running and self.cta.cluster.kernel.dependent and not self.cta.waited:
            raise FaultError(
                "the CTA ends without griddepcontrol.wait: its grid may end before an earlier one"
            )
        left = [b.text() for b in self.cta.named.values() if b.arrived]
        if not self.cta.running and left:
            raise FaultError(f"the CTA ends with a barrier half full: {left[0]}")
        if not self.cta.running:
            self.cta.ended(self.known.everyone)
        if not self.cta.running and self.cta.landing:
            raise FaultError(f"the CTA ends while {self.cta.landing} tma.load are in flight")
        if not self.cta.running and self.cta.coming:
            raise FaultError(
                f"the CTA ends while {self.cta.coming} copies of peers may write to it"
            )
        if not self.cta.running and self.cta.sending:
            raise FaultError("the CTA ends while a bulk.copy may still read its shared memory")


class Cta:
    """A CTA: its shared memory, barriers and registers.

    ``handed`` has what warps handed to each other through a buffer (``lowering.machine.handed``);
    ``landing`` counts loads in flight, ``coming`` copies of peers that will write to it,
    ``sending`` copies to peers that will read it, ``reads`` are those that a load might overtake,
    ``waited`` says whether one of its warps has executed ``griddepcontrol.wait``, ``setmaxnregs``
    which warp was the first at each warpgroup's first, second, ... ``setmaxnreg``, and the
    statement, ``races`` watches its shared memory, if somebody wants that (``watch_races``).
    """

    def __init__(self, cluster: Cluster, ctaid: int, rank: int) -> None:
        kernel = cluster.kernel
        self.cluster = cluster
        self.ctaid = ctaid
        self.rank = rank
        barriers = [(a, a.offset + 8 * i) for a in kernel.mbarriers if a.offset is not None
                    for i in range(a.stages)]  # fmt: skip
        self.memory = SharedMemory(kernel.shared_bytes, tuple(at for _, at in barriers))
        self.mbarriers = {
            a.name: [MBarrier(f"{a.name}[{i}]") for i in range(a.stages)] for a in kernel.mbarriers
        }
        self.named: dict[int, NamedBarrier] = {}
        self.registers_at_entry = kernel.registers_at_entry
        self.pool, memory = RegisterPool(), kernel.target.tensor_memory
        self.cells = None if memory is None else Cells(memory, cluster.scheduler.events)
        self.running = kernel.threads // 32
        self.landing = self.coming = self.sending = 0
        self.reads: list[GenericRead] = []
        self.waited = False
        self.setmaxnregs: dict[tuple[int, int], tuple[int, Stmt]] = {}
        self.races: Races | None = None
        self.agreed: dict[tuple[int, int], int] = {}
        self.handed: dict[str, Handed] = {}

    def watch_races(self) -> None:
        """From now on unordered accesses to shared memory and mbarriers are faults."""
        events, kernel = self.cluster.scheduler.events, self.cluster.kernel
        self.races = Races.of(
            events, SHARED_BASE + kernel.shared_bytes,
            lambda address: f"{name_of(kernel, address)} of CTA {self.ctaid}", self._heard,
        )  # fmt: skip
        for bar in (b for bars in self.mbarriers.values() for b in bars):
            bar.watched = True

    def _heard(self, number: int) -> str:
        bars = [b for c in self.cluster.ctas for bars in c.mbarriers.values() for b in bars]
        return heard(number, bars, [*self.named.values()])

    def peer(self, rank: int) -> Cta:
        """The CTA of that rank in the cluster; raises FaultError if there is none."""
        ctas = self.cluster.ctas
        if not 0 <= rank < len(ctas):
            raise FaultError(f"rank {rank} is not in a cluster of {len(ctas)}")
        return ctas[rank]

    def named_barrier(self, hardware_id: int, name: str, threads: int) -> NamedBarrier:
        """The named barrier of that hardware id."""
        if hardware_id not in self.named:
            phases = None if self.races is None else Phases(self.races.events, name)
            self.named[hardware_id] = NamedBarrier(name, threads, phases=phases)
        return self.named[hardware_id]

    def together(self, warp: Warp, stmt: Stmt) -> None:
        """Raise FaultError unless the warps of a warpgroup execute the same setmaxnregs in turn."""
        warp.setmaxnregs += 1
        turn = warp.index // 4, warp.setmaxnregs
        first = self.setmaxnregs.setdefault(turn, (warp.index, stmt))
        if first[1] is not stmt:
            raise FaultError(f"warp {first[0]} of the warpgroup executes another setmaxnreg")

    def ended(self, known: int) -> None:
        """Raise FaultError where warps of a warpgroup miss a setmaxnreg, or cells are allocated."""
        for warp in (w for w in self.cluster.warps if w.cta is self):
            if (warp.index // 4, warp.setmaxnregs + 1) in self.setmaxnregs:
                why = f"warp {warp.index} has ended without a setmaxnreg of its warpgroup"
                raise FaultError(why)
        if self.cells is not None:
            self.cells.ended(known)

    def touch(
        self, warp: Warp, stmt: Stmt, before: int, places: Array, size: int, write: bool = False,
        copy: bool = False,
    ) -> int:  # fmt: skip
        """An access to shared memory as a set of one event; none where races are not watched.

        ``warp`` made it, by ``stmt``, behind the events ``before``. Each place is an address
        divided by ``size`` bytes; ``copy`` says whether it is one of TMA or wgmma.
        """
        if self.races is None:
            return 0
        number = self.races.events.add(warp, stmt, copy)
        (self.races.write if write else self.races.read)(number, before, units(places, size))
        return 1 << number

    def overwrite(self, chunks: Array) -> None:
        """Raise FaultError if 16-byte chunks that a load overwrites may still be read."""
        for read in self.reads:
            if np.isin(read.chunks, chunks).any():
                raise FaultError(
                    f"a load overwrites what warp {read.warp.index} may still be reading: no "
                    f"fence.proxy.async by all its threads and warp.sync behind the read"
                )

    def signalled(self, what: str) -> None:
        """Raise FaultError if ``what`` comes from a peer after the CTA has left."""
        if not self.running:
            raise FaultError(f"{what} reaches CTA {self.ctaid}, which has left")


class Cluster:
    """The CTAs that run together, and what they share."""

    def __init__(
        self,
        kernel: Kernel,
        tensors: Mapping[str, Descriptor],
        params: Mapping[str, int],
        grid: int,
        first: int,
        scheduler: Scheduler,
        trace: list[TraceRow] | None,
        globals: Mapping[str, Array] | None = None,
        counters: Mapping[str, Counters] | None = None,
        slots: Mapping[str, Slots] | None = None,
        races: bool = False,
    ) -> None:
        self.kernel = kernel
        self.tensors = tensors
        self.globals = globals or {}
        self.counters = counters or {}
        self.slots = slots or {}
        self.grid, self.rows = grid, kernel.rows(params)
        self.scheduler = scheduler
        self.trace = trace
        self.counts: Counter[str] = Counter()
        self.ctas = [Cta(self, first + rank, rank) for rank in range(kernel.cluster)]
        together([cta.cells for cta in self.ctas if cta.cells is not None], kernel.cta_group.size)
        for cta in self.ctas if races else ():
            cta.watch_races()
        self.sent: list[Sent] = []
        phases = Phases(scheduler.events, "cluster.sync") if races else None
        self.barrier = NamedBarrier("cluster.sync", kernel.threads * kernel.cluster, phases=phases)
        self.warps = [Warp(c, w, params) for c in self.ctas for w in range(kernel.threads // 32)]

    def place(self, ctaid: int) -> dict[str, int]:
        """The place in the grid of a CTA of a number, of which x is the fastest dimension."""
        columns, rows = self.grid, self.rows
        return {
            "%ctaid.x": ctaid % columns, "%ctaid.y": ctaid // columns % rows,
            "%ctaid.z": ctaid // columns // rows, "%nctaid.x": columns, "%nctaid.y": rows,
        }  # fmt: skip
