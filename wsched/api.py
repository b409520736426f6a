"""The public entry points: compile and execute a definition."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from wsched.arguments import InputError, extents_of
from wsched.compiled import CompiledFusion, compile_fusion
from wsched.cpu import MULTIPROCESSORS
from wsched.fusion import Fusion
from wsched.heuristics import Problem, choose_params
from wsched.importer import build_fusion, definition_of, record_text
from wsched.layout import laid_out
from wsched.schedule.params import MatmulParams

if TYPE_CHECKING:
    import torch

__all__ = ["compile", "execute", "import_fusion"]

_lock = threading.Lock()
_live: WeakKeyDictionary[Any, Fusion] = WeakKeyDictionary()
_texts: dict[str, Fusion] = {}
_kernels: dict[tuple[Fusion, MatmulParams], CompiledFusion] = {}


def execute(
    definition: Any, inputs: Sequence[torch.Tensor], *, params: MatmulParams | None = None
) -> list[torch.Tensor]:
    """Run a definition: on the GPU with CUDA tensors, on the machine model with CPU tensors.

    Args:
        definition: a ``nvfuser_direct.FusionDefinition``, or the text that nvFuser prints for one.
        inputs: tensors in the order of the definition, on one device.
        params: a schedule of your own; by default the heuristic's.

    Returns:
        The results in the order of ``add_output``.

    Raises:
        UnsupportedError: an operation, type, layout or device for which there is no kernel.
        ScheduleError: ``params`` make an illegal schedule.
        InputError: the tensors do not fit the definition.
    """
    return compile(definition, inputs, params=params)(*inputs)


def compile(
    definition: Any, inputs: Sequence[torch.Tensor], *, params: MatmulParams | None = None
) -> CompiledFusion:
    """The kernel for a definition and its ``inputs``; arguments as for :func:`execute`.

    Kernels are kept by definition, parameters and which dimension of each operand is contiguous,
    and serve every shape and stride: only where the heuristic chooses other parameters for other
    shapes is another one made.
    """
    fusion = laid_out(import_fusion(definition), inputs)
    if params is None:
        params = choose_params(_problem(fusion, inputs))
    elif not isinstance(params, MatmulParams):
        raise InputError(f"params is a {type(params).__name__}, not a MatmulParams")
    key = fusion, params
    found = _kernels.get(key)
    if found is None:
        with _lock:
            found = _kernels.get(key) or _kernels.setdefault(key, compile_fusion(fusion, params))
    return found


def import_fusion(definition: Any) -> Fusion:
    """The fusion of a live definition or of a definition's text; kept, so that it is read once."""
    text = isinstance(definition, str)
    known: Any = _texts if text else _live
    try:
        fusion: Fusion | None = known.get(definition)
    except TypeError:  # no weak reference to it is possible, so it is no definition
        fusion = None
    if fusion is None:
        fusion = build_fusion(record_text(definition) if text else definition_of(definition))
        known[definition] = fusion
    return fusion


def _problem(fusion: Fusion, inputs: Sequence[torch.Tensor]) -> Problem:
    extents = extents_of(fusion, inputs)
    device = inputs[0].device
    sms = MULTIPROCESSORS
    if device.type == "cuda":
        import torch

        sms = torch.cuda.get_device_properties(device).multi_processor_count
    operand, result = fusion.inputs[0].dtype, fusion.outputs[0].dtype
    m, n = (extents[axis] for axis in fusion.result_axes)
    return Problem(m, n, extents["K"], operand, result, sms)
