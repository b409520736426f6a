"""What a launch passes to the driver, laid out as cuda.h says; needs no driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from lowering.ground.expr import ScalarType
from lowering.kernel.kernel import Kernel

__all__ = ["Arguments", "LaunchAttribute", "LaunchConfig"]

_MAP_ALIGN = 64

_SCALARS = {ScalarType.I32: ctypes.c_int32, ScalarType.I64: ctypes.c_int64}


class LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute`` of cuda.h: an id, and a union of 64 bytes from byte 8 on.

    Of the union only the int is declared that the attributes used here have.
    """

    _fields_ = (
        ("id", ctypes.c_uint), ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_int), ("rest", ctypes.c_char * 60),
    )  # fmt: skip

    @classmethod
    def programmatic_stream_serialization(cls) -> LaunchAttribute:
        """``CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION``, allowed.

        The kernel may start once all CTAs of the one in front of it in the stream have executed
        ``griddepcontrol.launch_dependents`` or ended; in a captured graph the dependency is
        programmatic in the same way.
        """
        return cls(6, b"", 1)


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig`` of cuda.h, with the parameters of the launch, which live as long."""

    block: Arguments

    _fields_ = (
        ("gridDimX", ctypes.c_uint), ("gridDimY", ctypes.c_uint), ("gridDimZ", ctypes.c_uint),
        ("blockDimX", ctypes.c_uint), ("blockDimY", ctypes.c_uint), ("blockDimZ", ctypes.c_uint),
        ("sharedMemBytes", ctypes.c_uint), ("hStream", ctypes.c_void_p),
        ("attrs", ctypes.POINTER(LaunchAttribute)), ("numAttrs", ctypes.c_uint),
    )  # fmt: skip

    def add(self, attribute: LaunchAttribute) -> None:
        """Make ``attribute`` the only one; the configuration keeps it alive."""
        self.attrs, self.numAttrs = ctypes.pointer(attribute), 1


class Arguments:
    """The parameter block of a launch, and the array of pointers into it.

    Args:
        kernel: for the order and types of its parameters: tensor maps, addresses and strides of
            global tensors, addresses of trace buffers and counters, then scalars.
        descriptors: of the tensor maps passed by value, those of an array in one piece.
        places: addresses of tensor maps in device memory, address and strides of each global
            tensor, one after the other, then the other addresses.
        scalars: values of the scalar parameters.
    """

    def __init__(
        self, kernel: Kernel, descriptors: list[bytes], places: list[int], scalars: list[int]
    ) -> None:
        *starts, size = accumulate(map(len, descriptors), initial=0)
        self._storage: Any = (ctypes.c_char * (size + _MAP_ALIGN))()
        base = -(-ctypes.addressof(self._storage) // _MAP_ALIGN) * _MAP_ALIGN
        slots = [base + start for start in starts]
        for slot, descriptor in zip(slots, descriptors, strict=True):
            ctypes.memmove(slot, descriptor, len(descriptor))
        self._scalars: list[Any] = [
            *map(ctypes.c_int64, places),
            *(_SCALARS[p.type](value) for p, value in zip(kernel.params, scalars, strict=True)),
        ]
        self._point([*slots, *(ctypes.addressof(s) for s in self._scalars)])

    @classmethod
    def joined(cls, blocks: Sequence[Arguments]) -> Arguments:
        """The parameters of several kernels, one behind the other, as those of one launch."""
        made = cls.__new__(cls)
        made._storage, made._scalars = [b._storage for b in blocks], [b._scalars for b in blocks]
        made._point([p for b in blocks for p in b._pointers if p is not None])
        return made

    def _point(self, pointers: Sequence[int]) -> None:
        """Take what the driver reads: an array of pointers to the parameters, which are held."""
        self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self.pointer = ctypes.addressof(self._pointers)
