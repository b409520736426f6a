"""Shared memory and bytes: what has a number, held against the limit of that number."""

from __future__ import annotations

from math import prod

from lowering.ground.expr import Const
from lowering.ground.poly import poly
from lowering.kernel.kernel import Kernel, MBarrierArray, SharedBuffer
from lowering.kernel.memory import TmaLoad, TmaStore
from lowering.kernel.places import shared_bytes
from lowering.kernel.visit import walk
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.state import Fill

__all__ = ["TX_LIMIT", "disjoint", "few_bytes", "layouts"]

TX_LIMIT = 2**20 - 1
"""The largest pending transaction count of an mbarrier phase (PTX ISA, "Size and alignment of
mbarrier object": the valid range of tx-count)."""


def disjoint(kernel: Kernel) -> Obligation:
    """No two buffers or mbarriers share a byte unless one says that it lies over the other, and all
    are within what a CTA can have.
    """
    name = "storage is disjoint"
    placed: list[tuple[int, int, str, int]] = []
    storage: tuple[SharedBuffer | MBarrierArray, ...] = (*kernel.shared, *kernel.mbarriers)
    for s in storage:
        if s.offset is None:
            return Obligation(name, s.name, Verdict.UNPROVED, "it has no place")
        placed.append((s.offset, s.offset + s.stages * s.stage_bytes, s.name, s.align))
    for _, _, a, b in shared_bytes(kernel):
        return Obligation(name, f"{a}, {b}", Verdict.REFUTED, f"{b} begins within {a}")
    for begin, end, a, align in placed:
        if begin % align or end > kernel.target.shared_bytes:
            why = f"bytes {begin} to {end}, aligned to {align}, of {kernel.target.shared_bytes}"
            return Obligation(name, a, Verdict.REFUTED, why)
    return Obligation(name, kernel.name)


def layouts(kernel: Kernel, agents: tuple[Agent, ...]) -> Obligation:
    """Each box that TMA copies is one of its buffer's: type, swizzle and columns are the same, and
    its lines are the buffer's, at constant coordinates.
    """
    name = "boxes of buffers"
    for copy in (s for a in agents for s in walk(a.body) if isinstance(s, TmaLoad | TmaStore)):
        map_, place = (
            (copy.src.map, copy.dst) if isinstance(copy, TmaLoad) else (copy.dst.map, copy.src)
        )
        tensor, buffer = kernel.tensor_map(map_), kernel.buffer(place.buffer)
        found = tensor.dtype, tensor.swizzle, tensor.box[-1]
        if found != (buffer.dtype, buffer.swizzle, buffer.box_cols):
            why = f"{tensor.name} and {buffer.name} differ in type, swizzle or columns of a box"
            return Obligation(name, buffer.name, Verdict.REFUTED, why)
        at = [c.value for c in place.coords if isinstance(c, Const)]
        if len(at) < len(place.coords):
            return Obligation(name, buffer.name, Verdict.UNPROVED, "a coordinate is no number")
        line, lines = buffer.line(at), prod(tensor.box[:-1])
        if at[-1] % buffer.box_cols or at[-1] >= buffer.cols or line + lines > buffer.lines:
            why = f"a box of {lines} lines at {at} is not within {buffer.shape}"
            return Obligation(name, buffer.name, Verdict.REFUTED, why)
    return Obligation(name, kernel.name)


def few_bytes(ring: str, fills: list[Fill], facts: Facts) -> Obligation:
    """No phase awaits more bytes than the transaction count can hold, at any size."""
    for fill in fills:
        if fill.bytes is not None and not facts.follows(poly(Const(TX_LIMIT)) - fill.bytes):
            why = f"{fill.bytes.expr()} may be above {TX_LIMIT}"
            return Obligation("transaction count", ring, Verdict.UNPROVED, why)
    return Obligation("transaction count", ring)
