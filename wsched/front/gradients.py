"""Gradients of ``wsched::execute``: a second operator, which torch computes.

The kernel is not asked: the backward pass evaluates the definition once more, operation by
operation with torch, and differentiates that. So a call keeps its inputs and nothing else, and the
backward pass takes what it would take in eager torch with the forward pass once more. Both are
opaque to Dynamo and ``torch.compile`` has them as one operator each. Where the gradients are to be
differentiated in their turn (``create_graph=True``), torch's operations stand in place of the
second operator, which has no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback import as_written, evaluated, unknown_ops
from wsched.front.opaque import operator
from wsched.importer import Definition
from wsched.importer.watched import differentiates, is_compiling, is_traced

if TYPE_CHECKING:
    import torch

__all__ = [
    "Asked", "define_gradients", "require_differentiable", "require_recorded", "wants_gradients",
]  # fmt: skip

Asked = Callable[[str], "tuple[Definition, Callable[[Sequence[Any], Sequence[Any]], list[Any]]]"]
"""From the name of a call its operations, and what puts tensors and numbers in their order."""


def require_differentiable(definition: Definition) -> None:
    """Refuse a definition that torch cannot evaluate, or that writes into its inputs.

    Raises:
        UnsupportedError: which operation it does not have, or what is written.
    """
    definition.check_pure("what torch differentiates")
    if unknown := unknown_ops(definition):
        raise UnsupportedError(
            f"gradients of fd.ops.{unknown[0]}", "those of operations that torch has"
        )


def wants_gradients(inputs: Sequence[Any]) -> bool:
    """Whether torch records, and one of the inputs asks for it."""
    import torch

    return torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in inputs)


def require_recorded(inputs: Sequence[Any]) -> None:
    """Refuse to be differentiated otherwise than by torch's record of operations, backwards.

    Raises:
        UnsupportedError: a transform of ``torch.func`` differentiates, or an input has a tangent,
            which would be lost.
    """
    if is_compiling():
        return
    if differentiates():
        raise UnsupportedError("gradients inside of torch.func's grad, vjp or jvp", _BACKWARDS)
    from torch.autograd import forward_ad

    if forward_ad._current_level < 0:
        return
    tensors = [x for x in inputs if hasattr(x, "requires_grad")]
    if any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        raise UnsupportedError("gradients forwards, of inputs with a tangent,", _BACKWARDS)


_BACKWARDS = "backward() and torch.autograd.grad, also with create_graph=True"


def _gradients(
    asked: Asked,
    name: str,
    given: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Any],
) -> list[torch.Tensor]:
    """Of each tensor of floats the gradient, row by row in memory.

    Args:
        asked: what a name stands for.
        name: of the call.
        given: gradients of its results.
        tensors: its inputs that are tensors.
        numbers: the others.
    """
    import torch

    leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
    return [
        g.clone(memory_format=torch.contiguous_format)
        for g in _differentiated(asked, name, given, leaves, numbers)
        if g is not None
    ]


def _differentiated(
    asked: Asked,
    name: str,
    given: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Any],
    again: bool = False,
) -> list[torch.Tensor | None]:
    """Gradients of those tensors that require them, None of the others; they can be differentiated
    ``again``. Arguments as of :func:`_gradients`.
    """
    import torch

    definition, in_order = asked(name)
    with as_written():
        made = evaluated(definition, in_order(tensors, numbers), gradients=True)
        pairs = [(r, g) for r, g in zip(made, given, strict=True) if r.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        found: Sequence[torch.Tensor | None] = [None] * len(wanted)
        if pairs:
            results, grads = zip(*pairs, strict=True)
            found = torch.autograd.grad(
                results, wanted, grads, allow_unused=True, create_graph=again
            )
    left = iter(found)
    each = [(t, next(left) if t.requires_grad else None) for t in tensors]
    return [torch.zeros_like(t) if g is None and t.requires_grad else g for t, g in each]


def _fake(
    name: str,
    given: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[Any],
) -> list[torch.Tensor]:
    return [t.new_empty(t.shape) for t in tensors if t.is_floating_point()]


def _keep(asked: Asked, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """What the backward pass needs of a call; torch asks where an input requires gradients.

    Raises:
        UnsupportedError: there are none of such a definition.
    """
    ctx.name, tensors, ctx.numbers = inputs
    require_differentiable(asked(ctx.name)[0])
    ctx.save_for_backward(*tensors)


def _backward(asked: Asked, ctx: Any, given: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """Gradients of a call's arguments: of the tensors of floats, of nothing else."""
    import torch

    tensors, grads = list(ctx.saved_tensors), list(given)
    of_tensors: list[torch.Tensor | None]
    if torch.is_grad_enabled() and not is_traced():
        # One tensor may be several inputs, each of which has a gradient of its own.
        views = [t.view_as(t) if t.requires_grad else t for t in tensors]
        of_tensors = _differentiated(asked, ctx.name, grads, views, ctx.numbers, again=True)
    else:
        found = iter(torch.ops.wsched.gradients(ctx.name, grads, tensors, ctx.numbers))
        of_tensors = [next(found) if t.is_floating_point() else None for t in tensors]
    # Torch wants the structure of the arguments: to it a list of numbers is one of them, an empty
    # one is a list of no tensors.
    return None, of_tensors, None if ctx.numbers else []


def define_gradients(library: torch.library.Library, asked: Asked) -> None:
    """Give torch the operator, and tell it that it is the derivative of ``wsched::execute``.

    Args:
        library: of the operators, which has that one.
        asked: what a name stands for.
    """
    import torch

    schema = "gradients(str name, Tensor[] given, Tensor[] tensors, Scalar[] numbers) -> Tensor[]"
    operator(schema, partial(_gradients, asked), _fake)
    torch.library.register_autograd(
        "wsched::execute",
        partial(_backward, asked),
        setup_context=partial(_keep, asked),
        lib=library,
    )
