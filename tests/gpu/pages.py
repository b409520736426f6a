"""Tensors whose neighbours in memory are not mapped: what reads or writes there faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lowering.cuda.driver import driver_api

__all__ = ["alone_in_memory"]


class _Words:
    """Memory at an address, as torch takes it from others: 16 bits an element."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": shape, "typestr": "<i2", "version": 3,
        }  # fmt: skip


@contextmanager
def alone_in_memory(*tensors: Any, last: bool) -> Iterator[list[Any]]:
    """Copies of contiguous tensors of 16-bit types, with unmapped memory around each.

    Each begins with the mapped memory, or with ``last`` ends with it. As much is reserved in front
    of it as its bytes, and behind, so that no other tensor of the process lies there.
    """
    import torch

    driver = driver_api()
    torch.cuda.init()
    torch.cuda.synchronize()
    kind = driver.CUmemAllocationProp()
    kind.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    kind.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    kind.location.id = torch.cuda.current_device()
    access = driver.CUmemAccessDesc()
    access.location = kind.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
    page = _call(driver, "cuMemGetAllocationGranularity", kind, minimum)
    mapped, copies = [], []
    try:
        for t in tensors:
            used = t.numel() * t.element_size()
            size = -(-used // page) * page
            around = int(_call(driver, "cuMemAddressReserve", 3 * size, 0, 0, 0))
            memory = _call(driver, "cuMemCreate", size, kind, 0)
            mapped.append((around, size, memory))
            _call(driver, "cuMemMap", around + size, size, 0, memory, 0)
            _call(driver, "cuMemSetAccess", around + size, size, [access], 1)
            first = around + 2 * size - used if last else around + size
            words = torch.as_tensor(_Words(first, tuple(t.shape)), device="cuda")
            copies.append(words.view(t.dtype).copy_(t))
        yield copies
        torch.cuda.synchronize()
    finally:
        for around, size, memory in mapped:
            _call(driver, "cuMemUnmap", around + size, size)
            _call(driver, "cuMemRelease", memory)
            _call(driver, "cuMemAddressFree", around, 3 * size)


def _call(driver: Any, function: str, *args: Any) -> Any:
    status, *result = getattr(driver, function)(*args)
    assert status == driver.CUresult.CUDA_SUCCESS, (function, status)
    return result[0] if result else None
