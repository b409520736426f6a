"""Fragments and wgmma on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.descriptor import MatrixDescriptor, block_bytes
from lowering.kernel.nodes import (
    Frag,
    FragCast,
    FragColumns,
    FragFill,
    FragRows,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.text import print_stmt
from lowering.machine.errors import FaultError
from lowering.machine.fragment import (
    Array,
    add_aligned,
    add_products,
    block_to_lanes,
    convert,
    filled,
    lanes_to_block,
    operand_values,
    sums_of_products,
    to_float32,
)
from lowering.machine.operands import Operand, descriptor_of, elements, where
from lowering.machine.program import Place, Program, Run
from lowering.machine.scheduler import Blocked, Effect
from lowering.machine.state import Registers, Warp
from lowering.target.mma import MmaFamily

__all__ = [
    "adding", "frag_cast", "frag_columns", "frag_fill", "frag_rows", "wgmma", "wgmma_commit",
    "wgmma_fence", "wgmma_wait",
]  # fmt: skip


def frag_fill(stmt: FragFill, program: Program) -> Run:
    """``frag.fill``."""

    def run(warp: Warp) -> None:
        warp.define(stmt.out, Registers(filled(stmt.out.type, stmt.value), warp.epoch))

    return run


def frag_cast(stmt: FragCast, program: Program) -> Run:
    """``frag.cast``."""
    source, target = stmt.value.type.dtype, stmt.out.type.dtype

    def run(warp: Warp) -> None:
        data = convert(warp.read(stmt.value), source, target)
        if stmt.exponent:
            wide = np.ldexp(to_float32(data, target), stmt.exponent)
            data = convert(wide, DType.F32, target)
        warp.define(stmt.out, Registers(data, warp.epoch))

    return run


def frag_columns(stmt: FragColumns, program: Program) -> Run:
    """``frag.columns``: a copy, but of registers that belong to the whole value."""
    start, cols, whole = program.scalar(stmt.start), stmt.out.type.cols, stmt.value.type.cols
    group = stmt.value.type.layout.columns

    def run(warp: Warp) -> None:
        first = start(warp.env)
        if first % group or cols % group or first < 0 or first + cols > whole:
            last = first + cols
            raise FaultError(
                f"columns {first} .. {last} of {whole} are not whole groups of {group}"
            )
        data = warp.read(stmt.value)[:, :, first // group : (first + cols) // group].copy()
        source = warp.value(stmt.value).registers
        warp.define(stmt.out, Registers(data, warp.epoch, whole=source))

    return run


def frag_rows(stmt: FragRows, program: Program) -> Run:
    """``frag.rows``: a copy, but of registers that belong to the whole value."""
    start, rows, whole = program.scalar(stmt.start), stmt.out.type.rows, stmt.value.type.rows
    layout = stmt.value.type.layout
    step = layout.unit

    def run(warp: Warp) -> None:
        first = start(warp.env)
        if first % step or rows % step or first < 0 or first + rows > whole:
            last = first + rows
            raise FaultError(f"rows {first} .. {last} of {whole} are not whole groups of {step}")
        blocks = slice(first // layout.rows, (first + rows) // layout.rows)
        data, source = warp.read(stmt.value)[:, blocks].copy(), warp.value(stmt.value).registers
        warp.define(stmt.out, Registers(data, warp.epoch, whole=source))

    return run


def wgmma_fence(stmt: WgmmaFence, program: Program) -> Run:
    """``wgmma.fence``: what the warp did to registers so far is ordered before later wgmmas."""

    def run(warp: Warp) -> None:
        warp.epoch += 1

    return run


def wgmma(stmt: Wgmma, program: Program) -> Run:
    """``wgmma.mma_async``: reads its operands and updates registers until it is waited for.

    Each warp computes its 16 rows of each 64. wgmmas of a warp happen in order.
    """
    b = program.place(stmt.b)
    left, dtype = _left(stmt, program)
    family = program.kernel.target.mma
    _check_shapes(stmt, dtype, b, family)
    accumulate = program.scalar(stmt.accumulate)
    form = family.form(dtype, b.buffer.dtype, stmt.acc.type.dtype)
    add = adding(stmt.acc.type.dtype, form.aligned if form is not None else None)

    def run(warp: Warp) -> None:
        registers = warp.take(stmt.acc)
        _fenced(warp, stmt.acc, registers)
        keep = bool(accumulate(warp.env))
        descriptor = descriptor_of(b, stmt.trans_b, warp)
        right = Operand(descriptor, stmt.width, family.k_bytes, stmt.trans_b, b.buffer.dtype)
        update = _update(warp, registers, left(warp), right, stmt, add, keep)
        warp.wgmma.issued += 1
        registers.wgmma = warp.wgmma.issued
        if isinstance(stmt.a, Frag):
            root = warp.value(stmt.a).registers.root
            root.reads, root.reader = warp.wgmma.issued, stmt
        warp.define(stmt.out, registers)
        if warp.index % 4 == 0:
            warp.record(stmt.OP, b.buffer.name, b.element(warp.env)[0])
        _issue(warp, Effect(update, warp, stmt))

    return run


@dataclass(frozen=True, slots=True)
class Blocks:
    """A warp's part of A: ``values()`` are its 16 rows of each block, in float32, read when the
    wgmma happens; ``operands`` the blocks in shared memory.
    """

    values: Callable[[], list[Array]]
    operands: tuple[Operand, ...] = ()


def _left(stmt: Wgmma, program: Program) -> tuple[Callable[[Warp], Blocks], DType]:
    """A from shared memory or from registers, and its type."""
    rows = stmt.acc.type.rows
    if isinstance(stmt.a, Frag):
        return _from_registers(stmt.a), stmt.a.type.dtype
    a, trans = program.place(stmt.a), stmt.trans_a
    block, dtype, family = block_bytes(a.buffer, trans), a.buffer.dtype, program.kernel.target.mma
    MatrixDescriptor.of(a.buffer, trans)

    def left(warp: Warp) -> Blocks:
        operands = tuple(
            Operand(
                descriptor_of(a, trans, warp, n * block), family.m, family.k_bytes, trans, dtype
            )
            for n in range(rows // family.m)
        )
        memory, first = warp.cta.memory, 16 * (warp.index % 4)
        return Blocks(lambda: [elements(memory, x)[first : first + 16] for x in operands], operands)

    return left, dtype


def _from_registers(a: Frag) -> Callable[[Warp], Blocks]:
    def left(warp: Warp) -> Blocks:
        found = warp.value(a)
        _fenced(warp, a, found.registers)
        if found.registers.wgmma > warp.wgmma.covered:
            raise FaultError(
                f"fragment {a.name} may still be written by: {print_stmt(found.writer)}"
            )
        data = found.registers.data
        values = [data[:, block] for block in range(a.type.blocks)]
        return Blocks(lambda: [operand_values(lanes_to_block(v), a.type.dtype) for v in values])

    return left


def _fenced(warp: Warp, frag: Frag, registers: Registers) -> None:
    if registers.epoch >= warp.epoch:
        raise FaultError(f"no wgmma.fence after the last access to fragment {frag.name}")


def _check_shapes(stmt: Wgmma, dtype: DType, b: Place, family: MmaFamily) -> None:
    """Refuse what no wgmma computes."""
    type_ = stmt.acc.type
    if (stmt.out.type.rows, stmt.out.type.cols) != (type_.rows, type_.cols):
        raise InternalError("machine", "wgmma changes the fragment's shape", print_stmt(stmt))
    problem = family.problem(dtype, b.buffer.dtype, type_.dtype, stmt.width)
    if type_.rows % family.m:
        problem = f"a {family.name} has {family.m} rows, {type_} no multiple of it"
    if problem:
        raise InternalError("machine", problem, print_stmt(stmt))
    MatrixDescriptor.of(b.buffer, stmt.trans_b)


def _issue(warp: Warp, effect: Effect) -> None:
    """Put a wgmma behind the warp's others; the scheduler sees the first of them."""
    queue = warp.wgmma

    def happen() -> None:
        effect.apply()
        queue.flying.popleft()
        queue.done += 1
        if queue.flying:
            warp.scheduler.add(queue.flying[0])
        queue.wake(warp.scheduler)

    queue.flying.append(Effect(happen, warp, effect.stmt))
    if len(queue.flying) == 1:
        warp.scheduler.add(queue.flying[0])


Adding = Callable[[Array | None, Array, Array], Array]
"""Accumulators as lanes hold them, or none, and blocks of A and B: the accumulators after that."""


def adding(acc: DType, aligned: int | None) -> Adding:
    """How products are added to accumulators of a type (``MmaForm.aligned``)."""

    def plainly(before: Array | None, a: Array, b: Array) -> Array:
        return add_products(before, block_to_lanes(sums_of_products(a, b)), acc)

    def with_few_bits(before: Array | None, a: Array, b: Array) -> Array:
        held = None if before is None else lanes_to_block(to_float32(before, acc))
        return add_products(None, block_to_lanes(add_aligned(held, a, b, aligned or 0)), acc)

    return plainly if aligned is None else with_few_bits


def _update(
    warp: Warp, registers: Registers, left: Blocks, right: Operand, stmt: Wgmma, add: Adding,
    keep: bool,
) -> Callable[[], None]:  # fmt: skip
    """The product of each block of A with B, onto the block's accumulators of these columns."""
    cta, group = warp.cta, stmt.acc.type.layout.columns
    known = warp.known.before(False)
    columns = slice(stmt.col // group, (stmt.col + stmt.width) // group)

    def update() -> None:
        events = 0
        for operand in (*left.operands, right):
            events |= cta.touch(warp, stmt, known, where(operand), 16, copy=True)
        warp.wgmma.reads.append(events)
        b = elements(cta.memory, right)
        for block, a in enumerate(left.values()):
            before = registers.data[:, block, columns] if keep else None
            registers.data[:, block, columns] = add(before, a, b)

    return update


def wgmma_commit(stmt: WgmmaCommit, program: Program) -> Run:
    """``wgmma.commit_group``."""

    def run(warp: Warp) -> None:
        warp.wgmma.groups.append(warp.wgmma.issued)

    return run


def wgmma_wait(stmt: WgmmaWait, program: Program) -> Run:
    """``wgmma.wait_group``: for the warp's own groups."""

    def run(warp: Warp) -> Iterator[Blocked | None]:
        queue, target = warp.wgmma, warp.wgmma.target(stmt.pending)
        yield None
        while queue.done < target:
            yield Blocked(queue, lambda: f"wgmma {queue.done + 1} of its {target}")
        for events in queue.reads[queue.covered : target]:
            warp.known.learn(events, False)
        queue.covered = max(queue.covered, target)
        warp.define(stmt.out, warp.take(stmt.acc))

    return run
