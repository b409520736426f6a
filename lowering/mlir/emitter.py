"""State of one emission to MLIR and what its rules share: values, addresses, registers.

A rule is a function ``(Emitter, node) -> None``; the modules of this package hold the rules of
their nodes in a table ``RULES``, as those of ``lowering.cuda`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import Const, Expr, ExprLike, Special, Var, as_expr, free_vars, substitute
from lowering.kernel.control import Role
from lowering.kernel.kernel import Kernel, MBarrierArray, SharedBuffer
from lowering.kernel.nodes import Body, Frag, MBarrierRef, SmemRef, Stmt
from lowering.kernel.places import box_column, placed, tile_offset
from lowering.kernel.text import print_stmt
from lowering.kernel.visit import bodies
from lowering.mlir.expressions import Known, expression
from lowering.mlir.registers import element_index, operands_in_registers
from lowering.mlir.special import SPECIALS
from lowering.mlir.ssa import F32, I1, I32, I64, Value, Writer, shared_pointer

__all__ = ["SHARED", "Emitter", "Registers", "Rule", "Word", "register_type"]

SHARED = "shared_memory"
"""Symbol of the shared memory."""

Rule = Callable[["Emitter", Any], None]

_LETTERS = {F32: "f", I32: "r", I64: "l", "i16": "h", I1: "b"}
"""NVPTX's constraint of an operand of inline PTX; pointers are ``l``."""

_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Word:
    """A register of a fragment: a value, or a member of one that holds several."""

    value: Value
    member: int | None = None


Registers = tuple[tuple[Word, ...], ...]
"""Of a fragment: for each block of rows its registers, in the order of ``FragmentType``."""


def register_type(dtype: DType) -> str:
    """Type of a register: fp32, a condition, or raw bits."""
    return {DType.F32: F32, DType.PRED: I1}.get(dtype, I32)


class Emitter:
    """One kernel on its way to MLIR.

    Attributes:
        kernel: what is emitted.
        rules: of each kind of statement.
        out: the operations of the body so far.
        front: operations of the frame, in front of the body.
        scalars: values of the scalars that have a name; of buffers, barriers and parameters as
            well, under names that no scalar has.
        fixed: loop indices of unrolled loops, by what they are at the moment.
        fragments: registers of each fragment value.
        functions: declarations of functions that the body calls, by name.
        warps: those that execute the statement at hand.
    """

    def __init__(self, kernel: Kernel, rules: Mapping[type[Stmt], Rule]) -> None:
        self.kernel, self.rules = kernel, rules
        self.out = Writer()
        self.front = self.out.beside()
        self.scalars: dict[str, Value] = {}
        self.fixed: dict[Var, Expr] = {}
        self.fragments: dict[str, Registers] = {}
        self.functions: dict[str, str] = {}
        self.warps = range(kernel.threads // 32)
        self._operands = operands_in_registers(kernel)
        self._known: Known = {}
        self._members: dict[tuple[object, ...], Value] = {}
        self._special: dict[str, Value] = {}

    # --- statements ----------------------------------------------------------------------------

    def body(self, body: Body) -> None:
        """Emit the statements of a block in order.

        Raises:
            UnsupportedError: a node without a rule.
        """
        for s in body:
            rule = self.rules.get(type(s))
            if rule is None:
                known = ", ".join(sorted(kind.OP for kind in self.rules))
                raise UnsupportedError(f"{s.OP or type(s).__name__} in MLIR", known)
            if not bodies(s):
                text = print_stmt(s).strip()
                self.out.line(f"// {text[:_COLUMNS]}{'...' * (len(text) > _COLUMNS)}")
            rule(self, s)

    @contextmanager
    def region(self, head: str, tail: str = "}") -> Iterator[None]:
        """``head { ... tail``: what is computed in it is not known behind it."""
        self.out.line(f"{head} {{")
        with self.inside(tail):
            yield

    @contextmanager
    def inside(self, tail: str = "}") -> Iterator[None]:
        """The same behind the line that opens it."""
        known, members = dict(self._known), dict(self._members)
        self.out.depth += 1
        yield
        self.out.depth -= 1
        self.out.line(tail)
        self._known, self._members = known, members

    def role(self, role: Role) -> None:
        """Emit the body of a role, executed by its warps."""
        warps, scalars = self.warps, dict(self.scalars)
        self.warps = role.span
        if self.kernel.shared or self.kernel.mbarriers:
            # With one address for all roles ptxas has it, and what is computed of it, in registers
            # of each thread, where the CUDA way has uniform ones.
            (base,) = self.asm(f"mov.u32 $0, {SHARED};", (), [I32], memory=False, volatile=False)
            self.place(base.value, self.out)
        self.body(role.body)
        self.warps, self.scalars = warps, scalars

    # --- scalars -------------------------------------------------------------------------------

    def resolved(self, e: ExprLike) -> Expr:
        """An expression with the indices of unrolled loops as numbers."""
        found = as_expr(e)
        if self.fixed and not self.fixed.keys().isdisjoint(free_vars(found)):
            return substitute(found, self.fixed)
        return found

    def expr(self, e: ExprLike) -> Value:
        """The value of a scalar expression."""
        return expression(self.resolved(e), self.out, self._known, self._leaf)

    def number(self, e: ExprLike, what: str) -> int:
        """An expression that is a number once the loops around it are unrolled.

        Raises:
            InternalError: it is none.
        """
        found = self.resolved(e)
        if not isinstance(found, Const):
            raise InternalError("emit_mlir", f"{what} {found} is not known")
        return found.value

    def _leaf(self, e: Expr) -> Value:
        if isinstance(e, Special):
            return self.special(e.name)
        assert isinstance(e, Var)
        if e.name not in self.scalars:
            raise InternalError("emit_mlir", f"scalar {e.name} is not defined here")
        return self.scalars[e.name]

    def define(self, var: Var, value: Value) -> None:
        """Give a scalar its value.

        The same scalar is defined again in each trip of an unrolled loop.
        """
        self.scalars[var.name] = value
        self._known = {e: v for e, v in self._known.items() if var not in free_vars(e)}

    def bound(self, value: Value, name: str) -> Var:
        """A variable that stands for a value in expressions."""
        var = Var(f"%{name}")
        self.scalars[var.name] = value
        return var

    def special(self, name: str) -> Value:
        """A special register, which the frame reads."""
        if name not in self._special:
            if name not in SPECIALS:
                raise InternalError("emit_mlir", f"unknown special register %{name}")
            self._special[name] = SPECIALS[name](self.front, self.special)
        return self._special[name]

    def replace_special(self, name: str, value: Value) -> None:
        """From here on the special register is this value."""
        self._special[name] = value

    # --- addresses -----------------------------------------------------------------------------

    def place(self, base: Value, out: Writer) -> None:
        """From here on shared memory begins at ``base``."""
        things: tuple[SharedBuffer | MBarrierArray, ...]
        things = (*self.kernel.shared, *self.kernel.mbarriers)
        for thing in things:
            if thing.offset is None:
                raise InternalError("emit_mlir", f"{thing.name} has no offset")
            at = out.op(f"arith.addi {base}, {out.constant(thing.offset)} : i32", I32, thing.name)
            self.define(Var(f"%shared.{thing.name}"), at)

    def buffer_at(self, name: str) -> Var:
        """Shared address of a buffer."""
        return Var(f"%shared.{placed(self.kernel, name).name}")

    def line_address(self, ref: SmemRef) -> Expr:
        """Shared address of the box line of ``ref`` (column 0 of its box)."""
        ref_offset = tile_offset(self.kernel, ref, 1)
        return self.buffer_at(ref.buffer) + self.resolved(ref_offset)

    def box_column(self, ref: SmemRef) -> tuple[Expr, Expr]:
        """Box that holds column ``ref.col``, and the column within the box."""
        box, inner = box_column(self.kernel, ref)
        return self.resolved(box), self.resolved(inner)

    def box_address(self, ref: SmemRef) -> Expr:
        """Shared address of a whole box, for TMA; the column must start the box."""
        if self.box_column(ref)[1] != Const(0):
            raise InternalError("emit_mlir", f"TMA box in {ref.buffer} starts at column {ref.col}")
        return self.line_address(ref)

    def mbarrier(self, ref: MBarrierRef | None) -> Expr:
        """Shared address of an mbarrier."""
        if ref is None:
            raise InternalError("emit_mlir", "a TMA load has no mbarrier")
        return Var(f"%shared.{ref.array}") + ref.index * 8

    def pointer(self, address: Expr, cluster: bool = False) -> Value:
        """A pointer into shared memory, of this CTA or of the cluster's."""
        value, kind = self.expr(address), shared_pointer(cluster)
        text = f"llvm.inttoptr {value} : i32 to {kind}"
        return self.once(("pointer", value.name, cluster), lambda: self.out.op(text, kind))

    def once(self, key: tuple[object, ...], make: Callable[[], Value]) -> Value:
        """What ``make`` makes, unless it was made before in this region or one around it."""
        if key not in self._members:
            self._members[key] = make()
        return self._members[key]

    def behind(self, base: Value, at: Value | str, element: str) -> Value:
        """The address of an element: ``at`` is its number, or the numbers of members as text."""
        types = base.type if isinstance(at, str) else f"{base.type}, {at.type}"
        text = f"llvm.getelementptr {base}[{at}] : ({types}) -> {base.type}, {element}"
        return self.out.op(text, base.type)

    # --- inline PTX ----------------------------------------------------------------------------

    def asm(
        self,
        text: str,
        inputs: Sequence[Value] = (),
        outputs: Sequence[str] = (),
        *,
        tied: Sequence[Value] = (),
        early: bool = False,
        memory: bool = True,
        volatile: bool = True,
    ) -> tuple[Word, ...]:
        """Inline PTX; operands are numbered outputs, tied inputs, inputs.

        Args:
            text: instructions, with ``$n`` for operands.
            inputs: values that are read.
            outputs: types of the results, besides one for each tied input.
            tied: values whose registers become results, in front of ``outputs``.
            early: results are written before the last input is read.
            memory: whether it reads or writes memory that the compiler knows of.
            volatile: whether it does more than compute its results.
        """
        types = [*(v.type for v in tied), *outputs]
        constraints = [("=&" if early else "=") + _letter(t) for t in types]
        constraints += [*map(str, range(len(tied))), *(_letter(v.type) for v in inputs)]
        constraints += ["~{memory}"] * memory
        arguments = [*tied, *inputs]
        names, kinds = ", ".join(map(str, arguments)), ", ".join(v.type for v in arguments)
        effects = "has_side_effects " * volatile
        call = f'llvm.inline_asm {effects}asm_dialect = att "{text}", "{",".join(constraints)}"'
        call += f" {names} : ({kinds})"
        if not types:
            self.out.line(f"{call} -> ()")
            return ()
        result = types[0] if len(types) == 1 else self.out.struct(types[0], len(types))
        if len(types) > 1 and len(set(types)) > 1:
            raise InternalError("emit_mlir", f"inline PTX with results of {', '.join(types)}")
        value = self.out.op(f"{call} -> {result}", result)
        if len(types) == 1:
            return (Word(value),)
        return tuple(Word(value, i) for i in range(len(types)))

    # --- registers -----------------------------------------------------------------------------

    def word(self, word: Word) -> Value:
        """The value of a register, taken from what holds it where it is first needed."""
        if word.member is None:
            return word.value
        alias = word.value.type
        member = alias[1:].partition("x")[0]
        text = f"llvm.extractvalue {word.value}[{word.member}] : {alias}"
        key = ("member", word.value.name, word.member)
        return self.once(key, lambda: self.out.op(text, member))

    def words(self, words: Sequence[Word]) -> list[Value]:
        """The values of registers."""
        return [self.word(w) for w in words]

    def packed(self, words: Sequence[Word]) -> Value:
        """One value of all registers of a block."""
        first = words[0].value
        if words == tuple(Word(first, i) for i in range(len(words))) and self._holds(first, words):
            return first
        values = self.words(words)
        alias = self.out.struct(values[0].type, len(values))
        found = self.out.op(f"llvm.mlir.undef : {alias}", alias)
        for i, value in enumerate(values):
            found = self.out.op(f"llvm.insertvalue {value}, {found}[{i}] : {alias}", alias)
        return found

    @staticmethod
    def _holds(value: Value, words: Sequence[Word]) -> bool:
        return value.type.endswith(f"x{len(words)}")

    def unpacked(self, value: Value, count: int) -> tuple[Word, ...]:
        """The registers of a block from what :meth:`packed` made."""
        return tuple(Word(value, i) for i in range(count))

    def keep(self, out: Frag, registers: Registers) -> None:
        """Give a fragment value its registers."""
        if [len(block) for block in registers] != [out.type.block_registers] * out.type.blocks:
            raise InternalError("emit_mlir", f"fragment {out.name} has other registers than it had")
        self.fragments[out.name] = (
            tuple(map(self._held, registers)) if out.name in self._operands else registers
        )

    def _held(self, words: Sequence[Word]) -> tuple[Word, ...]:
        """The same in registers that are written here and nowhere else.

        A wgmma reads its A until a wait, and LLVM, which does not know, may compute what the next
        one reads ahead of that wait: but then in other registers, because it cannot move these.
        """
        count = len(words)
        text = " ".join(f"mov.b32 ${i}, ${count + i};" for i in range(count))
        values = self.words(words)
        return self.asm(text, values, [v.type for v in values], early=True, memory=False)

    def registers(self, value: Frag) -> Registers:
        """The registers of a fragment value."""
        if value.name not in self.fragments:
            raise InternalError("emit_mlir", f"fragment {value.name} is not defined here")
        return self.fragments[value.name]

    def element(self, value: Frag, block: int, group: int, row: int, col: int) -> tuple[Value, int]:
        """The register of an element, and the part of it that a shorter one takes.

        What the value has only one of, blocks, groups, rows or columns, counts as 0.
        """
        index, part = element_index(value.type, group, row, col)
        blocks = self.registers(value)
        return self.word(blocks[block if value.type.rows > 1 else 0][index]), part


def _letter(type_: str) -> str:
    return "l" if type_.startswith("!llvm.ptr") else _LETTERS[type_]
