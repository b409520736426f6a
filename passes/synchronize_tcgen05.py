"""Expand tile-level products in tensor memory into instructions, and loads from it into what is in
flight and a wait.

Requires: ``mma.tensor`` and ``ld.tensor`` inside roles.
Guarantees: a ``tcgen05.mma`` for each instruction's K and each 128 rows, in the order of K, all
issued by the thread that the role has for it; they happen in that order, so nothing waits between
them. Loads that stand next to each other are all in flight before the first one is waited for. A
sum of no steps is zeros, not what the memory held.

Nothing is said of completion here: it belongs to the rings that the products read and fill
(``allocate_mbarriers``), whose steps are committed, not waited for.

In the place of ``synchronize_wgmma``: after ``circular_buffer``, before ``allocate_mbarriers``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import TRUE, ZERO, Const, Expr, Var, minimum
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Carry,
    For,
    Frag,
    FragFill,
    LdTensor,
    MmaTensor,
    Stmt,
    Tcgen05Load,
    Tcgen05Mma,
    Tcgen05WaitLoad,
)
from lowering.kernel.visit import Names, map_bodies
from passes.options import LoweringOptions

__all__ = ["synchronize_tcgen05"]


def synchronize_tcgen05(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """``mma.tensor`` becomes instructions, ``ld.tensor`` a load and a wait.

    before::

        elect {
          wait_full ring, k
          mma.tensor acc[s, 0, 0], A_s[t, 0, 0], B_s[t, 0, 0], 128, 256, 32, 0 < k
        }
        ...
        x: frag<f32, 128x64, ...> = ld.tensor acc[s, 0, 0], steps=n_k

    after::

        elect {
          wait_full ring, k
          tcgen05.mma acc[s, 0, 0], A_s[t, 0, 0], B_s[t, 0, 0], 256, accumulate=0 < k
          tcgen05.mma acc[s, 0, 0], A_s[t, 0, 16], B_s[t, 0, 16], 256
        }
        ...
        x_zero: frag<f32, 128x64, ...> = frag.fill 0.0
        for summed in 0 .. min(n_k, 1) carry (x_before: ... = x_zero -> x) {
          x_flying: frag<f32, 128x64, ..., async> = tcgen05.ld acc[s, 0, 0]
          x_read: frag<f32, 128x64, ...> = tcgen05.wait.ld x_flying
          yield x_read
        }

    Raises:
        UnsupportedError: no instruction multiplies such tiles.
    """
    return replace(kernel, body=_body(kernel, Names(kernel), kernel.body))


def _body(kernel: Kernel, names: Names, body: Body) -> Body:
    out: list[Stmt] = []
    for steps, stmts in groupby(body, lambda s: s.steps if isinstance(s, LdTensor) else None):
        if steps is not None:
            out += _loaded(names, [s for s in stmts if isinstance(s, LdTensor)], steps)
            continue
        for stmt in stmts:
            if isinstance(stmt, MmaTensor):
                out += _products(kernel, stmt)
            else:
                out.append(map_bodies(stmt, lambda inner: _body(kernel, names, inner)))
    return tuple(out)


def _loaded(names: Names, run: list[LdTensor], steps: Expr) -> Body:
    """Loads, and a wait for each of their results; where there may be no ``steps``, in a loop of
    one trip or none, which carries zeros.
    """
    if isinstance(steps, Const) and steps.value > 0:
        return _waited(names, run, [s.out for s in run])
    zeros, before, read = (
        [Frag(names.new(f"{s.out.name}_{what}"), s.out.type) for s in run]
        for what in ("zero", "before", "read")
    )
    carries = (Carry(b, z, s.out) for b, z, s in zip(before, zeros, run, strict=True))
    loop = For(
        Var(names.new("summed")), ZERO, minimum(steps, 1), _waited(names, run, read),
        carries=tuple(carries), yields=tuple(read),
    )  # fmt: skip
    return (*(FragFill(z, 0.0) for z in zeros), loop)


def _waited(names: Names, run: list[LdTensor], outs: list[Frag]) -> Body:
    """All in flight before the first one is waited for."""
    flying = [Frag(names.new(f"{s.out.name}_flying"), s.out.type.flying()) for s in run]
    loads = (Tcgen05Load(f, s.src) for f, s in zip(flying, run, strict=True))
    waits = (Tcgen05WaitLoad(out, f) for f, out in zip(flying, outs, strict=True))
    return (*loads, *waits)


def _products(kernel: Kernel, mma: MmaTensor) -> Iterator[Tcgen05Mma]:
    """The instructions of a tile, all of a piece of K in front of the next."""
    family = kernel.target.mma
    a, b = (kernel.buffer(x.buffer).dtype for x in (mma.a, mma.b))
    acc = kernel.tensor(mma.d.buffer).dtype
    step, problem = family.k(a), family.problem(a, b, acc, mma.cols)
    if problem is not None or mma.rows % family.m or mma.k % step:
        raise UnsupportedError(
            f"a tile of {mma.rows}x{mma.cols}x{mma.k} of {a.value} by {b.value} into {acc.value}",
            f"what {family.name} multiplies: {'; '.join(family.types)}; M a multiple of "
            f"{family.m}, N {family.forms[0].columns}, K a multiple of {step}",
        )
    for k in range(0, mma.k, step):
        for row in range(0, mma.rows, family.m):
            yield Tcgen05Mma(
                mma.d.moved(row, 0),
                mma.a.along(row, k, mma.trans_a),
                mma.b.along(0, k, mma.trans_b),
                mma.cols,
                TRUE if k else mma.accumulate,
                mma.trans_a,
                mma.trans_b,
            )
