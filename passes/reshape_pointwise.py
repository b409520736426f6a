"""Replace pointwise chains by cheaper ones of the same value.

Requires: pointwise operations on fragments. Guarantees: the same values up to rounding.

One identity so far, the one that gelu is made of: ``1 + tanh(u) = 2 sigmoid(2 u)``. The right side
takes a quarter of the instructions and does not cancel where tanh is near -1.

Anywhere before ``simplify``, which drops what is no longer used.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Frag, FragPointwise, Stmt
from lowering.kernel.visit import Names, map_bodies, reads_in, walk
from passes.options import LoweringOptions

__all__ = ["reshape_pointwise"]


def reshape_pointwise(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Rewrite what matches an identity.

    before::

        t: frag<f32, 64x64> = frag.pointwise tanh, u
        y: frag<f32, 64x64> = frag.pointwise add, t, 1.0

    after::

        twice: frag<f32, 64x64> = frag.pointwise mul, u, 2.0
        half: frag<f32, 64x64> = frag.pointwise sigmoid, twice
        y: frag<f32, 64x64> = frag.pointwise mul, half, 2.0
    """
    if not any(isinstance(s, FragPointwise) and s.op == "tanh" for s in walk(kernel.body)):
        return kernel
    reads = reads_in(kernel.body)
    names = Names(kernel)

    def body(stmts: Body) -> Body:
        tanh = {
            s.out.name: s
            for s in stmts
            if isinstance(s, FragPointwise) and s.op == "tanh" and reads[s.out.name] == 1
        }
        out: list[Stmt] = []
        for stmt in stmts:
            found = _one_plus(stmt, tanh)
            out += _twice_sigmoid(stmt, found, names) if found else (map_bodies(stmt, body),)
        return tuple(out)

    return replace(kernel, body=body(kernel.body))


def _one_plus(stmt: Stmt, tanh: dict[str, FragPointwise]) -> FragPointwise | None:
    """The tanh that ``stmt`` adds one to."""
    if isinstance(stmt, FragPointwise) and stmt.op == "add":
        match stmt.args:
            case (Frag(name), 1.0) | (1.0, Frag(name)):
                return tanh.get(name)
    return None


def _twice_sigmoid(stmt: Stmt, tanh: FragPointwise | None, names: Names) -> Body:
    assert isinstance(stmt, FragPointwise) and tanh is not None
    twice, half = (Frag(names.new(n), tanh.out.type) for n in ("twice", "half"))
    return (
        FragPointwise(twice, "mul", (tanh.args[0], 2.0)),
        FragPointwise(half, "sigmoid", (twice,)),
        replace(stmt, op="mul", args=(half, 2.0)),
    )
