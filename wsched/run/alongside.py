"""A kernel beside the statistics that its epilogue reads.

Statistics of rows take memory's time and hardly any of a multiprocessor; the product behind them
reads the same rows, and reads the statistics where its first tiles are stored. So they run beside
the first main loops: a CTA of each on every multiprocessor. For that the product leaves registers
for a warpgroup, and waits for the grid in front behind its main loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import ScheduleError
from lowering.summary.kernel import ALONGSIDE_REGISTERS
from lowering.target.ptx import WARPGROUP
from lowering.target.target import Target
from wsched.fusion.summary import Axis
from wsched.program.program import Buffer, CallStep, Step, SummaryStep
from wsched.run.arguments import extents_of
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.registers import SPARE_REGISTERS

if TYPE_CHECKING:
    from wsched.run.compiled import CompiledFusion
    from wsched.run.summary import CompiledSummary

__all__ = ["Front", "beside", "has_room", "leaving_registers", "read_us"]

_READ = 1.0e6
"""Bytes in a microsecond that a warpgroup on each multiprocessor reads beside a product: 8 KB of
each are on their way."""

_ADDED = 5.2e6
"""Multiplications and additions in a microsecond of one multiprocessor, two of each product."""

_LATE = 1.2
"""How much later than the first tiles statistics may be: a wait of a fifth of them is less than
the statistics alone take, at four times that rate."""

_LOADING = 24
"""Registers of a thread that loads."""

_CHUNKS = (40, 32, 24, 16, 8)
"""Columns of chunks that leave more registers than wider ones."""


@dataclass(frozen=True, slots=True)
class Front:
    """The steps in front of a kernel, with a summary as the last that launches anything.

    Args:
        before: steps that do not read what it makes.
        summary: of rows.
        behind: views of what it makes.
    """

    before: tuple[Step, ...]
    summary: SummaryStep
    behind: tuple[Step, ...]

    @staticmethod
    def of(
        steps: Sequence[Step], reads: Collection[Buffer], operands: Collection[Buffer]
    ) -> Front | None:
        """With the last summary of rows that the kernel reads and nobody else; None where there is
        none, or where the kernel multiplies what it makes.

        Args:
            steps: in front of a kernel.
            reads: the memory that the kernel reads.
            operands: of that what it multiplies.
        """
        for at, step in reversed([*enumerate(steps)]):
            if isinstance(step, SummaryStep) and step.summary.axis is Axis.COLUMNS:
                found = Front._of(steps[:at], step, steps[at + 1 :], reads, operands)
                if found is not None:
                    return found
        return None

    @staticmethod
    def _of(
        before: Sequence[Step],
        summary: SummaryStep,
        others: Sequence[Step],
        reads: Collection[Buffer],
        operands: Collection[Buffer],
    ) -> Front | None:
        apart, behind, made = list(before), list[Step](), {b.memory for b in summary.writes}
        for step in others:
            if made.isdisjoint(b.memory for b in step.reads):
                apart.append(step)
            elif isinstance(step, CallStep) and step.stable:
                behind.append(step)
                made.update(b.memory for b in step.writes)
            else:
                return None
        if made.isdisjoint(reads) or not made.isdisjoint(operands):
            return None
        return Front(tuple(apart), summary, tuple(behind))

    def alongside(self, made: CompiledSummary) -> list[Step]:
        """The steps in this order, with the summary run by another kernel."""
        return [*self.before, replace(self.summary, kernel=made.name), *self.behind]


def beside(
    kernel: CompiledFusion,
    inputs: Sequence[Any],
    read: int,
    compiled: Callable[[MatmulParams], CompiledFusion],
) -> CompiledFusion | None:
    """The kernel that runs beside statistics; None where it would wait for them, or has no room.

    Args:
        kernel: as it is chosen.
        inputs: that it reads.
        read: bytes that the statistics are made of.
        compiled: makes the kernel of another schedule.
    """
    params, target = kernel.made_from, kernel.kernel.target
    sizes = extents_of(kernel.fusion, inputs)
    shape = sizes["M"], sizes["N"], sizes["K"]
    if params is None or kernel.finishes or not has_room(params, target, shape, read):
        return None
    for leaving in leaving_registers(params, target):
        with suppress(ScheduleError):
            found = compiled(leaving)
            return None if found.alongside is found else found.alongside
    return None


def read_us(read: int) -> float:
    """Microseconds that statistics of so many bytes take beside a product."""
    return read / _READ


def has_room(params: MatmulParams, target: Target, sizes: tuple[int, int, int], read: int) -> bool:
    """Whether statistics may run beside a kernel that has registers to leave: it starts early, and
    its first tiles take as long.

    Args:
        params: of a kernel that stores its results whole.
        target: of it.
        sizes: M, N and K.
        read: bytes that the statistics are made of.
    """
    if not params.programmatic_dependent_launch or params.thread_loads or params.splitk_factor > 1:
        return False
    m, n, k = sizes
    tile = params.tile_sizes.cta_tile
    first = min(tile.m * tile.n, m * n // target.sms)
    return read_us(read) <= _LATE * 2 * first * k / _ADDED


def leaving_registers(params: MatmulParams, target: Target) -> Iterator[MatmulParams]:
    """The same with registers left for a warpgroup of statistics, with chunks of the epilogue as
    they are and narrower ones; none without registers to give, or where an instruction takes more
    than a CTA would start with.
    """
    if params.register_pair is None:
        return
    loading, step = params.load_warpgroups, target.register_step
    groups = params.warpgroups + loading
    left = target.registers // WARPGROUP - ALONGSIDE_REGISTERS
    entry, load = left // groups // step * step, min(params.register_pair[0], _LOADING)
    macro = params.mma_macro
    if macro.m * macro.n // WARPGROUP + SPARE_REGISTERS > entry:
        return
    pair = load, (entry * groups - load * loading) // params.warpgroups // step * step
    columns = params.tile_sizes.warp_tile.n
    for chunk in (params.epilogue_columns, *(c for c in _CHUNKS if columns % c == 0)):
        yield replace(params, num_registers=pair, epilogue_columns=chunk)
