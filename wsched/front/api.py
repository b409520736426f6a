"""The public entry points: compile, execute and explain a definition."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lowering.ground.errors import InternalError, UnsupportedError
from wsched.choose.heuristics import choose_params, ranked
from wsched.choose.nvfuser_cost import nvfuser_cost
from wsched.choose.problem import H200, H200_L2_BYTES, Problem
from wsched.choose.route import Route, routes
from wsched.front.own import compile_schedule
from wsched.fusion import Fusion
from wsched.importer import Definition, Version, build_fusion, definition_of, is_live, record_text
from wsched.run.arguments import extents_of, reads_pairs, tma_inputs
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.copies import copies, slower_than_direct
from wsched.run.cpu import MULTIPROCESSORS
from wsched.run.host import class_key
from wsched.run.input_error import InputError, require_sequence
from wsched.run.layout import laid_out
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

if TYPE_CHECKING:
    import torch

    from wsched.front.explanation import Explanation

__all__ = [
    "adopt", "compile", "execute", "explain", "import_fusion", "planned", "problem_of", "recorded",
]  # fmt: skip

_Key = tuple[Fusion, MatmulParams, bool]
"""What tells kernels apart: the last is whether the kernel is compiled to choose its registers."""

_making = threading.Lock()
"""Held while a kernel is made, and for every write to ``_kernels``."""

_knowing = threading.Lock()
"""Held for every write to ``_live`` and ``_texts``, and for reads of what changes with them."""

_live: WeakKeyDictionary[Any, _Known] = WeakKeyDictionary()
_texts: dict[str | Definition, _Known] = {}
_kernels: dict[_Key, CompiledFusion] = {}

_TEXTS = 256
"""Definitions that are no live objects are remembered: the most recently used ones."""

_CLASSES = 256
"""Classes of inputs of a definition for which the route is remembered."""


class _Known:
    """What has been found out about a definition: all of it is found out once.

    Attributes:
        recorded: its operations, or why they cannot be read.
        fusion: the fusion that wsched schedules, or why there is none.
        routes: the route of each class of inputs.
        version: which state of a live definition all this is about; None for anything else.
    """

    __slots__ = ("fusion", "recorded", "routes", "version")

    def __init__(self, definition: Any) -> None:
        self.recorded: Definition | UnsupportedError
        self.fusion: Fusion | UnsupportedError
        self.routes: dict[Any, Route] = {}
        self.version: Version | None = None
        try:
            self.recorded = _record(definition)
            self.fusion = build_fusion(self.recorded)
        except UnsupportedError as e:
            self.fusion = _again(e)
            if not hasattr(self, "recorded"):
                self.recorded = self.fusion
        if is_live(definition):
            self.version = Version.of(definition)

    def is_about(self, definition: Any) -> bool:
        """Whether a live definition has not changed since."""
        return self.version is None or self.version.is_current(definition)


def _record(definition: Any) -> Definition:
    """The operations of a definition.

    Raises:
        UnsupportedError: it cannot be read. So is a live definition that nvFuser does not print, or
            whose text is read otherwise than its IR: nvFuser can run it all the same.
    """
    if isinstance(definition, Definition):
        return definition
    if isinstance(definition, str):
        return record_text(definition)
    try:
        return definition_of(definition)
    except (RuntimeError, InternalError) as e:
        reason = (str(e) or type(e).__name__).splitlines()[0]
        raise UnsupportedError(
            f"a definition that cannot be read from nvFuser ({reason})", "others"
        ) from None


def execute(
    definition: Any,
    inputs: Sequence[torch.Tensor],
    *,
    params: MatmulParams | None = None,
    batch_invariant: bool = False,
) -> list[torch.Tensor]:
    """Run a definition: by wsched's kernel, or another way where there is none.

    CUDA tensors go to the kernel or to nvFuser; CPU tensors to the machine model, which executes
    the same kernel. What neither takes is computed by torch, operation by operation. The way is
    decided once for each class of inputs; :func:`explain` tells it. With ``params``,
    ``batch_invariant`` or a schedule there is only wsched's kernel.

    Args:
        definition: a ``nvfuser_direct.FusionDefinition``, the text that nvFuser prints for one,
            its operations as :func:`recorded` returns them; or a ``wsched.Schedule``.
        inputs: tensors in the order of the definition, on one device.
        params: a schedule of your own; by default the heuristic's.
        batch_invariant: whether the bits of a row of the result must not depend on the other rows
            of A, nor on how many there are.

    Returns:
        The results in the order of ``add_output``.

    Raises:
        InputError: the tensors do not fit the definition.
        UnfinishedError: the ``with`` block of the definition has not ended, or it has no output.
        UnsupportedError: none of the ways takes it; or, with ``params`` or ``batch_invariant``,
            wsched's does not.
        ScheduleError: ``params`` make an illegal schedule, or one that is not batch-invariant.
    """
    if type(inputs) not in (list, tuple):
        require_sequence(inputs)
    if batch_invariant:
        return _execute_invariant(definition, inputs, params)
    if params is not None or isinstance(definition, Schedule):
        return compile(definition, inputs, params=params)(*inputs)
    known = _known(definition)
    route = known.routes.get(class_key(inputs))
    if route is not None:
        try:
            return route.run(definition, inputs)
        except UnsupportedError:
            pass  # what has changed since, say the limit of the machine, is found out again
    return _first_call(definition, inputs, known)


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


def _first_call(definition: Any, inputs: Sequence[Any], known: _Known) -> list[torch.Tensor]:
    """Run by the first route that takes the inputs, and remember it."""
    candidates = routes(definition, known.recorded, inputs, compile, _slower)
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


def explain(
    definition: Any, inputs: Sequence[torch.Tensor], *, batch_invariant: bool = False
) -> Explanation:
    """Which way :func:`execute` takes for these inputs, every choice and every refusal.

    On a GPU this compiles the kernel; nothing is executed. ``batch_invariant`` as there.

    Raises:
        InputError: the tensors do not fit the definition.
        UnsupportedError: none of the ways takes it.
    """
    from wsched.front.explanation import explain_given, explain_kernel, explain_other

    require_sequence(inputs)
    where = next((str(t.device) for t in inputs if hasattr(t, "device")), "cpu")
    if isinstance(definition, Schedule):
        kernel = compile(definition, inputs, batch_invariant=batch_invariant)
        kernel.admit(inputs)
        return explain_given(kernel, problem_of(kernel.fusion, inputs), where)
    if batch_invariant:
        kernel = compile(definition, inputs, batch_invariant=True)
        kernel.admit(inputs)
    else:
        known = _known(definition)
        route = known.routes.get(class_key(inputs))
        if route is None:
            route = next(routes(definition, known.recorded, inputs, compile, _slower))
        if route.kernel is None:
            return explain_other(route.name, where, route.refusals)
        kernel = route.kernel
    needed = copies(kernel.fusion, inputs)
    problem = problem_of(kernel.fusion, inputs, batch_invariant=batch_invariant)
    beside = nvfuser_cost(recorded(definition), kernel.fusion, problem, needed)
    return explain_kernel(kernel, problem, where, needed, beside)


def compile(
    definition: Any,
    inputs: Sequence[torch.Tensor],
    *,
    params: MatmulParams | None = None,
    batch_invariant: bool = False,
) -> CompiledFusion:
    """The kernel for a definition and its ``inputs``; arguments as for :func:`execute`.

    Kernels are kept by definition, parameters and which dimension of each operand is contiguous,
    and serve every shape and stride: only where the heuristic chooses other parameters for other
    shapes is another one made. On a GPU this compiles the kernel, if the parameters leave its
    registers open: the first pair that does not spill is taken.
    """
    require_sequence(inputs)
    if isinstance(definition, Schedule):
        return compile_schedule(definition, inputs, params, batch_invariant)
    key = _kernel_key(definition, inputs, params, batch_invariant)
    found = _kernels.get(key)
    if found is None:
        with _making:
            found = _kernels.get(key) or _kernels.setdefault(key, _make(*key))
    return found


def _make(fusion: Fusion, params: MatmulParams, compiled: bool) -> CompiledFusion:
    return compile_clean(fusion, params) if compiled else compile_fusion(fusion, params)


def _kernel_key(
    definition: Any,
    inputs: Sequence[torch.Tensor],
    params: MatmulParams | None,
    batch_invariant: bool = False,
) -> _Key:
    fusion = laid_out(import_fusion(definition), inputs)
    if params is None:
        params = choose_params(problem_of(fusion, inputs, batch_invariant=batch_invariant))
    elif not isinstance(params, MatmulParams):
        text = f"params is a {(kind := type(params).__name__)}, not a MatmulParams"
        raise InputError(text, "params", kind, "MatmulParams")
    elif batch_invariant:
        params = replace(params, batch_invariant=True)
    return fusion, params, params.num_registers == "auto" and _on_hopper(inputs)


def _on_hopper(inputs: Sequence[Any]) -> bool:
    """Whether a GPU will run the kernel, so that it will be compiled anyway."""
    device = next((t.device for t in inputs if hasattr(t, "device")), None)
    if device is None or device.type != "cuda":
        return False
    import torch

    return bool(torch.cuda.get_device_capability(device) == (9, 0))


def adopt(definition: Any, inputs: Sequence[torch.Tensor], kernel: CompiledFusion) -> None:
    """Let a kernel serve these calls from now on, in place of the one that :func:`compile` made."""
    key = _kernel_key(definition, inputs, None)
    with _making:
        _kernels[key] = kernel


def import_fusion(definition: Any) -> Fusion:
    """The fusion of a definition, live, a text or recorded; kept, so that it is read once.

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


def planned(definition: Any, inputs: Sequence[torch.Tensor]) -> tuple[Fusion, Problem]:
    """The fusion with the operands' order in memory, and what the heuristics plan for.

    Raises:
        InputError: the tensors do not fit the definition.
        UnsupportedError: a definition that wsched does not schedule.
    """
    require_sequence(inputs)
    fusion = laid_out(import_fusion(definition), inputs)
    return fusion, problem_of(fusion, inputs)


def _again(e: UnsupportedError) -> UnsupportedError:
    """The same error without its traceback, whose frames would keep the definition alive."""
    return UnsupportedError(e.what, e.supported, e.hint)


def _known(definition: Any) -> _Known:
    """What is known about a definition, found out now if need be.

    Raises:
        UnfinishedError: a live definition that cannot be read yet; this is not remembered.
    """
    if isinstance(definition, str | Definition):
        return _known_text(definition)
    try:
        found = _live.get(definition)
    except TypeError:  # no weak reference to it is possible, so it is no definition
        return _Known(definition)
    if found is None or not found.is_about(definition):
        found = _Known(definition)
        with _knowing:
            _live[definition] = found
    return found


def _known_text(text: str | Definition) -> _Known:
    with _knowing:
        found = _texts.pop(text, None)
        if found is not None:
            _texts[text] = found  # the most recently used one stands last
            return found
    found = _Known(text)  # without the lock, because it takes milliseconds
    with _knowing:
        found = _texts.setdefault(text, found)
        while len(_texts) > _TEXTS:
            del _texts[next(iter(_texts))]
    return found


def _slower(kernel: CompiledFusion, inputs: Sequence[Any]) -> str:
    """Why a kernel that needs copies of operands is expected to lose against reading them."""
    needed = copies(kernel.fusion, inputs)
    if not needed:
        return ""
    problem = problem_of(kernel.fusion, inputs)
    us = ranked(problem)[0][0]
    work = bool(problem.work)
    return slower_than_direct(needed, problem.m, problem.n, problem.k, us, work)


def problem_of(
    fusion: Fusion,
    inputs: Sequence[torch.Tensor],
    device: torch.device | None = None,
    *,
    batch_invariant: bool = False,
) -> Problem:
    """What the heuristic plans for; on the inputs' device, unless that is given."""
    extents = extents_of(fusion, inputs)
    device = device or next(t.device for t in inputs if hasattr(t, "device"))
    sms, l2_bytes, gpu = MULTIPROCESSORS, H200_L2_BYTES, H200
    if device.type == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(device)
        sms, l2_bytes = properties.multi_processor_count, properties.L2_cache_size
        gpu = properties.name
    loaded = tma_inputs(fusion, inputs)
    pairs = reads_pairs(fusion, inputs, loaded is not None)
    return Problem.of(fusion, extents, sms, loaded, pairs, l2_bytes, gpu, batch_invariant)
