"""What all clusters of a run have in common: arguments, counters, slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.expr import Expr
from lowering.kernel.kernel import Kernel
from lowering.kernel.tensors import TensorMap
from lowering.machine import global_memory, stamp
from lowering.machine import watch as watching
from lowering.machine.fragment import Array
from lowering.machine.scalars import Env, compile_scalar
from lowering.machine.scheduler import Scheduler
from lowering.machine.state import Cluster
from lowering.machine.tensor_map import Descriptor
from lowering.machine.tensors import MappedArray
from lowering.machine.trace import TraceRow
from lowering.machine.workspace import Counters, Slots, counters_of

__all__ = ["Launch", "described"]


@dataclass(frozen=True, slots=True)
class Launch:
    """What all clusters of a run have in common; the fields are arguments of ``Cluster``."""

    kernel: Kernel
    params: Mapping[str, int]
    grid: int
    arguments: Mapping[str, Descriptor]
    plain: Mapping[str, Array]
    counters: Mapping[str, Counters]
    slots: Mapping[str, Slots]
    rows: list[TraceRow] | None
    races: bool

    @staticmethod
    def of(
        kernel: Kernel, tensors: Mapping[str, Array], params: Mapping[str, int], grid: int,
        ctas: int, trace: bool, races: bool,
    ) -> Launch:  # fmt: skip
        """A launch of so many CTAs, ``grid`` of them along x."""
        return Launch(
            kernel, params, grid, _arguments(kernel, tensors, params),
            _globals(kernel, tensors, params, ctas), _counters(kernel, tensors, params, grid),
            _slots(kernel, params, grid), [] if trace else None, races,
        )  # fmt: skip

    def clusters(self, first: Sequence[int], scheduler: Scheduler) -> list[Cluster]:
        """The clusters whose first CTAs these are, as they are when they start."""
        return [
            Cluster(
                self.kernel, self.arguments, self.params, self.grid, cta, scheduler, self.rows,
                self.plain, self.counters, self.slots, self.races,
            )
            for cta in first
        ]  # fmt: skip


def described(
    kernel: Kernel, params: Mapping[str, int]
) -> Iterator[tuple[TensorMap, str, tuple[Expr, ...]]]:
    """Map, name of the argument and its sizes of each descriptor."""
    env = Env(params)
    for m in kernel.tensor_maps:
        count = 1 if m.count is None else compile_scalar(m.count)(env)
        yield from ((m, name, sizes) for name, sizes in m.arguments(count))


def _arguments(
    kernel: Kernel, tensors: Mapping[str, Array], params: Mapping[str, int]
) -> dict[str, Descriptor]:
    env = Env(params)
    return {
        name: Descriptor.of(name, MappedArray(m, tensors[name], _extents(sizes, env)))
        for m, name, sizes in described(kernel, params)
    }


def _globals(
    kernel: Kernel, tensors: Mapping[str, Array], params: Mapping[str, int], ctas: int
) -> dict[str, Array]:
    env = Env(params)
    plain = {
        e.name: global_memory.global_array(e, tensors[e.name], _extents(e.sizes, env))
        for g in kernel.globals
        for e in g.entries
    }
    traces = {t.name: stamp.trace_array(kernel, t, tensors[t.name], ctas) for t in kernel.traces}
    if kernel.watch is not None:
        name = kernel.watch.name
        plain[name] = watching.watch_array(kernel, kernel.watch, tensors[name], ctas)
    return plain | traces


def _extents(sizes: tuple[Expr, ...], env: Env) -> tuple[int, ...]:
    return tuple(compile_scalar(size)(env) for size in sizes)


def _counters(
    kernel: Kernel, tensors: Mapping[str, Array], params: Mapping[str, int], grid: int
) -> dict[str, Counters]:
    env = Env({**params, "ctas": grid})
    return {
        c.name: counters_of(c, compile_scalar(c.count)(env), tensors.get(c.name))
        for c in kernel.counters
    }


def _slots(kernel: Kernel, params: Mapping[str, int], grid: int) -> dict[str, Slots]:
    env = Env({**params, "ctas": grid})
    return {w.name: Slots(w.name, compile_scalar(w.count)(env)) for w in kernel.workspaces}
