"""Declarations of a kernel: tensors, buffers, barriers, and whatever else has a name and a place.

A kernel holds them as one tuple. What concerns all of them (printing, names, offsets) goes over it;
what concerns one kind asks for that kind (``Kernel.of``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr
from lowering.kernel.tensors import Declared, GlobalTensor, SharedBuffer, TensorMap
from lowering.kernel.traits import PLACED, Filled
from lowering.target.ptx import MBARRIER_BYTES
from lowering.target.tensor_memory import LANES

__all__ = [
    "KINDS", "CounterArray", "MBarrierArray", "NamedBarrierArray", "Ring", "Storage",
    "TensorBuffer", "TraceBuffer", "Watch", "Workspace",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorBuffer(Declared):
    """``stages`` tiles of ``shape``, rows by columns, in tensor memory, an element in a cell.

    Row ``r`` lies in lane ``r % 128``; further 128 rows lie behind the columns of those in front.
    ``column`` counts from the base of what the CTA has allocated, None until
    ``allocate_tensor_memory``.
    """

    FILLED: ClassVar[Filled] = (("column", "allocate_tensor_memory"),)
    name: str
    dtype: DType
    stages: int
    shape: tuple[int, ...]
    column: int | None = None

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.shape[-2]

    @property
    def cols(self) -> int:
        """Columns of a tile."""
        return self.shape[-1]

    @property
    def stage_columns(self) -> int:
        """Columns of tensor memory that a stage takes."""
        return -(-self.rows // LANES) * self.cols

    @property
    def columns(self) -> int:
        """Columns of tensor memory that all stages take."""
        return self.stages * self.stage_columns


@dataclass(frozen=True, slots=True)
class MBarrierArray(Declared):
    """``stages`` mbarriers of 8 bytes; a phase completes after ``arrivals`` arrivals and its bytes.

    ``offset`` in bytes, None until ``allocate_shared``.
    """

    FILLED: ClassVar[Filled] = PLACED
    name: str
    stages: int
    arrivals: int
    offset: int | None = None

    @property
    def align(self) -> int:
        """Bytes that its place is a multiple of."""
        return MBARRIER_BYTES

    @property
    def stage_bytes(self) -> int:
        """Bytes of one mbarrier."""
        return MBARRIER_BYTES


@dataclass(frozen=True, slots=True)
class NamedBarrierArray(Declared):
    """``count`` named barriers with hardware ids ``base .. base + count``, of ``threads`` each.

    ``base`` is None until ``allocate_named_barriers``.
    """

    FILLED: ClassVar[Filled] = (("base", "allocate_named_barriers"),)
    name: str
    count: int
    threads: int
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Ring(Declared):
    """Buffers whose stages some roles fill and others drain, one after the other, round and round.

    A step fills one stage of every buffer: step ``m`` the stage ``stage(m, stages)``. Who fills and
    who drains is what the roles do between ``produce`` or ``consume`` and the next: TMA,
    ``cp.async`` or stores on one side, wgmma or loads on the other. Several roles may fill a step
    together, and every role that reads from the ring reads every step, except that the warpgroups
    of a role form ``teams`` which take steps in turn (two in ping-pong), where the step that they
    wait for depends on the group index. Those of a team take each step together, or deal out theirs
    in ``dealing`` runs, each of as many warpgroups.

    ``in_flight`` wgmma groups stay pending when a step's successor starts, so a step is released
    that many steps late and ``stages > in_flight``.

    With ``prefetch`` > 0 the consumers fill the buffers themselves, that many steps ahead; with 0 a
    role of its own does.

    In a cluster, ``shares`` has a pair (count, stride) for each buffer: ``count`` CTAs whose ranks
    differ by multiples of ``stride`` load the same tile, each a slice that it multicasts to all. A
    ``remote`` ring is filled by the first CTA of the cluster for all of them.
    """

    name: str
    buffers: tuple[str, ...]
    stages: int
    teams: int = 1
    in_flight: int = 0
    shares: tuple[tuple[int, int], ...] = ()
    prefetch: int = 0
    remote: bool = False
    dealing: int = 1

    @property
    def takers(self) -> int:
        """How many take different steps: teams, and runs of each."""
        return self.teams * self.dealing

    @property
    def multicast(self) -> bool:
        """Whether a stage is filled by several CTAs."""
        return any(count > 1 for count, _ in self.shares)

    def share(self, buffer: str) -> tuple[int, int]:
        """(count, stride) of a buffer; (1, 1) if its CTA loads it alone."""
        return self.shares[self.buffers.index(buffer)] if self.shares else (1, 1)


@dataclass(frozen=True, slots=True)
class TraceBuffer(Declared):
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
class Watch(Declared):
    """Waits take no longer than so many ``nanoseconds``; a pointer parameter says where a warp
    writes down what it waited for, a row of words for each (:mod:`lowering.kernel.waits`).
    """

    name: str
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class CounterArray(Declared):
    """``count`` words of 32 bits in global memory that all CTAs of the grid share, a pointer
    parameter.

    They are zero when the first CTA starts, and the kernel leaves them zero: the next launch on the
    same stream finds them so. ``count`` is over the scalar parameters and ``ctas``, the CTAs along
    x.
    """

    name: str
    count: Expr


@dataclass(frozen=True, slots=True)
class Workspace(Declared):
    """``count`` fragments of ``rows x cols``, fp32 or s32, in global memory, a pointer parameter.

    Partial results on their way from one CTA to another of the same grid. ``count`` is over the
    scalar parameters and ``ctas``, the CTAs along x. What it holds when the grid starts or ends
    means nothing. A fragment lies as the registers of its warpgroup do, 16 bytes of each thread in
    turn, so that only the same threads of another warpgroup can read it.
    """

    name: str
    rows: int
    cols: int
    count: Expr
    dtype: DType = DType.F32


Storage = (
    TensorMap | GlobalTensor | SharedBuffer | TensorBuffer | MBarrierArray | NamedBarrierArray
    | Ring | TraceBuffer | Watch | CounterArray | Workspace
)  # fmt: skip
"""Whatever a kernel declares beside its scalar parameters."""

KINDS: tuple[type[Storage], ...] = (
    TensorMap, GlobalTensor, SharedBuffer, TensorBuffer, MBarrierArray, NamedBarrierArray, Ring,
    TraceBuffer, Watch, CounterArray, Workspace,
)  # fmt: skip
"""The kinds in the order in which a kernel that passes made declares them."""
