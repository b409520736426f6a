"""What a kernel does on the machine, in the words of what is dumped (``visits``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import FragStoreGlobal
from lowering.kernel.visit import walk
from lowering.machine import RunResult, run_kernel
from lowering.machine.trace import TraceRow
from tests.legality.machine import NUMPY
from tests.lowering.nest.visits import Event, Group, Piece, Visit, Visits, role_names, visits
from wsched.schedule.plan import Plan
from wsched.schedule.proof.edges import Edge
from wsched.schedule.proof.work import FromQueue

__all__ = ["dealt", "recorded", "run"]

_ROWS = 64
"""Of a fragment that is one wgmma's."""


def run(plan: Plan, kernel: Kernel, sizes: Mapping[str, int], grid: int) -> RunResult:
    """Every event of a launch."""
    fusion = plan.fusion
    tensors = {
        b.tensor: np.zeros(
            [evaluate(d.extent, sizes) for d in fusion.tensor(b.tensor).stored], NUMPY[b.dtype]
        )
        for b in (*fusion.inputs, *fusion.outputs)
    }
    return run_kernel(kernel, tensors, dict(sizes), grid, trace=True, adversary="lazy")


def dealt(
    plan: Plan, kernel: Kernel, ran: RunResult, sizes: Mapping[str, int], grid: int
) -> tuple[tuple[int, ...], ...]:
    """What the queue dealt out to each cluster, in order; nothing where tiles go round."""
    if not isinstance(plan.work, FromQueue):
        return ()
    things = evaluate(plan.work.tail.extent, {**sizes, "%nctaid.x": grid})
    read = [r for r in ran.trace if r.op == "ld.word" and r.role == "load"]  # every entry, in order
    found = []
    for cta in range(0, grid, kernel.cluster):
        mine = [r for r in read if r.cta == cta]
        first = min((r.warp for r in mine), default=0)
        found.append(tuple(r.value for r in mine if r.warp == first and r.value < things))
    return tuple(found)


def recorded(
    plan: Plan, kernel: Kernel, ran: RunResult, sizes: Mapping[str, int], grid: int
) -> list[Visits]:
    """What the machine says of each CTA; what is stored behind the end of a tensor is nothing."""
    ran = _placed(plan, kernel, ran, grid)
    loaded = [e for e in plan.rings if plan.parts[e.producer].loads]
    loads = {e.name: _loads(plan, ran.trace, e) for e in loaded}
    computes: dict[int, dict[Group, dict[tuple[str, str], list[Visit]]]] = {}
    for at, part in enumerate(plan.parts):
        if not part.loads:
            for (cta, group), found in _of_part(plan, kernel, ran, sizes, at).items():
                computes.setdefault(cta, {})[group] = found
    return [
        Visits({name: steps.get(cta, []) for name, steps in loads.items()}, computes.get(cta, {}))
        for cta in range(kernel.ctas(grid, sizes))
    ]


def _placed(plan: Plan, kernel: Kernel, ran: RunResult, grid: int) -> RunResult:
    """The same, where CTAs take numbers, with each at the place of its number; where they have
    shares of the load steps, the last of which is taken first, at that of its share (note 0019).
    """
    size = kernel.cluster
    at = {r.cta: r.cta for r in ran.trace}
    for r in ran.trace:
        if (r.op, r.target) == ("ld.word", "ticket"):
            at[r.cta] = r.value * size + r.cta % size
    if plan.work.ends_within_tiles:
        at = {cta: n - n % grid + grid - size - n % grid + 2 * (n % size) for cta, n in at.items()}
    rows = (replace(r, cta=at[r.cta], ctas=tuple(at[c] for c in r.ctas)) for r in ran.trace)
    return replace(ran, trace=tuple(rows))


def _loads(
    plan: Plan, rows: Iterable[TraceRow], edge: Edge
) -> dict[int, list[tuple[int, list[Piece]]]]:
    """The steps of a ring of each CTA: what lands there, whoever loads it."""
    sources = {plan.fusion.source(name).name for name in edge.relation.loads}
    begun: dict[tuple[int, int], int] = {}
    found: dict[int, dict[tuple[int, int], list[Piece]]] = {}
    for row in rows:
        who = row.cta, row.warp
        if (row.op, row.target) == ("mbarrier.wait", f"{edge.name}_empty"):
            begun[who] = begun.get(who, -1) + 1
        elif row.op == "tma.load" and row.target in sources:
            for cta in row.ctas:
                step = found.setdefault(cta, {}).setdefault((begun[who], row.index), [])
                step.append((row.target, row.at))
    return {
        cta: [(stage, sorted(pieces)) for (_, stage), pieces in sorted(steps.items())]
        for cta, steps in found.items()
    }


def _of_part(
    plan: Plan, kernel: Kernel, ran: RunResult, sizes: Mapping[str, int], at: int
) -> dict[tuple[int, Group], dict[tuple[str, str], list[Visit]]]:
    """What each warpgroup of a part takes and makes."""
    part, role = plan.parts[at], role_names(plan)[at]
    taken = [e.name for e in plan.into(at)]
    fills = [ring.ring for ring in part.rings]
    results = {
        b.tensor: [evaluate(d.extent, sizes) for d in plan.fusion.tensor(b.tensor).stored]
        for b in plan.fusion.outputs
        if b.tensor in part.tensors
    }
    rows = ran.visits(
        *(("mbarrier.wait", f"{name}_full") for name in taken),
        *(("mbarrier.wait", f"{name}_empty") for name in fills),
        *((op, name) for op in ("tma.store", "frag.store_global") for name in results),
    )
    stores = (s for s in walk(kernel.body) if isinstance(s, FragStoreGlobal))
    fragments = {s.dst.map: s.value.type.rows for s in stores}
    events: dict[tuple[int, Group], list[Event]] = {}
    for row in rows:
        if row.role == role:
            mine = events.setdefault((row.cta, (role, row.group)), [])
            if row.op != "mbarrier.wait":
                for at_ in _stored(row, fragments):
                    if all(x < end for x, end in zip(at_, results[row.target], strict=True)):
                        mine.append(("make", row.target, (row.target, at_)))
            elif row.target.endswith("_full"):
                mine.append(("take", row.target[: -len("_full")], (row.index, row.parity)))
            else:
                mine.append(("make", row.target[: -len("_empty")], (row.index, row.parity)))
    return {
        who: {(x, y): visits(mine, x, y) for x in taken for y in [*fills, *results]}
        for who, mine in events.items()
        if mine
    }


def _stored(row: TraceRow, fragments: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
    """Where what is stored begins, of a fragment that threads store each block of rows."""
    *outer, first, col = row.at
    for at in range(first, first + fragments.get(row.target, 1), _ROWS):
        yield (*outer, at, col)
