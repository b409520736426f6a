"""Rules for fragments from and to plain tensors in global memory, and their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from lowering.cuda.elements import moved
from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.global_elements import Elements, Rows
from lowering.cuda.narrow import STORE_BYTE, STORE_PAIR
from lowering.cuda.parameters import Parameter
from lowering.cuda.vectors import (
    add_vector,
    load_bool,
    load_bools,
    load_vector,
    store_bool,
    store_vector,
)
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.ground.layouts import ACCUMULATOR
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import GlobalTensor
from lowering.kernel.nodes import (
    Frag,
    FragLoadGlobal,
    FragRedGlobal,
    FragStoreGlobal,
    GmemRef,
    Stmt,
)
from lowering.kernel.traits import Memory
from lowering.kernel.visit import walk

__all__ = ["RULES", "parameters", "red_function"]


def parameters(e: Emitter) -> Iterator[Parameter]:
    """The kernel's parameters for plain tensors: address and strides in elements of each."""
    stored = {ref.map for s in walk(e.kernel.body) for ref in _written(s)}
    for array in e.kernel.globals:
        const = "" if array.name in stored else "const "
        for g in array.entries:
            yield Parameter(f"{const}{g.dtype.cuda}* __restrict__", e.names.of("global", g.name))
            yield from (Parameter("long long", e.names.of("stride", s)) for s in g.strides)


def _written(s: Stmt) -> Iterator[GmemRef]:
    """Places in plain tensors that a statement writes to."""
    if s.TRAITS.plain and Memory.GLOBAL in s.TRAITS.writes:
        yield from (v for f in fields(s) if isinstance(v := getattr(s, f.name), GmemRef))


def _load_global(e: Emitter, s: FragLoadGlobal) -> None:
    tensor = _tensor(e, s.OP, s.out, s.src)
    e.declare(s.out)
    with e.out.block(""):
        loads = _Loads(e, s, tensor)
        for block in range(s.out.type.blocks):
            with e.groups(s.out.type.groups):
                loads.group(block)


def _store_global(e: Emitter, s: FragStoreGlobal | FragRedGlobal) -> None:
    tensor = _tensor(e, s.OP, s.value, s.dst)
    with e.out.block(""):
        if isinstance(s, FragRedGlobal):
            rows = Rows(s.limit, s.index)
            stores = _Stores(e, s.value, s.dst, tensor, rows, _red(e, s, tensor))
        else:
            rows = Rows(s.limit, s.index, s.limit_cols)
            stores = _Stores(e, s.value, s.dst, tensor, rows, trans=s.trans)
        for block in range(s.value.type.blocks):
            with e.groups(s.value.type.groups):
                stores.group(block)


def _tensor(e: Emitter, op: str, value: Frag, ref: GmemRef) -> GlobalTensor:
    g = e.global_tensor(ref.map)
    if g.dtype.register is not value.type.dtype:
        what = f"{op} of {value.type} and {g.dtype.value} elements"
        raise InternalError("emit_cuda", what)
    return g


_FORMS = {
    "s32": ("int", "b32", "r"),
    "f32": ("float", "b32", "f"),
    "b16": ("unsigned short", "b16", "h"),
}
"""Of what is loaded: its type, its bits, the register's constraint."""


def _load_of(form: str, fetched: int, name: str) -> str:
    """A function that loads an element, zero out of bounds; with ``fetched`` the L2 gets so many
    bytes around it.
    """
    kind, bits, letter = _FORMS[form]
    around = f".L2::{fetched}B" if fetched else ""
    return f"""\
__device__ __forceinline__ {kind} {name}(const {kind}* at, bool inside) {{
  {kind} value;
  asm volatile(
      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n mov.{bits} %0, 0;\\n"
      " @p ld.global{around}.{form} %0, [%1];\\n}}"
      : "=&{letter}"(value)
      : "l"(at), "r"(int(inside)));
  return value;
}}"""


_STORE_S32 = """\
__device__ __forceinline__ void st_global_s32(int* at, int value, bool inside) {
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n"
      " @p st.global.s32 [%0], %1;\\n}" ::"l"(at),
      "r"(value), "r"(int(inside))
      : "memory");
}

__device__ __forceinline__ void st_global_v2_s32(int* at, int a, int b, bool inside) {
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %3, 0;\\n"
      " @p st.global.v2.s32 [%0], {%1, %2};\\n}" ::"l"(at),
      "r"(a), "r"(b), "r"(int(inside))
      : "memory");
}"""


class _Loads(Elements):
    """The loads of one group of 8 columns in one block of 64 rows."""

    def __init__(self, e: Emitter, s: FragLoadGlobal, tensor: GlobalTensor) -> None:
        super().__init__(e, s.out.type, s.src, tensor, Rows(s.limit, s.index), trans=s.trans)
        self.value, self.fetched = s.out, s.fetched

    def group(self, block: int) -> None:
        """As many columns at once as the tensor allows, else one element at a time."""
        e, out = self.e, self.value
        rows, cols = out.type.group
        form = moved(out.type.dtype)
        wide = _at_once(self.g, out.type, self.trans)
        if wide:
            for row in range(rows):
                for col in range(0, cols, wide):
                    load_vector(e, out, (block, row, col), wide, *self.place(block, row, col))
        elif cols == 2 and self.g.pairs and not self.trans and form != "s32":
            for row in range(rows):
                self.pair(block, row)
        elif form != "b16":
            for row in range(rows):
                for col in range(cols):
                    register, _ = e.element(out, block, row, col)
                    e.out.line(f"{register} = {self.load(form, block, row, col)};")
        else:
            self.halves(block)

    def pair(self, block: int, row: int) -> None:
        """Two columns of a row, with one load."""
        e, out = self.e, self.value
        low, _ = e.element(out, block, row, 0)
        form = moved(out.type.dtype)
        if form == "b16":
            e.out.line(f"{low} = {self.load('b32', block, row, 0)};")
            return
        high, _ = e.element(out, block, row, 1)
        where, inside = self.place(block, row, 0)
        if form == "bool":
            load_bools(e, (low, high), where, inside)
            return
        e.out.call("ptx::ld_global_v2_f32", low, high, where, inside)

    def halves(self, block: int) -> None:
        """16-bit elements one by one, two of them into each register."""
        e, out = self.e, self.value
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
        if form == "bool":
            return load_bool(self.e, where, inside)
        fetched = self.fetched if form in ("f32", "b16") else 0
        if form == "s32" or fetched:
            name = f"ld_global_l2_{fetched}b_{form}" if fetched else f"ld_global_{form}"
            self.e.functions[name] = _load_of(form, fetched, name)
            return f"{name}({where}, {inside})"
        return f"ptx::ld_global_{form}({where}, {inside})"


class _Stores(Elements):
    """The stores, or the operations ``red``, of one group of 8 columns in one block of 64 rows."""

    def __init__(
        self, e: Emitter, value: Frag, ref: GmemRef, tensor: GlobalTensor, rows: Rows,
        function: str = "ptx::st_global", trans: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(e, value.type, ref, tensor, rows, const="", trans=trans)
        self.value, self.function = value, function
        self.vector = store_vector if function.startswith("ptx") else add_vector
        self.pairs = tensor.pairs and value.type.group[1] == 2 and moved(value.type.dtype) != "bool"
        self.pairs = self.pairs and (function.startswith("ptx") or tensor.dtype.bits == 16)
        self.pairs = self.pairs and not trans
        self.tests += _owner(e, value.type)

    def group(self, block: int) -> None:
        """As many columns at once as the tensor allows, else one element at a time."""
        rows, cols = self.value.type.group
        if many := _at_once(self.g, self.value.type, self.trans):
            for row in range(rows):
                for col in range(0, cols, many):
                    at = block, row, col
                    self.vector(self.e, self.value, at, many, *self.place(*at))
            return
        form = moved(self.value.type.dtype)
        if form == "b8":
            for row in range(rows):
                self.bytes(block, row)
            return
        wide = form != "b16"
        if form == "s32":
            self.e.functions["st_global_s32"], self.function = _STORE_S32, "st_global"
        if form == "bool":
            self.function = store_bool(self.e).removesuffix("_bool")
        for row in range(rows):
            places = [self.e.element(self.value, block, row, col) for col in range(cols)]
            if self.pairs:
                values = [register for register, _ in places[: 2 if wide else 1]]
                self.store(f"v2_{form}" if wide else "b32", block, row, 0, *values)
                continue
            for col, (register, half) in enumerate(places):
                value = f"{register} >> 16" if half else register
                self.store(form, block, row, col, value)

    def bytes(self, block: int, row: int) -> None:
        """Elements of 8 bits of a row, two at once where the tensor allows it."""
        name, text, step = ("pair", STORE_PAIR, 2) if self.pairs else ("b8", STORE_BYTE, 1)
        self.function, self.e.functions[f"st_global_{name}"] = "st_global", text
        for col in range(0, self.value.type.group[1], step):
            register, part = self.e.element(self.value, block, row, col)
            self.store(name, block, row, col, f"{register} >> {8 * part}" if part else register)

    def store(self, form: str, block: int, row: int, col: int, *values: str) -> None:
        where, inside = self.place(block, row, col)
        self.e.out.call(f"{self.function}_{form}", where, *values, inside)


def _at_once(tensor: GlobalTensor, kind: FragmentType, trans: bool) -> int:
    """Columns of a wide layout that are accessed by vectors of words; 0 where there are none, as of
    wgmma's layouts, whose threads have pairs.
    """
    together = tensor.together(kind.layout.span)
    whole = together * tensor.dtype.bytes >= 4 and kind.layout.span > ACCUMULATOR.span
    return together if whole and kind.cols > 1 and not trans else 0


def _owner(e: Emitter, kind: FragmentType) -> list[str]:
    """Conditions that the executing thread stores its elements: of a row or column that several
    threads hold, the first one does.
    """
    warp = f"{e.special('warpgroup.warp')} == 0" if kind.rows == 1 else ""
    if kind.cols == 1:
        among = kind.layout.lanes - 1
        lane = f"{e.special('lane')} == 0" if warp else f"({e.special('lane')} & {among}) == 0"
    else:
        lane = f"{e.special('lane')} < {kind.layout.lanes}" if warp else ""
    return [test for test in (warp, lane) if test]


_RED_F32 = """\
__device__ __forceinline__ void red_global_add_f32(float* at, float value, bool inside) {
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n"
      " @p red.relaxed.gpu.global.add.f32 [%0], %1;\\n}" ::"l"(at),
      "f"(value), "r"(int(inside))
      : "memory");
}"""

_RED_BITS = """\
// As integers fp32 numbers are in order where the sign is clear, and in reverse where it is set.
__device__ __forceinline__ void red_global_{op}_f32(float* at, float value, bool inside) {{
  const int bits = value != value ? {nan} : __float_as_int(value);
  asm volatile(
      "{{\\n .reg .pred p, q;\\n setp.ne.b32 p, %2, 0;\\n"
      " setp.ge.and.s32 q, %1, 0, p;\\n setp.lt.and.s32 p, %1, 0, p;\\n"
      " @q red.relaxed.gpu.global.{op}.s32 [%0], %1;\\n"
      " @p red.relaxed.gpu.global.{other}.u32 [%0], %1;\\n}}" ::"l"(at),
      "r"(bits), "r"(int(inside))
      : "memory");
}}"""


_RED_HALVES = """\
__device__ __forceinline__ void red_global_add_{kind}_b32(
    {of}* at, unsigned pair, bool inside) {{
  asm volatile(
      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n"
      " @p red.relaxed.gpu.global.add.noftz.{kind}x2 [%0], %1;\\n}}" ::"l"(at),
      "r"(pair), "r"(int(inside))
      : "memory");
}}

__device__ __forceinline__ void red_global_add_{kind}_b16(
    {of}* at, unsigned short value, bool inside) {{
  asm volatile(
      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n"
      " @p red.relaxed.gpu.global.add.noftz.{kind} [%0], %1;\\n}}" ::"l"(at),
      "h"(value), "r"(int(inside))
      : "memory");
}}"""


def _red(e: Emitter, s: FragRedGlobal, tensor: GlobalTensor) -> str:
    """How the names of the device functions begin that do an operation ``red`` on elements, or
    pairs of them, which are put into the text.
    """
    kind = tensor.dtype.value
    if tensor.dtype is DType.F32:
        e.functions[f"red_global_{s.op}_f32"] = red_function(s.op)
        return f"red_global_{s.op}"
    name = f"red_global_{s.op}_{kind}"
    if not _at_once(tensor, s.value.type, trans=False):
        e.functions[name] = _RED_HALVES.format(kind=kind, of=tensor.dtype.cuda)
    return name


def red_function(op: str) -> str:
    """The device function that wraps ``red.global`` of fp32.

    A NaN is made the one that wins against every number and is beaten by none.
    """
    if op == "add":
        return _RED_F32
    other, nan = ("min", "0x7fffffff") if op == "max" else ("max", "-1")
    return _RED_BITS.format(op=op, other=other, nan=nan)


RULES: Mapping[type[Stmt], Rule] = {
    FragLoadGlobal: _load_global, FragStoreGlobal: _store_global, FragRedGlobal: _store_global,
}  # fmt: skip
