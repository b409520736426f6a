"""A kernel made ready to run: every statement becomes a function of the executing warp.

``control``, ``synchronize``, ``transfer`` and ``compute`` have one function for each kind of
statement, ``run`` puts them into one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lowering.ground.errors import InternalError
from lowering.ground.expr import Expr
from lowering.kernel.descriptor import tile_byte
from lowering.kernel.kernel import Kernel, SharedBuffer
from lowering.kernel.nodes import Body, GmemRef, MBarrierRef, SmemRef, Stmt
from lowering.kernel.text import print_stmt
from lowering.kernel.traits import Threads
from lowering.machine.barriers import MBarrier
from lowering.machine.errors import FaultError
from lowering.machine.memory import SHARED_BASE
from lowering.machine.scalars import Env, Scalar, compile_scalar
from lowering.machine.scheduler import LATE, Blocked, Steps
from lowering.machine.state import Cta, Warp

__all__ = ["Code", "Handler", "Place", "Program", "Run", "execute"]

Run = Callable[[Warp], "Steps | None"]
"""Executes a statement for a warp; steps are given back where it may have to wait."""

Code = tuple[tuple[Stmt, Run, bool, bool], ...]
"""Statements; whether each lets others run behind it, who could tell that it ran; whether it is a
whole warp's."""

Handler = Callable[[Any, "Program"], Run]
"""Prepares a statement of one kind."""


def execute(warp: Warp, code: Code) -> Iterator[Blocked | None]:
    """Run statements one after the other."""
    for stmt, run, shared, whole in code:
        warp.stmt = stmt
        if whole:
            warp.whole(stmt.OP)
        steps = run(warp)
        if steps is not None:
            yield from steps
        elif shared:
            yield None


class Place:
    """An operand in shared memory: its buffer, and where an element of it lies."""

    def __init__(self, buffer: SharedBuffer, stage: Scalar, coords: Sequence[Scalar]) -> None:
        if buffer.offset is None:
            raise InternalError("machine", f"shared buffer {buffer.name} has no offset yet")
        self.buffer = buffer
        self.base = SHARED_BASE + buffer.offset
        self._indices = stage, *coords

    def element(self, env: Env) -> tuple[int, ...]:
        """Stage and coordinates; raises FaultError if they lie outside the buffer."""
        b, indices = self.buffer, tuple(index(env) for index in self._indices)
        extents = b.stages, *b.shape
        if not all(0 <= i < n for i, n in zip(indices, extents, strict=True)):
            place, tile = ", ".join(map(str, indices)), "x".join(map(str, b.shape))
            raise FaultError(f"{b.name}[{place}] lies outside [{b.stages}][{tile}]")
        return indices

    def address(self, env: Env) -> int:
        """Absolute shared address before swizzling, as TMA and wgmma take it."""
        return self.base + tile_byte(self.buffer, *self.element(env))


class Program:
    """The statements of a kernel as code.

    Args:
        kernel: a kernel after all passes.
        handlers: for each class of statements.
        late: whether a warp lets all others run in front of a statement.

    Raises:
        InternalError: a statement of tile level is left, or something is not allocated.
    """

    def __init__(
        self,
        kernel: Kernel,
        handlers: Mapping[type[Stmt], Handler],
        late: Callable[[Stmt], bool] = lambda _: False,
    ) -> None:
        self.kernel = kernel
        self._late = late
        self._handlers = handlers
        for array in kernel.mbarriers:
            if array.offset is None:
                raise InternalError("machine", f"mbarrier array {array.name} has no offset yet")
        self.code = self.body(kernel.body)

    def body(self, body: Body) -> Code:
        """A statement list as code."""
        return tuple((s, self._prepare(s), _is_shared(s), _is_whole(s)) for s in body)

    def _prepare(self, stmt: Stmt) -> Run:
        handler = self._handlers.get(type(stmt))
        if handler is None:
            why = f"statement {stmt.OP!r} cannot be executed; is a pass missing?"
            raise InternalError("machine", why, print_stmt(stmt))
        run = handler(stmt, self)
        return _behind_others(run) if self._late(stmt) else run

    def scalar(self, e: Expr) -> Scalar:
        """An expression as a function of the warp's scalars."""
        return compile_scalar(e)

    def rank(self, cta: Expr | None) -> Callable[[Warp], Cta] | None:
        """A function that gives the CTA of the cluster of that rank; None of None."""
        if cta is None:
            return None
        found = compile_scalar(cta)
        return lambda warp: warp.cta.peer(found(warp.env))

    def place(self, ref: SmemRef) -> Place:
        """An operand in shared memory."""
        coords = [compile_scalar(e) for e in ref.coords]
        return Place(self.kernel.buffer(ref.buffer), compile_scalar(ref.stage), coords)

    def coordinates(self, ref: GmemRef) -> Callable[[Env], tuple[int, ...]]:
        """A place in global memory as a function of the warp's scalars."""
        coords = [compile_scalar(e) for e in ref.coords]
        return lambda env: tuple(at(env) for at in coords)

    def mbarrier(self, ref: MBarrierRef) -> Callable[[Cta, Env], tuple[MBarrier, int]]:
        """A function that gives the barrier of a CTA, and its index in the array."""
        index, name = compile_scalar(ref.index), ref.array

        def find(cta: Cta, env: Env) -> tuple[MBarrier, int]:
            i, array = index(env), cta.mbarriers[name]
            if not 0 <= i < len(array):
                raise FaultError(f"{name}[{i}] lies outside {name}[{len(array)}]")
            return array[i], i

        return find


def _is_shared(stmt: Stmt) -> bool:
    """Whether it reads or writes what others do, or waits, signals or orders."""
    return bool(stmt.TRAITS.touches) or stmt.TRAITS.synchronizes


def _is_whole(stmt: Stmt) -> bool:
    """Whether all threads of the warp execute it together."""
    return stmt.TRAITS.threads in (Threads.WARP, Threads.WARPGROUP)


def _behind_others(run: Run) -> Run:
    """The statement, in front of which others run."""

    def late(warp: Warp) -> Iterator[Blocked | None]:
        yield LATE
        steps = run(warp)
        if steps is not None:
            yield from steps
        else:
            yield None

    return late
