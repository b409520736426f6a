"""Loads and stores of several neighbouring columns at once, and of elements of a byte."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.cuda.emitter import Emitter
from lowering.ground.dtypes import DType
from lowering.kernel.nodes import Frag

__all__ = [
    "add_vector", "load_bool", "load_bools", "load_vector", "store_bool", "store_vector",
]  # fmt: skip

_LOAD = """\
__device__ __forceinline__ void {name}({outs}, const void* at, bool inside) {{
  asm volatile(
      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %{inside}, 0;\\n{zeros}"
      " @p ld.global{many}.{kind} {places}, [%{at}];\\n}}"
      : {results}
      : "l"(at), "r"(int(inside)));
}}"""

_STORE = """\
__device__ __forceinline__ void {name}(void* at, {ins}, bool inside) {{
  asm volatile(
      "{{\\n .reg .pred p;\\n setp.ne.b32 p, %{inside}, 0;\\n"
      " @p {does}{many}.{kind} [%0], {places};\\n}}" ::"l"(at),
      {operands}, "r"(int(inside))
      : "memory");
}}"""

_LOAD_BOOL = """\
__device__ __forceinline__ bool ld_global_bool(const unsigned char* at, bool inside) {
  unsigned value;
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n mov.b32 %0, 0;\\n"
      " @p ld.global.u8 %0, [%1];\\n}"
      : "=&r"(value)
      : "l"(at), "r"(int(inside)));
  return value != 0;
}"""

_STORE_BOOL = """\
__device__ __forceinline__ void st_global_bool(unsigned char* at, bool value, bool inside) {
  asm volatile(
      "{\\n .reg .pred p;\\n setp.ne.b32 p, %2, 0;\\n @p st.global.u8 [%0], %1;\\n}" ::"l"(at),
      "r"(unsigned(value)), "r"(int(inside))
      : "memory");
}"""

_C = {
    "b32": ("unsigned", "r"), "f32": ("float", "f"),
    "bf16x2": ("unsigned", "r"), "f16x2": ("unsigned", "r"),
}  # fmt: skip
"""C++ type and constraint of what a word is."""

_STORES = {
    "st": ("st_global", "st.global"),
    "red": ("red_global_add", "red.relaxed.gpu.global.add.noftz"),
}
"""How the name of a function begins that stores, or adds, and its instruction."""


def load_vector(
    e: Emitter, value: Frag, at: tuple[int, int, int], count: int, where: str, inside: str
) -> None:
    """Load ``count`` columns from the one at ``at`` (block, row, column of group ``r``) on."""
    if value.type.dtype is DType.PRED:
        _load_bools(e, value, at, count, where, inside)
        return
    kind, registers = _words(e, value, at, count)
    e.out.call(_function(e, "ld", kind, len(registers)), *registers, where, inside)


def store_vector(
    e: Emitter, value: Frag, at: tuple[int, int, int], count: int, where: str, inside: str
) -> None:
    """Store them."""
    if value.type.dtype is DType.PRED:
        kind, registers = "b32", _packed_bools(e, value, at, count)
    else:
        kind, registers = _words(e, value, at, count)
    e.out.call(_function(e, "st", kind, len(registers)), where, *registers, inside)


def add_vector(
    e: Emitter, value: Frag, at: tuple[int, int, int], count: int, where: str, inside: str
) -> None:
    """Add them, of 16 bits, an even number."""
    _, registers = _words(e, value, at, count)
    kind = f"{value.type.dtype.value}x2"
    e.out.call(_function(e, "red", kind, len(registers)), where, *registers, inside)


def load_bool(e: Emitter, where: str, inside: str) -> str:
    """An element of a byte as a condition."""
    e.functions["ld_global_bool"] = _LOAD_BOOL
    return f"ld_global_bool({where}, {inside})"


def load_bools(e: Emitter, registers: tuple[str, str], where: str, inside: str) -> None:
    """Two neighbours of a row as conditions, with one load."""
    both = e.names.fresh("both")
    loaded = f"ptx::ld_global_b16((const unsigned short*)({where}), {inside})"
    e.out.line(f"const unsigned {both} = {loaded};")
    for register, byte in zip(registers, (0xFF, 0xFF00), strict=True):
        e.out.line(f"{register} = {both} & {byte:#x}u;")


def store_bool(e: Emitter) -> str:
    """The function that stores a condition as a byte."""
    e.functions["st_global_bool"] = _STORE_BOOL
    return "st_global_bool"


def _words(e: Emitter, value: Frag, at: tuple[int, int, int], count: int) -> tuple[str, list[str]]:
    """The registers of these columns, and how they are called: raw words, or fp32."""
    block, row, col = at
    step = max(32 // value.type.dtype.register_bits, 1)
    columns = range(col, col + count, step)
    registers = [e.element(value, block, row, each)[0] for each in columns]
    return ("f32" if value.type.dtype is DType.F32 else "b32"), registers


def _function(e: Emitter, op: str, kind: str, count: int) -> str:
    """The function for so many words; made where it is first needed."""
    begin, does = _STORES.get(op, ("ld_global", ""))
    name = f"{begin}_v{count}_{kind}"
    of, constraint = _C[kind]
    names = [f"x{i}" for i in range(count)]
    first = 0 if op == "ld" else 1
    places = ", ".join(f"%{first + i}" for i in range(count))
    places = f"{{{places}}}" if count > 1 else places
    said = {"name": name, "kind": kind, "places": places, "many": f".v{count}" * (count > 1)}
    if op == "ld":
        e.functions[name] = _LOAD.format(
            **said, outs=", ".join(f"{of}& {n}" for n in names), at=count, inside=count + 1,
            zeros="".join(f" mov.b32 %{i}, 0;" for i in range(count)),
            results=", ".join(f'"=&{constraint}"({n})' for n in names),
        )  # fmt: skip
    else:
        e.functions[name] = _STORE.format(
            **said, does=does, ins=", ".join(f"{of} {n}" for n in names), inside=count + 1,
            operands=", ".join(f'"{constraint}"({n})' for n in names),
        )  # fmt: skip
    return name


def _load_bools(
    e: Emitter, value: Frag, at: tuple[int, int, int], count: int, where: str, inside: str
) -> None:
    block, row, col = at
    names = [e.names.fresh("bytes") for _ in range(count // 4)]
    e.out.line(f"unsigned {', '.join(names)};")
    e.out.call(_function(e, "ld", "b32", len(names)), *names, where, inside)
    for i in range(count):
        register = e.element(value, block, row, col + i)[0]
        e.out.line(f"{register} = {names[i // 4]} & {0xFF << i % 4 * 8:#x}u;")


def _packed_bools(e: Emitter, value: Frag, at: tuple[int, int, int], count: int) -> Sequence[str]:
    """Words of four conditions each."""
    block, row, col = at
    found = []
    for first in range(col, col + count, 4):
        held = [e.element(value, block, row, first + i)[0] for i in range(4)]
        found.append(" | ".join(f"unsigned({x}) << {8 * i}" for i, x in enumerate(held)))
    return found
