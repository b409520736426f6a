"""What is right of a random program, and whether results are.

The exact values are those of fp64. How far from them a right result may be is told by what torch's
own operations in the types of the definition make of it, and by what fp64 makes of inputs that are
moved by half a rounding: torch may be lucky with the one element that a sum is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from wsched.doors.fallback import interpret
from wsched.fusion import DataType
from wsched.importer import Definition, record_text
from wsched.importer.definition import Value

__all__ = ["Judge"]

_FLOATS = (DataType.BFloat16, DataType.Half, DataType.Float)

TIMES, ROUNDINGS = 3.0, 2.0**-7
"""A result may be so many times as far off as torch's, and by so much of its own size; of many
elements a quarter of it in the mean, where torch's luck with one of them does not count, nor
that of the largest alone."""


class Judge:
    """What the results of a definition have to be.

    Args:
        text: the definition.
        inputs: of the call.
    """

    def __init__(self, text: str, inputs: Sequence[torch.Tensor]) -> None:
        definition = record_text(text)
        wide = _doubled(definition)
        self._exact = interpret(wide, [_wide(t) for t in inputs])
        self._moved = interpret(wide, [_moved(t, seed) for seed, t in enumerate(inputs)])
        self._torch = interpret(definition, inputs)

    def wrong(self, results: Sequence[torch.Tensor]) -> str:
        """What is wrong with results; empty if they are right."""
        if len(results) != len(self._exact):
            return f"{len(results)} results, not {len(self._exact)}"
        others = self._exact, self._torch, self._moved
        for number, found in enumerate(zip(results, *others, strict=True)):
            if why := _wrong(*found):
                return f"result {number}: {why}"
        return ""


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """In fp64; what holds no floating-point numbers as it is."""
    return tensor.double() if tensor.is_floating_point() else tensor


def _moved(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """The same, each number up to half a rounding of its type off."""
    if not tensor.is_floating_point():
        return tensor
    generator = torch.Generator(tensor.device).manual_seed(seed)
    drawn = torch.rand(tensor.shape, generator=generator, device=tensor.device) - 0.5
    return tensor.double() * (1 + torch.finfo(tensor.dtype).eps * drawn)


def _wrong(
    found: torch.Tensor, exact: torch.Tensor, by_torch: torch.Tensor, moved: torch.Tensor
) -> str:
    if found.shape != exact.shape:
        return f"shape {list(found.shape)}, not {list(exact.shape)}"
    if found.dtype is not by_torch.dtype:
        return f"{found.dtype}, not {by_torch.dtype}"
    exact = exact.to(found.device)
    off, theirs, sways = (
        (t.to(found.device).double() - exact).abs() for t in (found, by_torch, moved)
    )
    theirs = _known(theirs).maximum(_known(sways))
    if not bool((found.isfinite() | _may_overflow(by_torch, exact)).all()):
        return "not finite"
    off = off.where(found.isfinite(), 0.0)
    size = float(exact.square().mean().sqrt())
    limit = TIMES * float(theirs.max()) + ROUNDINGS * (exact.abs() + size)
    beyond = off > limit
    scale = exact.abs().clamp(min=size or 1.0)
    mean, allowed = (float((t / scale).square().mean().sqrt()) for t in (off, theirs))
    if bool(beyond.any()):
        first = tuple(int(i) for i in beyond.nonzero()[0])
        return f"{int(beyond.sum())} of {off.numel()} beyond the limit, first {first}"
    if mean > TIMES * allowed + ROUNDINGS / min(4.0, off.numel() ** 0.5):
        return f"off by {mean:.2e} of its size in the mean, torch by {allowed:.2e}"
    return ""


def _may_overflow(by_torch: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Where torch's own result is not finite, or would not be if it were rounded otherwise."""
    finite = by_torch.to(exact.device).isfinite()
    if not by_torch.is_floating_point():
        return ~finite
    return ~finite | (exact.abs() > (1 - ROUNDINGS) * torch.finfo(by_torch.dtype).max)


def _known(off: torch.Tensor) -> torch.Tensor:
    """How far off what overflows is says nothing, and allows nothing."""
    return off.nan_to_num(nan=0.0, posinf=0.0)


def _doubled(definition: Definition) -> Definition:
    """The same in fp64."""

    def wide(value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(map(wide, value))
        return DataType.Double if value in _FLOATS else value

    nodes = tuple(
        replace(
            n,
            operands=tuple(map(wide, n.operands)),
            kwargs=tuple((k, wide(v)) for k, v in n.kwargs),
        )
        for n in definition.nodes
    )
    return Definition(nodes, definition.outputs)
