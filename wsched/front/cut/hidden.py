"""Statistics that take no time of their own, since they run beside the product behind them.

What :mod:`wsched.run.alongside` decides of kernels is decided here of segments, so that a cut costs
what will run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from lowering.ground.errors import ScheduleError
from wsched.choose.price import price
from wsched.front.cut.predict import Planned, SegmentsCost, Sizes
from wsched.front.cut.segments import Segment
from wsched.front.cut.summaries import is_finish
from wsched.front.known import import_fusion
from wsched.fusion.summary import Summary, staged
from wsched.importer import Definition
from wsched.importer.summary import import_summary
from wsched.program.program import Buffer, CallStep, Step, SummaryStep
from wsched.run.alongside import Front, has_room, leaving_registers, read_us
from wsched.schedule.matmul.limits import require_legal, settled
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["hidden_us", "statistics"]


def statistics(segments: Sequence[Segment]) -> Iterator[tuple[Segment, Segment]]:
    """Statistics of rows, each with the product beside which they run if that has room.

    Args:
        segments: of a cut.
    """
    if not any(s.summary for s in segments):
        return
    steps = list[Step]()
    for at in sorted(range(len(segments)), key=lambda n: not segments[n].kept):
        segment = segments[at]
        reads, writes = (tuple(map(Buffer, n)) for n in (segment.inputs, segment.outputs))
        if segment.matmul:
            fusion = import_fusion(segment.definition)
            given = zip(fusion.inputs, reads, strict=True)
            front = Front.of(steps, reads, [b for i, b in given if i.tensor in fusion.operands])
            if front is not None:
                yield segments[int(front.summary.kernel)], segment
        if is_finish(segment):  # of several kernels, which are not known yet
            steps.clear()
        elif segment.summary and len(found := _summary(segment.definition)) == 1:
            steps.append(SummaryStep(str(at), found[0], reads, writes))
        else:
            views = bool(segment.views)
            steps.append(CallStep("", reads, writes, views, views, stable=views))


@lru_cache(maxsize=64)
def _summary(definition: Definition) -> tuple[Summary, ...]:
    """What kernels of a summary compute."""
    return staged(import_summary(definition))


def _is_beside(planned: Planned, params: MatmulParams, read: int) -> bool:
    """Whether a kernel runs beside statistics of so many bytes."""
    fusion, problem, target = planned.fusion, planned.problem, planned.problem.target
    params = settled(fusion, params, target)
    if not has_room(params, target, (problem.m, problem.n, problem.k), read):
        return False
    for leaving in leaving_registers(params, target):
        with suppress(ScheduleError):
            require_legal(fusion, leaving, target)
            return True
    return False


def hidden_us(
    summary: Segment, product: Segment, call: Sizes, costs: tuple[SegmentsCost, SegmentsCost]
) -> float:
    """Microseconds that a summary and a product take less than one behind the other: both are over
    when the one is that takes longer, and statistics take longer beside a product than alone.

    Args:
        summary: of :func:`statistics`.
        product: of the same pair.
        call: what is asked for.
        costs: of both.
    """
    planned, read = call.planned(product), call.bytes(summary.inputs)
    problem = planned.problem
    if planned.copied or problem.reductions.types:
        return 0.0
    if not _is_beside(planned, price(problem).params, read):
        return 0.0
    alone, behind = (c.gpu_us for c in costs)
    return alone + behind - max(read_us(read), behind)
