"""Definitions of several linears of one input, whose weights stand side by side in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["side_by_side"]


def side_by_side(
    count: int = 3,
    *,
    widths: Sequence[int] = (),
    rank: int = 2,
    bias: bool = False,
    after: Sequence[str] = (),
    dtype: str = "BFloat16",
) -> str:
    """The text of ``y0 = linear(x, w0)``, ``y1 = linear(x, w1)``, ...

    Args:
        count: number of weights.
        widths: rows of each weight that the definition fixes; by default none.
        rank: number of dimensions of x.
        bias: whether each has a vector that is added.
        after: lines after each linear, of ``y`` and ``b``, the last of which makes ``z``.
        dtype: of all tensors.
    """
    lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]

    def tensor(name: str, shape: list[int]) -> None:
        lines.append(
            f"    {name} = fd.define_tensor(shape={shape}, contiguity={[True] * len(shape)}, "
            f"dtype=DataType.{dtype})"
        )

    tensor("x", [-1] * rank)
    for at in range(count):
        tensor(f"w{at}", [widths[at] if widths else -1, -1])
        if bias:
            tensor(f"b{at}", [-1])
    for at in range(count):
        lines.append(f"    y{at} = fd.ops.linear(x, w{at}{f', b{at}' * bias})")
        for line in after:
            made, text = line.split(" = ")
            used = text.replace("(y", f"(y{at}").replace("(z", f"(z{at}")
            lines.append(f"    {made}{at} = {used}")
    last = "z" if after else "y"
    return "\n".join([*lines, *(f"    fd.add_output({last}{at})" for at in range(count)), ""])
