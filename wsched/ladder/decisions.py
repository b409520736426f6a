"""What a rung of the ladder decides, and the schedule that says so in primitives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lowering.ground.expr import Special
from lowering.target.target import Target
from wsched.front.schedule import Schedule
from wsched.fusion import (
    CircularBufferType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    Pipelined,
    WarpSpecialized,
    the_matmul,
)
from wsched.schedule.cursor import Cursor

__all__ = ["CHUNK", "TILE", "Copies", "Decisions", "Grid", "decide"]

TILE = 128
"""Rows of one warpgroup's tile, and its columns: 128 fp32 sums a thread."""

CHUNK = 64
"""Columns of a tile that are converted and stored at a time."""

_TMA, _P = LoadStoreOpType.CpAsyncBulkTensorTile, ParallelType


class Grid(Enum):
    """Who computes the tiles."""

    ONE_CTA = "one CTA, one after the other"
    A_CTA_EACH = "a CTA for each"
    RESIDENT = "a CTA of each multiprocessor, every n-th, in an order that suits the L2"


class Copies(Enum):
    """Who copies between global and shared memory."""

    THREADS = "the threads that multiply"
    TMA = "TMA, which one thread starts"


@dataclass(frozen=True, slots=True)
class Decisions:
    """One matmul, D[M, N] = A[M, K] · B[N, K]ᵀ in 16 bits, and how it is run.

    Args:
        slice: elements of K that are loaded at a time, a multiple of what an instruction takes.
        grid: who computes the tiles.
        copies: who copies between global and shared memory.
        stages: slices that shared memory has room for; with one the next is loaded when the last
            has been multiplied.
        load_warps: whether warps of their own load.
        cluster: neighbouring CTAs, above one another, that share the columns of B.
        consumers: warpgroups that multiply, each :data:`TILE` rows of a tile.
    """

    slice: int = 16
    grid: Grid = Grid.ONE_CTA
    copies: Copies = Copies.THREADS
    stages: int = 1
    load_warps: bool = False
    cluster: int = 1
    consumers: int = 1

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return TILE * self.consumers

    @property
    def registers(self) -> tuple[int, int] | None:
        """Of a thread that loads and of one that holds sums. Three warpgroups start with 168, too
        few beside 128 sums: those that load hand some over.
        """
        return (40, 232) if self.consumers > 1 else None


def decide(s: Schedule, decided: Decisions) -> Schedule:
    """Make the calls that say what is decided.

    Args:
        s: a schedule without calls, of a matmul with one result and nothing behind it; its target
            says how much an instruction takes.
        decided: what it is to say.

    Returns:
        The same schedule.

    Raises:
        ScheduleError: there is no such kernel, with a slice of 24 for example.
    """
    tma = decided.copies is Copies.TMA
    loads = s[s.a, s.b].cache_after(_TMA if tma else LoadStoreOpType.Set)
    loads.set_memory_type(MemoryType.Shared)
    (result,), acc = s.outputs, s[s.acc]
    made = s[result].cache_before(_TMA if tma else LoadStoreOpType.Set)
    stored, held = s[result], made
    if tma:
        held = made.set_memory_type(MemoryType.Shared).cache_before(LoadStoreOpType.StMatrix)
        stored = s[made, result]
        s.configure(epilogue_stages=1)
    if s.target.tensor_memory is not None:
        held = s[held, acc.set_memory_type(MemoryType.Tensor).cache_after(LoadStoreOpType.LdTMem)]
    _deal(s[loads, acc, held, stored], decided)
    _store(s, held, stored, decided)
    _multiply(acc, decided)
    _load(loads, decided)
    return s


def _tile_loops(decided: Decisions) -> list[str]:
    """The loops that choose a tile, outermost first."""
    match decided.grid:
        case Grid.ONE_CTA:
            return ["Mo", "No"]
        case Grid.A_CTA_EACH:
            return ["cta"]
        case Grid.RESIDENT:
            return ["cta", "tile"]


def _deal(tensors: Cursor, decided: Decisions) -> None:
    """Tiles, and who computes which."""
    tensors.split("M", decided.rows).split("N", TILE).reorder(["Mo", "No"])
    resident, pair = decided.grid is Grid.RESIDENT, decided.cluster
    if decided.grid is Grid.ONE_CTA:
        return
    if pair > 1:
        tensors.split("Mo", pair, labels=("Mo", "rank")).reorder(["Mo", "No", "rank"])
    whole = "tiles" if resident or pair > 1 else "cta"
    tensors.merge("Mo", "No", traversal=8 if resident else 0, label=whole)
    if resident:
        place = "pair" if pair > 1 else "cta"
        tensors.split("tiles", Special("nctaid.x") // pair, labels=("tile", place))
        tensors.reorder([place, "rank", "tile"] if pair > 1 else [place, "tile"])
        whole = place
    if pair > 1:
        tensors.merge(whole, "rank", label="cta")
    tensors.parallelize("cta", _P.BIDx)


def _load(loads: Cursor, decided: Decisions) -> None:
    """Slices of K: where they are read, or ahead into stages."""
    tile = _tile_loops(decided)
    loads.split("K", decided.slice).reorder([*tile, "Ko"])
    loads.parallelize(["Mi", "Ni", "Ki"], _P.Bulk)
    if decided.stages == 1 and not decided.load_warps:
        loads.inline_at("Ko")
        return
    steps = [loop for loop in (*tile, "Ko") if loop != "cta"]
    for _ in steps[1:]:
        loads.merge(loads.loops.index(steps[0]))
    buffering: CircularBufferType = Pipelined()
    if decided.load_warps:
        held = loads.schedule.target.tensor_memory is None
        buffering = WarpSpecialized(_P.TIDy, decided.registers if held else None)
    loads.circular_buffer(decided.stages, decided.stages // 2, buffering)


def _multiply(acc: Cursor, decided: Decisions) -> None:
    """A slice is one instruction for each of its parts along K, and of the warpgroup's rows. Sums
    in tensor memory are a ring where warps load, which others read than issue the products.
    """
    target, tile = acc.schedule.target, _tile_loops(decided)
    mma, apart = target.mma, target.tensor_memory is not None
    k = mma.k(the_matmul(acc.schedule.fusion).operand.element)
    share = [] if apart else _shared_out(acc, decided)
    acc.split("K", decided.slice).split("Ki", k, labels=("k16", "k"))
    acc.split("Mi", mma.m, labels=(_rows(target), "m"))
    acc.reorder([*tile, *share, "Ko", "k16", _rows(target)])
    acc.parallelize(["m", "Ni", "k"], _P.Mma)
    if apart and decided.load_warps:
        acc.circular_buffer(2, 1, WarpSpecialized(_P.TIDy, None, len(tile)))
    else:
        acc.inline_at([*tile, *share][-1])


def _store(s: Schedule, held: Cursor, stored: Cursor, decided: Decisions) -> None:
    """What is held of a tile, in chunks of columns: by threads, or in boxes by TMA."""
    both = s[held, stored]
    around = [*_tile_loops(decided), *_shared_out(both, decided), "chunk"]
    both.split("Ni", CHUNK, labels=("chunk", "n")).reorder(around)
    boxed = decided.copies is Copies.TMA
    threads = held if boxed else both
    rows = _rows(s.target)
    threads.split("Mi", s.target.mma.m, labels=(rows, "m")).reorder([*around, rows])
    threads.parallelize(["m", "n"], _P.Mma)
    if boxed:
        stored.parallelize(["Mi", "n"], _P.Bulk)
        s[stored.name].inline_at("chunk")
    held.inline_at("chunk" if boxed else rows)


def _rows(target: Target) -> str:
    """The loop over the rows of instructions: ``m64``."""
    return f"m{target.mma.m}"


def _shared_out(tensors: Cursor, decided: Decisions) -> list[str]:
    """The loop that deals rows of a tile out to warpgroups, if there are several."""
    if decided.consumers == 1:
        return []
    tensors.split("Mi", TILE, labels=("group", "Mi"))
    tensors.parallelize("group", _P.TIDy)
    return ["group"]
