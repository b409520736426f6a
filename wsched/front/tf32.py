"""Matmuls of fp32 that read 19 bits of their operands, where a user or torch's settings say so."""

from __future__ import annotations

from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.front.known import Known, known, recorded
from wsched.importer.definition import definition_text
from wsched.importer.tf32 import as_tf32, tf32_inputs

__all__ = ["allowed", "as_allowed", "torch_allows_tf32", "with_tf32"]


def with_tf32(definition: Any) -> str:
    """A definition in which matmuls round their fp32 operands to 19 bits (TF32).

    The tensors, their memory and the results stay fp32; products of fp32 have no instruction of the
    tensor core, and are nvFuser's or torch's without this. Where torch's settings allow it for its
    own matmuls (:func:`torch_allows_tf32`), ``execute``, ``explain`` and ``install`` do the same
    unasked; this is for a definition by itself::

        out, = wsched.execute(wsched.with_tf32(fd), [a, b])

    Args:
        definition: nvFuser's, live or as text.

    Returns:
        Its text, in which inputs of fp32 that only matmuls read have the type ``DataType.TF32``.
        A matmul of one such multiplies its other operand likewise, if that is fp32.

    Raises:
        UnsupportedError: a definition that cannot be read, or none of whose matmuls multiplies
            such an input.
    """
    found = recorded(definition)
    names = tf32_inputs(found)
    if not names:
        raise UnsupportedError(
            "TF32 in a definition without a matmul of fp32 inputs", "inputs that only matmuls read"
        )
    return definition_text(as_tf32(found, names))


def allowed(definition: Any) -> tuple[Any, Known]:
    """A definition, live, a text or recorded, and what is known of it; with operands as TF32 where
    torch allows that.
    """
    found = known(definition)
    if found.tf32 is None or not torch_allows_tf32():
        return definition, found
    return found.tf32.recorded, found.tf32


def as_allowed(definition: Any) -> Any:
    """The definition alone."""
    return allowed(definition)[0]


def torch_allows_tf32() -> bool:
    """Whether torch's own matmuls of fp32 may read 19 bits of their operands.

    ``torch.backends.cuda.matmul.fp32_precision``, which ``torch.set_float32_matmul_precision`` and
    ``allow_tf32`` set as well; before torch 2.9 there was the latter alone.
    """
    import torch

    settings = torch.backends.cuda.matmul
    precision = getattr(settings, "fp32_precision", None)
    return bool(settings.allow_tf32) if precision is None else precision == "tf32"
