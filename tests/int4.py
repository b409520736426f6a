"""Linears of integers of 4 bits as a definition of nvFuser says them: words, shifts, masks."""

from __future__ import annotations

__all__ = ["CAT", "IOTA", "K", "M", "N", "definition", "scaled", "scales"]

M, N, K = 24, 72, 64
_MATRIX = "fd.define_tensor(shape=[{}, {}], contiguity=[True, True], dtype=DataType.{})"

IOTA = (
    "a = fd.ops.broadcast(q, is_broadcast_dim=[False, False, True])",
    "i = fd.ops.iota(length=8, start=0, step=4, dtype=DataType.Int32)",
    "b = fd.ops.broadcast(i, is_broadcast_dim=[True, True, False])",
    "c = fd.ops.bitwise_right_shift(a, b)",
    "e = fd.ops.bitwise_and(c, 15)",
)
"""Shifted by a vector."""

CAT = tuple(
    line
    for n in range(8)
    for line in (
        f"t{n} = fd.ops.bitwise_right_shift(q, {4 * n})",
        f"n{n} = fd.ops.bitwise_and(t{n}, 15)",
        f"b{n} = fd.ops.broadcast(n{n}, is_broadcast_dim=[False, False, True])",
    )
) + (f"e = fd.ops.cat([{', '.join(f'b{n}' for n in range(8))}], dim=2)",)
"""Shifted by one number after the other."""


def definition(
    *lines: str, more: tuple[str, ...] = (), m: int = M, n: int = N, k: int = K
) -> str:  # fmt: skip
    """A definition of ``d`` of ``x``, [M, K], and words ``q``, [N, K / 8], in these lines."""
    body = (
        f"x = {_MATRIX.format(m, k, 'BFloat16')}", f"q = {_MATRIX.format(n, k // 8, 'Int32')}",
        *more, *lines, "fd.add_output(d)",
    )  # fmt: skip
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line}\n" for line in body)


def scales(group: int, n: int = N, k: int = K) -> tuple[str, ...]:
    """The input ``s`` with those of groups."""
    return (f"s = {_MATRIX.format(n, k // group, 'Float')}",)


def scaled(group: int, of: str = "e", n: int = N, k: int = K) -> dict[str, tuple[str, ...]]:
    """Ways to weights ``w`` that are ``of`` times ``s``."""
    view, whole = f"[{n}, {k // group}, {group}]", f"[{n}, {k}]"
    wide = "fd.ops.cast({}, dtype=DataType.Float)"
    narrow = "w = fd.ops.cast({}, dtype=DataType.BFloat16)"
    column = "g = fd.ops.broadcast(s, is_broadcast_dim=[False, False, True])"
    return {
        "by groups": (
            f"r = fd.ops.reshape({of}, new_shape={view})", f"f = {wide.format('r')}", column,
            "h = fd.ops.mul(f, g)", f"j = fd.ops.reshape(h, new_shape={whole})",
            narrow.format("j"),
        ),
        "repeated": (
            f"r = fd.ops.reshape({of}, new_shape={whole})", f"f = {wide.format('r')}", column,
            f"p = fd.ops.expand(g, shape={view})", f"o = fd.ops.reshape(p, new_shape={whole})",
            "h = fd.ops.mul(o, f)", narrow.format("h"),
        ),
        "rounded by groups": (
            f"r = fd.ops.reshape({of}, new_shape={view})", f"f = {wide.format('r')}", column,
            "h = fd.ops.mul(f, g)", "j = fd.ops.cast(h, dtype=DataType.BFloat16)",
            f"w = fd.ops.reshape(j, new_shape={whole})",
        ),
    }  # fmt: skip
