"""Give every buffer in tensor memory its columns, and the CTA the memory.

Requires: stage counts are final; a sync of the CTA or cluster in front of the roles and one behind.
Guarantees: buffers have columns one behind the other, from the base of one allocation on, of as
many columns as a power of two takes. The first warp allocates them in front of the first sync, lets
others of the SM allocate, and frees them behind the last one. The address travels through a word of
shared memory, which all threads read behind the sync. CTAs that have a part of one product allocate
and free together: behind that is a sync of the cluster, so that none leaves in front of it.

Fences stand on either side of both syncs: an allocation, like any access, is ordered from thread to
thread by them only. An allocation waits while another CTA of the SM has the columns; that one is of
an earlier grid, or of ours without anything that waits for us, and frees them when it ends.

After ``number_ctas`` (the syncs stand), before ``allocate_shared``, which places the word.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, ScheduleError
from lowering.ground.expr import ZERO, Var
from lowering.kernel.kernel import Kernel, SharedBuffer
from lowering.kernel.nodes import (
    Body,
    ClusterSync,
    CtaSync,
    LdWord,
    OnWarp,
    Roles,
    SmemRef,
    Tcgen05Alloc,
    Tcgen05Base,
    Tcgen05Dealloc,
    Tcgen05Fence,
    Tcgen05Relinquish,
)
from lowering.kernel.visit import Names
from lowering.target.tensor_memory import TensorMemory
from passes.options import LoweringOptions

__all__ = ["allocate_tensor_memory"]

_BEFORE, _AFTER = Tcgen05Fence("before"), Tcgen05Fence("after")


def allocate_tensor_memory(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Columns for the buffers; as it is where there are none.

    before::

        tensor acc: f32[2][128x96]
        (inits)
        cta.sync
        roles { ... }
        cta.sync

    after::

        tensor acc: f32[2][128x96] column 0
        shared cells: s32[1][1x1]
        (inits)
        on %warp 0 { tcgen05.alloc cells[0, 0, 0], 256  tcgen05.relinquish }
        tcgen05.fence before
        cta.sync
        tcgen05.fence after
        cells_at: i32 = ld.word cells[0, 0, 0]
        tcgen05.base cells_at
        roles { ... }
        tcgen05.fence before
        cta.sync
        tcgen05.fence after
        on %warp 0 { tcgen05.dealloc 256 }

    Raises:
        ScheduleError: ``tensor-memory``, more columns than there are.
        InternalError: no sync in front of the roles, or none behind.
    """
    if not kernel.tensors:
        return kernel
    memory = kernel.target.tensor_memory
    if memory is None:
        raise InternalError("allocate_tensor_memory", f"{kernel.target.arch} has none")
    placed, at = [], 0
    for t in kernel.tensors:
        placed.append(replace(t, column=at))
        at += t.columns
    columns = memory.allocated(at)
    _require(kernel, memory, at)
    names = Names(kernel)
    word = SharedBuffer(names.new("cells"), DType.S32, 1, (1, 1))
    slot, address = SmemRef(word.name, ZERO, (ZERO, ZERO)), Var(names.new("cells_at"))
    alloc = OnWarp(0, (Tcgen05Alloc(slot, columns), Tcgen05Relinquish()))
    front, sync, between, roles, last, rest = _cut(kernel)
    body = (
        *front, alloc,
        _BEFORE, sync, _AFTER, LdWord(address, slot), Tcgen05Base(address), *between, roles,
        _BEFORE, last, _AFTER, OnWarp(0, (Tcgen05Dealloc(columns),)), *_end(kernel), *rest,
    )  # fmt: skip
    return replace(kernel.redeclare(*placed).declare(word), body=body)


def _end(kernel: Kernel) -> Body:
    """No CTA of a group leaves before the others have freed theirs."""
    return (ClusterSync(),) if kernel.cta_group.several else ()


def _require(kernel: Kernel, memory: TensorMemory, columns: int) -> None:
    """Refuse more than a multiprocessor has."""
    if columns <= memory.columns:
        return
    parts = (f"{t.name} {t.stages} x {t.stage_columns}" for t in kernel.tensors)
    first = kernel.tensors[0]
    most = (memory.columns - columns + first.columns) // first.stage_columns
    raise ScheduleError(
        "tensor-memory",
        f"circular_buffer({first.name}, stages={first.stages})",
        f"{' + '.join(parts)} = {columns} columns of tensor memory, an SM has {memory.columns}",
        tuple(f"stages={n}" for n in range(1, most + 1)),
    )


def _cut(
    kernel: Kernel,
) -> tuple[Body, CtaSync | ClusterSync, Body, Roles, CtaSync | ClusterSync, Body]:
    """The body at the sync in front of the roles, at the roles, and at the sync behind them."""
    body = kernel.body
    at = next((n for n, s in enumerate(body) if isinstance(s, Roles)), len(body))
    syncs = [n for n, s in enumerate(body) if isinstance(s, CtaSync | ClusterSync)]
    before, behind = [n for n in syncs if n < at], [n for n in syncs if n > at]
    if not before or not behind:
        why = f"{kernel.name} has no sync in front of its roles, or none behind"
        raise InternalError("allocate_tensor_memory", why)
    first, last, roles = body[before[-1]], body[behind[0]], body[at]
    assert isinstance(first, CtaSync | ClusterSync) and isinstance(last, CtaSync | ClusterSync)
    assert isinstance(roles, Roles)
    between, rest = body[before[-1] + 1 : at], body[behind[0] + 1 :]
    return body[: before[-1]], first, between, roles, last, (*body[at + 1 : behind[0]], *rest)
