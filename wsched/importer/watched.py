"""Who looks on where torch's operations run, and sees operators alone, not what they do to memory.

Dynamo, which traces Python; modes of torch's own that record, pretend or make functional, as
``make_fx`` and fake tensors have; ``torch.jit.trace``; and transforms of ``torch.func``, whose
tensors stand for others: some have an address, which is none. A door calls its operator there.
Modes of others, which count operations say, see what is done. For Dynamo alone torch has a public
name; where it has none of the private ones, nobody looks on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import torch
    from torch.compiler import is_compiling
except ImportError:
    torch = None

    def is_compiling() -> bool:
        """Whether Dynamo traces: there is none."""
        return False


__all__ = ["differentiates", "is_compiling", "is_traced", "without_memory"]


def _private(path: str, none: Any) -> Callable[..., Any]:
    """A function below ``torch._C``; one that gives ``none`` where there is no such function."""
    found = getattr(torch, "_C", None)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found if callable(found) else lambda *_: none


_modes = _private("_len_torch_dispatch_stack", 0)
_mode_of = _private("_get_dispatch_mode", None)
_transform = _private("_functorch.peek_interpreter_stack", None)
_transforms = _private("_functorch.get_interpreter_stack", None)
_recorded = _private("_is_tracing", False)


_KEYS = getattr(getattr(torch, "_C", None), "_TorchDispatchModeKey", None)
_OWN_MODES = tuple(getattr(_KEYS, "__members__", {}).values())
"""What torch knows its own modes by."""


def is_traced() -> bool:
    """Whether anybody sees operators alone."""
    return (
        is_compiling()
        or _transform() is not None
        or _recorded()
        or (_modes() > 0 and any(_mode_of(key) is not None for key in _OWN_MODES))
    )


def differentiates() -> bool:
    """Whether a transform of ``torch.func`` does, ``grad`` or ``jvp`` and what is made of them."""
    return any(t.key().name in ("Grad", "Jvp") for t in _transforms() or ())


def without_memory() -> str:
    """Who would not see what is written to memory, and so go on with what is nothing; empty where
    all that runs is what there is.
    """
    if _transform() is not None:
        return "a transform of torch.func"
    proxy = getattr(_KEYS, "PROXY", None)
    return "make_fx" if _modes() > 0 and proxy and _mode_of(proxy) is not None else ""
