"""The rule for ``copy.tile``: neighbouring threads copy neighbouring pieces of a row.

So a warp's loads are whole sectors wherever a row begins, and its stores are free of bank
conflicts: 32 neighbouring pieces are in 32 banks, or several in one word. A thread's loads of up to
``_TOGETHER`` pieces are all issued before the first is stored; that is what hides their latency.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.global_elements import outer_dimensions
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO
from lowering.kernel.copy_tile import CopyTile, Pieces, pieces_of
from lowering.kernel.nodes import Stmt

__all__ = ["RULES"]

_TOGETHER = 128
"""Bytes of registers that hold what a thread has loaded and not stored yet."""

_WORDS = {1: "unsigned", 2: "unsigned", 4: "unsigned", 8: "uint2", 16: "uint4"}
"""Registers of a piece of so many bytes."""


def _registers(size: int, first: int) -> tuple[list[str], str, str]:
    """Fields of a piece, the operand that they are as ``%first`` and so on, and its type in PTX."""
    if size <= 4:
        return ["value"], f"%{first}", f"u{8 * size}"
    fields = ["value.x", "value.y", "value.z", "value.w"][: size // 4]
    places = ", ".join(f"%{n}" for n, _ in enumerate(fields, first))
    return fields, f"{{{places}}}", f"v{len(fields)}.u32"


def _load_function(size: int) -> str:
    """``ld.global`` of a piece, zero out of bounds."""
    fields, places, kind = _registers(size, 0)
    zeros = " ".join(f"mov.b32 %{n}, 0;" for n in range(len(fields)))
    outs = ", ".join(f'"=&r"({f})' for f in fields)
    at, inside = len(fields), len(fields) + 1
    return f"""\
__device__ __forceinline__ {_WORDS[size]} load_piece_{size}(const void* at, bool inside) {{
  {_WORDS[size]} value;
  asm volatile(
      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %{inside}, 0;\\n {zeros}\\n"
      " @p ld.global.{kind} {places}, [%{at}];\\n}}"
      : {outs}
      : "l"(at), "r"(int(inside)));
  return value;
}}"""


def _store_function(size: int) -> str:
    """``st.shared`` of a piece."""
    fields, places, kind = _registers(size, 1)
    ins = ", ".join(f'"r"({f})' for f in fields)
    return f"""\
__device__ __forceinline__ void store_piece_{size}(unsigned dst, {_WORDS[size]} value) {{
  asm volatile("st.shared.{kind} [%0], {places};" ::"r"(dst), {ins} : "memory");
}}"""


def _copy_tile(e: Emitter, s: CopyTile) -> None:
    tensor, buffer = e.global_tensor(s.src.map), e.buffer(s.dst.buffer)
    p = pieces_of(s, tensor, buffer)
    if e.box_column(s.dst)[1] != ZERO:
        raise InternalError("emit_cuda", f"{s.OP} to {s.dst.buffer} starts within a box")
    e.functions[f"load_piece_{p.bytes}"] = _load_function(p.bytes)
    e.functions[f"store_piece_{p.bytes}"] = _store_function(p.bytes)
    with e.out.block(""):
        first = _First(e, s, p)
        most = min(p.turns, _TOGETHER // max(p.bytes, 4))
        for box in range(p.boxes):
            whole = p.turns // most
            first.box(box)
            if whole > 1:
                e.out.line("#pragma unroll 1")
                with e.out.block(f"for (int turn = 0; turn < {whole}; ++turn)"):
                    first.turns(most)
            else:
                first.turns(most)
            if p.turns % most:
                first.turns(p.turns % most)


class _First:
    """What a thread computes once: its first piece in global and in shared memory.

    Pointers go on from piece to piece. Were they computed from the number of the piece, the
    compiler would keep all of them in registers, since they are the same in each step.
    """

    def __init__(self, e: Emitter, s: CopyTile, pieces: Pieces) -> None:
        self.e, self.pieces = e, pieces
        tensor, self.buffer = e.global_tensor(s.src.map), e.buffer(s.dst.buffer)
        self.span = self.buffer.box_cols * self.buffer.dtype.bytes
        self.type = tensor.dtype.cuda
        thread = f"({e.special('warpgroup.warp')} * 32 + {e.special('lane')})"
        self.down, right = self._int("down", f"{thread} / {pieces.across}"), e.names.fresh("right")
        e.out.line(f"const int {right} = {thread} % {pieces.across};")
        terms = [e.names.of("global", tensor.name)]
        *strides, stride = [e.names.of("stride", x) for x in tensor.strides]
        outer, tests = outer_dimensions(e, s.src, tensor, strides)
        terms += outer
        row = self._int("row", e.sum(self.down, s.src.row))
        self.col = self._int("col", e.sum(f"{right} * {pieces.elements}", s.src.col))
        self.at, self.dst = e.names.fresh("at"), e.names.fresh("dst")
        terms += [f"{row} * {stride}", self.col]
        e.out.line(f"const {self.type}* const {self.at} = {' + '.join(terms)};")
        where = f"{e.line_address(s.dst)} + {self.down} * {self.span} + {right} * {pieces.bytes}"
        e.out.line(f"const unsigned {self.dst} = {where};")
        self.step = e.names.fresh("step")
        e.out.line(f"const long long {self.step} = {stride} * {pieces.rows_at_once};")
        # What the tile has of rows is a limit like what the tensor has, as far as loads go.
        below = f"{e.expr(tensor.rows)} - {row}"
        self.rows = self._int("rows", " && ".join(tests) + f" ? {below} : 0" if tests else below)
        self.cols = e.expr(tensor.cols)

    def _int(self, wish: str, value: str) -> str:
        name = self.e.names.fresh(wish)
        self.e.out.line(f"const int {name} = {value};")
        return name

    def box(self, box: int) -> None:
        """Begin with a box: the thread's place in it, and how many rows of the tensor follow."""
        e, size = self.e, self.buffer.lines * self.span
        right, start = (f" + {box * n}" * (box > 0) for n in (self.buffer.box_cols, size))
        self.source, self.target = e.names.fresh("source"), e.names.fresh("target")
        self.left = e.names.fresh("left")
        e.out.line(f"const {self.type}* {self.source} = {self.at}{right};")
        e.out.line(f"unsigned {self.target} = {self.dst}{start};")
        e.out.line(f"int {self.left} = {self.col}{right} < {self.cols} ? {self.rows} : 0;")
        if self._short:
            self.own = e.names.fresh("own")
            e.out.line(f"int {self.own} = {self.pieces.rows} - {self.down};")

    @property
    def _short(self) -> bool:
        """Whether some threads have a piece less than others."""
        return self.pieces.rows % self.pieces.rows_at_once != 0

    def turns(self, count: int) -> None:
        """Load the next ``count`` pieces, then store them."""
        e, p = self.e, self.pieces
        held, down = e.names.fresh("held"), p.rows_at_once
        e.out.line(f"{_WORDS[p.bytes]} {held}[{count}];")
        mine = f" && r * {down} < {self.own}" if self._short else ""
        e.out.line("#pragma unroll")
        with e.out.block(f"for (int r = 0; r < {count}; ++r)"):
            inside = f"r * {down} < {self.left}{mine}"
            e.out.line(f"{held}[r] = load_piece_{p.bytes}({self.source}, {inside});")
            e.out.line(f"{self.source} += {self.step};")
        e.out.line("#pragma unroll")
        with e.out.block(f"for (int r = 0; r < {count}; ++r)"):
            where = e.names.fresh("where")
            e.out.line(f"unsigned {where} = {self.target} + r * {down * self.span};")
            if flipped := e.swizzled(self.buffer, where):
                e.out.line(f"{where} ^= {flipped};")
            store = f"store_piece_{p.bytes}({where}, {held}[r]);"
            e.out.line(f"if (r * {down} < {self.own}) {store}" if self._short else store)
        e.out.line(f"{self.target} += {count * down * self.span};")
        e.out.line(f"{self.left} -= {count * down};")
        if self._short:
            e.out.line(f"{self.own} -= {count * down};")


RULES: Mapping[type[Stmt], Rule] = {CopyTile: _copy_tile}
