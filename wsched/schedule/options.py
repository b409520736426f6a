"""What a schedule says beside loops: how a kernel is launched, buffered at its end and cached."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from lowering.ground.errors import ScheduleError
from wsched.fusion import PrimitiveCall
from wsched.schedule.checked import Choice

__all__ = [
    "COPIED_BYTES", "ELEMENT", "CachePolicy", "DebugPrint", "KernelOptions", "MmaInputSmemSwizzle",
    "TensorMapL2Promotion",
]  # fmt: skip

COPIED_BYTES = (1, 2, 4, 8, 16)
"""What a thread can copy at once."""


class CachePolicy(Choice):
    """Which lines the L2 evicts, in PTX's words: ``L2::evict_first`` and so on."""

    EvictNormal = 0
    EvictFirst = 1
    EvictLast = 2


class TensorMapL2Promotion(Choice):
    """How many bytes the L2 fetches at least where a TMA load misses it; nvFuser's names."""

    NoL2Promotion = 0
    B64 = 64
    B128 = 128
    B256 = 256


class MmaInputSmemSwizzle(Choice):
    """Bytes of the spans in which an operand lies in shared memory; nvFuser's names but for the
    first, the widest of which its rows have whole ones.

    ``NoSwizzle`` are spans of 16 bytes, whose eight follow each other as they are: a core matrix.
    """

    Widest = 0
    NoSwizzle = 16
    B32 = 32
    B64 = 64
    B128 = 128


ELEMENT = re.compile(r"(\w+)\[(\d+), ?(\d+)\]")
"""An element of a fragment, ``T4[3, 5]``."""


_NUMBER = re.compile(r"(?:cta|group|tile|step|thread)=[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class DebugPrint:
    """A line that a kernel prints, see ``Schedule.debug_print``; its fields are the arguments."""

    where: str
    value: str
    cta: int | None = None
    group: int | None = None
    tile: int | None = None
    step: int | None = None
    thread: int | None = None

    @property
    def call(self) -> PrimitiveCall:
        """The call that asks for it."""
        said = ((f.name, getattr(self, f.name)) for f in fields(self)[2:])
        given = tuple((name, number) for name, number in said if number is not None)
        return PrimitiveCall("debug_print", (self.where, self.value), given)

    def __str__(self) -> str:
        return str(self.call)

    @classmethod
    def parse(cls, text: str) -> DebugPrint:
        """One from words: where, value, and numbers such as ``cta=0``.

        Raises:
            ScheduleError: rule ``debug_print``: other words.
        """
        match text.split():
            case [where, value, *numbers] if all(map(_NUMBER.fullmatch, numbers)):
                given = (word.split("=") for word in numbers)
                return cls(where, value, **{name: int(n) for name, n in given})
        why = "neither where, value and numbers nor where and value"
        raise ScheduleError("debug_print", repr(text), why, ("T8 T8[3,5] cta=0 step=1", "load k"))


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Options of a kernel that no primitive says.

    Args:
        epilogue_stages: shared-memory buffers of a warpgroup's store loop, which its chunks take in
            turn; None for two where their number is even, else one.
        programmatic_dependent_launch: start before the grid in front of this one in the stream has
            ended, and wait for it only before the first access to global memory.
        prefetched_steps: of its first tile, for which a CTA asks the L2 for the operands before it
            waits for that grid.
        cache_policies: (tensor in global memory, what the L2 does with it) of the TMA copies.
        l2_promotions: (tensor in global memory, what the L2 fetches at once) of the TMA loads; 256
            bytes of those that are not named.
        smem_swizzles: (tensor in global memory, spans in shared memory) of operands that TMA loads
            for wgmma alone; the widest of those that are not named.
        promote_prologue_smem_reuse: the epilogue stores through the operands' stages, when all
            warps have read them: for one tile of each CTA.
        deferred_stores: results stay in registers behind a tile's main loop, and are stored during
            that of the next one, chunk by chunk: for loops over tiles that warpgroups share.
        vector: columns that a thread reads or writes at once where it accesses global memory
            itself, 1 or 2; the tensors of a call have to be aligned for it.
        vector_registers: registers of a thread for rows and columns that the epilogue reads: as
            many as fit are loaded in front of its chunks; of the others each chunk loads its part.
        slice_groups: warpgroups that share each slice of K in place of one that multiplies all of
            it, and add up what they have.
        slice_registers: registers of a thread that loads and of one that multiplies, where they
            do; None where all keep what they start with.
        prints: what is printed for whoever debugs.
        copied_bytes: (tensor in global memory, bytes that a thread copies of it at once) of what
            threads load into shared memory; of those that are not named, ``vector`` elements.
    """

    epilogue_stages: int | None = None
    programmatic_dependent_launch: bool = True
    prefetched_steps: int = 0
    cache_policies: tuple[tuple[str, CachePolicy], ...] = ()
    l2_promotions: tuple[tuple[str, TensorMapL2Promotion], ...] = ()
    smem_swizzles: tuple[tuple[str, MmaInputSmemSwizzle], ...] = ()
    promote_prologue_smem_reuse: bool = False
    deferred_stores: bool = False
    vector: int = 2
    copied_bytes: tuple[tuple[str, int], ...] = ()
    vector_registers: int = 0
    slice_groups: int = 1
    slice_registers: tuple[int, int] | None = None
    prints: tuple[DebugPrint, ...] = ()

    def changed(self) -> dict[str, Any]:
        """The fields that differ from the default."""
        default = KernelOptions()
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {n: v for n, v in found.items() if v != getattr(default, n)}
