"""The primitive ``split``."""

from __future__ import annotations

from lowering.ground.expr import Expr, ExprLike, as_expr
from lowering.ground.frozen import replaced
from wsched.fusion import Fusion, IterDomain, PrimitiveCall, Split, TensorView, split_extents
from wsched.schedule.primitives.checks import Reasons, axis_reasons, find, refuse, rewrite_reasons
from wsched.schedule.primitives.factor import check_factor

__all__ = ["check_split", "split"]


def split(
    fusion: Fusion,
    tv: str,
    axis: int,
    factor: ExprLike,
    *,
    inner_split: bool = True,
    labels: tuple[str, str] | None = None,
    dynamic: bool = False,
) -> Fusion:
    """Replace one loop by two.

    Args:
        fusion: the fusion.
        tv: name of the tensor.
        axis: position of the loop.
        factor: extent of the inner loop: a number, or what is positive in every launch, made of the
            extents of the definition, the number of CTAs and what is assumed of values that only
            the device knows; rule ``factor`` refuses others.
        inner_split: false makes ``factor`` the extent of the outer loop.
        labels: words for the two new loops; by default the old one's with ``o`` and ``i``.
        dynamic: deal the indices out to the inner loop's CTAs at run time, in place of in turn.

    Legal if the loop is serial and not shared with a consumer, the tensor is not circular-buffered
    and the factor is one. The extent that is not asked for is rounded up.

    before: ``for M in 0 .. M``
    after ``split(fusion, "T3", 0, 128)``:
    ``for Mo in 0 .. ceildiv(M, 128)``, ``for Mi in 0 .. 128``
    """
    options: tuple[tuple[str, object], ...] = ()
    options += () if inner_split else (("inner_split", False),)
    options += () if labels is None else (("labels", labels),)
    options += (("dynamic", True),) if dynamic else ()
    call = PrimitiveCall("split", (tv, axis, factor), options)
    t = find(fusion, tv, call)
    refuse("split", call, check_split(t, axis), t)
    check_factor(fusion, call, t, as_expr(factor))
    new = _split(t, axis, fusion.next_id, as_expr(factor), inner_split, labels, dynamic)
    return fusion.updated((new,), next_id=fusion.next_id + 2, call=call)


def check_split(t: TensorView, axis: int) -> Reasons:
    """All reasons why ``split`` would be illegal with any factor."""
    return axis_reasons(t, axis) or rewrite_reasons(t, axis)


def _split(
    t: TensorView,
    axis: int,
    n: int,
    factor: Expr,
    inner_split: bool,
    labels: tuple[str, str] | None,
    dynamic: bool,
) -> TensorView:
    """The tensor with two new loops, of ids from ``n`` on."""
    old = t.loop[axis]
    extents = split_extents(old.extent, factor, inner_split)
    stem = f"({old.label})" if "·" in old.label else old.label
    outer, inner = (
        IterDomain(n + p, extent, label, old.iter_type)
        for p, (extent, label) in enumerate(
            zip(extents, labels or (f"{stem}o", f"{stem}i"), strict=True)
        )
    )
    step = Split(old, outer, inner, inner_split, dynamic)
    loop = (*t.loop[:axis], outer, inner, *t.loop[axis + 1 :])
    return replaced(t, loop=loop, transforms=(*t.transforms, step))
