"""Which way a definition goes: wsched's kernel, nvFuser, or torch operation by operation.

The ways are tried in this order; each refusal is kept with its reason. nvFuser runs on GPUs only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import ScheduleError, UnsupportedError, WschedError
from wsched.doors.fallback import check_inputs, execute, interpret, rebuild, unknown_ops
from wsched.importer import Definition
from wsched.run.compiled import CompiledFusion

if TYPE_CHECKING:
    import torch

__all__ = ["NVFUSER", "TORCH", "WSCHED", "Refusal", "Route", "routes"]

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


def routes(
    definition: Any,
    recorded: Definition | UnsupportedError,
    inputs: Sequence[Any],
    compile: Callable[[Any, Sequence[Any]], CompiledFusion],
    slower: Callable[[CompiledFusion, Sequence[Any]], str],
) -> Generator[Route, WschedError, None]:
    """The ways that take these inputs, best first; each knows the refusals before it.

    Args:
        definition: live, or a text.
        recorded: its operations, or why they cannot be read.
        inputs: as passed to ``wsched.execute``.
        compile: ``wsched.compile``.
        slower: why the next way is expected to be quicker than a kernel; empty if it is not.

    Yields:
        The next route; what is sent back is the error with which it has refused to run.

    Raises:
        InputError: the inputs do not fit the definition.
        UnsupportedError: raised in place of another route when all have refused.
    """
    refusals: list[Refusal] = []
    try:
        kernel = compile(definition, inputs)
        kernel.admit(inputs)
        if reason := _on_gpu(inputs) and slower(kernel, inputs):
            refusals.append(Refusal(WSCHED, reason))
        else:
            # The kernel is bound in a function of its own: ``run`` must not keep this frame alive.
            last = yield Route(WSCHED, _kernel(kernel), kernel)
            refusals.append(Refusal(WSCHED, str(last)))
    except (UnsupportedError, ScheduleError) as e:
        refusals.append(Refusal(WSCHED, str(e)))
    if isinstance(recorded, Definition):
        check_inputs(recorded, inputs)
    elif not hasattr(definition, "execute"):
        raise UnsupportedError(recorded.what, recorded.supported, recorded.hint)
    for name, make in ((NVFUSER, _nvfuser), (TORCH, _torch)):
        try:
            last = yield Route(name, make(definition, recorded, inputs), None, tuple(refusals))
        except UnsupportedError as e:
            last = e
        refusals.append(Refusal(name, str(last)))
    what, supported = (
        (last.what, last.supported)
        if isinstance(last, UnsupportedError)
        else (str(last), "another definition")
    )
    before = "; ".join(f"{r.what}: {r.reason}" for r in refusals[:-1])
    raise UnsupportedError(what, supported, f"Refused before: {before}")


def _kernel(kernel: CompiledFusion) -> Run:
    return lambda _, inputs: kernel(*inputs)


def _nvfuser(
    definition: Any, recorded: Definition | UnsupportedError, inputs: Sequence[Any]
) -> Run:
    """A run of nvFuser on the live definition, or on one made again from a text."""
    if not _on_gpu(inputs):
        raise UnsupportedError("nvFuser on CPU tensors", "CUDA tensors")
    if hasattr(definition, "execute"):
        return execute
    if isinstance(recorded, UnsupportedError):
        raise UnsupportedError(recorded.what, recorded.supported, recorded.hint)
    fd = rebuild(recorded)
    return lambda _, inputs: execute(fd, inputs)


def _torch(definition: Any, recorded: Definition | UnsupportedError, inputs: Sequence[Any]) -> Run:
    if isinstance(recorded, UnsupportedError):
        raise UnsupportedError(recorded.what, recorded.supported, recorded.hint)
    if unknown := unknown_ops(recorded):
        raise UnsupportedError(
            ", ".join(f"fd.ops.{op}" for op in unknown) + " by torch",
            "the operations of wsched.doors.fallback.torch_ops",
        )
    return lambda _, inputs: interpret(recorded, inputs)


def _on_gpu(inputs: Sequence[Any]) -> bool:
    return any(getattr(getattr(t, "device", None), "type", "") == "cuda" for t in inputs)
