"""A way that a definition can go: wsched's kernels, nvFuser, or torch operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wsched.choose.copy_cost import Copy
from wsched.choose.problem import Problem
from wsched.front.look import Look
from wsched.importer import Definition
from wsched.run.compiled import CompiledFusion

if TYPE_CHECKING:
    import torch

__all__ = [
    "CUT", "NOBODY", "NVFUSER", "TORCH", "WSCHED", "Fate", "Part", "Refusal", "Route", "Run",
]  # fmt: skip

Run = Callable[[Any, Sequence[Any]], "list[torch.Tensor]"]

WSCHED, CUT, NVFUSER, TORCH = "wsched", "cut", "nvfuser", "torch"
NOBODY = "nobody"
"""In place of a route, where it would be that of nvFuser or torch, which is not here."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was considered and not taken: a route, or a schedule; and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """A segment of a definition that was cut.

    Args:
        runs: ``WSCHED``, ``NVFUSER`` or ``TORCH``.
        definition: its operations, with the names of the whole.
        kernel: of wsched's.
        problem: what that was planned for.
        copied: operands that have to be copied for it.
        looks: its inputs that are views.
        kept: whether it runs once for each state of the constants that it reads.
        sweep: name of the kernel of wsched's that it is without a matmul, and its predicted time.
        joined: of a ``cat`` that nobody computes, who stores its parts.
    """

    runs: str
    definition: Definition
    kernel: CompiledFusion | None = None
    problem: Problem | None = None
    copied: tuple[Copy, ...] = ()
    looks: tuple[Look, ...] = ()
    kept: bool = False
    sweep: str = ""
    joined: str = ""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a matmul.

    Args:
        line: of the text.
        op: ``linear`` or ``matmul``.
        result: its name.
        kernel: name of the kernel that it is in; empty if it is in none of wsched's.
        fused: operations that are in the kernel beside it, with their lines.
        reason: why there is no kernel, or why no more of what follows is in it; may be empty.
        operands: where factors of its operands went, or why they stay; empty if it has none.
    """

    line: int
    op: str
    result: str
    kernel: str
    fused: tuple[str, ...] = ()
    reason: str = ""
    operands: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: {self.result} = fd.ops.{self.op}"
        if not self.kernel:
            rest = f"; {self.operands}" if self.operands else ""
            return f"{where}: no kernel of wsched's: {self.reason}{rest}"
        fused = f" with {', '.join(self.fused)}" if self.fused else ""
        rest = "".join(f"; {text}" for text in (self.reason, self.operands) if text)
        return f"{where}: {self.kernel}{fused}{rest}"


@dataclass(frozen=True, slots=True)
class Route:
    """How calls with inputs of one class are run.

    Args:
        name: ``WSCHED``, ``CUT``, ``NVFUSER`` or ``TORCH``.
        run: executes a definition on inputs. It is passed the definition, because a route that
            held it would keep it alive for ever in a cache that is keyed by it.
        kernel: of the route ``WSCHED``.
        refusals: the ways before this one.
        parts: of the route ``CUT``, in the order in which they run.
    """

    name: str
    run: Run
    kernel: CompiledFusion | None = None
    refusals: tuple[Refusal, ...] = ()
    parts: tuple[Part, ...] = ()
