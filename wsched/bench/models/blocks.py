"""The modules themselves, each as its model computes it."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

__all__ = [
    "Attention", "AttentionByHand", "Experts", "GatedMlp", "GeluMlp", "GptBlock", "LlamaBlock",
    "LoraLinear",
]  # fmt: skip

_THETA = 500000.0
"""Of Llama 3's rotary embedding."""

_ALPHA = 32.0
"""Of LoRA; its part is scaled by alpha over the rank."""


class GeluMlp(nn.Module):  # type: ignore[misc]
    """Two layers with biases, gelu by tanh between them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., width] to the same."""
        hidden = functional.gelu(self.up(x), approximate="tanh")
        y: torch.Tensor = self.down(hidden)
        return y


class GatedMlp(nn.Module):  # type: ignore[misc]
    """silu(x g) times x u, and a layer behind it; no biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., width] to the same."""
        y: torch.Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return y


class Attention(nn.Module):  # type: ignore[misc]
    """GPT-2's: one layer for queries, keys and values; causal."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, tokens, width] to the same."""
        batch, tokens, width = x.shape
        shape = batch, tokens, self.heads, width // self.heads
        q, k, v = (t.view(shape).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        y = self.attend(q, k, v)
        z: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return z

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """[batch, heads, tokens, size] each, and the result."""
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class AttentionByHand(Attention):
    """Two matmuls, and a softmax between them."""

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """[batch, heads, tokens, size] each, and the result."""
        tokens, size = q.shape[-2:]
        scores = (q @ k.transpose(-2, -1)).float() * size**-0.5
        behind = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
        weights = scores.masked_fill(behind, float("-inf")).softmax(-1)
        return weights.to(q.dtype) @ v


class GptBlock(nn.Module):  # type: ignore[misc]
    """LayerNorm, attention, LayerNorm and MLP, with residuals."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = Attention(width, heads), GeluMlp(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, tokens, width] to the same."""
        x = x + self.attention(self.before(x))
        y: torch.Tensor = x + self.mlp(self.between(x))
        return y


class RmsNorm(nn.Module):  # type: ignore[misc]
    """In fp32, rounded before the factor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., width] to the same."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return wide.to(x.dtype) * self.weight


class LlamaBlock(nn.Module):  # type: ignore[misc]
    """RMSNorm, attention with rotary embeddings and groups of heads, RMSNorm, gated MLP.

    Args:
        width: columns of x.
        heads: of queries.
        groups: heads of keys and values.
        hidden: of the MLP.
    """

    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.before, self.between = RmsNorm(width), RmsNorm(width)
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.mlp = GatedMlp(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[batch, tokens, width] to the same."""
        x = x + self._attention(self.before(x))
        y: torch.Tensor = x + self.mlp(self.between(x))
        return y

    def _attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q = self.q(x).view(batch, tokens, self.heads, self.size).transpose(1, 2)
        k, v = (
            layer(x).view(batch, tokens, self.groups, self.size).transpose(1, 2)
            for layer in (self.k, self.v)
        )
        place = torch.arange(tokens, device=x.device, dtype=torch.float32)
        step = torch.arange(0, self.size, 2, device=x.device, dtype=torch.float32) / self.size
        angle = place[:, None] * (_THETA**-step)[None, :]
        cos, sin = (torch.cat((t, t), dim=-1).to(x.dtype) for t in (angle.cos(), angle.sin()))
        q, k = (t * cos + _halves(t) * sin for t in (q, k))
        each = self.heads // self.groups
        k, v = (
            t[:, :, None].expand(batch, self.groups, each, tokens, self.size).reshape(q.shape)
            for t in (k, v)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        z: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return z


def _halves(x: torch.Tensor) -> torch.Tensor:
    """The second half negative in front of the first one."""
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


class LoraLinear(nn.Module):  # type: ignore[misc]
    """A layer, and beside it one of a small rank."""

    def __init__(self, width: int, columns: int, rank: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, columns, bias=False)
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, columns, bias=False)
        self.scale = _ALPHA / rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., width] to [.., columns]."""
        y: torch.Tensor = self.layer(x) + self.up(self.down(x)) * self.scale
        return y


class Experts(nn.Module):  # type: ignore[misc]
    """A gate, and gated MLPs one after the other, each for all tokens with its weight.

    Args:
        width: columns of x.
        hidden: of an expert.
        experts: how many.
        best: how many of them have a weight for a token.
    """

    def __init__(self, width: int, hidden: int, experts: int, best: int) -> None:
        super().__init__()
        self.gate, self.best = nn.Linear(width, experts, bias=False), best
        self.experts = nn.ModuleList(GatedMlp(width, hidden) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[.., width] to the same."""
        found, chosen = torch.topk(self.gate(x).float().softmax(-1), self.best, dim=-1)
        found = (found / found.sum(-1, keepdim=True)).to(x.dtype)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            weight = torch.where(chosen == number, found, 0.0).sum(-1, keepdim=True)
            y = y + expert(x) * weight.to(x.dtype)
        return y
