"""The declarations of the kernel IR's text form; ``parse`` builds statements on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr, Var
from lowering.ground.sharing import Sharing
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import (
    CounterArray,
    GlobalTensor,
    MBarrierArray,
    NamedBarrierArray,
    Ring,
    SharedBuffer,
    Storage,
    TensorBuffer,
    TensorMap,
    TraceBuffer,
    Watch,
    Workspace,
)
from lowering.kernel.lexer import Lexer
from lowering.kernel.operands import Frag
from lowering.kernel.tensors import ENTRY, PROMOTIONS, Ragged

__all__ = ["DECLARATIONS", "Declarations"]

Value = TypeVar("Value", Var, Frag)


class Declarations(Lexer):
    """A cursor that takes parameters and storage, one declaration at a time."""

    def scalar(self) -> Var:
        """Take ``NAME: TYPE``, which defines a scalar."""
        name = self.name()
        self.expect(":")
        return self.define(Var(name, self.scalar_type()))

    def share(self) -> Sharing:
        """Take ``OWN of LENGTH, ...``: which part of groups a kernel takes."""
        own = self.integer()
        self.expect("of")
        lengths = [self.integer()]
        while self.accept(","):
            lengths.append(self.integer())
        return Sharing((*lengths,), own)

    def define(self, value: Value) -> Value:
        """Bring a value into scope."""
        self.scope[value.name] = value
        return value

    def swizzle(self) -> Swizzle:
        """Take a swizzle, if one is given."""
        if not self.accept("swizzle"):
            return Swizzle.NONE
        spans = [str(s.value) for s in Swizzle]
        if self.peek not in spans:
            raise self.fail("a swizzle: " + ", ".join(spans))
        return Swizzle(self.integer())

    def offset(self) -> int | None:
        """Take an offset in shared memory, if one is given."""
        return self.integer() if self.accept("at") else None

    def tensor_map(self) -> TensorMap:
        """Take a tensor map, or an array of them."""
        name, count = self.name(), None
        outer = dict(self.scope)
        if self.accept("["):
            count = self.expr()
            self.expect("]")
            self.scope[ENTRY.name] = ENTRY
        device, ragged = self.accept("device"), Ragged.NONE
        if self.accept("ragged"):
            ragged = Ragged.BEGIN if self.accept("begin") else Ragged.END
        tensor = name, *self.sizes()
        self.scope = outer
        box = self.shape() if self.accept("box") else ()
        clipped = self.accept("clipped")
        swizzle, promotion = self.swizzle(), PROMOTIONS[-1]
        if self.accept("promotion"):
            if self.peek not in map(str, PROMOTIONS):
                raise self.fail("a promotion: " + ", ".join(map(str, PROMOTIONS)))
            promotion = self.integer()
        early = self.accept("early")
        return TensorMap(*tensor, box, swizzle, clipped, count, device, promotion, ragged, early)

    def global_tensor(self) -> GlobalTensor:
        """Take a plain tensor, or an array of them."""
        name, count = self.name(), None
        outer = dict(self.scope)
        if self.accept("["):
            count = self.integer()
            self.expect("]")
            self.scope[ENTRY.name] = ENTRY
        dtype, sizes = self.sizes()
        self.scope = outer
        align = self.integer() if self.accept("align") else 1
        return GlobalTensor(name, dtype, sizes, align, count)

    def tensor(self) -> tuple[str, DType, tuple[Expr, ...]]:
        """Take ``NAME: DTYPE[SIZE, ...]``."""
        return self.name(), *self.sizes()

    def sizes(self) -> tuple[DType, tuple[Expr, ...]]:
        """Take ``: DTYPE[SIZE, ...]``."""
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        return dtype, self.items(self.expr, "]", least=1)

    def tiles(self) -> tuple[str, DType, int, tuple[int, ...]]:
        """Take ``NAME: DTYPE[STAGES][ROWSxCOLS]``."""
        name = self.name()
        self.expect(":")
        dtype = self.dtype()
        self.expect("[")
        stages = self.integer()
        self.expect("]", "[")
        shape = self.shape()
        self.expect("]")
        return name, dtype, stages, shape

    def shared_buffer(self) -> SharedBuffer:
        """Take a shared buffer."""
        tiles, swizzle, over = self.tiles(), self.swizzle(), list[str]()
        while self.accept("," if over else "over"):
            over.append(self.name())
        return SharedBuffer(*tiles, swizzle, self.offset(), tuple(over))

    def tensor_buffer(self) -> TensorBuffer:
        """Take a buffer in tensor memory."""
        tiles = self.tiles()
        return TensorBuffer(*tiles, self.integer() if self.accept("column") else None)

    def mbarrier(self) -> MBarrierArray:
        """Take an array of mbarriers."""
        name = self.name()
        self.expect("[")
        stages = self.integer()
        self.expect("]", "arrivals")
        return MBarrierArray(name, stages, self.integer(), self.offset())

    def named_barrier(self) -> NamedBarrierArray:
        """Take an array of named barriers."""
        name = self.name()
        self.expect("[")
        count = self.integer()
        self.expect("]")
        base = self.integer() if self.accept("id") else None
        self.expect("threads")
        return NamedBarrierArray(name, count, self.integer(), base)

    def ring(self) -> Ring:
        """Take a ring."""
        name = self.name()
        self.expect("(")
        buffers = self.items(self.name, ")")
        self.expect("stages")
        stages = self.integer()
        teams = self.integer() if self.accept("teams") else 1
        dealing = self.integer() if self.accept("dealing") else 1
        in_flight = self.integer() if self.accept("in_flight") else 0
        shares = tuple(self.pair() for _ in buffers) if self.accept("shares") else ()
        prefetch = self.integer() if self.accept("prefetch") else 0
        remote = self.accept("remote")
        return Ring(name, buffers, stages, teams, in_flight, shares, prefetch, remote, dealing)

    def trace_buffer(self) -> TraceBuffer:
        """Take a trace buffer."""
        name = self.name()
        self.expect("[")
        slots = self.integer()
        self.expect("]", "(")
        return TraceBuffer(name, slots, self.items(self.name, ")"))

    def watch(self) -> Watch:
        """Take a watch."""
        name = self.name()
        self.expect("nanoseconds")
        return Watch(name, self.integer())

    def counter_array(self) -> CounterArray:
        """Take an array of counters."""
        name = self.name()
        self.expect("[")
        count = self.count()
        self.expect("]")
        return CounterArray(name, count)

    def count(self) -> Expr:
        """Take an expression over the parameters and ``ctas``."""
        self.scope["ctas"] = Var("ctas")
        count = self.expr()
        del self.scope["ctas"]
        return count

    def workspace(self) -> Workspace:
        """Take a workspace."""
        name = self.name()
        self.expect(":")
        dtype = self.dtype((DType.F32, DType.S32))
        self.expect("[")
        count = self.count()
        self.expect("]", "[")
        rows, cols = self.pair()
        self.expect("]")
        return Workspace(name, rows, cols, count, dtype)


DECLARATIONS: dict[str, Callable[[Any], Storage]] = {
    "tensormap": Declarations.tensor_map,
    "global": Declarations.global_tensor,
    "shared": Declarations.shared_buffer,
    "tensor": Declarations.tensor_buffer,
    "mbarrier": Declarations.mbarrier,
    "named_barrier": Declarations.named_barrier,
    "ring": Declarations.ring,
    "trace": Declarations.trace_buffer,
    "watch": Declarations.watch,
    "counter": Declarations.counter_array,
    "workspace": Declarations.workspace,
}
"""Keyword -> what takes the declaration behind it."""
