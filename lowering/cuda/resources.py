"""What a compiled kernel needs of the chip, and what ptxas complained about."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lowering.cuda.elf import kernel_info
from lowering.cuda.nvrtc import Compiled
from lowering.ground.errors import InternalError

__all__ = ["Resources", "complaints", "read_resources"]

# NVRTC prints "ptxas         .     0 bytes stack frame, ...", nvcc four spaces; the rest agrees.
_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used \d+ registers, used (?P<barriers>\d+) barriers")
_CODE = re.compile(r"\((C7[56]\d\d)\)\s*(.*)")
_WARNING = re.compile(r"ptxas warning\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of one kernel.

    Attributes:
        kernel: name of the entry function.
        registers: per thread at entry; with setmaxnreg the roles' counts are the schedule's.
        stack: bytes of stack frame per thread.
        spill_stores: bytes per thread written to local memory for want of registers.
        spill_loads: bytes per thread read back.
        static_shared: bytes of static shared memory (dynamic shared memory is the launch's).
        barriers: named barriers, counting barrier 0; all 16 if an id is a run-time value.
        code: bytes of machine code.
        warnings: lines of ptxas with a code C75xx or C76xx (serialized wgmma, ignored setmaxnreg,
            too few registers), and its other warnings.
    """

    kernel: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    static_shared: int
    barriers: int
    code: int
    warnings: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """No stack frame, no spills and no warnings."""
        return not (self.stack or self.spilled or self.warnings)

    @property
    def spilled(self) -> int:
        """Bytes per thread that are written to local memory and read back."""
        return self.spill_stores + self.spill_loads

    def __str__(self) -> str:
        spills = f"{self.spill_stores} + {self.spill_loads}"
        lines = [
            f"{self.kernel}: {self.registers} registers at entry, {self.stack} bytes of stack, "
            f"{spills} bytes spilled (stores + loads), {self.static_shared} bytes of static shared "
            f"memory, {self.barriers} barriers, {self.code} bytes of code"
        ]
        return "\n".join([*lines, *(f"  {w}" for w in self.warnings)])


def complaints(log: str) -> tuple[str, ...]:
    """Warnings of ptxas in a log: coded ones as ``C7510: text``, in order, without repetitions."""
    found = []
    for line in log.splitlines():
        if match := _CODE.search(line):
            found.append(f"{match[1]}: {match[2]}")
        elif match := _WARNING.search(line):
            found.append(match[1])
    return tuple(dict.fromkeys(found))


def read_resources(compiled: Compiled, kernel: str) -> Resources:
    """The resources of ``kernel``, from the ELF image and the log of its compilation.

    Raises:
        InternalError: the cubin has no such kernel, or the log does not report it.
    """
    info = kernel_info(compiled.cubin).get(kernel)
    if info is None:
        raise InternalError("resources", f"the cubin has no kernel {kernel}")
    stores, loads, barriers = _reported(compiled.log, kernel)
    return Resources(
        kernel, info.registers, info.stack, stores, loads, info.static_shared, barriers, info.code,
        complaints(compiled.log),
    )  # fmt: skip


def _reported(log: str, kernel: str) -> tuple[int, int, int]:
    """(bytes of spill stores, of spill loads, barriers) that the log gives for a kernel."""
    current, spills = None, None
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            current = match["name"]
        elif current == kernel and (match := _SPILLS.search(line)):
            spills = int(match["stores"]), int(match["loads"])
        elif current == kernel and spills and (match := _USED.search(line)):
            return (*spills, int(match["barriers"]))
    raise InternalError("resources", f"the log of ptxas does not report {kernel}", log)
