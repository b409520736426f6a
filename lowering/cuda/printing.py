"""Rules for what kernels print: ``printf`` with the clock, the CTA and who it is."""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.elements import value
from lowering.cuda.emitter import Emitter, Rule
from lowering.ground.expr import TRUE, Expr, ScalarType, type_of
from lowering.kernel.nodes import FragPrint, Print, Stmt

__all__ = ["RULES"]


def _print(e: Emitter, s: Print) -> None:
    wide = type_of(s.value) is ScalarType.I64
    number = f"({'long long' if wide else 'int'})({e.arg(s.value)})"
    _line(e, s, "%lld" if wide else "%d", number, s.when, "")


def _frag_print(e: Emitter, s: FragPrint) -> None:
    """The element's register is known when the kernel is made; its lane asks for itself."""
    _, lane, (block, group, row, inner) = s.value.type.layout.owner(s.row, s.col)
    with e.out.block(""):
        e.out.line(f"constexpr int r = {group};")
        register, half = e.element(s.value, block, row, inner)
        number = value(s.value.type.dtype, register, half)
        mine = f"{e.special('lane')} == {lane}"
        _line(e, s, "%g", f"(double){number}", s.when, mine)


def _line(e: Emitter, s: Print | FragPrint, form: str, number: str, when: Expr, mine: str) -> None:
    """One line; ``mine`` is what else the thread asks."""
    conditions = [c for c in (mine, "" if when == TRUE else e.expr(when)) if c]
    branch = f"if ({' && '.join(conditions)}) " if conditions else ""
    text = f"%lld cta %d {s.role} warp %d: {s.where}: {s.what} = {form}\\n"
    cta, warp = e.special("ctaid.x"), e.special("warp")
    e.out.line(f'{branch}printf("{text}", clock64(), (int){cta}, (int){warp}, {number});')


RULES: Mapping[type[Stmt], Rule] = {Print: _print, FragPrint: _frag_print}
