"""``tcgen05`` on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.descriptor import instruction_descriptor
from lowering.kernel.nodes import (
    Tcgen05Alloc,
    Tcgen05Base,
    Tcgen05Commit,
    Tcgen05Dealloc,
    Tcgen05Fence,
    Tcgen05Load,
    Tcgen05Mma,
    Tcgen05Relinquish,
    Tcgen05WaitLoad,
    TmemRef,
)
from lowering.kernel.text import print_stmt
from lowering.machine.barriers import MBarrier
from lowering.machine.cells import Cells
from lowering.machine.errors import FaultError
from lowering.machine.fragment import Array, element_index, sums_of_products
from lowering.machine.groups import group_of, masked
from lowering.machine.operands import Operand, descriptor_of, elements, where
from lowering.machine.program import Program, Run
from lowering.machine.scheduler import Blocked, Effect
from lowering.machine.state import Cta, Registers, Warp
from lowering.target.mma import MmaForm
from lowering.target.tensor_memory import LANES

__all__ = [
    "tcgen05_alloc", "tcgen05_base", "tcgen05_commit", "tcgen05_dealloc", "tcgen05_fence",
    "tcgen05_load", "tcgen05_mma", "tcgen05_relinquish", "tcgen05_wait_load",
]  # fmt: skip


def _cells(cta: Cta) -> Cells:
    if cta.cells is None:
        raise FaultError("a GPU without tensor memory")
    return cta.cells


def _place(ref: TmemRef, program: Program) -> Callable[[Warp], tuple[int, int]]:
    """A function that gives lane and column of an element, as the hardware is told."""
    buffer = program.kernel.tensor(ref.buffer)
    if buffer.column is None:
        raise InternalError("machine", f"tensor memory {ref.buffer} has no column yet")
    first = buffer.column
    index = [program.scalar(e) for e in (ref.stage, *ref.coords)]

    def find(warp: Warp) -> tuple[int, int]:
        stage, row, col = (at(warp.env) for at in index)
        inside = (0 <= stage < buffer.stages, 0 <= row < buffer.rows, 0 <= col < buffer.cols)
        if not all(inside):
            tile = "x".join(map(str, buffer.shape))
            raise FaultError(
                f"{buffer.name}[{stage}, {row}, {col}] lies outside [{buffer.stages}][{tile}]"
            )
        if warp.tensor.base is None:
            raise FaultError(f"{buffer.name} is used before tcgen05.base")
        column = first + stage * buffer.stage_columns + row // LANES * buffer.cols + col
        return row % LANES, warp.tensor.base + column

    return find


def _form(stmt: Tcgen05Mma, program: Program, types: tuple[DType, DType, DType]) -> MmaForm:
    """The form of the instruction that multiplies these types."""
    target = program.kernel.target
    if target.tensor_memory is None:
        raise InternalError("machine", f"{target.mma.name} has no {stmt.OP}", print_stmt(stmt))
    form = target.mma.form(*types)
    if form is None or stmt.cols not in form.n:
        problem = target.mma.problem(*types, stmt.cols) or ""
        raise InternalError("machine", problem, print_stmt(stmt))
    return form


def tcgen05_mma(stmt: Tcgen05Mma, program: Program) -> Run:
    """``tcgen05.mma``: one thread issues it; products of a thread happen in order, at any time."""
    a, b, find = program.place(stmt.a), program.place(stmt.b), _place(stmt.d, program)
    family, acc = program.kernel.target.mma, program.kernel.tensor(stmt.d.buffer).dtype
    types = a.buffer.dtype, b.buffer.dtype, acc
    form = _form(stmt, program, types)
    majors = stmt.trans_a, stmt.trans_b
    rows = family.m * family.ctas
    told = instruction_descriptor(form.kind, types, rows, stmt.cols, *majors)
    rows, cols = (told >> 24 & 31) << 4, (told >> 17 & 63) << 3
    majors = bool(told >> 15 & 1), bool(told >> 16 & 1)
    shares = rows // family.ctas, cols // family.ctas
    accumulate = program.scalar(stmt.accumulate)

    def run(warp: Warp) -> None:
        if not warp.elected:
            raise FaultError(f"{stmt.OP} is issued by 32 threads, not by one")
        group, (lane, column) = group_of(warp.cta), find(warp)
        if warp.cta is not group[0]:
            raise FaultError(f"{stmt.OP} is issued by the odd CTA of a pair")
        if lane:
            raise FaultError(f"a product of {rows} rows begins in lane {lane}")
        columns = range(column, column + cols)
        event, state = warp.event(), warp.tensor  # threads read it: a relaxed wait says nothing
        for cta in group:
            cells = _cells(cta)
            cells.require(columns, f"{stmt.OP} writes")
            cells.write(event, columns, state.known(True), state.products.own)
        state.products.own |= 1 << event
        left, right = (
            Operand(
                descriptor_of(x, trans, warp, 0, family.version), n, family.k_bytes, trans,
                x.buffer.dtype,
            )
            for x, trans, n in zip((a, b), majors, shares, strict=True)
        )  # fmt: skip
        keep, known = bool(accumulate(warp.env)), warp.known.before(True)

        def update() -> None:
            events = 1 << event
            for cta in group:
                cta.signalled(f"a {stmt.OP}")
                for operand in (left, right):
                    operand.require_version(family.version)
                    events |= cta.touch(warp, stmt, known, where(operand), 16, copy=True)
            whole = np.concatenate([elements(cta.memory, right) for cta in group])
            for cta in group:
                sums = sums_of_products(elements(cta.memory, left), whole)
                region = _cells(cta).values[: shares[0], columns.start : columns.stop]
                region[:] = region + sums if keep else sums
            # What it came behind, the copies that brought its operands, those it tells come behind.
            state.products.told |= events | known & warp.scheduler.events.copies

        state.products.issue(Effect(update, warp, stmt), warp.scheduler)
        warp.record(stmt.OP, b.buffer.name, b.element(warp.env)[0])

    return run


def tcgen05_commit(stmt: Tcgen05Commit, program: Program) -> Run:
    """``tcgen05.commit``: an arrival when all products of the thread so far are complete."""
    find = program.mbarrier(stmt.bar)
    mask = None if stmt.multicast is None else program.scalar(stmt.multicast)

    def run(warp: Warp) -> None:
        if not warp.elected:
            raise FaultError(f"{stmt.OP} is executed by 32 threads, not by one")
        cluster, (_, index) = warp.cta.cluster, find(warp.cta, warp.env)
        ctas = [warp.cta] if mask is None else masked(cluster, mask(warp.env))
        warp.record(stmt.OP, stmt.bar.array, index)
        # Each is told at a time of its own.
        for cta in reversed(ctas) if len(ctas) > 1 and warp.scheduler.coin(stmt) else ctas:
            bar, _ = find(cta, warp.env)
            bar.use(warp, "arrived at")
            bar.remote |= cta is not warp.cta
            warp.tensor.products.issue(_arrival(warp, stmt, cta, bar), warp.scheduler)

    return run


def _arrival(warp: Warp, stmt: Tcgen05Commit, cta: Cta, bar: MBarrier) -> Effect:
    """What a commit does in one CTA."""
    known = warp.known.before(True)

    def arrive() -> None:
        cta.signalled(f"a commit to {bar.name}")
        bar.check("signalled by a commit", remote=True)
        bar.release(warp.tensor.products.told | known & warp.scheduler.events.moments)
        bar.arrive(1, known, warp.scheduler)

    return Effect(arrive, warp, stmt)


def tcgen05_load(stmt: Tcgen05Load, program: Program) -> Run:
    """``tcgen05.ld``: each warp its quarter of the lanes, at any time until it is waited for."""
    find, kind = _place(stmt.src, program), stmt.out.type

    def run(warp: Warp) -> None:
        cells, (lane, column) = _cells(warp.cta), find(warp)
        rows, cols = element_index(kind, warp.index % 4)
        lanes = lane + rows % LANES
        # Further 128 rows lie behind the columns of those in front.
        further = rows // LANES * program.kernel.tensor(stmt.src.buffer).cols
        _require_quarter(cells, warp, lanes)
        last = column + int((cols + further).max())
        columns = range(column, last + 1)
        cells.require(columns, f"{stmt.OP} reads")
        state = warp.tensor
        event = warp.scheduler.events.add(warp, stmt, copy=True)
        cells.read(event, columns, state.known(False))
        state.loading += 1
        state.loaded |= 1 << event
        registers = Registers(np.full((32, *kind.held), np.nan, np.float32), warp.epoch)
        registers.loading = True

        def land() -> None:
            registers.data[:] = cells.values[lanes, column + cols + further]
            state.loading -= 1
            state.wake(warp.scheduler)

        warp.define(stmt.out, registers)
        warp.record(stmt.OP, stmt.src.buffer, -1)
        warp.scheduler.add(Effect(land, warp, stmt))

    return run


def _require_quarter(cells: Cells, warp: Warp, lanes: Array) -> None:
    quarter = cells.memory.quarter
    first = warp.index % 4 * quarter
    low, high = int(lanes.min()), int(lanes.max())
    if low < first or high >= first + quarter:
        raise FaultError(
            f"lanes {low} .. {high + 1} of tensor memory, warp {warp.index} reaches "
            f"{first} .. {first + quarter} only"
        )


def tcgen05_wait_load(stmt: Tcgen05WaitLoad, program: Program) -> Run:
    """``tcgen05.wait::ld``: for all loads of the warp."""

    def run(warp: Warp) -> Iterator[Blocked | None]:
        state = warp.tensor
        yield None
        while state.loading:
            yield Blocked(state, lambda: f"{state.loading} of its tcgen05.ld")
        state.waited |= state.loaded
        state.loaded = 0
        registers = warp.take(stmt.acc)
        registers.loading = False
        warp.define(stmt.out, registers)

    return run


def tcgen05_fence(stmt: Tcgen05Fence, program: Program) -> Run:
    """``tcgen05.fence``."""
    if stmt.when not in ("before", "after"):
        raise InternalError("machine", f"a fence {stmt.when}", print_stmt(stmt))

    def run(warp: Warp) -> None:
        fence = warp.tensor.fence_before if stmt.when == "before" else warp.tensor.fence_after
        fence(warp.known, warp.elected)

    return run


def tcgen05_alloc(stmt: Tcgen05Alloc, program: Program) -> Run:
    """``tcgen05.alloc``: waits until there is room, and stores the address."""
    slot = program.place(stmt.dst)

    def run(warp: Warp) -> Iterator[Blocked | None]:
        cells = _cells(warp.cta)
        if problem := cells.memory.problem(stmt.columns):
            raise FaultError(f"{problem}, not {stmt.columns}")
        if cells.relinquished:
            raise FaultError(f"{stmt.OP} behind tcgen05.relinquish")
        number = cells.ask(stmt.columns, warp.scheduler)
        yield None
        while (first := cells.granted(number, warp.scheduler)) is None:
            yield Blocked(cells, lambda: f"{stmt.columns} columns of tensor memory")
        address = slot.address(warp.env)
        warp.touches(warp.cta, np.array([address // 4]), 4, write=True)
        warp.cta.memory.write_word(address, first)

    return run


def tcgen05_relinquish(stmt: Tcgen05Relinquish, program: Program) -> Run:
    """``tcgen05.relinquish_alloc_permit``."""

    def run(warp: Warp) -> None:
        _cells(warp.cta).relinquished = True

    return run


def tcgen05_base(stmt: Tcgen05Base, program: Program) -> Run:
    """``tcgen05.base``: where the warp's references to tensor memory count from."""
    address = program.scalar(stmt.address)

    def run(warp: Warp) -> None:
        warp.tensor.base = address(warp.env)

    return run


def tcgen05_dealloc(stmt: Tcgen05Dealloc, program: Program) -> Run:
    """``tcgen05.dealloc``: of the whole allocation, which nothing uses any more."""

    def run(warp: Warp) -> None:
        cells, first = _cells(warp.cta), warp.tensor.base
        for cta in group_of(warp.cta):
            cta.signalled(stmt.OP)
        if first is None or cells.allocated.get(first) != stmt.columns:
            raise FaultError(f"{stmt.columns} columns from {first} on are no allocation")
        cells.free(range(first, first + stmt.columns), warp.tensor.known(False))
        del cells.allocated[first]
        cells.freed = warp.event()
        warp.known.did(1 << cells.freed, warp.elected)
        cells.wake(warp.scheduler)

    return run
