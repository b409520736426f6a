"""The public entry points: compile, execute and explain a definition."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lowering.errors import UnsupportedError
from wsched.arguments import InputError, device_of, extents_of, tma_inputs
from wsched.compiled import CompiledFusion, compile_fusion
from wsched.cpu import MULTIPROCESSORS
from wsched.fusion import Fusion
from wsched.heuristics import Problem, choose_params
from wsched.host import class_key
from wsched.importer import Definition, build_fusion, definition_of, record_text
from wsched.route import Route, routes
from wsched.schedule.params import MatmulParams

if TYPE_CHECKING:
    import torch

    from wsched.explanation import Explanation

__all__ = ["adopt", "compile", "execute", "explain", "import_fusion", "recorded"]

_lock = threading.Lock()
_live: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()
_texts: dict[str, _Known] = {}
_kernels: dict[tuple[Fusion, MatmulParams], CompiledFusion] = {}

_CLASSES = 256
"""Classes of inputs of a definition for which the route is remembered."""


class _Known:
    """What has been found out about a definition: all of it is found out once.

    Attributes:
        recorded: its operations, or why they cannot be read.
        fusion: the fusion that wsched schedules, or why there is none.
        routes: the route of each class of inputs.
    """

    __slots__ = ("fusion", "recorded", "routes")

    def __init__(self, definition: Any) -> None:
        self.recorded: Definition | UnsupportedError
        self.fusion: Fusion | UnsupportedError
        self.routes: dict[Any, Route] = {}
        try:
            self.recorded = (
                record_text(definition)
                if isinstance(definition, str)
                else definition_of(definition)
            )
            self.fusion = build_fusion(self.recorded)
        except UnsupportedError as e:
            self.fusion = _again(e)
            if not hasattr(self, "recorded"):
                self.recorded = self.fusion


def execute(
    definition: Any, inputs: Sequence[torch.Tensor], *, params: MatmulParams | None = None
) -> list[torch.Tensor]:
    """Run a definition: by wsched's kernel, or another way where there is none.

    CUDA tensors go to the kernel or to nvFuser; CPU tensors to the machine model, which executes
    the same kernel. What neither takes is computed by torch, operation by operation. The way is
    decided once for each class of inputs; :func:`explain` tells it. With ``params`` there is only
    wsched's kernel.

    Args:
        definition: a ``nvfuser_direct.FusionDefinition``, or the text that nvFuser prints for one.
        inputs: tensors in the order of the definition, on one device.
        params: a schedule of your own; by default the heuristic's.

    Returns:
        The results in the order of ``add_output``.

    Raises:
        InputError: the tensors do not fit the definition.
        UnsupportedError: none of the ways takes it; or, with ``params``, wsched's does not.
        ScheduleError: ``params`` make an illegal schedule.
    """
    if params is not None:
        return compile(definition, inputs, params=params)(*inputs)
    known = _known(definition)
    route = known.routes.get(class_key(inputs))
    if route is not None:
        try:
            return route.run(definition, inputs)
        except UnsupportedError:
            pass  # what has changed since, say the limit of the machine, is found out again
    return _first_call(definition, inputs, known)


def _first_call(definition: Any, inputs: Sequence[Any], known: _Known) -> list[torch.Tensor]:
    """Run by the first route that takes the inputs, and remember it."""
    candidates = routes(definition, known.recorded, inputs, compile)
    route = next(candidates)
    while True:
        try:
            results = route.run(definition, inputs)
        except UnsupportedError as e:
            route = candidates.send(e)
            continue
        key = class_key(inputs)
        if key is not None:
            if len(known.routes) >= _CLASSES:
                known.routes.clear()
            known.routes[key] = route
        return results


def explain(definition: Any, inputs: Sequence[torch.Tensor]) -> Explanation:
    """Which way :func:`execute` takes for these inputs, every choice and every refusal.

    On a GPU this compiles the kernel; nothing is executed.

    Raises:
        InputError: the tensors do not fit the definition.
        UnsupportedError: none of the ways takes it.
    """
    from wsched.explanation import explain_kernel, explain_other

    known = _known(definition)
    route = known.routes.get(class_key(inputs))
    if route is None:
        route = next(routes(definition, known.recorded, inputs, compile))
    where = next((str(t.device) for t in inputs if hasattr(t, "device")), "cpu")
    if route.kernel is None:
        return explain_other(route.name, where, route.refusals)
    return explain_kernel(route.kernel, _problem(route.kernel.fusion, inputs), where)


def compile(
    definition: Any, inputs: Sequence[torch.Tensor], *, params: MatmulParams | None = None
) -> CompiledFusion:
    """The kernel for a definition and the shapes of ``inputs``; arguments as for :func:`execute`.

    Kernels are kept by definition and parameters, and serve every shape: only where the heuristic
    chooses other parameters for other shapes is another one made.
    """
    key = _kernel_key(definition, inputs, params)
    fusion, params = key
    found = _kernels.get(key)
    if found is None:
        with _lock:
            found = _kernels.get(key) or _kernels.setdefault(key, compile_fusion(fusion, params))
    return found


def _kernel_key(
    definition: Any, inputs: Sequence[torch.Tensor], params: MatmulParams | None
) -> tuple[Fusion, MatmulParams]:
    """What tells kernels apart."""
    fusion = import_fusion(definition)
    if params is None:
        params = choose_params(_problem(fusion, inputs))
    elif not isinstance(params, MatmulParams):
        raise InputError(f"params is a {type(params).__name__}, not a MatmulParams")
    return fusion, params


def adopt(definition: Any, inputs: Sequence[torch.Tensor], kernel: CompiledFusion) -> None:
    """Let a kernel serve these calls from now on, in place of the one that :func:`compile` made."""
    _kernels[_kernel_key(definition, inputs, kernel.params)] = kernel


def import_fusion(definition: Any) -> Fusion:
    """The fusion of a live definition or of a definition's text; kept, so that it is read once.

    Raises:
        UnsupportedError: a definition that wsched does not schedule.
    """
    fusion = _known(definition).fusion
    if isinstance(fusion, UnsupportedError):
        raise _again(fusion)
    return fusion


def recorded(definition: Any) -> Definition:
    """The operations of a definition, whether or not wsched schedules it.

    Raises:
        UnsupportedError: it cannot be read.
    """
    found = _known(definition).recorded
    if isinstance(found, UnsupportedError):
        raise _again(found)
    return found


def _again(e: UnsupportedError) -> UnsupportedError:
    """The same error without its traceback, whose frames would keep the definition alive."""
    return UnsupportedError(e.what, e.supported, e.hint)


def _known(definition: Any) -> _Known:
    kept: Any = _texts if isinstance(definition, str) else _live
    try:
        found: _Known | None = kept.get(definition)
    except TypeError:  # no weak reference to it is possible, so it is no definition
        return _Known(definition)
    return found or kept.setdefault(definition, _Known(definition))


def _problem(fusion: Fusion, inputs: Sequence[torch.Tensor]) -> Problem:
    extents = extents_of(fusion, inputs)
    device = device_of(inputs)
    sms = MULTIPROCESSORS
    if device.type == "cuda":
        import torch

        sms = torch.cuda.get_device_properties(device).multi_processor_count
    operand, results = fusion.tensor(fusion.mma.a).dtype, tuple(b.dtype for b in fusion.outputs)
    matrices = tma_inputs(fusion, inputs)
    return Problem(extents["M"], extents["N"], extents["K"], operand, results, sms, matrices)
