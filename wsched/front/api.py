"""The public entry points: compile, execute and explain a definition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.log import log
from wsched.doors.fallback import require_fitting
from wsched.front.cut.route import call_of, chosen_cut, cutter_of
from wsched.front.explain import (
    explain_beside,
    explain_cut,
    explain_on,
    explain_other,
    under_install,
)
from wsched.front.explain_kernel import explain_given
from wsched.front.explanation import Explanation
from wsched.front.gradients import require_differentiable, require_recorded, wants_gradients
from wsched.front.kernels import compile
from wsched.front.known import Known, known, recorded
from wsched.front.problems import problem_of
from wsched.front.route import CUT, Route
from wsched.front.routes import routes
from wsched.front.targets import gpu_named
from wsched.front.tf32 import allowed, as_allowed
from wsched.front.traced import define, traced
from wsched.importer import Definition
from wsched.importer.input_error import InputError, require_sequence
from wsched.importer.title import title_of
from wsched.importer.watched import is_traced
from wsched.program.classes import Key, class_key
from wsched.run.ranges import ranged
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

if TYPE_CHECKING:
    import torch

__all__ = ["compile", "execute", "explain"]

_CLASSES = 256
"""Classes of inputs of a definition for which the route is remembered."""


def execute(
    definition: Any,
    inputs: Sequence[torch.Tensor],
    *,
    params: MatmulParams | None = None,
    batch_invariant: bool = False,
    constants: Sequence[int] = (),
    gradients: bool = False,
) -> list[torch.Tensor]:
    """Run a definition: by wsched's kernels, or another way where there is none.

    What is no single kernel is cut: matmuls with what follows them are wsched's, the rest is
    nvFuser's or torch's, what nobody else takes too. On CPU tensors the machine model executes the
    kernels. The way is decided once for each class of inputs; :func:`explain` tells it. With
    ``params``, ``batch_invariant`` or a schedule there is only wsched's kernel.

    Args:
        definition: a ``nvfuser_direct.FusionDefinition``, the text that nvFuser prints for one,
            its operations as :func:`recorded` returns them; or a ``wsched.Schedule``.
        inputs: tensors in the order of the definition, on one device.
        params: a schedule of your own; by default the heuristic's.
        batch_invariant: whether the bits of a row of the result must not depend on the other rows
            of A, nor on how many there are.
        constants: positions of tensors that stay as they are from call to call, weights say. What
            depends on these alone is made once and kept as long as they live, unless a matmul's
            kernel does it. A tensor with a new version, which torch counts with each write in
            place, or in other memory is noticed; a write past torch is not. Captured graphs keep
            nothing.
        gradients: whether results can be differentiated by inputs that require it. The backward
            pass is torch's and computes the definition once more: a call keeps its inputs only.
            Gradients can be differentiated again (``create_graph=True``), but not in what
            ``torch.compile`` has compiled; ``torch.func`` and tangents are refused.

    Returns:
        The results in the order of ``add_output``.

    Raises:
        InputError: the tensors do not fit the definition.
        UnfinishedError: the ``with`` block of the definition has not ended, or it has no output.
        UnsupportedError: none of the ways takes it; or, with ``params`` or ``batch_invariant``,
            wsched's does not; gradients of an operation that torch does not have, forwards, or
            inside of ``torch.func``'s transforms.
        ScheduleError: ``params`` make an illegal schedule, or one that is not batch-invariant.
    """
    if gradients:
        require_recorded(inputs)
    if is_traced():
        return traced(definition, inputs, params, batch_invariant, constants, gradients)
    if gradients and wants_gradients(inputs):
        return _differentiable(definition, inputs, params, batch_invariant, constants)
    if type(inputs) not in (list, tuple):
        require_sequence(inputs)
    if batch_invariant:
        return _execute_invariant(definition, inputs, params)
    if params is not None or isinstance(definition, Schedule):
        return compile(definition, inputs, params=params)(*inputs)
    key = _key(inputs, constants) if constants else class_key(inputs)
    return execute_class(definition, inputs, key, constants)


define(execute)


def execute_class(
    definition: Any, inputs: Sequence[torch.Tensor], key: Key | None, constants: Sequence[int] = ()
) -> list[torch.Tensor]:
    """:func:`execute` outside of ``torch.compile`` and without its checks, by what the route is
    remembered by: the inputs' :func:`~wsched.program.classes.class_key` where none is constant.
    """
    definition, found = allowed(definition)
    route = found.routes.get(key)
    if route is not None:
        try:
            return route.run(definition, inputs)
        except UnsupportedError:
            pass  # what has changed since, say the limit of the machine, is found out again
    return _first_call(definition, inputs, found, constants)


def remembered(text: str, key: Key) -> Callable[[Sequence[Any]], list[torch.Tensor]]:
    """How further calls run of a text that has run for inputs of a class, without a look at that:
    by the route, unless torch's settings have a say in which it is, or it has been forgotten.
    """

    def anew(inputs: Sequence[Any]) -> list[torch.Tensor]:
        return execute_class(text, inputs, key)

    definition, found = allowed(text)
    route = found.routes.get(key)
    if route is None or known(text).tf32 is not None:
        return anew
    by_route = route.run

    def run(inputs: Sequence[Any]) -> list[torch.Tensor]:
        nonlocal by_route
        try:
            return by_route(definition, inputs)
        except UnsupportedError:
            found.routes.pop(key, None)
            results = anew(inputs)
            _, now = allowed(text)  # another one where the text had been forgotten
            if (since := now.routes.get(key)) is not None:
                by_route = since.run
            return results

    return run


def _differentiable(
    definition: Any,
    inputs: Sequence[Any],
    params: MatmulParams | None,
    batch_invariant: bool,
    constants: Sequence[int],
) -> list[torch.Tensor]:
    """Results that torch differentiates; what it cannot evaluate is refused before it runs."""
    schedule = isinstance(definition, Schedule)
    require_differentiable(recorded(definition.definition if schedule else definition))
    return traced(definition, inputs, params, batch_invariant, constants, gradients=True)


def _execute_invariant(
    definition: Any, inputs: Sequence[Any], params: MatmulParams | None
) -> list[torch.Tensor]:
    """Run by wsched's kernel; an error says that there is no other way."""
    try:
        return compile(definition, inputs, params=params, batch_invariant=True)(*inputs)
    except UnsupportedError as e:
        raise UnsupportedError(e.what, e.supported, " ".join(filter(None, (e.hint, _ONLY)))) from e


_ONLY = (
    "With batch_invariant=True there is no other way: bits of nvFuser's and torch's results may "
    "depend on M"
)


def _key(inputs: Sequence[Any], constants: Sequence[int]) -> Any:
    """What the route is remembered by.

    Raises:
        InputError: ``constants`` are no positions of tensors.
    """
    key = class_key(inputs)
    if not constants:
        return key
    if not isinstance(constants, Collection):
        text = f"constants is {constants!r}; it is a list of positions of tensors"
        raise InputError(text, "constants", repr(constants), "positions of tensors")
    for at in constants:
        tensor = type(at) is int and 0 <= at < len(inputs) and hasattr(inputs[at], "data_ptr")
        if not tensor:
            text = f"constants has {at!r}; it has positions of tensors among {len(inputs)} inputs"
            raise InputError(text, "constants", repr(at), "positions of tensors")
    return None if key is None else (frozenset(constants), key)


def _first_call(
    definition: Any, inputs: Sequence[Any], found: Known, constants: Sequence[int]
) -> list[torch.Tensor]:
    """Run by the first route that takes the inputs, and remember it."""
    candidates = routes(definition, found.recorded, inputs, constants)
    route = next(candidates)
    while True:
        try:
            results = route.run(definition, inputs)
        except UnsupportedError as e:
            route = candidates.send(e)
            continue
        log("route", partial(_told, route, found, inputs))
        key = _key(inputs, constants)
        if key is not None:
            route = replace(route, run=ranged(route.run, lambda: f"wsched: {_title(found)}"))
            if len(found.routes) >= _CLASSES:
                found.routes.clear()
            found.routes[key] = route
        return results


def _title(found: Known) -> str:
    read = found.recorded
    return title_of(read) if isinstance(read, Definition) else "a definition that cannot be read"


def _told(route: Route, found: Known, inputs: Sequence[Any]) -> str:
    """Which way a class of calls goes, in a line."""
    shapes = ", ".join("x".join(map(str, t.shape)) for t in inputs if hasattr(t, "shape"))
    kernels = [p.kernel.kernel.name for p in route.parts if p.kernel is not None]
    if route.kernel is not None:
        kernels = [route.kernel.kernel.name]
    names = f" ({', '.join(kernels)})" if kernels else ""
    before = "".join(f"; not {r.what}: {r.reason}" for r in route.refusals)
    return f"{_title(found)} of {shapes}: {route.name}{names}{before}"


def explain(
    definition: Any,
    inputs: Sequence[torch.Tensor],
    *,
    batch_invariant: bool = False,
    constants: Sequence[int] = (),
    gpu: str | None = None,
) -> Explanation:
    """Which way :func:`execute` takes for these inputs, every choice and every refusal.

    On a GPU this compiles the kernel; nothing is executed.

    Args:
        definition: as there.
        inputs: tensors; their values are not read.
        batch_invariant: as there.
        constants: as there.
        gpu: the GPU to plan for wherever the inputs are, ``H200``, ``H200 NVL``, ``H100``,
            ``H100 PCIe`` or ``B200``, on which nothing was measured, so that its times are guesses.
            By default the device on which they are: the machine model for tensors on the CPU, which
            pretends to have a few multiprocessors of an H200.

    Raises:
        InputError: the tensors do not fit the definition, or a GPU that is not known.
        UnsupportedError: none of the ways takes it.
    """
    require_sequence(inputs)
    key = _key(inputs, constants)
    definition = definition if isinstance(definition, Schedule) else as_allowed(definition)
    if gpu is not None:
        return explain_on(
            gpu_named(gpu), definition, inputs, batch_invariant=batch_invariant, constants=constants
        )
    where = next((str(t.device) for t in inputs if hasattr(t, "device")), "cpu")
    if isinstance(definition, Schedule):
        kernel = compile(definition, inputs, batch_invariant=batch_invariant)
        kernel.admit(inputs)
        return explain_given(kernel, problem_of(kernel.fusion, inputs), where)
    if batch_invariant:
        kernel = compile(definition, inputs, batch_invariant=True)
        kernel.admit(inputs)
    else:
        found = known(definition)
        route = found.routes.get(key)
        if route is None:
            route = next(routes(definition, found.recorded, inputs, constants))
        if route.name == CUT:
            cutter = cutter_of(recorded(definition))
            chosen = chosen_cut(cutter, inputs, constants=constants)
            made = explain_cut(where, chosen, route.parts, cutter, route.refusals)
            return replace(made, installed=_installed(definition, inputs, where))
        if route.kernel is None:
            if isinstance(found.recorded, Definition):
                require_fitting(found.recorded, inputs)
            return explain_other(route.name, where, route.refusals, found.recorded)
        kernel = route.kernel
    problem = problem_of(kernel.fusion, inputs, batch_invariant=batch_invariant)
    made = explain_beside(definition, kernel, kernel.fusion, inputs, problem, where)
    asked = not batch_invariant  # nobody asks install for that
    return replace(made, installed=_installed(definition, inputs, where)) if asked else made


def _installed(definition: Any, inputs: Sequence[Any], where: str) -> str:
    """What ``wsched.install`` does with such a call; empty where it has no GPU."""
    if where == "cpu":
        return ""
    return under_install(definition, lambda cutter: call_of(cutter, inputs))
