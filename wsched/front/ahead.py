"""Kernels ahead of time: of definitions for a GPU that need not be there, and in the background."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.choose.gpus import Gpu
from wsched.choose.problem import Problem
from wsched.front.chosen import chosen_kernel
from wsched.front.cut.choose import choose
from wsched.front.cut.predict import Sizes
from wsched.front.cut.route import cutter_of
from wsched.front.cut.sizes import open_extents
from wsched.front.known import import_fusion, known, recorded
from wsched.front.own import kernel_of
from wsched.front.routes import routes
from wsched.front.sizes import Extents, extents_for
from wsched.front.tf32 import as_allowed
from wsched.fusion import Fusion
from wsched.importer.input_error import InputError, require_sequence
from wsched.run.compiled import CompiledFusion
from wsched.run.grid import Grid
from wsched.run.registers import compile_clean
from wsched.schedule.schedule import Schedule

__all__ = ["Preparation", "at_once", "kernels_on", "prepare"]


def kernels_on(gpu: Gpu, definition: Any, asked: Extents | None = None) -> list[Grid]:
    """What ``execute`` launches for a definition on a GPU, compiled; it need not be there.

    Operands are dense and aligned. What it takes beside kernels of matmuls is not among them:
    copies of operands that TMA cannot read, sums of parts, statistics of norms.

    Args:
        gpu: what is planned for.
        definition: live, or a text; or a schedule, which has its kernel whatever the GPU.
        asked: sizes, where the definition leaves them open.

    Raises:
        UnsupportedError: no matmul has a kernel, or there is no NVRTC.
        InputError: sizes that the definition excludes.
    """
    found: list[Grid] = [grid for made in _planned(gpu, definition, asked) for grid in made.grids]
    for grid in found:
        grid.compiled  # noqa: B018 - it is found out here
    return found


def _planned(gpu: Gpu, definition: Any, asked: Extents | None) -> Iterator[CompiledFusion]:
    if isinstance(definition, Schedule):
        yield kernel_of(definition)
        return
    fusion = None
    try:
        fusion = import_fusion(definition)
        yield _kernel(gpu, fusion, extents_for(fusion, asked).problem(fusion, gpu.sms, gpu.target))
        return
    except UnsupportedError:
        if fusion is not None and asked is not None:
            raise  # a cut has the definition's sizes, not those asked for
        cutter = cutter_of(recorded(definition))  # which says why not, if it may not be cut
    tensors = cutter.graph.types
    sizes = Sizes(tensors, open_extents(cutter.definition, tensors), gpu.sms, gpu.target)
    chosen = choose(cutter, sizes, may_leave=False)
    for segment in (s for s in chosen.cut.segments if s.matmul):
        planned = chosen.call.planned(segment)
        yield _kernel(gpu, planned.fusion, planned.problem)


def _kernel(gpu: Gpu, fusion: Fusion, problem: Problem) -> CompiledFusion:
    return chosen_kernel(fusion, problem.on(gpu), compile_clean)


def at_once(threads: int | None = None) -> ThreadPoolExecutor:
    """Threads that compile: NVRTC leaves Python's lock to the others, Python's part does not.

    Args:
        threads: by default as many as processors.
    """
    return ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="wsched")


@dataclass(frozen=True, slots=True)
class Preparation:
    """Kernels that are being made in the background.

    Args:
        made: of each call, in order.
    """

    made: tuple[Future[None], ...]

    @property
    def done(self) -> bool:
        """Whether all are made, or have failed."""
        return all(f.done() for f in self.made)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for all.

        Args:
            timeout: seconds for each; None waits as long as it takes.

        Raises:
            WschedError: what :func:`wsched.execute` would raise for the first of the calls that
                nobody takes.
            TimeoutError: it takes longer.
        """
        for future in self.made:
            future.result(timeout)


def prepare(
    calls: Iterable[tuple[Any, Sequence[Any]]], *, threads: int | None = None
) -> Preparation:
    """Make the kernels of calls in the background, several at a time, running none.

    A call that comes before its kernel is there waits for it, as for one that another thread makes.
    On a GPU kernels are compiled and loaded; on the CPU they are scheduled and lowered.

    Args:
        calls: definitions with inputs, as :func:`wsched.execute` takes them; values are not read.
        threads: that compile at a time, by default as many as processors.

    Returns:
        What is under way; it need not be kept.

    Raises:
        InputError: something else than pairs of a definition and a list of inputs.
    """
    asked = [_pair(call) for call in _listed(calls)]
    pool = at_once(threads)
    made = tuple(pool.submit(_prepare, definition, inputs) for definition, inputs in asked)
    pool.shutdown(wait=False)
    return Preparation(made)


def _listed(calls: Any) -> list[Any]:
    if isinstance(calls, str) or not isinstance(calls, Iterable):
        raise _no_pairs("calls", calls)
    return list(calls)


def _pair(call: Any) -> tuple[Any, Sequence[Any]]:
    if not isinstance(call, tuple | list) or len(call) != 2:
        raise _no_pairs("one of calls", call)
    require_sequence(call[1])
    return call[0], call[1]


def _no_pairs(what: str, found: Any) -> InputError:
    kind, wanted = type(found).__name__, "[(definition, [tensor, ...]), ...]"
    return InputError(f"{what} is a {kind}; prepare takes {wanted}", "calls", kind, wanted)


def _prepare(definition: Any, inputs: Sequence[Any]) -> None:
    if isinstance(definition, Schedule):
        kernel_of(definition).admit(inputs)
    else:
        definition = as_allowed(definition)
        next(routes(definition, known(definition).recorded, inputs))
