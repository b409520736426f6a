"""A schedule in the making: the primitives as methods, the fusion as state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any

from lowering.ground.errors import ScheduleError
from lowering.ground.expr import Expr, ExprLike
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import (
    CircularBufferType,
    DataType,
    Fusion,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    Pipelined,
    PrimitiveCall,
    TensorView,
    WarpSpecialized,
    is_long,
    the_matmul,
)
from wsched.schedule.axes import Axis, new_order, position, require, require_all
from wsched.schedule.configure import configured, printing
from wsched.schedule.graph import TransformGraph
from wsched.schedule.options import DebugPrint, KernelOptions
from wsched.schedule.plan import Plan, make_plan
from wsched.schedule.primitives.accumulate_in import accumulate_in
from wsched.schedule.primitives.assume import assume
from wsched.schedule.primitives.cache_after import cache_after
from wsched.schedule.primitives.cache_before import cache_before
from wsched.schedule.primitives.checks import find
from wsched.schedule.primitives.circular_buffer import circular_buffer
from wsched.schedule.primitives.delay_groups import delay_groups
from wsched.schedule.primitives.inline_at import inline_at
from wsched.schedule.primitives.merge import merge
from wsched.schedule.primitives.parallelize import parallelize
from wsched.schedule.primitives.reorder import reorder
from wsched.schedule.primitives.rfactor import rfactor
from wsched.schedule.primitives.set_allocation_domain import set_allocation_domain
from wsched.schedule.primitives.set_memory_type import set_memory_type
from wsched.schedule.primitives.share_groups import share_groups
from wsched.schedule.primitives.split import split

__all__ = ["Schedule"]


class Schedule:
    """A fusion and what has been done to it, call by call.

    Tensors are named by strings, ``T0`` and so on; :attr:`a`, :attr:`b`, :attr:`acc`,
    :attr:`inputs` and :attr:`outputs` give the names by role. A loop is named by its position from
    the outside or by its label, where only one loop of the tensor has that.

    Fusions are immutable: a call that is refused (``ScheduleError``) leaves the schedule as it was,
    and :meth:`undo` goes back.

    Args:
        fusion: the fusion to schedule.
        options: what the kernel is told beside its loops.
        target: the GPU that the kernel is for.
    """

    def __init__(
        self, fusion: Fusion, options: KernelOptions | None = None, target: Target = DEFAULT
    ) -> None:
        self.target = target
        self._states = [(fusion, options or KernelOptions())]
        self._calls: list[PrimitiveCall] = []
        self._plan: Plan | None = None
        self._graph: TransformGraph | None = None
        self._described: Fusion | None = None

    @property
    def fusion(self) -> Fusion:
        """The fusion as it is now."""
        return self._states[-1][0]

    @property
    def options(self) -> KernelOptions:
        """What the kernel is told beside its loops; see :meth:`configure`."""
        return self._states[-1][1]

    @property
    def history(self) -> tuple[PrimitiveCall, ...]:
        """All calls, oldest first."""
        return (*self._states[0][0].history, *self._calls)

    def undo(self, calls: int = 1) -> None:
        """Take back the latest calls.

        Raises:
            ScheduleError: rule ``undo``: fewer calls have been made; rule ``argument``: no number.
        """
        require(PrimitiveCall("undo", (calls,)), "calls", calls, int)
        made = len(self._calls)
        if not 0 <= calls <= made:
            raise ScheduleError("undo", f"undo({calls})", f"{made} calls can be taken back")
        del self._calls[made - calls :], self._states[made - calls + 1 :]

    def plan(self) -> Plan:
        """The proof that the schedule is legal.

        Raises:
            ScheduleError: it is not; the text says why, and what is.
        """
        if self._plan is None or self._plan.fusion is not self.fusion:
            self._plan = make_plan(self.fusion, self._transforms(), self.target)
        return self._plan

    # --- tensors and loops ---------------------------------------------------------------------

    @property
    def a(self) -> str:
        """The first operand as it enters the mma: after ``cache_after`` the copy."""
        return the_matmul(self.fusion).mma.a

    @property
    def b(self) -> str:
        """The second operand as it enters the mma."""
        return the_matmul(self.fusion).mma.b

    @property
    def acc(self) -> str:
        """The accumulator: what the mma writes."""
        return the_matmul(self.fusion).mma.output

    @property
    def inputs(self) -> tuple[str, ...]:
        """The caller's tensors, in the order of the definition; a list of them once."""
        return tuple(dict.fromkeys(b.tensor for b in self.fusion.inputs))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The results, in the order of the definition; a list of them once."""
        return tuple(dict.fromkeys(b.tensor for b in self.fusion.outputs))

    def tensor(self, tv: str) -> TensorView:
        """The tensor as it is now; its ``loop`` is the nest.

        Raises:
            ScheduleError: rule ``tensor``: there is none of this name.
        """
        return self.fusion.find(tv) or find(self.fusion, tv, PrimitiveCall("tensor", (tv,)))

    def axis(self, tv: str, label: str) -> int:
        """Position of the loop with this label; -1 if there is none."""
        labels = [d.label for d in self.tensor(tv).loop]
        return labels.index(label) if label in labels else -1

    # --- primitives ----------------------------------------------------------------------------

    def cache_after(self, tv: str, op: LoadStoreOpType = LoadStoreOpType.Set) -> str:
        """See :func:`~wsched.schedule.primitives.cache_after.cache_after`; the name of the copy."""
        require(PrimitiveCall("cache_after", (tv, op)), "op", op, LoadStoreOpType)
        fusion, name = cache_after(self.fusion, tv, op)
        self._made(fusion)
        return name

    def cache_before(self, tv: str, op: LoadStoreOpType = LoadStoreOpType.Set) -> str:
        """See :mod:`wsched.schedule.primitives.cache_before`; the name of the new tensor."""
        require(PrimitiveCall("cache_before", (tv, op)), "op", op, LoadStoreOpType)
        fusion, name = cache_before(self.fusion, tv, op)
        self._made(fusion)
        return name

    def accumulate_in(self, tv: str, dtype: DataType) -> str:
        """See :func:`~wsched.schedule.primitives.accumulate_in.accumulate_in`; the name of the
        accumulator.
        """
        require(PrimitiveCall("accumulate_in", (tv, dtype)), "dtype", dtype, DataType)
        fusion, name = accumulate_in(self.fusion, tv, dtype, self.target)
        self._made(fusion)
        return name

    def set_memory_type(self, tv: str, memory: MemoryType) -> None:
        """See :func:`~wsched.schedule.primitives.set_memory_type.set_memory_type`."""
        require(PrimitiveCall("set_memory_type", (tv, memory)), "memory", memory, MemoryType)
        self._made(set_memory_type(self.fusion, tv, memory))

    def set_allocation_domain(self, tv: str, order: Sequence[int]) -> None:
        """See :mod:`wsched.schedule.primitives.set_allocation_domain`."""
        require(PrimitiveCall("set_allocation_domain", (tv, order)), "order", order, (tuple, list))
        self._made(set_allocation_domain(self.fusion, tv, tuple(order)))

    def split(
        self,
        tv: str,
        axis: Axis,
        factor: ExprLike,
        *,
        inner_split: bool = True,
        labels: tuple[str, str] | None = None,
        dynamic: bool = False,
    ) -> None:
        """See :func:`~wsched.schedule.primitives.split.split`."""
        call = PrimitiveCall("split", (tv, axis, factor))
        require(call, "factor", factor, (int, Expr))
        require(call, "inner_split", inner_split, bool)
        require(call, "dynamic", dynamic, bool)
        if labels is not None:
            require_all(call, "labels", labels, str, 2)
        self._made(
            split(
                self.fusion,
                tv,
                self._position(tv, axis, call),
                factor,
                inner_split=inner_split,
                labels=labels and (labels[0], labels[1]),
                dynamic=dynamic,
            )
        )

    def merge(
        self,
        tv: str,
        axis_o: Axis,
        axis_i: Axis | None = None,
        *,
        traversal: int = 0,
        label: str | None = None,
    ) -> None:
        """See :func:`~wsched.schedule.primitives.merge.merge`."""
        call = PrimitiveCall("merge", (tv, axis_o) if axis_i is None else (tv, axis_o, axis_i))
        require(call, "traversal", traversal, int)
        require(call, "label", label, (str, NoneType))
        outer = self._position(tv, axis_o, call)
        inner = None if axis_i is None else self._position(tv, axis_i, call)
        self._made(merge(self.fusion, tv, outer, inner, traversal=traversal, label=label))

    def reorder(self, tv: str, order: Mapping[Axis, int] | Iterable[Axis]) -> None:
        """See :func:`~wsched.schedule.primitives.reorder.reorder`.

        Args:
            tv: name of the tensor.
            order: new positions by loops; or the loops in their new order from the outside, those
                left out following in their old one. It is no call if nothing moves.
        """
        require(PrimitiveCall("reorder", (tv, order)), "order", order, (Mapping, Iterable))
        order = order if isinstance(order, Mapping | str) else tuple(order)
        call = PrimitiveCall("reorder", (tv, order))
        moved = new_order(find(self.fusion, tv, call), order, call)
        if moved:
            self._made(reorder(self.fusion, tv, moved))

    def rfactor(self, tv: str, axis: Axis | Sequence[Axis]) -> None:
        """See :func:`~wsched.schedule.primitives.rfactor.rfactor`."""
        call = PrimitiveCall("rfactor", (tv, axis))
        axes: Sequence[Any] = axis if isinstance(axis, list | tuple) else (axis,)
        found = tuple(self._position(tv, a, call) for a in axes)
        self._made(rfactor(self.fusion, tv, found if axes is axis else found[0]))

    def parallelize(self, tv: str, axis: Axis | Sequence[Axis], parallel: ParallelType) -> None:
        """See :func:`~wsched.schedule.primitives.parallelize.parallelize`; of each loop in a list.

        Where one of several is refused, those before it are done.
        """
        call = PrimitiveCall("parallelize", (tv, axis, parallel))
        require(call, "parallel", parallel, ParallelType)
        axes: Sequence[Any] = axis if isinstance(axis, list | tuple) else (axis,)
        for a in axes:
            at = self._position(tv, a, call)
            self._made(parallelize(self.fusion, tv, at, parallel))

    def inline_at(self, tv: str, inside: Axis) -> None:
        """See :func:`~wsched.schedule.primitives.inline_at.inline_at`.

        Args:
            tv: name of the tensor.
            inside: number of outer loops that it shares with its consumers, or the label of the
                innermost of them.
        """
        call = PrimitiveCall("inline_at", (tv, inside))
        at = self._position(tv, inside, call) + isinstance(inside, str)
        self._made(inline_at(self.fusion, tv, at, self._transforms()))
        self._described = self.fusion  # which loops are shared is not in the graph

    def circular_buffer(
        self, tv: str, stages: int, prefetch: int, type: CircularBufferType
    ) -> None:
        """See :func:`~wsched.schedule.primitives.circular_buffer.circular_buffer`."""
        call = PrimitiveCall("circular_buffer", (tv, stages, prefetch, type))
        require(call, "stages", stages, int)
        require(call, "prefetch", prefetch, int)
        require(call, "type", type, (WarpSpecialized, Pipelined))
        if isinstance(type, WarpSpecialized):
            require(call, "on", type.on, ParallelType)
            require(call, "stage_slice_position", type.stage_slice_position, (int, NoneType))
            if type.num_registers is not None:
                require_all(call, "num_registers", type.num_registers, int, 2)
        self._made(circular_buffer(self.fusion, tv, stages, prefetch, type, self.target))

    def assume(self, name: str, least: int, most: int, promise: str) -> None:
        """Let ``name`` stand in factors; see :func:`~wsched.schedule.primitives.assume.assume`."""
        call = PrimitiveCall("assume", (name, least, most, promise))
        require(call, "name", name, str)
        require(call, "least", least, int)
        require(call, "most", most, int)
        require(call, "promise", promise, str)
        self._made(assume(self.fusion, name, least, most, promise))

    def delay_groups(self, below: int) -> None:
        """See :func:`~wsched.schedule.primitives.delay_groups.delay_groups`."""
        require(PrimitiveCall("delay_groups", (below,)), "below", below, int)
        self._made(delay_groups(self.fusion, below))

    def share_groups(self, lengths: Sequence[int], own: int) -> None:
        """See :func:`~wsched.schedule.primitives.share_groups.share_groups`."""
        call = PrimitiveCall("share_groups", (lengths, own))
        require(call, "lengths", lengths, (tuple, list))
        require_all(call, "lengths", lengths, int, len(lengths))
        require(call, "own", own, int)
        self._made(share_groups(self.fusion, tuple(lengths), own))

    def configure(self, **options: Any) -> None:
        """Set fields of :class:`~wsched.schedule.options.KernelOptions`.

        ``cache_policies``, ``l2_promotions`` and ``smem_swizzles`` are dicts of names of tensors in
        global memory.

        Raises:
            ScheduleError: rule ``configure``: no such option, tensor or value.
        """
        call = PrimitiveCall("configure", (), tuple(options.items()))
        changed = configured(self.fusion, self.options, call, self.target)
        self._states.append((self.fusion, changed))
        self._calls.append(call)

    def debug_print(
        self,
        where: str,
        value: str,
        *,
        cta: int | None = None,
        group: int | None = None,
        tile: int | None = None,
        step: int | None = None,
        thread: int | None = None,
    ) -> None:
        """Have the kernel print a line whenever it has executed a tensor's statement: on a GPU by
        ``printf``, on the machine on standard output, too; time, CTA, part and warp in front.

        A line costs what it costs; and an accumulator that is printed in the loop over K is waited
        for in each step, so that the tensor core idles. ``wsched.compile`` warns of that.

        Args:
            where: a tensor, or a part (``load``, ``compute``, …): then its first load, or what
                reads its ring.
            value: the label of a loop of that tensor, or a size (``M``), whose number is printed;
                or ``T4[3, 5]``, an element of the fragment that a warpgroup holds of a tensor; or
                ``T4``, the first one that ``thread`` holds.
            cta: print in this CTA along x alone.
            group: by this warpgroup of the part alone.
            tile: in the CTA's tile of this number alone.
            step: in this load step alone, counted over all tiles of the CTA.
            thread: of a warpgroup, from 0; by its warp.

        Raises:
            ScheduleError: rule ``debug_print``: there is no such tensor or part; when the kernel is
                made, no such loop or element.
        """
        asked = DebugPrint(where, value, cta, group, tile, step, thread)
        self._states.append((self.fusion, printing(self.fusion, self.options, asked)))
        self._calls.append(asked.call)

    def _transforms(self) -> TransformGraph:
        """The transform graph; most calls behind the last split or merge leave it as it is."""
        if self._graph is None or not (
            self._described is self.fusion or self._graph.describes(self.fusion)
        ):
            self._graph = TransformGraph(self.fusion)
        self._described = self.fusion
        return self._graph

    def _position(self, tv: str, axis: Axis, call: PrimitiveCall) -> int:
        if type(axis) is int and not is_long(axis):
            return axis
        return position(find(self.fusion, tv, call), axis, call)

    def _made(self, fusion: Fusion) -> None:
        self._states.append((fusion, self.options))
        self._calls.append(fusion.history[-1])
