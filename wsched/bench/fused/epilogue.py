"""Epilogues that are compared: as nvFuser defines them, and as torch computes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.problem import DTYPES

__all__ = ["BARE", "EPILOGUES", "Epilogue", "parse_epilogues"]

BARE = "bare"
"""The matmul alone, in :data:`EPILOGUES`."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What follows ``y = x · wᵀ``, x being [M, K], w [N, K] and the result [M, N].

    Args:
        inputs: axes of each further input: ``N`` or ``MN``.
        lines: operations of the definition from ``x``, ``w``, ``e0``, ``e1``, … on; the last one
            makes the result.
        torch: the same from torch.nn.functional, x, w and the further inputs. In 16 bits it is
            what eager mode runs, with fp32 tensors it is the reference.
    """

    inputs: tuple[str, ...]
    lines: tuple[str, ...]
    torch: Callable[..., Any]

    def definition(self, dtype: str, layout: str = "tn") -> str:
        """Return the text of the fusion, sizes symbolic.

        ``dtype`` is a key of ``DTYPES``, ``layout`` one of ``LAYOUTS``.
        """
        kind = f"DataType.{DTYPES[dtype]}"
        axes = {"x": "MK", "w": "NK"} | {f"e{i}": a for i, a in enumerate(self.inputs)}
        by_columns = {"x": layout[0] == "n", "w": layout[1] == "t"}
        tensors = (
            f"{name} = fd.define_tensor(shape={[-1] * len(a)}, contiguity={[True] * len(a)}, "
            f"dtype={kind}, is_cpu=False{', stride_order=[0, 1]' * by_columns.get(name, False)})"
            for name, a in axes.items()
        )
        body = [*tensors, *(line.format(dtype=kind) for line in self.lines)]
        body.append(f"fd.add_output({self.lines[-1].partition(' ')[0]})")
        head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
        return head + "".join(f"    {line}\n" for line in body)

    def compute(self, x: Any, *others: Any) -> Any:
        """Return torch's result; ``others`` are w and the further inputs."""
        return self.torch(importlib.import_module("torch.nn.functional"), x, *others)


def _linear(f: Any, x: Any, w: Any) -> Any:
    return f.linear(x, w)


def _gelu(f: Any, x: Any, w: Any, bias: Any) -> Any:
    return f.gelu(f.linear(x, w, bias), approximate="tanh")


def _residual(f: Any, x: Any, w: Any, added: Any) -> Any:
    return f.linear(x, w) + added


def _silu(f: Any, x: Any, w: Any) -> Any:
    return f.silu(f.linear(x, w))


_PRODUCT = "y = fd.ops.linear(x, w)"
_TANH_GELU = (
    "y = fd.ops.linear(x, w, e0)",
    "f = fd.ops.cast(y, dtype=DataType.Float)",
    "f2 = fd.ops.mul(f, f)",
    "f3 = fd.ops.mul(f2, f)",
    "t = fd.ops.mul(f3, 0.044715)",
    "u = fd.ops.add(f, t)",
    "v = fd.ops.mul(u, 0.7978845608028654)",  # sqrt(2 / pi)
    "h = fd.ops.tanh(v)",
    "g = fd.ops.add(h, 1.0)",
    "k = fd.ops.mul(f, 0.5)",
    "m = fd.ops.mul(k, g)",
    "d = fd.ops.cast(m, dtype={dtype})",
)

EPILOGUES = {
    BARE: Epilogue((), (_PRODUCT,), _linear),
    "gelu": Epilogue(("N",), _TANH_GELU, _gelu),
    "residual": Epilogue(
        ("MN",),
        (_PRODUCT, "s = fd.ops.add(y, e0)", "d = fd.ops.cast(s, dtype={dtype})"),
        _residual,
    ),
    "silu": Epilogue(
        (), (_PRODUCT, "s = fd.ops.silu(y)", "d = fd.ops.cast(s, dtype={dtype})"), _silu
    ),
}
"""By name: nothing; bias and gelu in its tanh form; a matrix that is added; silu."""


def parse_epilogues(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of names in :data:`EPILOGUES`; a second mention is dropped.

    Raises:
        UnsupportedError: another name, or none at all.
    """
    words = [w.strip() for w in text.split(",") if w.strip()]
    for word in words:
        if word not in EPILOGUES:
            raise UnsupportedError(f"the epilogue {word!r}", ", ".join(EPILOGUES))
    if not words:
        raise UnsupportedError("an empty list of epilogues", ", ".join(EPILOGUES))
    return tuple(dict.fromkeys(words))
