"""Which way a definition goes: one kernel of wsched's, several and the rest, nvFuser, or torch.

The ways are tried in this order; each refusal is kept with its reason. nvFuser runs on GPUs only.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any

from lowering.ground.errors import UnsupportedError, WschedError
from wsched.doors.fallback import (
    check_inputs,
    execute,
    interpret,
    rebuild,
    unknown_ops,
    written_into,
)
from wsched.front import kernels
from wsched.front.cut.choose import Chosen
from wsched.front.cut.route import chosen_cut, cut_route
from wsched.front.cut.segments import Cutter
from wsched.front.instead import why_instead
from wsched.front.problems import problem_of
from wsched.front.route import CUT, NVFUSER, TORCH, WSCHED, Refusal, Route, Run
from wsched.importer import Definition, first_unknown
from wsched.program.versions import counter
from wsched.run.compiled import CompiledFusion
from wsched.run.copies import copies

__all__ = ["routes"]


def routes(
    definition: Any,
    recorded: Definition | UnsupportedError,
    inputs: Sequence[Any],
    constants: Collection[int] = (),
) -> Generator[Route, WschedError, None]:
    """The ways that take these inputs, best first; each knows the refusals before it.

    Args:
        definition: live, or a text.
        recorded: its operations, or why they cannot be read.
        inputs: as passed to ``wsched.execute``.
        constants: likewise.

    Yields:
        The next route; what is sent back is the error with which it has refused to run.

    Raises:
        InputError: the inputs do not fit the definition.
        UnsupportedError: raised in place of another route when all have refused.
    """
    refusals: list[Refusal] = []
    try:
        kernel = kernels.compile(definition, inputs)
        kernel.admit(inputs)
        if reason := _why_instead(kernel, recorded, inputs, constants):
            refusals.append(Refusal(WSCHED, reason))
        else:
            # The kernel is bound in a function of its own: ``run`` must not keep this frame alive.
            last = yield Route(WSCHED, _kernel(kernel), kernel)
            refusals.append(Refusal(WSCHED, str(last)))
    except UnsupportedError as e:
        refusals.append(Refusal(WSCHED, str(e)))
    if isinstance(recorded, Definition):
        check_inputs(recorded, inputs)
        try:
            last = yield cut_route(recorded, inputs, tuple(refusals), constants)
            refusals.append(Refusal(CUT, str(last)))
        except UnsupportedError as e:
            refusals.append(Refusal(CUT, str(e)))
    elif not hasattr(definition, "execute"):
        raise UnsupportedError(recorded.what, recorded.supported, recorded.hint)
    for name, make in ((NVFUSER, _nvfuser), (TORCH, _torch)):
        try:
            last = yield Route(name, make(definition, recorded, inputs), None, tuple(refusals))
        except UnsupportedError as e:
            last = e
        refusals.append(Refusal(name, str(last)))
    if isinstance(recorded, Definition) and (unknown := first_unknown(recorded)) is not None:
        raise unknown  # which is why all have refused
    what, supported = (
        (last.what, last.supported)
        if isinstance(last, UnsupportedError)
        else (str(last), "another definition")
    )
    before = "; ".join(f"{r.what}: {r.reason}" for r in refusals[:-1])
    raise UnsupportedError(what, supported, f"Refused before: {before}")


def _why_instead(
    kernel: CompiledFusion,
    recorded: Definition | UnsupportedError,
    inputs: Sequence[Any],
    constants: Collection[int],
) -> str:
    """Why not the kernel of a definition as a whole; empty where it is what is run."""

    def chosen(cutter: Cutter) -> Chosen:
        return chosen_cut(cutter, inputs, constants=constants)

    problem = problem_of(kernel.fusion, inputs)
    needed = copies(kernel.fusion, inputs, kernel.by_threads)
    return why_instead(kernel, problem, needed, recorded, chosen, _on_gpu(inputs))


def _kernel(kernel: CompiledFusion) -> Run:
    run = kernel.repeated()  # a route's calls are of one class
    return lambda _, inputs: run(inputs)


def _nvfuser(
    definition: Any, recorded: Definition | UnsupportedError, inputs: Sequence[Any]
) -> Run:
    """A run of nvFuser on the live definition, or on one made again from a text."""
    if not _on_gpu(inputs):
        raise UnsupportedError("nvFuser on CPU tensors", "CUDA tensors")
    live = hasattr(definition, "execute")
    if isinstance(recorded, UnsupportedError):
        if live:
            return execute
        raise UnsupportedError(recorded.what, recorded.supported, recorded.hint)
    fd = None if live else rebuild(recorded)
    if not recorded.into:
        return execute if live else lambda _, inputs: execute(fd, inputs)

    def run(given: Any, inputs: Sequence[Any]) -> list[Any]:
        written = written_into(recorded, inputs)
        results = execute(given if live else fd, inputs)
        counter()(written)
        return results

    return run


def _torch(definition: Any, recorded: Definition | UnsupportedError, inputs: Sequence[Any]) -> Run:
    if isinstance(recorded, UnsupportedError):
        raise UnsupportedError(recorded.what, recorded.supported, recorded.hint)
    if unknown := unknown_ops(recorded):
        raise UnsupportedError(
            ", ".join(f"fd.ops.{op}" for op in unknown) + " by torch",
            "operations that torch has as well",
        )
    return lambda _, inputs: interpret(recorded, inputs)


def _on_gpu(inputs: Sequence[Any]) -> bool:
    return any(getattr(getattr(t, "device", None), "type", "") == "cuda" for t in inputs)
