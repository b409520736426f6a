"""Rules for what kernels print: ``vprintf``, which CUDA's ``printf`` becomes, with a line's numbers
in local memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from lowering.ground.expr import TRUE, Expr, ScalarType, Special, as_expr, type_of
from lowering.kernel.nodes import FragPrint, Print, Stmt
from lowering.mlir.elements import as_f32
from lowering.mlir.emitter import Emitter, Rule
from lowering.mlir.ssa import I32, I64, Value

__all__ = ["RULES"]

_F64 = "f64"
_FORMS = {I64: "%lld", I32: "%d", _F64: "%g"}


def _print(e: Emitter, s: Print) -> None:
    value = e.expr(s.value)
    if type_of(s.value) is ScalarType.PRED:
        value = e.out.op(f"arith.extui {value} : i1 to i32", I32)
    _line(e, s, value, s.when)


def _frag_print(e: Emitter, s: FragPrint) -> None:
    """The element's register is known when the kernel is made; its lane asks for itself."""
    _, lane, place = s.value.type.layout.owner(s.row, s.col)
    number = as_f32(e, s.value.type.dtype, *e.element(s.value, *place))
    wide = e.out.op(f"arith.extf {number} : f32 to f64", _F64)
    _line(e, s, wide, Special("lane").eq(lane).logical_and(s.when))


def _line(e: Emitter, s: Print | FragPrint, value: Value, when: Expr) -> None:
    """One line, if ``when`` holds: the clock, the CTA, who it is, and the number."""
    said = f"%lld cta %d {s.role} warp %d: {s.where}: {s.what} = {_FORMS[value.type]}"
    text = _text(e, said)
    fields = f"!llvm.struct<(i64, i32, i32, {value.type})>"
    one = e.out.constant(1)
    # In the frame, so that the stack does not grow in a loop.
    numbers = e.front.op(f"llvm.alloca {one} x {fields} : (i32) -> !llvm.ptr", "!llvm.ptr")
    always = as_expr(when) == TRUE
    with nullcontext() if always else e.region(f"scf.if {e.expr(when)}"):
        _call(e, text, numbers, fields, value)


def _text(e: Emitter, said: str) -> str:
    """A text in constant memory, by its name; the same text once."""
    found = next((n for n, line in e.functions.items() if f'"{said}' in line), "")
    if not found:
        found = f"printed{sum(n.startswith('printed') for n in e.functions)}"
        kind = f"!llvm.array<{len(said) + 2} x i8>"
        head = f"llvm.mlir.global internal constant @{found}"
        e.functions[found] = f'{head}("{said}\\0A\\00") {{addr_space = 0 : i32}} : {kind}'
    return found


def _call(e: Emitter, text: str, numbers: Value, fields: str, value: Value) -> None:
    e.functions["vprintf"] = "llvm.func @vprintf(!llvm.ptr, !llvm.ptr) -> i32"
    clock = e.out.op("nvvm.read.ptx.sreg.clock64 : i64", I64)
    told = clock, e.expr(Special("ctaid.x")), e.expr(Special("warp")), value
    for i, number in enumerate(told):
        at = e.behind(numbers, f"0, {i}", fields)
        e.out.line(f"llvm.store {number}, {at} : {number.type}, !llvm.ptr")
    form = e.out.op(f"llvm.mlir.addressof @{text} : !llvm.ptr", "!llvm.ptr")
    arguments = f"({form}, {numbers}) : (!llvm.ptr, !llvm.ptr)"
    e.out.op(f"llvm.call @vprintf{arguments} -> i32", I32)


RULES: Mapping[type[Stmt], Rule] = {Print: _print, FragPrint: _frag_print}
