"""Rule for stamps, and what a warp keeps for a trace buffer: its part, and how many it has made."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.ground.expr import ZERO, Const, Expr, ScalarType, Special
from lowering.kernel.kernel import TraceBuffer
from lowering.kernel.nodes import Stamp, Stmt
from lowering.kernel.places import cta_number
from lowering.mlir.emitter import Emitter, Rule
from lowering.mlir.ssa import I32, I64, Value

__all__ = ["RULES", "frame"]

_LOCAL = "!llvm.ptr"
_WIDE = Const(0, ScalarType.I64)


def frame(e: Emitter) -> None:
    """What a warp keeps. LLVM's code generator makes a register of a count in the first block: in
    front of everything that branches.
    """
    for t in e.kernel.traces:
        warp = cta_number(e.kernel) * (e.kernel.threads // 32) + Special("warp")
        start = e.expr(warp * (2 * (1 + t.slots)) + _WIDE)
        e.scalars[f"%part.{t.name}"] = e.behind(e.scalars[f"%trace.{t.name}"], start, I64)
        one = e.out.constant(1)
        count = e.front.op(f"llvm.alloca {one} x i32 : (i32) -> {_LOCAL}", _LOCAL)
        e.front.line(f"llvm.store {e.out.constant(0)}, {count} : i32, {_LOCAL}")
        e.scalars[f"%made.{t.name}"] = count


def _stamp(e: Emitter, s: Stamp) -> None:
    t = e.kernel.trace(s.buffer)
    (now,) = e.words(e.asm(f"mov.u64 $0, %{s.clock};", (), [I64]))
    count = e.scalars[f"%made.{t.name}"]
    made = e.out.op(f"llvm.load {count} : {_LOCAL} -> i32", I32)
    told = e.expr(s.value)
    number = e.bound(made, f"made.{made.name}")
    elected = e.out.op("nvvm.elect.sync -> i1", "i1")
    with e.region(f"scf.if {elected}"):
        with e.region(f"scf.if {e.expr(number < t.slots)}"):
            wide = e.out.op(f"arith.extui {told} : i32 to i64", I64)
            upper = e.out.op(f"arith.shli {wide}, {e.out.constant(32, I64)} : i64", I64)
            code = e.out.constant(t.code(s.event, s.phase, s.clock), I64)
            _put(e, t, number + 1, now, e.out.op(f"arith.ori {upper}, {code} : i64", I64))
        made_now = e.out.op(f"arith.extui {e.expr(number + 1)} : i32 to i64", I64)
        _put(e, t, ZERO, made_now, e.out.constant(0, I64))
    e.out.line(f"nvvm.bar.warp.sync {e.out.constant(-1)} : i32")
    e.out.line(f"llvm.store {e.expr(number + 1)}, {count} : i32, {_LOCAL}")


def _put(e: Emitter, t: TraceBuffer, index: Expr, low: Value, high: Value) -> None:
    """A record of two words."""
    at = e.behind(e.scalars[f"%part.{t.name}"], e.expr(index * 2 + _WIDE), I64)
    e.asm("st.global.v2.u64 [$0], {$1, $2};", [at, low, high])


RULES: Mapping[type[Stmt], Rule] = {Stamp: _stamp}
