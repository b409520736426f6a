"""What statements demand that reach into the shared memory of another CTA of the cluster.

Part of ``verify``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.expr import ZERO, Const, Expr, ScalarType, type_of
from lowering.kernel.cluster import BulkCopy, StAsync
from lowering.kernel.compute import LdShared
from lowering.kernel.kernel import Kernel, SharedBuffer
from lowering.kernel.memory import StShared, TmaLoad
from lowering.kernel.operands import SmemRef
from lowering.kernel.rules import about

__all__ = ["RULES"]

_BULK_BYTES = 16
"""``cp.async.bulk`` copies multiples of it (PTX ISA, cp.async.bulk)."""


def _reaching(kernel: Kernel, stmt: StAsync | BulkCopy | StShared | LdShared) -> Iterator[str]:
    if stmt.cta is not None:
        yield from _rank(kernel, stmt.cta)
    match stmt:
        case StAsync(dst, value):
            buffer = kernel.find(SharedBuffer, dst.buffer)
            if value.type.dtype.register_bits != 32:
                yield f"st.async takes 32-bit elements, not {value.type.dtype.value}"
            if value.type.rows == 1 or value.type.cols == 1:
                yield f"st.async takes whole tiles, not {value.type.rows}x{value.type.cols}"
            if buffer is not None and buffer.dtype is not value.type.dtype:
                held = buffer.dtype.value
                yield f"{value.name} is {value.type.dtype.value}, {buffer.name} holds {held}"
        case BulkCopy(dst, src):
            yield from _stages(kernel, dst, src)


def _shared_copy(kernel: Kernel, load: TmaLoad) -> Iterator[str]:
    if load.cta_group not in (1, kernel.cta_group.size):
        yield f"cta_group {load.cta_group} of a kernel with cta_group {kernel.cta_group.size}"
    if load.multicast is None and load.ctas != 1:
        yield f"a copy to {load.ctas} CTAs without a mask of them"
    elif isinstance(load.multicast, Const) and load.multicast.value.bit_count() != load.ctas:
        yield f"multicast mask {load.multicast.value:#b} of a copy to {load.ctas} CTAs"


def _rank(kernel: Kernel, cta: Expr) -> Iterator[str]:
    if type_of(cta) is not ScalarType.I32:
        yield f"rank {cta} is {type_of(cta).value}, not i32"
    elif isinstance(cta, Const) and not 0 <= cta.value < kernel.cluster:
        yield f"rank {cta} is not in a cluster of {kernel.cluster}"


def _stages(kernel: Kernel, dst: SmemRef, src: SmemRef) -> Iterator[str]:
    for ref in (dst, src):
        if any(at != ZERO for at in ref.coords):
            place = ", ".join(map(str, ref.coords))
            yield f"a bulk.copy is of whole stages, not of {ref.buffer} from [{place}] on"
    to, source = (kernel.find(SharedBuffer, ref.buffer) for ref in (dst, src))
    if to is None or source is None:
        return
    if _form(to) != _form(source):
        yield f"a bulk.copy of {_form(source)} to {_form(to)}"
    elif to.stage_bytes % _BULK_BYTES:
        yield f"a bulk.copy of {to.stage_bytes} bytes, no multiple of {_BULK_BYTES}"


def _form(b: SharedBuffer) -> str:
    shape = "x".join(map(str, b.shape))
    return f"{b.dtype.value}[{shape}] swizzle {b.swizzle.value}"


RULES = (about(_shared_copy, TmaLoad), about(_reaching, StAsync, BulkCopy, StShared, LdShared))
"""Of statements that reach into other CTAs."""
