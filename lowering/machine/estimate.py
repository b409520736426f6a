"""How long a run would take: the scalar part of one CTA, with a cost for every other statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import prod

import numpy as np

from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Frag, Stmt
from lowering.kernel.visit import bound, walk
from lowering.machine.control import elect, for_, if_, let, on_warp, roles
from lowering.machine.errors import FaultError
from lowering.machine.program import Handler, Program, Run, execute
from lowering.machine.scheduler import Scheduler
from lowering.machine.state import Cluster, Registers, Warp

__all__ = ["estimate_seconds"]

SECONDS_PER_STATEMENT = 1.5e-5
SECONDS_PER_ELEMENT = 1e-8
"""Elements of a wgmma's accumulators and operands, of a box or of a fragment; both measured on a
2-core x86 machine and rounded up."""


SAMPLES = 4
"""Iterations of a loop that are walked at most: the first one, and those that stand for all others,
so that a walk takes no longer for larger problems."""


class _Meter:
    """Adds up the cost of what a warp executes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def turns(self, of: range) -> Iterator[int]:
        """The iterations to walk of a loop; what a few of them cost counts for all."""
        if len(of) <= SAMPLES:
            yield from of
            return
        yield of[0]
        before, few = self.seconds, (of[1], of[len(of) // 2], of[-1])
        yield from few  # not beyond a break
        self.seconds = before + (self.seconds - before) * (len(of) - 1) / len(few)

    def handler(self, stmt: Stmt, program: Program) -> Run:
        """A run function that only counts; results are fragments without elements."""
        cost = SECONDS_PER_STATEMENT + SECONDS_PER_ELEMENT * _elements(stmt, program.kernel)
        found = bound(stmt)

        def run(warp: Warp) -> None:
            self.seconds += cost
            for out in found:
                if isinstance(out, Frag):
                    warp.define(out, Registers(np.zeros(0, np.float32), 0))
                else:
                    warp.env[out.name] = 0

        return run


def _elements(stmt: Stmt, kernel: Kernel) -> int:
    """Elements that a warp's part of the statement touches."""
    match stmt:
        case nodes.Wgmma(acc=acc, width=cols):
            return acc.type.rows * cols // 4 + 16 * (acc.type.rows + cols)
        case nodes.Tcgen05Mma(cols=cols):
            return kernel.target.mma.m * (cols + 16) + 16 * cols
        case nodes.TmaLoad(src=ref) | nodes.TmaStore(dst=ref):
            return prod(kernel.tensor_map(ref.map).box)
        case (
            nodes.StMatrix(value=f) | nodes.StShared(value=f) | nodes.FragCast(value=f)
            | nodes.StAsync(value=f)
            | nodes.FragStoreGlobal(value=f) | nodes.FragRedGlobal(value=f)
            | nodes.FragShuffle(value=f) | nodes.FragRandom(out=f)
            | nodes.FragReduce(value=f) | nodes.FragReduceToShared(value=f)
        ):  # fmt: skip
            return f.type.rows * f.type.cols // 4
        case (
            nodes.FragAddPartial(out=f) | nodes.FragStorePartial(value=f)
            | nodes.FragPointwise(out=f) | nodes.FragLoadGlobal(out=f) | nodes.LdMatrix(out=f)
            | nodes.Tcgen05Load(out=f) | nodes.LdShared(out=f) | nodes.FragUpdate(out=f)
        ):  # fmt: skip
            return f.type.rows * f.type.cols // 4
    return 0


_CONTROL: dict[type[Stmt], Handler] = {
    nodes.Let: let,
    nodes.If: if_,
    nodes.OnWarp: on_warp,
    nodes.Elect: elect,
    nodes.Roles: roles,
}


def estimate_seconds(kernel: Kernel, params: Mapping[str, int], grid: int) -> float:
    """Seconds that ``run_kernel`` needs on a CPU, within a factor of about three.

    Walks CTA 0, which has the most tiles in every persistent schedule, some iterations of each
    loop, and takes the first warp of each warpgroup for all four. Where tiles are dealt out at run
    time, CTA 0 is taken to get all of them, since what it reads from its queue is always 0.
    """
    dealt = any(isinstance(s, nodes.Break) for s in walk(kernel.body))
    alike = 4 * (kernel.cluster if dealt else kernel.ctas(grid, params))
    meter = _Meter()
    leaves = {
        cls: meter.handler for cls in vars(nodes).values()
        if isinstance(cls, type) and issubclass(cls, Stmt)
    }  # fmt: skip
    loops: dict[type[Stmt], Handler] = {nodes.For: partial(for_, turns=meter.turns)}
    program = Program(kernel, leaves | _CONTROL | loops)
    cluster = Cluster(kernel, {}, params, grid, 0, Scheduler("eager", "", 1), None)
    with suppress(FaultError):  # a faulty kernel is told so by the run
        for warp in cluster.warps[: kernel.threads // 32 : 4]:
            for _ in execute(warp, program.code):
                pass
    return alike * meter.seconds
