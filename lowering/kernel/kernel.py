"""The kernel: launch attributes, parameters, storage, and the statement tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, Expr, Var, evaluate
from lowering.ground.frozen import quick, replaced
from lowering.ground.sharing import WHOLE, Sharing
from lowering.kernel.cta_group import CtaGroup
from lowering.kernel.nodes import Body
from lowering.kernel.storage import (
    KINDS,
    CounterArray,
    MBarrierArray,
    NamedBarrierArray,
    Ring,
    Storage,
    TensorBuffer,
    TraceBuffer,
    Watch,
    Workspace,
)
from lowering.kernel.tensors import GlobalTensor, SharedBuffer, TensorMap
from lowering.target.target import Target
from lowering.target.targets import DEFAULT

__all__ = [
    "CounterArray", "GlobalTensor", "Kernel", "MBarrierArray", "NamedBarrierArray", "Ring",
    "SharedBuffer", "Storage", "TensorBuffer", "TensorMap", "TraceBuffer", "Watch", "Workspace",
]  # fmt: skip

Kind = TypeVar("Kind", bound=Storage)


@quick
@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel at any point of the lowering.

    ``grid`` is the number of CTAs along x, over the scalar parameters and ``sms`` (the device's
    multiprocessors), ``grid_y`` that along y, over the scalar parameters alone, and ``splits`` that
    along z. ``cluster`` is CTAs per cluster along x. A
    ``dependent`` kernel is launched with programmatic stream serialization: it may start before the
    grid in front of it has ended, and touches no global memory before ``griddepcontrol.wait``.
    One with a ``share`` writes its part of each group, kernels beside it the rest. ``target`` is
    the GPU that it is made for.

    ``registers`` of a thread are what a CTA starts with where it leaves some of a multiprocessor's
    to CTAs of another grid; None of one that takes all that there are.

    ``storage`` are its declarations, in the order of the text. Those of one kind are properties;
    one of them is found by its name.
    """

    name: str
    threads: int
    grid: Expr
    params: tuple[Var, ...]
    storage: tuple[Storage, ...]
    body: Body
    cluster: int = 1
    dependent: bool = False
    share: Sharing = WHOLE
    splits: int = 1
    target: Target = DEFAULT
    grid_y: Expr = ONE
    registers: int | None = None

    @property
    def registers_at_entry(self) -> int:
        """Registers of a thread that a CTA starts with."""
        return self.registers or self.target.registers_at_entry(self.threads)

    @property
    def cta_group(self) -> CtaGroup:
        """The CTAs that have a part of one of its matrix instructions."""
        return CtaGroup.of(self.target, self.cluster)

    def rows(self, params: Mapping[str, int]) -> int:
        """CTAs along y.

        Args:
            params: a value for each scalar parameter.
        """
        return evaluate(self.grid_y, params)

    def ctas(self, grid: int, params: Mapping[str, int]) -> int:
        """CTAs of a whole launch.

        Args:
            grid: CTAs along x.
            params: a value for each scalar parameter.
        """
        return grid * self.rows(params) * self.splits

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """The declarations of one kind."""
        return tuple(s for s in self.storage if isinstance(s, kind))

    def find(self, kind: type[Kind], name: str) -> Kind | None:
        """The declaration of that kind and name, if there is one."""
        return next((s for s in self.storage if s.name == name and isinstance(s, kind)), None)

    def named(self, kind: type[Kind], name: str) -> Kind:
        """The declaration of that kind and name.

        Raises:
            InternalError: there is none.
        """
        found = self.find(kind, name)
        if found is None:
            raise InternalError("kernel", f"{self.name} has no {kind.__name__} named {name}")
        return found

    def declare(self, *new: Storage) -> Kernel:
        """The kernel with more declarations, each behind those of its kind."""
        return replaced(self, storage=tuple(sorted((*self.storage, *new), key=_rank)))

    def redeclare(self, *changed: Storage) -> Kernel:
        """The kernel with declarations in place of those of the same kind and name."""
        by_name = {(type(s), s.name): s for s in changed}
        storage = tuple(by_name.get((type(s), s.name), s) for s in self.storage)
        return replaced(self, storage=storage)

    def undeclare(self, kind: type[Storage]) -> Kernel:
        """The kernel without the declarations of one kind."""
        return replaced(self, storage=tuple(s for s in self.storage if not isinstance(s, kind)))

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """Its tensor maps."""
        return self.of(TensorMap)

    @property
    def globals(self) -> tuple[GlobalTensor, ...]:
        """Its plain tensors."""
        return self.of(GlobalTensor)

    @property
    def shared(self) -> tuple[SharedBuffer, ...]:
        """Its buffers in shared memory."""
        return self.of(SharedBuffer)

    @property
    def tensors(self) -> tuple[TensorBuffer, ...]:
        """Its buffers in tensor memory."""
        return self.of(TensorBuffer)

    @property
    def mbarriers(self) -> tuple[MBarrierArray, ...]:
        """Its arrays of mbarriers."""
        return self.of(MBarrierArray)

    @property
    def named_barriers(self) -> tuple[NamedBarrierArray, ...]:
        """Its arrays of named barriers."""
        return self.of(NamedBarrierArray)

    @property
    def rings(self) -> tuple[Ring, ...]:
        """Its rings."""
        return self.of(Ring)

    @property
    def traces(self) -> tuple[TraceBuffer, ...]:
        """Its trace buffers."""
        return self.of(TraceBuffer)

    @property
    def watch(self) -> Watch | None:
        """Its watch, if its waits have a bound."""
        return next(iter(self.of(Watch)), None)

    @property
    def counters(self) -> tuple[CounterArray, ...]:
        """Its arrays of counters."""
        return self.of(CounterArray)

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """Its workspaces."""
        return self.of(Workspace)

    def global_tensor(self, name: str) -> GlobalTensor:
        """The global tensor of that name."""
        return self.named(GlobalTensor, name)

    def tensor_map(self, name: str) -> TensorMap:
        """The tensor map of that name."""
        return self.named(TensorMap, name)

    def buffer(self, name: str) -> SharedBuffer:
        """The shared buffer of that name."""
        return self.named(SharedBuffer, name)

    def tensor(self, name: str) -> TensorBuffer:
        """The buffer in tensor memory of that name."""
        return self.named(TensorBuffer, name)

    def ring(self, name: str) -> Ring:
        """The ring of that name."""
        return self.named(Ring, name)

    def mbarrier(self, name: str) -> MBarrierArray:
        """The mbarrier array of that name."""
        return self.named(MBarrierArray, name)

    def trace(self, name: str) -> TraceBuffer:
        """The trace buffer of that name."""
        return self.named(TraceBuffer, name)

    def workspace(self, name: str) -> Workspace:
        """The workspace of that name."""
        return self.named(Workspace, name)

    def named_barrier(self, name: str) -> NamedBarrierArray:
        """The named-barrier array of that name."""
        return self.named(NamedBarrierArray, name)

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory, without the 1024 that aligning its base may cost."""
        placed: tuple[SharedBuffer | MBarrierArray, ...] = (*self.shared, *self.mbarriers)
        ends = (s.offset + s.stages * s.stage_bytes for s in placed if s.offset is not None)
        return max(ends, default=0)

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory that a CTA allocates for its buffers there; 0 without any."""
        memory, taken = self.target.tensor_memory, sum(t.columns for t in self.tensors)
        return 0 if memory is None or not taken else memory.allocated(taken)


def _rank(declared: Storage) -> int:
    return KINDS.index(type(declared))
