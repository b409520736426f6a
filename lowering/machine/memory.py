"""Shared memory of a CTA: bytes, seen through the generic proxy and through the async proxy."""

from __future__ import annotations

import numpy as np

from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel
from lowering.kernel.places import shared_bytes
from lowering.machine.errors import FaultError, MachineError
from lowering.machine.fragment import Array

__all__ = ["SHARED_BASE", "SharedMemory", "check_storage", "swizzled"]

SHARED_BASE = 1024
"""Shared address of byte 0 of the kernel's storage, aligned as the kernel aligns it."""

POISON = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""What nobody has written: a NaN in every element type."""


def swizzled(addresses: Array, swizzle: Swizzle) -> Array:
    """Byte addresses as the hardware permutes them: ``Swizzle.apply`` on *absolute* addresses."""
    chunks = swizzle.value // 16
    return addresses ^ ((addresses >> 7 & chunks - 1) << 4) if chunks else addresses


class SharedMemory:
    """Two views of the same bytes.

    ``stmatrix`` and ``st.shared`` write the generic view, ``ldmatrix`` and ``ld.shared`` read it;
    the bytes reach the async view, from
    which wgmma and TMA stores read, with the writing warp's ``fence.proxy.async`` or earlier. TMA
    loads write both. Addresses are absolute, arrays of chunks are uint64 ``[..., 2]`` (16 bytes).

    Args:
        size: bytes of the kernel's storage.
        barriers: byte offsets of mbarriers, which nothing else may overwrite.

    ``stores`` has for each word the number of the store by which a CTA of the cluster hands it to
    another one, or 0; None as long as there is none.

    ``version`` counts changes of the async view; ``operands`` keeps what wgmma read at a version,
    because eight warps read the same rows of B.
    """

    def __init__(self, size: int, barriers: tuple[int, ...] = ()) -> None:
        words = -(-(SHARED_BASE + size) // 16) * 2
        self.end = SHARED_BASE + size
        self.generic = np.full(words, POISON)
        self.asynchronous = np.full(words, POISON)
        self._reserved = np.zeros(words // 2, bool)
        self._reserved[[(SHARED_BASE + offset) // 16 for offset in barriers]] = True
        self._mbarriers = {(SHARED_BASE + offset) // 8 for offset in barriers}
        self._written = np.zeros(words // 2, bool)
        self._stored: set[int] = set()
        self.stores: Array | None = None
        self.version = 0
        self.operands: dict[object, tuple[int, Array]] = {}

    def read_chunks(self, chunks: Array) -> Array:
        """16-byte chunks ``[...]`` (address / 16) through the async proxy, ``[..., 2]``."""
        try:
            return self.asynchronous.reshape(-1, 2)[chunks]
        except IndexError:
            raise self._outside(int(chunks.max()) * 16) from None

    def land(self, chunks: Array, data: Array) -> None:
        """TMA: 16-byte chunks into both views."""
        self._check(chunks)
        self.generic.reshape(-1, 2)[chunks] = data
        self.asynchronous.reshape(-1, 2)[chunks] = data
        self.mark((chunks[..., None] * 2 + np.arange(2)).ravel(), 0)
        self.version += 1

    def read_words(self, words: Array) -> Array:
        """Generic proxy: 8-byte words (address / 8)."""
        try:
            return self.generic[words]
        except IndexError:
            raise self._outside(int(words.max()) * 8) from None

    def write_words(self, words: Array, data: Array) -> None:
        """Generic proxy: 8-byte words (address / 8)."""
        self._check(words >> 1)
        self.generic[words] = data
        self.mark(words, 0)

    def mark(self, words: Array, store: int) -> None:
        """Say which store wrote these words; 0 for one of the CTA's own, for itself."""
        if self.stores is None and store:
            self.stores = np.zeros(self.generic.size, np.int64)
        if self.stores is not None:
            self.stores[words] = store

    def stored(self, words: Array) -> list[int]:
        """Numbers of the stores by which CTAs handed over some of these words."""
        return [] if self.stores is None else [int(n) for n in np.unique(self.stores[words]) if n]

    def read_word(self, address: int) -> int | None:
        """Generic proxy: 4 bytes as a signed integer; None where nobody has written them."""
        if address + 4 > self.end:
            raise self._outside(address)
        found = int(self.generic.view(np.int32)[address // 4])
        written = self._written[address // 16] or address in self._stored
        return found if written or found != -1 else None

    def write_word(self, address: int, value: int) -> None:
        """Generic proxy: 4 bytes."""
        if address + 4 > self.end:
            raise self._outside(address)
        if address // 8 in self._mbarriers:
            at = address // 8 * 8 - SHARED_BASE
            raise FaultError(f"the bytes of an mbarrier at offset {at} would be overwritten")
        self._stored.add(address)
        self.generic.view(np.int32)[address // 4] = value

    def read_floats(self, addresses: Array) -> Array:
        """Generic proxy: fp32 at byte addresses, multiples of 4."""
        try:
            found: Array = self.generic.view(np.float32)[addresses // 4]
        except IndexError:
            raise self._outside(int(addresses.max())) from None
        return found

    def write_floats(self, addresses: Array, data: Array) -> None:
        """Generic proxy: fp32 at byte addresses, multiples of 4."""
        self._check(addresses // 16)
        self.generic.view(np.float32)[addresses // 4] = data

    def publish(self, words: Array) -> None:
        """Make generic writes of these words visible to the async proxy."""
        self.asynchronous[words] = self.generic[words]
        self.version += 1

    def _check(self, chunks: Array) -> None:
        last = int(chunks.max(initial=0))
        if last >= self._reserved.size:
            raise self._outside(last * 16)
        self._written[chunks] = True
        if self._reserved[chunks].any():
            at = int(chunks[self._reserved[chunks]].min()) * 16 - SHARED_BASE
            raise FaultError(f"the bytes of an mbarrier at offset {at} would be overwritten")

    def _outside(self, address: int) -> FaultError:
        offset, size = address - SHARED_BASE, self.end - SHARED_BASE
        return FaultError(f"offset {offset} lies outside the {size} bytes of shared memory")


def check_storage(kernel: Kernel) -> None:
    """Raise MachineError where two buffers or mbarriers share a byte of shared memory, and do not
    say so.
    """
    for begin, end, name, other in shared_bytes(kernel):
        why = f"bytes {begin} to {end} of shared memory are of {name} and of {other}"
        raise MachineError(kernel.name, why)
