"""State of one emission and what the rules share: names, addresses, fragments.

A rule is a function ``(Emitter, node) -> None``; ``control``, ``barriers``, ``movement`` and
``compute`` hold the rules of their nodes in a table ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from lowering.cuda.copies import CopyForm
from lowering.cuda.elements import register_type
from lowering.cuda.expressions import SPECIAL_REGISTERS, expression
from lowering.cuda.fragments import View, plan_fragments
from lowering.cuda.names import Names, Writer
from lowering.cuda.narrow import APART
from lowering.cuda.operand_reads import operand_reads
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO, Expr, ExprLike, Special, Var, as_expr
from lowering.ground.poly import divided
from lowering.kernel.kernel import GlobalTensor, Kernel, SharedBuffer, Watch
from lowering.kernel.memory import CACHE_POLICIES
from lowering.kernel.nodes import (
    Body,
    Frag,
    GmemRef,
    LdShared,
    MapRef,
    MBarrierRef,
    NamedBarrierRef,
    Role,
    SmemRef,
    Stmt,
)
from lowering.kernel.places import box_column, named_barrier, placed, tile_offset
from lowering.kernel.visit import used, walk
from lowering.target.wgmma import WgmmaForm

__all__ = ["Emitter", "Rule"]

Rule = Callable[["Emitter", Any], None]


class Emitter:
    """One kernel on its way to text.

    Attributes:
        kernel: what is emitted.
        names: identifiers of everything that has a name.
        out: the lines of the body so far.
        spans: of each statement and role the lines that it became, from one up to another; those
            inside come in front of the one around them.
        read: names of the scalars that some statement reads.
        plan: registers of each fragment value.
        specials: special registers that the body reads, to be defined by the frame.
        policies: cache policies that the body names, to be made by the frame.
        descriptors: buffers that wgmma reads; the name of their descriptor's low word, and
            whether they are MN-major.
        wgmmas: forms of wgmma that the body calls.
        reads: which registers wgmmas read, and until when.
        kept: values whose arrays a loop around them has declared.
        apart: arrays whose registers are halves that :mod:`lowering.cuda.narrow` keeps apart.
        atoms: (operation, order) of the atomics that the body calls.
        copies: forms of TMA copies that the body calls and ``device.cuh`` does not have.
        warps: those that execute the statement at hand.
        functions: other device functions that the body calls, by name.
        waits: how many waits with a bound there are so far.
        elected: whether what is emitted is executed by one thread of each warp.
    """

    def __init__(self, kernel: Kernel, rules: Mapping[type[Stmt], Rule]) -> None:
        self.kernel, self.rules = kernel, rules
        self.names, self.out = Names(), Writer(1)
        self.spans: list[tuple[int, int, Stmt | Role]] = []
        statements = tuple(walk(kernel.body))
        self.read = set[str]().union(*map(used, statements))
        self.plan = plan_fragments(kernel.body)
        self.specials: set[str] = set()
        self.policies: set[str] = set()
        self.descriptors: dict[str, tuple[str, bool]] = {}
        self.wgmmas: set[WgmmaForm] = set()
        self.reads = operand_reads(kernel.body, self.plan)
        self.kept: set[str] = set()
        self.apart = {
            self.plan.views[s.out.name].array
            for s in statements
            if isinstance(s, LdShared) and s.out.type.dtype.register_bits in APART
        }
        self.atoms: set[tuple[str, str]] = set()
        self.copies: set[CopyForm] = set()
        self.warps = range(kernel.threads // 32)
        self.functions: dict[str, str] = {}
        self.waits = 0
        self.elected = False
        for var in kernel.params:
            self.names.define("scalar", var.name)
        plain = tuple(g for array in kernel.globals for g in array.entries)
        for kind, things in (
            ("map", kernel.tensor_maps),
            ("global", plain),
            ("buffer", kernel.shared),
            ("barrier", kernel.mbarriers),
            ("trace", kernel.traces),
            ("watch", kernel.of(Watch)),
            ("counter", kernel.counters),
            ("workspace", kernel.workspaces),
        ):
            for thing in things:
                self.names.define(kind, thing.name)
        for g in plain:
            for stride in g.strides:
                self.names.define("stride", stride)
        for t in kernel.traces:
            self.names.define("part", t.name, f"{t.name}_of_warp")
            self.names.define("made", t.name, f"{t.name}_made")

    # --- statements -------------------------------------------------------------------------

    def body(self, body: Body) -> None:
        """Emit the statements of a block in order.

        Raises:
            InternalError: a node without a rule.
        """
        for s in body:
            rule = self.rules.get(type(s))
            if rule is None:
                raise InternalError("emit_cuda", f"no rule for {s.OP or type(s).__name__}")
            begin = len(self.out.lines)
            rule(self, s)
            self.spans.append((begin, len(self.out.lines), s))

    # --- scalars ------------------------------------------------------------------------------

    def expr(self, e: Expr) -> str:
        """C++ of a scalar expression."""
        return expression(e, self._leaf)

    def arg(self, e: ExprLike) -> str:
        """C++ of a scalar expression as a whole argument (no outer parentheses)."""
        text = self.expr(as_expr(e))
        return text[1:-1] if _wrapped(text) else text

    def addend(self, e: ExprLike) -> str:
        """C++ of a scalar expression beside a ``+``."""
        return expression(as_expr(e), self._leaf, addend=True)

    def _leaf(self, e: Expr) -> str:
        if isinstance(e, Special):
            if e.name not in SPECIAL_REGISTERS:
                raise InternalError("emit_cuda", f"unknown special register %{e.name}")
            self.special(e.name)
            return SPECIAL_REGISTERS[e.name][0]
        assert isinstance(e, Var)
        return self.names.of("scalar", e.name)

    def special(self, name: str) -> str:
        """Identifier of a special register, which the frame will define."""
        self.specials.add(name)
        if name == "warpgroup.warp":
            self.specials.add("warp")
        return SPECIAL_REGISTERS[name][0]

    def policy(self, cache: str) -> str:
        """Identifier of a cache policy, which the frame will make."""
        if cache not in CACHE_POLICIES:
            raise InternalError("emit_cuda", f"no cache policy named {cache}")
        self.policies.add(cache)
        return cache

    # --- operands -----------------------------------------------------------------------------

    def buffer(self, name: str) -> SharedBuffer:
        """The shared buffer, placed."""
        return placed(self.kernel, name)

    def global_tensor(self, name: str) -> GlobalTensor:
        """The plain tensor."""
        found = self.kernel.find(GlobalTensor, name)
        if found is None:
            raise InternalError("emit_cuda", f"no global tensor {name}")
        return found

    def box_column(self, ref: SmemRef) -> tuple[Expr, Expr]:
        """Box that holds column ``ref.col``, and the column within the box."""
        return box_column(self.kernel, ref)

    def tile_offset(self, ref: SmemRef, unit: int) -> Expr:
        """Offset of the box line of ``ref`` from its buffer, in units of ``unit`` bytes."""
        return tile_offset(self.kernel, ref, unit)

    def line_address(self, ref: SmemRef) -> str:
        """Shared address of the box line of ``ref`` (column 0 of its box)."""
        return self.sum(self.names.of("buffer", ref.buffer), self.tile_offset(ref, 1))

    def box_address(self, ref: SmemRef) -> str:
        """Shared address of a whole box, for TMA; the column must start the box."""
        inner = self.box_column(ref)[1]
        if inner != ZERO:
            raise InternalError("emit_cuda", f"TMA box in {ref.buffer} starts at column {ref.col}")
        return self.line_address(ref)

    def swizzled(self, buffer: SharedBuffer, address: str) -> str:
        """The bits that the buffer's swizzle flips at an address; empty without one."""
        chunks = buffer.swizzle.value // 16
        return f"(({address} >> 7) & {chunks - 1}) << 4" if chunks else ""

    def sum(self, base: str, offset: Expr) -> str:
        """``base + offset`` without a zero."""
        if offset == ZERO:
            return base
        return f"{base} + {expression(offset, self._leaf, addend=True)}"

    def mbarrier(self, ref: MBarrierRef | None) -> str:
        """Shared address of an mbarrier."""
        if ref is None:
            raise InternalError("emit_cuda", "a TMA load has no mbarrier")
        name = self.names.of("barrier", ref.array)
        return self.sum(name, ref.index * 8)

    def named_barrier(self, ref: NamedBarrierRef) -> str:
        """Arguments id and thread count of a named barrier."""
        number, threads = named_barrier(self.kernel, ref)
        return f"{self.arg(number)}, {threads}"

    def coordinates(self, ref: GmemRef) -> list[str]:
        """Address of the tensor map, and the coordinates, the innermost first as PTX has it."""
        *outer, col = ref.coords
        packed = self.kernel.tensor_map(ref.map).dtype.packed
        col = col if packed == 1 else divided(col, packed)
        return [self.tensor_map(ref), *map(self.arg, (col, *reversed(outer)))]

    def address(self, ref: GmemRef) -> str:
        """Address of an element of a plain tensor; strides are 64-bit, so no product overflows."""
        g = self.global_tensor(ref.map)
        terms = [self.names.of("global", g.name)]
        for at, stride in zip(ref.coords, g.strides, strict=False):
            if at != ZERO:
                text = self.expr(at)
                row = text if text.isidentifier() or text.isdigit() else f"({text})"
                terms.append(f"{row} * {self.names.of('stride', stride)}")
        return self.sum(" + ".join(terms), ref.col)

    def tensor_map(self, ref: GmemRef | MapRef) -> str:
        """Address of a tensor map."""
        name, entry = self.names.of("map", ref.map), ref.entry
        if self.kernel.tensor_map(ref.map).device:
            return name if entry is None else self.sum(name, entry)
        return f"&{name}" if entry is None else f"&{name}.at[{self.arg(entry)}]"

    # --- fragments ------------------------------------------------------------------------------

    def view(self, value: Frag) -> View:
        """Registers of a fragment value."""
        return self.plan.views[value.name]

    def declare(self, out: Frag) -> str:
        """Declare the array of a value that starts one; its identifier. What a loop makes in the
        registers that it carries has that array.
        """
        array = self.view(out).array
        if out.name in self.kept or array != out.name:
            return self.names.of("fragment", self.plan.arrays[array])
        name = self.names.define("fragment", self.plan.arrays[out.name])
        bits, kind = out.type.dtype.register_bits, register_type(out.type.dtype)
        kind = APART[bits] if self.is_apart(out) else kind
        self.out.line(f"{kind} {name}[{out.type.registers}];  // {out.type}")
        return name

    def is_apart(self, value: Frag) -> bool:
        """Whether registers of a value have two halves apart, as ``ld.shared`` of 8 bits leaves
        them (see :mod:`lowering.cuda.narrow`).
        """
        return self.view(value).array in self.apart

    def keep(self, out: Frag) -> None:
        """Declare the array of a value in front of the loop that makes it."""
        if out.name not in self.kept:
            self.declare(out)
            self.kept.add(out.name)

    def register(self, value: Frag, block: int, index: str) -> str:
        """Register ``index`` (C++) of a 64-row block of a value, as an array element."""
        view = self.view(value)
        start = view.start + block * view.block
        text = index if start == ZERO else f"{self.addend(start)} + {index}"
        return f"{self.array(value)}[{text}]"

    def element(self, value: Frag, block: int, row: int, col: int) -> tuple[str, int]:
        """Register of an element of group ``r``, and the half of it (see ``View.element``)."""
        view = self.view(value)
        step, first, half = view.element(block, row, col)
        index = "" if step == 0 else "r" if step == 1 else f"{step} * r"
        at = view.start + first
        if at != ZERO or not index:
            index = f"{index} + {self.addend(at)}" if index else self.arg(at)
        return f"{self.array(value)}[{index}]", half

    @contextmanager
    def groups(self, count: int) -> Iterator[None]:
        """An unrolled loop of ``r`` over groups of 8 columns."""
        self.out.line("#pragma unroll")
        with self.out.block(f"for (int r = 0; r < {count}; ++r)"):
            yield

    def array(self, value: Frag) -> str:
        """Identifier of the array that holds a value."""
        return self.names.of("fragment", self.plan.arrays[self.view(value).array])


def _wrapped(text: str) -> bool:
    """Whether one pair of parentheses encloses all of ``text``."""
    depths = accumulate((c == "(") - (c == ")") for c in text[:-1])
    return text.startswith("(") and all(depths)
