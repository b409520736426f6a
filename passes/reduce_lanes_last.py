"""Let the lanes of a row meet once, behind the loop that reduces its columns.

Requires: unrolled loops that carry a column of registers onto which each trip reduces a chunk.
Guarantees: such a loop carries a group of columns, in which each thread folds its own elements;
behind it the four lanes of a row put theirs together. So a tile takes two shuffles for each row of
a thread, not two for each chunk, and no trip waits for them. Sums are in another order.

After ``chunk_epilogue``, which makes the loops; before ``simplify``, which drops the fill that
nothing reads any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowering.ground.expr import Expr
from lowering.ground.layouts import ACCUMULATOR
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, Frag, FragFill, FragReduce, Stmt
from lowering.kernel.reduction import NEUTRAL
from lowering.kernel.visit import Names, map_bodies, reads_in, walk
from passes.options import LoweringOptions

__all__ = ["reduce_lanes_last"]


def reduce_lanes_last(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Carry groups of columns.

    before::

        none: frag<f32, 64x1> = frag.fill 0.0
        for c in 0 .. 4 carry (so_far: frag<f32, 64x1> = none -> total) unroll {
          ...
          next: frag<f32, 64x1> = frag.reduce sum, so_far, x
          yield next
        }

    after::

        start: frag<f32, 64x8> = frag.fill 0.0
        for c in 0 .. 4 carry (so_far: frag<f32, 64x8> = start -> total_of_lanes) unroll {
          ...
          next: frag<f32, 64x8> = frag.reduce sum, so_far, x
          yield next
        }
        none: frag<f32, 64x1> = frag.fill 0.0
        total: frag<f32, 64x1> = frag.reduce sum, none, total_of_lanes
    """
    if not any(isinstance(s, FragReduce) for s in walk(kernel.body)):
        return kernel
    names = Names(kernel)
    reads = reads_in(kernel.body)

    def body(stmts: Body) -> Body:
        fills = {s.out.name: s for s in stmts if isinstance(s, FragFill)}
        out: list[Stmt] = []
        for stmt in stmts:
            stmt = map_bodies(stmt, body)
            out += _lanes_last(stmt, fills, reads, names) if isinstance(stmt, For) else (stmt,)
        return tuple(out)

    return replace(kernel, body=body(kernel.body))


def _lanes_last(
    loop: For, fills: Mapping[str, FragFill], reads: Mapping[str, int], names: Names
) -> Body:
    """A loop, with fills in front of it and reductions behind it where lanes can meet there."""
    front, behind = list[Stmt](), list[Stmt]()
    for at, carry in enumerate(loop.carries if loop.unroll else ()):
        var, init, result = carry.var, carry.init, carry.result
        found = _reduction(loop, var, loop.yields[at], reads)
        if found is None or not isinstance(init, Frag) or not isinstance(result, Frag):
            continue
        if init.name not in fills or fills[init.name].value != NEUTRAL[found.op]:
            continue
        start, lanes = (_group(names.new(n), result) for n in ("start", f"{result.name}_of_lanes"))
        wide = replace(
            found, out=_group(found.out.name, result), acc=_group(found.acc.name, result)
        )
        none = Frag(names.new("none"), result.type)
        front.append(FragFill(start, NEUTRAL[found.op]))
        behind += [FragFill(none, NEUTRAL[found.op]), FragReduce(result, found.op, none, lanes)]
        carried = replace(carry, var=wide.acc, init=start, result=lanes)
        loop = replace(
            loop,
            body=tuple(wide if s is found else s for s in loop.body),
            carries=(*loop.carries[:at], carried, *loop.carries[at + 1 :]),
            yields=(*loop.yields[:at], wide.out, *loop.yields[at + 1 :]),
        )
    return *front, loop, *behind


def _reduction(
    loop: For, var: object, yielded: Expr | Frag, reads: Mapping[str, int]
) -> FragReduce | None:
    """The reduction of chunks to a column that a loop carries on, if that is all it is read for."""
    for stmt in loop.body:
        if isinstance(stmt, FragReduce) and stmt.out == yielded and stmt.acc == var:
            alone = reads[stmt.acc.name] == reads[stmt.out.name] == 1
            chunks = stmt.acc.type.cols == 1 and stmt.value.type.cols > ACCUMULATOR.columns
            return stmt if alone and chunks else None
    return None


def _group(name: str, like: Frag) -> Frag:
    """A fragment with a group of columns in place of one."""
    return Frag(name, replace(like.type, cols=ACCUMULATOR.columns))
