"""The kernel: launch attributes, parameters, storage, and the statement tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.expr import Expr, Var
from lowering.kernel.nodes import Body
from lowering.kernel.tensors import GlobalTensor, SharedBuffer, TensorMap
from lowering.kernel.traits import PLACED, Filled
from lowering.target.target import Target
from lowering.target.targets import DEFAULT

__all__ = [
    "CircularBuffer", "CounterArray", "GlobalTensor", "Kernel", "MBarrierArray",
    "NamedBarrierArray", "SharedBuffer", "TensorMap", "TileQueue", "TraceBuffer",
    "WordArray", "Workspace",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class MBarrierArray:
    """``stages`` mbarriers of 8 bytes; a phase completes after ``arrivals`` arrivals and its bytes.

    ``offset`` in bytes, None until ``allocate_shared``.
    """

    FILLED: ClassVar[Filled] = PLACED
    name: str
    stages: int
    arrivals: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class NamedBarrierArray:
    """``count`` named barriers with hardware ids ``base .. base + count``, of ``threads`` each.

    ``base`` is None until ``allocate_named_barriers``.
    """

    FILLED: ClassVar[Filled] = (("base", "allocate_named_barriers"),)
    name: str
    count: int
    threads: int
    base: int | None = None


@dataclass(frozen=True, slots=True)
class CircularBuffer:
    """The shared buffers that one load step fills together.

    ``groups`` compute warpgroups read from it; each step is read by ``consumers`` of them (all in
    a cooperative kernel, one in ping-pong). ``in_flight`` wgmma groups stay pending when a step's
    successor starts, so a step is released that many steps late and ``stages > in_flight``.

    With ``prefetch`` > 0 the consumers fill the buffer themselves, that many steps ahead; with 0 a
    role of its own does.

    In a cluster, ``shares`` has a pair (count, stride) for each buffer: ``count`` CTAs whose ranks
    differ by multiples of ``stride`` load the same tile, each a slice that it multicasts to all.
    """

    name: str
    buffers: tuple[str, ...]
    stages: int
    groups: int
    consumers: int
    in_flight: int = 0
    shares: tuple[tuple[int, int], ...] = ()
    prefetch: int = 0

    @property
    def multicast(self) -> bool:
        """Whether a stage is filled by several CTAs."""
        return any(count > 1 for count, _ in self.shares)

    def share(self, buffer: str) -> tuple[int, int]:
        """(count, stride) of a buffer; (1, 1) if its CTA loads it alone."""
        return self.shares[self.buffers.index(buffer)] if self.shares else (1, 1)


@dataclass(frozen=True, slots=True)
class TraceBuffer:
    """Where ``stamp`` notes what happened when: words in global memory, a pointer parameter.

    ``[CTAs, warps, 1 + slots, 2]`` words of 64 bits: for each warp a header ``(stamps made, 0)``,
    then a record for each stamp, ``(clock, code + (value << 32))`` with :meth:`code`. A warp has
    ``slots`` records; later stamps are counted and dropped. ``events`` are the names that a stamp
    may have.
    """

    name: str
    slots: int
    events: tuple[str, ...]

    def code(self, event: str, phase: str, clock: str) -> int:
        """What stands for a stamp's event, phase and clock in its record."""
        return 4 * self.events.index(event) + 2 * (clock == "globaltimer") + (phase == "end")


@dataclass(frozen=True, slots=True)
class CounterArray:
    """``count`` words of 32 bits in global memory that all CTAs of the grid share, a pointer
    parameter.

    They are zero when the first CTA starts, and the kernel leaves them zero: the next launch on the
    same stream finds them so. ``count`` is over the scalar parameters and ``ctas``, the CTAs along
    x.
    """

    name: str
    count: Expr


@dataclass(frozen=True, slots=True)
class Workspace:
    """``count`` fp32 fragments of ``rows x cols`` in global memory, a pointer parameter.

    Partial results on their way from one CTA to another of the same grid. ``count`` is over the
    scalar parameters and ``ctas``, the CTAs along x. What it holds when the grid starts or ends
    means nothing. A fragment lies as the registers of its warpgroup do, 16 bytes of each thread in
    turn, so that only the same threads of another warpgroup can read it.
    """

    name: str
    rows: int
    cols: int
    count: Expr


@dataclass(frozen=True, slots=True)
class WordArray:
    """``count`` words of 32 bits in shared memory; ``offset`` in bytes, None until
    ``allocate_shared``.
    """

    FILLED: ClassVar[Filled] = PLACED
    name: str
    count: int
    offset: int | None = None

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return 4 * self.count


@dataclass(frozen=True, slots=True)
class TileQueue:
    """A circular buffer of tile numbers, a word each, from one warp of the cluster to all its CTAs.

    Every load warp reads each entry. Of ``groups`` compute warpgroups ``consumers`` read it: all,
    or one in turn.
    """

    name: str
    stages: int
    groups: int
    consumers: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel at any point of the lowering.

    ``grid`` is the number of CTAs along x, over the scalar parameters and ``sms`` (the device's
    multiprocessors), ``splits`` that along z. ``cluster`` is CTAs per cluster along x. A
    ``dependent`` kernel is launched with programmatic stream serialization: it may start before the
    grid in front of it has ended, and touches no global memory before ``griddepcontrol.wait``.
    ``target`` is the GPU that it is made for.
    """

    name: str
    threads: int
    grid: Expr
    params: tuple[Var, ...]
    tensor_maps: tuple[TensorMap, ...]
    shared: tuple[SharedBuffer, ...]
    body: Body
    cluster: int = 1
    mbarriers: tuple[MBarrierArray, ...] = ()
    named_barriers: tuple[NamedBarrierArray, ...] = ()
    circular_buffers: tuple[CircularBuffer, ...] = ()
    globals: tuple[GlobalTensor, ...] = ()
    dependent: bool = False
    traces: tuple[TraceBuffer, ...] = ()
    counters: tuple[CounterArray, ...] = ()
    splits: int = 1
    workspaces: tuple[Workspace, ...] = ()
    words: tuple[WordArray, ...] = ()
    tile_queues: tuple[TileQueue, ...] = ()
    target: Target = DEFAULT

    def global_tensor(self, name: str) -> GlobalTensor:
        """The global tensor of that name."""
        return next(t for t in self.globals if t.name == name)

    def tensor_map(self, name: str) -> TensorMap:
        """The tensor map of that name."""
        return next(t for t in self.tensor_maps if t.name == name)

    def buffer(self, name: str) -> SharedBuffer:
        """The shared buffer of that name."""
        return next(b for b in self.shared if b.name == name)

    def ring(self, name: str) -> CircularBuffer:
        """The circular buffer of that name."""
        return next(r for r in self.circular_buffers if r.name == name)

    def mbarrier(self, name: str) -> MBarrierArray:
        """The mbarrier array of that name."""
        return next(b for b in self.mbarriers if b.name == name)

    def tile_queue(self, name: str) -> TileQueue:
        """The tile queue of that name."""
        return next(q for q in self.tile_queues if q.name == name)

    def trace(self, name: str) -> TraceBuffer:
        """The trace buffer of that name."""
        return next(t for t in self.traces if t.name == name)

    def workspace(self, name: str) -> Workspace:
        """The workspace of that name."""
        return next(w for w in self.workspaces if w.name == name)

    def named_barrier(self, name: str) -> NamedBarrierArray:
        """The named-barrier array of that name."""
        return next(b for b in self.named_barriers if b.name == name)

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory, without the 1024 that aligning its base may cost."""
        ends = [b.offset + b.stages * b.stage_bytes for b in self.shared if b.offset is not None]
        ends += [b.offset + 8 * b.stages for b in self.mbarriers if b.offset is not None]
        ends += [w.offset + w.bytes for w in self.words if w.offset is not None]
        return max(ends, default=0)
