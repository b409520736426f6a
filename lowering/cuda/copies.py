"""Device functions for TMA copies: one for each number of dimensions and set of operands.

Those of two dimensions are in ``device.cuh``; of the others a kernel has what it calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["CopyForm", "copy_function"]

_LOAD = "shared::cluster.global.tile.mbarrier::complete_tx::bytes"
_STORE = "global.shared::cta.tile.bulk_group"


@dataclass(frozen=True, slots=True, order=True)
class CopyForm:
    """A form of ``cp.async.bulk.tensor``: of ``rank`` dimensions, a store or a load, with a mask of
    the CTAs that it multicasts to, with a cache policy (``hint``), and with a barrier of either CTA
    of a ``group`` of two.
    """

    rank: int
    store: bool = False
    multicast: bool = False
    hint: bool = False
    group: int = 1

    @property
    def name(self) -> str:
        """What its device function is called."""
        tail = "_multicast" * self.multicast + "_pair" * (self.group > 1) + "_hint" * self.hint
        return f"tma_{'store' if self.store else 'load'}_{self.rank}d{tail}"

    @property
    def function(self) -> str:
        """The name as a call has it."""
        return f"ptx::{self.name}" if self.at_hand else self.name

    @property
    def at_hand(self) -> bool:
        """Whether all kernels have it."""
        return self.rank == 2 and self.group == 1


def copy_function(form: CopyForm) -> str:
    """The device function that wraps one form; it takes the innermost coordinate first."""
    operands = list(_operands(form))
    at = {name: f"%{i}" for i, (name, _, _) in enumerate(operands)}
    tensor = f"[{at['map']}, {{{', '.join(at[f'c{d}'] for d in range(form.rank))}}}]"
    places = [tensor, f"[{at['src']}]"] if form.store else [f"[{at['dst']}]", tensor]
    places += [f"[{at['bar']}]"] if not form.store else []
    places += [at[name] for name in ("mask", "policy") if name in at]
    kind = (_STORE if form.store else _LOAD) + ".multicast::cluster" * form.multicast
    kind += f".cta_group::{form.group}" if form.group > 1 else ""
    inputs = [f'"{letter}"({"(unsigned short)" if letter == "h" else ""}{name})'
              for name, _, letter in operands]  # fmt: skip
    return "\n".join([
        f"__device__ __forceinline__ void {form.name}(",
        f"    {', '.join(kind + name for name, kind, _ in operands)}) {{",
        "  asm volatile(",
        f'      "cp.async.bulk.tensor.{form.rank}d.{kind}{".L2::cache_hint" * form.hint}"',
        f'      " {", ".join(places)};"',
        f"      :: {', '.join(inputs)}",
        '      : "memory");',
        "}",
    ])  # fmt: skip


def _operands(form: CopyForm) -> Iterator[tuple[str, str, str]]:
    """Name, C++ type and constraint of each operand, in the order of the call."""
    if not form.store:
        yield "dst", "unsigned ", "r"
    yield "map", "const TensorMap* ", "l"
    for d in range(form.rank):
        yield f"c{d}", "int ", "r"
    yield ("src" if form.store else "bar"), "unsigned ", "r"
    if form.multicast:
        yield "mask", "int ", "h"
    if form.hint:
        yield "policy", "u64 ", "l"
