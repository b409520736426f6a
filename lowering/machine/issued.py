"""What a warp has issued and has not seen the end of, and the fragments that it holds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lowering.kernel.nodes import Stmt
from lowering.machine.fragment import Array
from lowering.machine.scheduler import Effect, Resource, Runnable

__all__ = ["BulkQueue", "Fragment", "GenericRead", "Registers", "Store", "WgmmaQueue"]


@dataclass(slots=True, eq=False)
class GenericRead:
    """``ld.shared`` or ``ldmatrix`` of some 16-byte chunks that TMA might overtake; ``fenced`` says
    whether each thread of the warp has executed ``fence.proxy.async`` behind it.
    """

    warp: Runnable
    chunks: Array
    fenced: bool = False


@dataclass(slots=True, eq=False)
class Registers:
    """The registers of a fragment, which successive fragment values share.

    ``wgmma`` is the number of the last wgmma that writes them, ``epoch`` counts the warp's
    ``wgmma.fence``s before the last access by anything else. ``reads`` is the number of the last
    wgmma that reads them as A, ``reader`` that statement. Where they are part of others, ``whole``
    has these. ``loading`` says whether nobody has waited for the load that writes them.
    """

    data: Array
    epoch: int
    wgmma: int = 0
    reads: int = 0
    reader: Stmt | None = None
    whole: Registers | None = None
    loading: bool = False

    @property
    def root(self) -> Registers:
        """The registers that these are part of, in the end."""
        return self if self.whole is None else self.whole.root


@dataclass(slots=True, eq=False)
class Fragment:
    """A fragment value; ``consumed`` is the statement that took its registers."""

    registers: Registers
    writer: Stmt
    consumed: Stmt | None = None


@dataclass(slots=True, eq=False)
class WgmmaQueue(Resource):
    """A warp's wgmmas, which happen in order. All counts are since the start of the kernel.

    ``reads`` has what each has read, as events, once it is done.
    """

    flying: deque[Effect] = field(default_factory=deque)
    issued: int = 0
    done: int = 0
    covered: int = 0
    groups: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)

    def target(self, pending: int) -> int:
        """How many wgmmas are done once at most ``pending`` groups are not."""
        return self.groups[-1 - pending] if len(self.groups) > pending else 0


@dataclass(slots=True, eq=False)
class Store:
    """A TMA store; ``has_read`` shared memory, ``has_written`` global memory; ``events``
    is its read.
    """

    stmt: Stmt
    has_read: bool = False
    has_written: bool = False
    events: int = 0


@dataclass(slots=True, eq=False)
class BulkQueue(Resource):
    """TMA stores of a warp's elected thread, by bulk group; ``covered`` groups were waited for."""

    open: list[Store] = field(default_factory=list)
    groups: list[list[Store]] = field(default_factory=list)
    covered: int = 0
