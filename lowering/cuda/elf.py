"""The few facts of a cubin that live in its ELF sections, read without any tool.

Layout: System V ABI, 64-bit little-endian ELF. Contents of ``.nv.info``: attributes as (format
byte, attribute byte, value), named as ``cuobjdump -elf`` names them (EIATTR_*).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from lowering.ground.errors import InternalError

__all__ = ["KernelInfo", "kernel_info"]

_MAGIC = b"\x7fELF"
_SYMTAB = 2

# EIATTR codes, and their formats: no value, 1 byte, 2 bytes, 2 bytes of size and value.
_FRAME_SIZE, _REGCOUNT, _CLUSTER = 0x11, 0x2F, 0x3D
_FORMAT_BYTE, _FORMAT_HALF, _FORMAT_SIZED = 2, 3, 4

_SYSTEM_SHARED = 1024
"""Bytes at the start of shared memory that CUDA keeps for itself from sm_90 on."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What the ELF says of one kernel.

    Attributes:
        registers: 32-bit registers per thread at entry.
        stack: bytes of local memory per thread.
        static_shared: bytes of static shared memory, without the system's own.
        cluster: CTAs per cluster in x, y, z; None without compile-time cluster dimensions.
        code: bytes of machine code.
    """

    registers: int = 0
    stack: int = 0
    static_shared: int = 0
    cluster: tuple[int, int, int] | None = None
    code: int = 0


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    data: bytes
    size: int
    link: int


def kernel_info(cubin: bytes) -> dict[str, KernelInfo]:
    """The kernels of a cubin by name.

    Raises:
        InternalError: the bytes are not a 64-bit ELF file.
    """
    if cubin[:5] != _MAGIC + b"\x02":
        raise InternalError("elf", "the cubin is not a 64-bit ELF file")
    try:
        return _kernels(_sections(cubin))
    except (struct.error, IndexError, ValueError) as e:
        raise InternalError("elf", f"the cubin is damaged ({e})") from e


def _kernels(sections: list[_Section]) -> dict[str, KernelInfo]:
    symbols = _symbol_names(sections)
    found: dict[str, dict[str, int | tuple[int, int, int]]] = {}
    for s in sections:
        if s.name.startswith(".text."):
            found.setdefault(s.name[6:], {})["code"] = s.size
        elif s.name.startswith(".nv.shared.") and not s.name.startswith(".nv.shared.reserved"):
            found.setdefault(s.name[11:], {})["static_shared"] = max(0, s.size - _SYSTEM_SHARED)
    for s in sections:
        if s.name == ".nv.info":
            for attribute, value in _attributes(s.data):
                field = {_REGCOUNT: "registers", _FRAME_SIZE: "stack"}.get(attribute)
                if field and len(value) == 8:
                    index, number = struct.unpack("<II", value)
                    if symbols[index] in found:
                        found[symbols[index]][field] = number
        elif s.name.startswith(".nv.info."):
            facts = found.setdefault(s.name[9:], {})
            for attribute, value in _attributes(s.data):
                if attribute == _CLUSTER and len(value) == 12:
                    facts["cluster"] = struct.unpack("<III", value)
    return {name: KernelInfo(**facts) for name, facts in found.items()}  # type: ignore[arg-type]


def _sections(elf: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * entry) for i in range(count)]
    names = heads[names_at][4]
    return [
        _Section(_string(elf, names + h[0]), h[1], elf[h[4] : h[4] + h[5]], h[5], h[6])
        for h in heads
    ]


def _symbol_names(sections: list[_Section]) -> list[str]:
    """Names by symbol index; the table's link is the section of its strings."""
    table = next(s for s in sections if s.kind == _SYMTAB)
    strings = sections[table.link].data
    offsets = (struct.unpack_from("<I", table.data, at)[0] for at in range(0, table.size, 24))
    return [_string(strings, at) for at in offsets]


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(0, at)].decode()


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(attribute, value) of a ``.nv.info`` section; attributes are padded to 4 bytes."""
    at = 0
    while at + 4 <= len(data):
        form, attribute = data[at], data[at + 1]
        if form == _FORMAT_SIZED:
            (size,) = struct.unpack_from("<H", data, at + 2)
            yield attribute, data[at + 4 : at + 4 + size]
            at += 4 + size
        else:
            width = {_FORMAT_BYTE: 1, _FORMAT_HALF: 2}.get(form, 0)
            yield attribute, data[at + 2 : at + 2 + width]
            at += 4
