"""Rule for the loads of fragments from plain tensors in global memory, and their parameters."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.errors import InternalError
from lowering.ir.expr import ONE, ZERO, Expr, Special
from lowering.ir.kernel import GlobalTensor
from lowering.ir.nodes import FragLoadGlobal, Stmt
from lowering.ir.types import DType

__all__ = ["RULES", "parameters"]


def _c_type(g: GlobalTensor) -> str:
    return "float" if g.dtype is DType.F32 else "unsigned short"


def parameters(e: Emitter, g: GlobalTensor) -> list[str]:
    """The kernel's parameters for a plain tensor: its address and its row stride in elements."""
    name, stride = e.names.of("global", g.name), e.names.of("stride", g.name)
    return [f"const {_c_type(g)}* __restrict__ {name}", f"long long {stride}"]


def _load_global(e: Emitter, s: FragLoadGlobal) -> None:
    """``row`` and ``col`` are those of the thread's first element, ``at`` is its address."""
    g, kind = e.global_tensor(s.src.map), s.out.type
    if g.dtype is not kind.dtype:
        raise InternalError("emit_cuda", f"{s.OP} of {kind} from {g.dtype.value} elements")
    e.declare(s.out)
    with e.out.block(""):
        row, col, at = (e.names.fresh(name) for name in ("row", "col", "at"))
        e.out.line(f"const int {row} = {e.arg(_first_row(e, s))};")
        e.out.line(f"const int {col} = {e.arg(_first_col(e, s))};")
        base, stride = e.names.of("global", g.name), e.names.of("stride", g.name)
        e.out.line(f"const {_c_type(g)}* {at} = {base} + {row} * {stride} + {col};")
        loads = _Loads(e, s, g, row, col, at)
        for block in range(kind.blocks):
            with e.groups(kind.groups):
                loads.group(block)


def _first_row(e: Emitter, s: FragLoadGlobal) -> Expr:
    if s.out.type.rows == 1:
        return s.src.row
    lane, warp = Special("lane"), Special("warpgroup.warp")
    return s.src.row + warp * 16 + lane // 4


def _first_col(e: Emitter, s: FragLoadGlobal) -> Expr:
    return s.src.col if s.out.type.cols == 1 else s.src.col + Special("lane") % 4 * 2


class _Loads:
    """The loads of one group of 8 columns in one block of 64 rows."""

    def __init__(
        self, e: Emitter, s: FragLoadGlobal, g: GlobalTensor, row: str, col: str, at: str
    ) -> None:
        self.e, self.s, self.g = e, s, g
        self.row, self.col, self.at = row, col, at
        # A row of a tensor that has only one is in bounds, and likewise a column.
        self.all_rows = g.rows == ONE and s.src.row == ZERO and s.out.type.rows == 1
        self.all_cols = g.cols == ONE and s.src.col == ZERO and s.out.type.cols == 1

    def group(self, block: int) -> None:
        """Two columns at once if the tensor allows it, else one element at a time."""
        e, out = self.e, self.s.out
        rows, cols = out.type.group
        if cols == 2 and self.g.pairs:
            for row in range(rows):
                self.pair(block, row)
        elif out.type.dtype is DType.F32:
            for row in range(rows):
                for col in range(cols):
                    register, _ = e.element(out, block, row, col)
                    e.out.line(f"{register} = {self.load('f32', block, row, col)};")
        else:
            self.halves(block)

    def pair(self, block: int, row: int) -> None:
        """Two columns of a row, with one load."""
        e, out = self.e, self.s.out
        low, _ = e.element(out, block, row, 0)
        if out.type.dtype is not DType.F32:
            e.out.line(f"{low} = {self.load('b32', block, row, 0)};")
            return
        high, _ = e.element(out, block, row, 1)
        where, inside = self.place(block, row, 0)
        e.out.call("ptx::ld_global_v2_f32", low, high, where, inside)

    def halves(self, block: int) -> None:
        """16-bit elements one by one, two of them into each register."""
        e, out = self.e, self.s.out
        rows, cols = out.type.group
        words: dict[str, list[str]] = {}
        for row in range(rows):
            for col in range(cols):
                register, _ = e.element(out, block, row, col)
                words.setdefault(register, []).append(self.load("b16", block, row, col))
        for register, loads in words.items():
            value = loads[0] if len(loads) == 1 else f"{loads[0]} | {loads[1]} << 16"
            e.out.line(f"{register} = {value};")

    def load(self, form: str, block: int, row: int, col: int) -> str:
        where, inside = self.place(block, row, col)
        return f"ptx::ld_global_{form}({where}, {inside})"

    def place(self, block: int, row: int, col: int) -> tuple[str, str]:
        """Address of an element, and the condition that it is in bounds."""
        e, g = self.e, self.g
        down = 64 * block + 8 * row
        right = " + 8 * r" * (self.s.out.type.groups > 1) + f" + {col}" * (col > 0)
        where = self.at + (f" + {down} * {e.names.of('stride', g.name)}" if down else "") + right
        tests = []
        if not self.all_rows:
            tests.append(f"{self.row}{f' + {down}' if down else ''} < {e.expr(g.rows)}")
        if not self.all_cols:
            tests.append(f"{self.col}{right} < {e.expr(g.cols)}")
        return where, " && ".join(tests) or "true"


RULES: Mapping[type[Stmt], Rule] = {FragLoadGlobal: _load_global}
