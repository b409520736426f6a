"""A way that a definition can go: wsched's kernel, nvFuser, or torch operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wsched.run.compiled import CompiledFusion

if TYPE_CHECKING:
    import torch

__all__ = ["NVFUSER", "TORCH", "WSCHED", "Refusal", "Route", "Run"]

Run = Callable[[Any, Sequence[Any]], "list[torch.Tensor]"]

WSCHED, NVFUSER, TORCH = "wsched", "nvfuser", "torch"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was considered and not taken: a route, or a schedule; and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Route:
    """How calls with inputs of one class are run.

    Args:
        name: ``WSCHED``, ``NVFUSER`` or ``TORCH``.
        run: executes a definition on inputs. It is passed the definition, because a route that
            held it would keep it alive for ever in a cache that is keyed by it.
        kernel: of the route ``WSCHED``.
        refusals: the ways before this one.
    """

    name: str
    run: Run
    kernel: CompiledFusion | None = None
    refusals: tuple[Refusal, ...] = ()
