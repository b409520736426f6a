"""Linears whose weights, or rows, are computed: definitions, inputs and what they come to."""

from __future__ import annotations

from typing import Any

from wsched.fusion import Fusion
from wsched.importer import build_fusion, record_text
from wsched.schedule.matmul.params import GemmTile, MatmulParams
from wsched.schedule.matmul.tiles import TileChoice, tile_choice

__all__ = ["by_rows", "cast", "drawn", "fusion", "tile", "weights", "words"]

_MATRIX = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType"


def weights(given: str, *lines: str, more: tuple[str, ...] = (), wide: str = "BFloat16") -> str:
    """A linear of ``x`` and ``w``, which these lines compute of ``q``."""
    body = (
        f"x = {_MATRIX}.{wide})", f"q = {_MATRIX}.{given})", *more, *lines,
        "d = fd.ops.linear(x, w)", "fd.add_output(d)",
    )  # fmt: skip
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line}\n" for line in body)


def cast(given: str, wide: str = "BFloat16") -> str:
    """Weights that are only widened, or rounded."""
    return weights(given, f"w = fd.ops.cast(q, dtype=DataType.{wide})", wide=wide)


def by_rows(given: str) -> str:
    """Weights times a number for each of their rows."""
    return weights(
        given,
        "p = fd.ops.cast(q, dtype=DataType.Float)",
        "b = fd.ops.broadcast(v, is_broadcast_dim=[False, True])",
        "s = fd.ops.mul(p, b)",
        "w = fd.ops.cast(s, dtype=DataType.BFloat16)",
        more=("v = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)",),
    )


def fusion(text: str) -> Fusion:
    """As the built-in scheduler takes it."""
    return build_fusion(record_text(text))


def tile(
    f: Fusion, m: int, n: int, k: int = 64, groups: int | None = None, **params: Any
) -> TileChoice:
    """A tile of the transposed product, whose rows are those of the weights."""
    base = MatmulParams(**{"exchange_operands": True, **params})
    return tile_choice(f, base, GemmTile(m, n, k), m // 64 if groups is None else groups, False)


def drawn(given: str, rows: int, columns: int, seed: int = 0) -> Any:
    """A matrix of a type of torch: all values of integers, numbers around 0 of others."""
    import torch

    generator, kind = torch.Generator().manual_seed(seed), getattr(torch, given)
    if kind.is_floating_point:
        return torch.randn(rows, columns, generator=generator).to(kind)
    info = torch.iinfo(kind)
    return torch.randint(info.min, info.max + 1, (rows, columns), dtype=kind, generator=generator)


def words(numbers: Any) -> Any:
    """Integers from 0 to 15, eight in a word, the first one in its lowest bits."""
    import torch

    packed = sum(numbers[:, i::8].long() << 4 * i for i in range(8))
    return packed.to(torch.int32)
