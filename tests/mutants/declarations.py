"""One declaration with another number: where it lies, how it is swizzled, whom it awaits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel, MBarrierArray, SharedBuffer
from lowering.kernel.storage import NamedBarrierArray, Storage, TensorBuffer
from lowering.kernel.tensors import TensorMap

__all__ = ["redeclared"]

_OTHER = {
    Swizzle.B128: Swizzle.B64, Swizzle.B64: Swizzle.B128, Swizzle.B32: Swizzle.B64,
    Swizzle.NONE: Swizzle.B128,
}  # fmt: skip


def redeclared(kernel: Kernel) -> Iterator[tuple[str, str, tuple[Storage, ...]]]:
    """Class of the edit, what it is, and the kernel's declarations after it."""
    for at, declared in enumerate(kernel.storage):
        for kind, what, new in _edits(declared):
            storage = (*kernel.storage[:at], new, *kernel.storage[at + 1 :])
            yield kind, f"{declared.name}: {what}", storage


def _edits(declared: Storage) -> Iterator[tuple[str, str, Storage]]:
    match declared:
        case SharedBuffer(offset=int() as offset, stages=stages, swizzle=swizzle):
            if offset:
                yield "offset", "1024 bytes lower", replace(declared, offset=offset - 1024)
            yield "offset", "1024 bytes higher", replace(declared, offset=offset + 1024)
            yield "offset", "128 bytes higher", replace(declared, offset=offset + 128)
            yield "swizzle", "another swizzle", replace(declared, swizzle=_OTHER[swizzle])
            if stages > 1:
                yield "count", "a stage less", replace(declared, stages=stages - 1)
        case MBarrierArray(offset=int() as offset, stages=stages, arrivals=arrivals):
            yield "offset", "8 bytes lower", replace(declared, offset=offset - 8)
            yield "offset", "8 bytes higher", replace(declared, offset=offset + 8)
            yield "count", "an arrival more", replace(declared, arrivals=arrivals + 1)
            if stages > 1:
                yield "count", "a stage less", replace(declared, stages=stages - 1)
        case NamedBarrierArray(base=int() as base, threads=threads):
            yield "count", "32 threads more", replace(declared, threads=threads + 32)
            yield "count", "32 threads less", replace(declared, threads=threads - 32)
            yield "barrier", "the next hardware id", replace(declared, base=base + 1)
            yield "barrier", "hardware id 0, of cta.sync", replace(declared, base=0)
        case TensorBuffer(column=int() as column, stages=stages):
            if column:
                yield "offset", "32 columns lower", replace(declared, column=column - 32)
            yield "offset", "32 columns higher", replace(declared, column=column + 32)
            if stages > 1:
                yield "count", "a stage less", replace(declared, stages=stages - 1)
        case TensorMap(swizzle=swizzle):
            yield "swizzle", "another swizzle", replace(declared, swizzle=_OTHER[swizzle])
