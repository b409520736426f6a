"""Who looks on where torch's operations run, and sees operators alone, not what they do to memory.

Dynamo, which traces Python; modes that see each operation, as ``make_fx`` and fake tensors have;
``torch.jit.trace``; and transforms of ``torch.func``, whose tensors stand for others: some have an
address, which is none. A door calls its operator there. For Dynamo alone torch has a public name;
where it has none of the others' private ones, nobody looks on.
"""

from __future__ import annotations

import sys
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


__all__ = ["is_compiling", "is_traced", "without_memory"]

_MAKE_FX = "torch.fx.experimental.proxy_tensor"


def _private(path: str, none: Any) -> Callable[[], Any]:
    """A function below ``torch._C``; one that gives ``none`` where there is no such function."""
    found = getattr(torch, "_C", None)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found if callable(found) else lambda: none


_modes = _private("_len_torch_dispatch_stack", 0)
_transform = _private("_functorch.peek_interpreter_stack", None)
_recorded = _private("_is_tracing", False)


def is_traced() -> bool:
    """Whether anybody sees operators alone."""
    return is_compiling() or _modes() > 0 or _transform() is not None or _recorded()


def without_memory() -> str:
    """Who would not see what is written to memory, and so go on with what is nothing; empty where
    all that runs is what there is, or where a mode only counts or looks.
    """
    if _transform() is not None:
        return "a transform of torch.func"
    mode = getattr(sys.modules.get(_MAKE_FX), "get_proxy_mode", lambda: None)
    return "make_fx" if _modes() > 0 and mode() is not None else ""
