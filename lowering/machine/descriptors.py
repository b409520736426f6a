"""Statements that find, change and fence descriptors on the machine."""

from __future__ import annotations

from collections.abc import Callable

from lowering.kernel.nodes import (
    FenceTensormapAcquire,
    FenceTensormapRelease,
    GmemRef,
    MapRef,
    TensormapReplaceAddress,
    TensormapReplaceDim,
)
from lowering.machine.errors import FaultError
from lowering.machine.program import Program, Run
from lowering.machine.state import Warp
from lowering.machine.tensor_map import Descriptor

__all__ = [
    "descriptor_of", "fence_tensormap_acquire", "fence_tensormap_release",
    "tensormap_replace_address", "tensormap_replace_dim",
]  # fmt: skip


def descriptor_of(ref: GmemRef | MapRef, program: Program) -> Callable[[Warp], Descriptor]:
    """A function that gives the descriptor; it raises FaultError where an array has none there."""
    name = ref.map
    if ref.entry is None:
        return lambda warp: warp.cta.cluster.tensors[name]
    entry = program.scalar(ref.entry)

    def find(warp: Warp) -> Descriptor:
        tensors, at = warp.cta.cluster.tensors, entry(warp.env)
        found = tensors.get(f"{name}[{at}]")
        if found is None:
            count = sum(key.startswith(f"{name}[") for key in tensors)
            raise FaultError(f"{name}[{at}] lies outside {name}[{count}]")
        return found

    return find


def fence_tensormap_acquire(stmt: FenceTensormapAcquire, program: Program) -> Run:
    """``fence.proxy.tensormap`` with acquire."""
    find = descriptor_of(stmt.map, program)

    def run(warp: Warp) -> None:
        warp.touches_global()
        find(warp).acquire(warp)

    return run


def fence_tensormap_release(stmt: FenceTensormapRelease, program: Program) -> Run:
    """``fence.proxy.tensormap`` with release: of all that the warp has changed."""

    def run(warp: Warp) -> None:
        for d in warp.cta.cluster.tensors.values():
            d.released = max(d.released, d.changed.pop(warp, 0))

    return run


def tensormap_replace_address(stmt: TensormapReplaceAddress, program: Program) -> Run:
    """``tensormap.replace.global_address``."""
    find, where = descriptor_of(stmt.map, program), program.coordinates(stmt.src)

    def run(warp: Warp) -> None:
        descriptor, at = find(warp), where(warp.env)
        array = warp.cta.cluster.globals[stmt.src.map]
        place = f"{stmt.src.map}[{', '.join(map(str, at))}]"
        if not all(0 <= i <= n for i, n in zip(at, array.shape, strict=True)):
            raise FaultError(f"{place} lies outside {stmt.src.map}")
        if array.strides != descriptor.memory.strides:
            raise FaultError(f"the strides of {stmt.src.map} are not those of {descriptor.name}")
        memory = array[tuple(slice(i, None) for i in at)]
        offset = sum(i * n for i, n in zip(at, array.strides, strict=True))
        if offset % 16:
            raise FaultError(f"{place} lies {offset} bytes from the start, no multiple of 16")
        _change(warp, descriptor)
        descriptor.memory = memory

    return run


def tensormap_replace_dim(stmt: TensormapReplaceDim, program: Program) -> Run:
    """``tensormap.replace.global_dim``."""
    find, size = descriptor_of(stmt.map, program), program.scalar(stmt.size)

    def run(warp: Warp) -> None:
        descriptor, extent = find(warp), size(warp.env)
        if extent < 1:
            raise FaultError(f"{descriptor.name} would have {extent} elements")
        _change(warp, descriptor)
        descriptor.sizes[stmt.dim] = extent

    return run


def _change(warp: Warp, descriptor: Descriptor) -> None:
    warp.touches_global()
    if not warp.elected:
        raise FaultError(f"{descriptor.name} is changed by 32 threads, not by one")
    descriptor.change(warp)
