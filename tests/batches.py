"""Definitions of batched matmuls, and operands for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["batched", "integers", "product"]

_ORDERS = {"k": "[2, 1, 0]", "mn": "[2, 0, 1]"}


def batched(
    a: str = "k",
    b: str = "k",
    *,
    dtype: str = "BFloat16",
    ranks: tuple[int, int] = (3, 3),
    inputs: Mapping[str, tuple[list[int], str]] | None = None,
    epilogue: Sequence[str] = (),
) -> str:
    """The text of ``d = matmul(a, b)``, a [B, M, K] and b [B, K, N].

    Args:
        a: which dimension of ``a`` is contiguous: ``k``, or ``mn`` for M.
        b: the same of ``b``, ``mn`` for N.
        dtype: type of both.
        ranks: 2 for an operand without a batch dimension.
        inputs: shape and type of what the epilogue reads, by name.
        epilogue: lines after the matmul, the last of which makes ``d``.
    """
    lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
    for name, major, rank, last in (("a", a, ranks[0], "k"), ("b", b, ranks[1], "mn")):
        order = _ORDERS["k" if major == last else "mn"]
        order = order if rank == 3 else order.replace("2, ", "")
        lines.append(
            f"    {name} = fd.define_tensor(shape={[-1] * rank}, contiguity={[True] * rank}, "
            f"dtype=DataType.{dtype}, stride_order={order})"
        )
    for name, (shape, kind) in (inputs or {}).items():
        lines.append(
            f"    {name} = fd.define_tensor(shape={shape}, contiguity={[True] * len(shape)}, "
            f"dtype=DataType.{kind})"
        )
    lines.append("    d = fd.ops.matmul(a, b)")
    lines += [f"    {line}" for line in epilogue]
    return "\n".join([*lines, "    fd.add_output(d)", ""])


def integers(shape: Sequence[int], major: str, dtype: Any, device: str = "cpu") -> Any:
    """Integers in [-2, 2], the last dimension contiguous or, for ``rows``, the one before it."""
    import torch

    sizes = [*shape[:-2], shape[-1], shape[-2]] if major == "rows" else list(shape)
    x = torch.randint(-2, 3, sizes, device=device).to(dtype)
    return x.mT if major == "rows" else x


def product(a: Any, b: Any) -> Any:
    """The product in fp64, rounded to the operands' type."""
    return (a.double() @ b.double()).to(a.dtype)
