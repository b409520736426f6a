"""The kernels that have been made, by fusion and parameters: each is made once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowering.ground.locks import Lock
from lowering.target.target import Target
from lowering.target.targets import named, target_of_device
from wsched.choose.heuristics import choose_params
from wsched.front.chosen import own_choice
from wsched.front.known import import_fusion
from wsched.front.own import compile_schedule
from wsched.front.problems import problem_of
from wsched.front.targets import refuse_target, require_target
from wsched.front.tf32 import as_allowed
from wsched.fusion import Fusion
from wsched.importer.input_error import InputError, require_sequence
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import admitted_by
from wsched.run.kept import Kept
from wsched.run.layout import laid_out
from wsched.run.proving import require_proved
from wsched.run.registers import compile_clean
from wsched.run.watched import bound_from_environment
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.schedule import Schedule

if TYPE_CHECKING:
    import torch

__all__ = ["adopt", "compile"]

_Key = tuple[Fusion, MatmulParams, bool, int]
"""What tells kernels apart: the third is whether a kernel is compiled to choose its registers, the
last one the bound of its waits.
"""

_making: dict[_Key, Lock] = {}
"""Of each kernel that is being made the lock that is held meanwhile: others are made beside it."""

_starting = Lock()
"""Held for every write to ``_making`` and ``_kernels``."""

_kernels: Kept[_Key] = Kept()


def compile(
    definition: Any,
    inputs: Sequence[torch.Tensor],
    *,
    params: MatmulParams | None = None,
    batch_invariant: bool = False,
    proof: bool | None = None,
    target: str | None = None,
) -> CompiledFusion:
    """The kernel for a definition and its ``inputs``, whose values are not read.

    Kernels are kept by definition, parameters and which dimension of each operand is contiguous,
    and serve every shape and stride: only where the heuristic chooses other parameters for other
    shapes is another one made. On a GPU this compiles the kernel, if the parameters leave its
    registers open: the first pair that does not spill is taken.

    Args:
        definition: as :func:`wsched.execute` takes it; what is more than one kernel is refused.
        inputs: as there.
        params: as there.
        batch_invariant: as there.
        proof: when what is claimed of the final kernel (``kernel.proof()``) is proved: True, now;
            False, not at all. By default it is the environment's choice: with ``WSCHED_PROOF=1``
            when a kernel is made, with 0 never, and unset before the first launch of a kernel whose
            schedule somebody wrote. What is not decided is a warning.
        target: the GPU that the kernel is for, as compilers call it (``"sm_100a"``): by default
            that of ``params.mma_macro``, else that of the inputs' device. A kernel for another GPU
            than the one here can be looked at, compiled, and run by the machine on CPU tensors.

    Returns:
        The kernel, to be called with tensors such as ``inputs``.

    Raises:
        InputError: the tensors do not fit the definition, ``target`` not the parameters, or
            parameters or a target beside a schedule.
        UnfinishedError: as there.
        UnsupportedError: wsched has no kernel for it; a GPU that it makes none for.
        ScheduleError: an illegal schedule, or one that is not batch-invariant.
        InternalError: what is claimed of the kernel is refuted, or the schedule that wsched itself
            chose is illegal.
    """
    require_sequence(inputs)
    if isinstance(definition, Schedule):
        refuse_target(target)
        found = compile_schedule(definition, inputs, params, batch_invariant, proof is not False)
    else:
        key = _kernel_key(definition, inputs, params, batch_invariant, target)
        chosen = own_choice(key[0], key[1]) if params is None else nullcontext()
        with chosen:
            found = _kernels.get(key) or _made_once(key)
    for k in found.launched if proof else ():
        require_proved(k.kernel, admitted_by(k.plan))
    return found


def _made_once(key: _Key) -> CompiledFusion:
    """A kernel, made by the first thread that asks for it; the others wait for that."""
    with _starting:
        making = _making.setdefault(key, Lock())
    with making:
        found = _kernels.get(key)
        if found is not None:
            return found
        try:
            made = _make(*key[:-1])
            with _starting:
                return _kernels.add(key, made)
        finally:
            with _starting:
                _making.pop(key, None)


def _make(fusion: Fusion, params: MatmulParams, compiled: bool) -> CompiledFusion:
    return (compile_clean if compiled else compile_fusion)(fusion, params)


def _kernel_key(
    definition: Any,
    inputs: Sequence[torch.Tensor],
    params: MatmulParams | None,
    batch_invariant: bool = False,
    target: str | None = None,
) -> _Key:
    fusion = laid_out(import_fusion(as_allowed(definition)), inputs)
    asked = None if target is None else named(target)
    if params is None:
        problem = problem_of(fusion, inputs, batch_invariant=batch_invariant, target=asked)
        params = choose_params(problem)
    elif not isinstance(params, MatmulParams):
        text = f"params is a {(kind := type(params).__name__)}, not a MatmulParams"
        raise InputError(text, "params", kind, "MatmulParams")
    elif batch_invariant:
        params = replace(params, batch_invariant=True)
    require_target(params, asked)
    here = _target(inputs)  # where there is a GPU, the kernel will be compiled anyway
    compiled = params.num_registers == "auto" and here is not None
    return fusion, params, compiled, bound_from_environment()


def _target(inputs: Sequence[Any]) -> Target | None:
    """The GPU that will run the kernel, None where there is none or none that can."""
    device = next((t.device for t in inputs if hasattr(t, "device")), None)
    if device is None or device.type != "cuda":
        return None
    import torch

    return target_of_device(torch, device)


def adopt(definition: Any, inputs: Sequence[torch.Tensor], kernel: CompiledFusion) -> None:
    """Let a kernel serve these calls from now on, in place of the one that :func:`compile` made."""
    key = _kernel_key(definition, inputs, None)
    with _starting:
        _kernels.add(key, kernel)
