"""Layers of experts as ``wsched bench moe`` computes them: part by part, and as a whole.

As a whole a layer begins with tokens and their routing, which is the same for all ways: rows are
taken by index, gate and up are multiplied, ``silu(g) * u`` is, down is, and each token's rows are
summed with its weights. torch does so operation by operation, or as ``torch.compile`` makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ADDED", "COMPILED", "TORCH", "WSCHED", "Part", "gated", "parts_of", "whole_of"]

TORCH, COMPILED, WSCHED, ADDED = "torch", "compile", "wsched", "wsched added"
"""The last one is a layer whose rows down adds to tokens, in any order."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is measured.

    Args:
        name: of it.
        flops: floating-point operations of its products.
        ways: of computing it, by name.
    """

    name: str
    flops: int
    ways: Mapping[str, Callable[[], Any]]


def gated(ops: Any, gate: Any, up: Any) -> Any:
    """What is computed of gate and up."""
    return ops.mul(ops.silu(gate), up)


def parts_of(chosen: Sequence[Sequence[int]], weights: Sequence[Any]) -> list[Part]:
    """Grouped matmuls of a layer, of rows that are there.

    Args:
        chosen: experts of each token.
        weights: gate and up [E, K, N], down [E, N, K], bf16 on a GPU.
    """
    import torch

    import wsched

    gate, up, down = weights
    ids = torch.tensor(chosen, device=up.device)
    ends = wsched.route(ids, len(up)).ends
    x = torch.randn(ids.numel(), up.shape[1], device=up.device, dtype=torch.bfloat16)
    silu, theirs = torch.nn.functional.silu, torch._grouped_mm
    h = silu(theirs(x, gate, offs=ends)) * theirs(x, up, offs=ends)
    one = 2 * ids.numel() * up.shape[1] * up.shape[2]
    return [
        Part("up", one, {TORCH: lambda: theirs(x, up, offs=ends),
                         WSCHED: lambda: wsched.grouped_mm(x, up, ends)}),
        Part("gate and up", 2 * one, {
            TORCH: lambda: silu(theirs(x, gate, offs=ends)) * theirs(x, up, offs=ends),
            WSCHED: lambda: wsched.grouped_mm(x, (gate, up), ends, epilogue=gated)}),
        Part("down", one, {TORCH: lambda: theirs(h, down, offs=ends),
                           WSCHED: lambda: wsched.grouped_mm(h, down, ends)}),
        Part("gradient of up", one, {TORCH: lambda: theirs(x.mT, h, offs=ends),
                                     WSCHED: lambda: wsched.grouped_mm(x.mT, h, ends)}),
    ]  # fmt: skip


def experts(
    x: Any, rows: Any, ends: Any, places: Any, scales: Any, gate: Any, up: Any, down: Any
) -> Any:
    """A layer in torch's operations; arguments as of :func:`wsched.moe` and its routing."""
    import torch

    theirs = torch._grouped_mm
    taken = x.index_select(0, rows)
    g, u = (theirs(taken, m, offs=ends) for m in (gate, up))
    made = theirs(torch.nn.functional.silu(g) * u, down, offs=ends)
    picked = made.index_select(0, places.reshape(-1)).view(*places.shape, -1)
    return (picked * scales[:, :, None]).sum(1)


def whole_of(chosen: Sequence[Sequence[int]], weights: Sequence[Any], seed: int) -> list[Part]:
    """A layer from tokens to tokens; arguments as of :func:`parts_of`."""
    import torch

    import wsched

    gate, up, down = weights
    generator = torch.Generator(up.device).manual_seed(seed)
    ids = torch.tensor(chosen, device=up.device)
    routing = wsched.route(ids, len(up))
    shape = len(ids), up.shape[1]
    x = torch.randn(shape, generator=generator, device=up.device, dtype=torch.bfloat16)
    drawn = torch.rand(ids.shape, generator=generator, device=up.device)
    scales = (drawn / drawn.sum(1, keepdim=True)).bfloat16()
    torch.compiler.reset()
    compiled = torch.compile(experts, dynamic=False)
    given = x, routing.rows, routing.ends, routing.places, scales, gate, up, down
    return [
        Part("layer", 6 * ids.numel() * up.shape[1] * up.shape[2], {
            TORCH: lambda: experts(*given),
            COMPILED: lambda: compiled(*given),
            WSCHED: lambda: wsched.moe(x, routing, scales, (gate, up), down),
            ADDED: lambda: wsched.moe(
                x, routing, scales, (gate, up), down, deterministic=False
            ),
        })
    ]  # fmt: skip
