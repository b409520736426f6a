"""Settings of torch that change what its operations make: a definition says that itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["as_written", "without_modes"]


def as_written() -> AbstractContextManager[Any]:
    """Operations make what is written, whatever the caller has set: ``autocast`` would read fewer
    bits and make other types, and what is computed of integers would be of the default type.
    """
    import torch

    casts = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    other = torch.get_default_dtype() is not torch.float32
    if not (casts or other):
        return nullcontext()
    stack = ExitStack()
    for kind in casts:
        stack.enter_context(torch.autocast(kind, enabled=False))
    if other:
        stack.enter_context(_default_type(torch.float32))
    return stack


@contextmanager
def _default_type(dtype: torch.dtype) -> Iterator[None]:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def without_modes() -> AbstractContextManager[Any]:
    """Tensors have values even while torch traces, and asks for the shapes of others alone."""
    from torch.utils._python_dispatch import _disable_current_modes

    found: AbstractContextManager[Any] = _disable_current_modes()
    return found
