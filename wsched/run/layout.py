"""Which dimension of each operand is contiguous: said by the definition, decided by the tensors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from wsched.fusion import Fusion, IterDomain, Role, TensorBinding, products
from wsched.importer.input_error import is_array
from wsched.run.copies import any_order, tma_reads

if TYPE_CHECKING:
    import torch

__all__ = ["laid_out"]

Order = tuple[str, ...]
"""Names of extents, the contiguous one last."""


def laid_out(fusion: Fusion, inputs: Sequence[Any]) -> Fusion:
    """The fusion with every operand in memory as its tensor is.

    An operand keeps the order that the definition gives it wherever its tensor can be read so. That
    is decided by strides, and those of dimensions of size 1 or of empty tensors mean nothing. What
    is no array or has another rank stays as it is, for :func:`~wsched.run.arguments.bind` to
    refuse. A tensor that TMA cannot read is copied (:mod:`wsched.run.copies`), in its own order if
    it has one. So is one that lies otherwise than with what is summed over contiguous, if the
    matrix instruction takes its type only so, or if it is computed on. Numbers of groups, which
    threads read one by one, may lie either way.

    Raises:
        UnsupportedError: operands that stand side by side lie in different orders.
    """
    import torch

    orders = []
    summed = {name for p in products(fusion) for name in p.names(Role.K)}
    for binding, tensor in zip(fusion.inputs, inputs, strict=False):
        order = declared = _names(fusion.tensor(binding.tensor).in_memory)
        fits = len(binding.axes) == len(declared)  # not of rows in groups, which are always by rows
        named = fits and isinstance(tensor, torch.Tensor) and is_array(tensor)
        named = named and tensor.dim() == len(declared)
        if named and binding.tensor in fusion.operands:
            either = any_order(fusion, binding)
            order = _order(binding, tensor, declared, () if either else summed)
        elif named and binding.tensor in _of_groups(fusion):
            ways = (declared, declared[::-1])
            fitting = (o for o in ways if _contiguous(tensor, binding.axes.index(o[-1])))
            order = next(fitting, declared)
        orders.append(order)
    return _with_orders(fusion, tuple(orders))


def _of_groups(fusion: Fusion) -> set[str]:
    """Inputs with numbers of groups of K of one operand."""
    found = (s for e in fusion.mmas for s in e.scales or () if None in (e.scales or ()))
    return {name for s in found if s is not None for name in s.tensors}


def _order(
    binding: TensorBinding, tensor: torch.Tensor, declared: Order, last: Collection[str]
) -> Order:
    """``last`` are the dimensions of which one has to be contiguous, if not any."""
    candidates: tuple[Order, ...] = (declared, (*declared[:-2], *declared[:-3:-1]))
    if last:
        candidates = tuple(x for x in candidates if x[-1] in last)
        declared = candidates[0]
    for fits in (tma_reads, _contiguous):  # the second: what is copied keeps its order
        for order in candidates:
            if fits(tensor, binding.axes.index(order[-1])):
                return order
    return declared


def _contiguous(tensor: torch.Tensor, cols: int) -> bool:
    stride: int = tensor.stride(cols)
    return stride == 1 or tensor.shape[cols] == 1 or 0 in tensor.shape


def _with_orders(fusion: Fusion, orders: tuple[Order, ...]) -> Fusion:
    """The fusion with an order for each input, itself if it has them already."""
    changed = []
    known: dict[str, Order] = {}
    for binding, order in zip(fusion.inputs, orders, strict=False):
        t = fusion.tensor(binding.tensor)
        if known.setdefault(t.name, order) != order:
            raise UnsupportedError(
                f"operands side by side of which one has {known[t.name][-1]} contiguous and one "
                f"{order[-1]}",
                "one order of memory for all of them",
            )
        if _names(t.in_memory) != order:
            by_name = {str(d.extent): d for d in t.logical}
            allocation = tuple(by_name[name] for name in order)
            changed.append(replace(t, allocation=() if allocation == t.logical else allocation))
    return fusion.updated(changed) if changed else fusion


def _names(domains: tuple[IterDomain, ...]) -> Order:
    return tuple(str(d.extent) for d in domains)
