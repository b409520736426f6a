"""The nest that is dumped, enumerated, and the visits of a kernel on the machine, to compare both.

The dump is a tree of loops. Its iterations, in order and as far as they exist, say which box each
load brings and which part of the product each warpgroup adds up; the machine records which boxes
were loaded, which stage of the ring each wait was for, and what was stored behind the waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lowering.ground.expr import as_expr, evaluate
from lowering.machine import run_kernel
from lowering.machine.trace import TraceRow
from wsched.fusion import ParallelType, Split, TensorView, roots, unmerge_index
from wsched.run.compiled import CompiledFusion
from wsched.schedule.proof.nest import BOX, Leaf, Loop, Node, nest

__all__ = ["Visits", "dumped", "recorded"]

Step = tuple[int, int]
"""Stage and parity of a load step."""

P = ParallelType
_CTAS = {P.BIDx: "%ctaid.x"}
Box = tuple[int, int, int]
"""First row, column and element of K."""


@dataclass(frozen=True)
class Visits:
    """What a CTA goes through.

    Args:
        loads: the box of each load step, in order.
        computes: for each warpgroup its tiles in order: first row and column of its part, and the
            load steps that it adds up.
    """

    loads: list[Box]
    computes: list[list[tuple[int, int, list[Step]]]]


def dumped(compiled: CompiledFusion, sizes: Mapping[str, int], grid: int) -> list[Visits]:
    """What the dump says of each CTA."""
    return [
        _Cta(compiled, {**sizes, "%nctaid.x": grid, "%ctaid.x": c}).visits() for c in range(grid)
    ]


class _Cta:
    def __init__(self, compiled: CompiledFusion, env: dict[str, int]) -> None:
        self.plan, self.env = compiled.plan, env
        self.fusion = compiled.fusion
        self.mma = self.fusion.tensor(self.plan.operands.compute)

    def visits(self) -> Visits:
        """Of this CTA."""
        loads = [self._loaded(name) for name in self.plan.operands.loads]
        steps = [(a[0], b[1], a[2]) for a, b in zip(*loads, strict=True)]
        assert [a[2] for a in loads[0]] == [b[2] for b in loads[1]]
        stages = self.plan.operands.buffer.stages
        shape = self._box()
        roles = [d for d in self.mma.loop if d.parallel in (P.TIDy, P.TIDz)]
        order = sorted(roles, key=lambda d: d.parallel is P.TIDy)  # TIDy is the fastest
        computes = []
        for role in np.ndindex(*(evaluate(d.extent, self.env) for d in order)):
            fixed = {d.id: int(i) for d, i in zip(order, role, strict=True)}
            tiles: list[tuple[int, int, list[Step]]] = []
            for row, col, k in self._iterations(self.mma.name, fixed):
                at = row - row % shape[0], col - col % shape[1], k
                if at not in steps:
                    continue  # behind the last slice of K, where only compute splits it
                if not tiles or tiles[-1][:2] != (row, col):
                    tiles.append((row, col, []))
                m = steps.index(at)
                tiles[-1][2].append((m % stages, m // stages % 2))
            computes.append(tiles)
        return Visits(steps, computes)

    def _box(self) -> tuple[int, int]:
        """Rows and columns of a tile, the boxes of both operands."""
        sizes = [self._extents(self.fusion.tensor(name)) for name in self.plan.operands.loads]
        return sizes[0][0], sizes[1][1]

    def _extents(self, t: TensorView) -> list[int]:
        """Size of the box of a load along each dimension."""
        inside = {d.id for d in t.loop[t.slice_position :]}
        first, last = ({d.id: 0 for d in t.loop} for _ in range(2))
        last |= {d.id: evaluate(d.extent, self.env) - 1 for d in t.loop if d.id in inside}
        low, high = (self._logical(t, at)[0] for at in (first, last))
        return [b - a + 1 for a, b in zip(low, high, strict=True)]

    def _loaded(self, name: str) -> list[Box]:
        return list(self._iterations(name, {}))

    def _iterations(self, name: str, fixed: Mapping[int, int]) -> Iterator[Box]:
        """Existing executions of a tensor's leaf, with the box and what is in a step at 0."""
        part = next(p for p in self.plan.parts if name in p.tensors)
        for at in self._walk(nest(self.fusion, self.plan.graph, part.tensors), name, fixed):
            t = self.fusion.tensor(name)
            index, exists = self._logical(t, at | {d.id: 0 for d in t.loop if d.parallel in BOX})
            if exists:
                yield index[0], index[1], index[2]

    def _walk(
        self, nodes: tuple[Node, ...], name: str, fixed: Mapping[int, int]
    ) -> Iterator[dict[int, int]]:
        """Indices of a tensor's loops at each execution of its leaf, as the tree is executed."""
        for node in nodes:
            if isinstance(node, Leaf):
                if node.tensor.name == name:
                    yield {}
                continue
            for i in self._trips(node, name, fixed):
                for rest in self._walk(node.body, name, fixed):
                    yield {self._own(node, name): i} | rest

    def _own(self, node: Loop, name: str) -> int:
        """The loop of a tensor that a node is."""
        group = self.plan.graph.group(node.domain)
        loops = self.fusion.tensor(name).loop
        return next((d.id for d in loops if self.plan.graph.group(d) == group), node.domain.id)

    def _trips(self, node: Loop, name: str, fixed: Mapping[int, int]) -> range:
        d = node.domain
        own = self._own(node, name)
        if d.parallel in _CTAS:
            at = self.env[_CTAS[d.parallel]]
        elif own in fixed:
            at = fixed[own]
        elif self._repeats(own):
            at = 0
        else:
            return range(evaluate(d.extent, self.env))
        return range(at, at + 1)

    def _repeats(self, loop: int) -> bool:
        """Whether a loop of the product only repeats an instruction within a load step."""
        steps = {s.domain.id for s in self.plan.operands.steps}
        inside = [d for d in self.mma.loop if d.parallel is P.Serial and d.id not in steps]
        return loop in {d.id for d in inside}

    def _logical(self, t: TensorView, at: Mapping[int, int]) -> tuple[list[int], bool]:
        """Index of each logical dimension, and whether it and all it was made from exist."""
        known = dict(at)
        exists = True
        for s in reversed(t.transforms):
            if isinstance(s, Split):
                inner = evaluate(s.inner.extent, self.env)
                known[s.input.id] = known[s.outer.id] * inner + known[s.inner.id]
                # Behind the end of a single dimension both sides run on, over zeros.
                if len(roots(t, s.input)) > 1:
                    exists &= known[s.input.id] < evaluate(s.input.extent, self.env)
            else:
                pair = unmerge_index(s, as_expr(known[s.output.id]))
                for d, e in zip(s.inputs, pair, strict=True):
                    known[d.id] = evaluate(e, self.env)
        return [known[d.id] for d in t.logical], exists


def recorded(compiled: CompiledFusion, sizes: Mapping[str, int], grid: int) -> list[Visits]:
    """What the machine says of each CTA."""
    kernel, fusion = compiled.kernel, compiled.fusion
    tensors = {
        t.name: np.zeros([evaluate(n, sizes) for n in t.sizes], np.uint16)
        for t in kernel.tensor_maps
    }
    trace = run_kernel(kernel, tensors, dict(sizes), grid, trace=True, adversary="lazy")
    a, b = (fusion.source(t).name for t in compiled.plan.operands.loads)
    result = fusion.outputs[0].tensor
    full, empty = "ring_full", "ring_empty"
    rows = trace.visits(
        ("mbarrier.wait", full), ("mbarrier.wait", empty), ("tma.load", a), ("tma.load", b),
        ("tma.store", result),
    )  # fmt: skip
    groups = compiled.plan.warpgroups.count
    found = []
    for cta in range(grid):
        mine = [r for r in rows if r.cta == cta]
        found.append(Visits(
            list(_loads([r for r in mine if r.target in (empty, a, b)], empty, (a, b))),
            [list(_tiles([r for r in mine if r.role == "compute" and r.group == g
                          and r.target in (full, result)])) for g in range(groups)],
        ))  # fmt: skip
    return found


def _loads(rows: list[TraceRow], empty: str, operands: tuple[str, str]) -> Iterator[Box]:
    """The first box of each operand in each load step."""
    first: dict[str, TraceRow] = {}
    for row in [*rows, None]:
        if row is None or row.target == empty:
            if first:
                a, b = (first[name] for name in operands)
                assert a.col == b.col
                yield a.row, b.row, a.col
            first = {}
        else:
            first.setdefault(row.target, row)


def _tiles(rows: list[TraceRow]) -> Iterator[tuple[int, int, list[Step]]]:
    """The steps that were waited for in front of each first store."""
    steps: list[Step] = []
    for row in rows:
        if row.op == "mbarrier.wait":
            steps.append((row.index, row.parity))
        elif steps:
            yield row.row, row.col, steps
            steps = []
