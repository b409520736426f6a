"""Kernel IR to MLIR: an ``llvm.func`` with ``nvvm.kernel``, whose body is scf, arith and nvvm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lowering.ground.errors import InternalError
from lowering.ground.expr import Const
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Stmt
from lowering.kernel.tensors import TensorMap
from lowering.mlir import (
    barriers,
    compute,
    control,
    copies,
    counters,
    global_memory,
    movement,
    plain,
    printing,
    random,
    reductions,
    shuffles,
    stamps,
    tensor_memory,
    wgmma,
    words,
)
from lowering.mlir.emitter import SHARED, Emitter, Rule
from lowering.mlir.ssa import I32, I64, SCALARS, Value

__all__ = ["RULES", "emit_mlir", "function", "parameters"]

RULES: Mapping[type[Stmt], Rule] = {
    **control.RULES, **barriers.RULES, **movement.RULES, **compute.RULES, **wgmma.RULES,
    **global_memory.RULES, **counters.RULES, **reductions.RULES,
    **plain.RULES, **shuffles.RULES, **copies.RULES,
    **printing.RULES, **tensor_memory.RULES,
    **random.RULES, **stamps.RULES, **words.RULES,
}  # fmt: skip
"""The rule of each statement that MLIR has."""

_ALIGN = 1024
"""Alignment of shared memory: swizzles and descriptors take it for granted."""

_MAP_BYTES, _MAP_ALIGN = 128, 64
"""A tensor map as a parameter (PTX ISA, tensor map)."""

_GLOBAL = "!llvm.ptr<1>"


def emit_mlir(kernel: Kernel) -> str:
    """The module of a final kernel; its parameters are those of the CUDA text, in the same order.

    The text parses in MLIR from LLVM 21 on: operations whose short form has changed since are
    written in the generic one.

    Raises:
        UnsupportedError: a statement that has no rule here, by its name.
        InternalError: the kernel is not final.
    """
    if not kernel.name.isidentifier():
        raise InternalError("emit_mlir", f"kernel name {kernel.name!r} is no identifier")
    e = Emitter(kernel, RULES)
    given = list(parameters(e))
    stamps.frame(e)
    _storage(e)
    e.body(kernel.body)
    lines = [f"{alias} = {text}" for alias, text in sorted(e.out.aliases.items())]
    lines.append("module {")
    if kernel.shared or kernel.mbarriers:
        lines.append(
            f"  llvm.mlir.global external @{SHARED}() {{addr_space = 3 : i32, "
            f"alignment = {_ALIGN} : i64}} : !llvm.array<0 x i8>"
        )
    return "\n".join([*lines, *function(e, given), "}", ""])


def function(e: Emitter, given: Sequence[str]) -> list[str]:
    """The functions that a body calls, and the kernel's own, whose parameters these are."""
    lines = [f"  {text}" for _, text in sorted(e.functions.items())]
    lines.append(f"  llvm.func @{e.kernel.name}(")
    lines += [f"    {p}," for p in given[:-1]] + [f"    {p}" for p in given[-1:]]
    lines.append(f"  ) attributes {{{', '.join(_attributes(e.kernel))}}} {{")
    lines += [f"    {text}" for text, _ in e.out.constants.values()]
    return [*lines, *e.front.lines, *e.out.lines, "    llvm.return", "  }"]


def _attributes(kernel: Kernel) -> Iterator[str]:
    """What the launch bounds of the CUDA text say; without them setmaxnreg is ignored (C7508)."""
    yield "nvvm.kernel"
    yield f"nvvm.maxntid = array<i32: {kernel.threads}, 1, 1>"
    yield "nvvm.minctasm = 1 : i32"
    if kernel.cluster > 1:
        yield f"nvvm.cluster_dim = array<i32: {kernel.cluster}, 1, 1>"


def parameters(e: Emitter) -> Iterator[str]:
    """Tensor maps, addresses of those in device memory, address and strides of each plain tensor,
    trace buffers, watch, counters, workspaces, scalars.
    """
    kernel = e.kernel
    for m in kernel.tensor_maps:
        if not m.device:
            yield _parameter(e, f"%map.{m.name}", m.name, "!llvm.ptr", _by_value(m))
    for m in kernel.tensor_maps:
        if m.device:
            yield _parameter(e, f"%map.{m.name}", m.name, "!llvm.ptr")
    for array in kernel.globals:
        for g in array.entries:
            yield _parameter(e, f"%global.{g.name}", g.name, _GLOBAL, " {llvm.noalias}")
            for stride in g.strides:
                yield _parameter(e, f"%{stride}", stride, I64)
    for kind, named in (
        ("trace", kernel.traces),
        ("watch", [kernel.watch] if kernel.watch else []),
        ("counter", kernel.counters),
        ("workspace", kernel.workspaces),
    ):
        for thing in named:
            yield _parameter(e, f"%{kind}.{thing.name}", thing.name, _GLOBAL)
    for var in kernel.params:
        yield _parameter(e, var.name, var.name, SCALARS[var.type])


def _parameter(e: Emitter, key: str, wish: str, type_: str, attributes: str = "") -> str:
    value = e.scalars[key] = Value(e.out.name(wish), type_)
    return f"{value}: {type_}{attributes}"


def _by_value(m: TensorMap) -> str:
    count = m.count or Const(1)
    if not isinstance(count, Const):
        raise InternalError("emit_mlir", f"{m.count} tensor maps {m.name} as a parameter")
    size = f"!llvm.array<{_MAP_BYTES * count.value} x i8>"
    return f" {{llvm.align = {_MAP_ALIGN} : i64, llvm.byval = {size}, nvvm.grid_constant}}"


def _storage(e: Emitter) -> None:
    """Addresses of the shared buffers and the mbarriers."""
    if not (e.kernel.shared or e.kernel.mbarriers):
        return
    out = e.front
    pointer = out.op(f"llvm.mlir.addressof @{SHARED} : !llvm.ptr<3>", "!llvm.ptr<3>")
    base = out.op(f"llvm.ptrtoint {pointer} : !llvm.ptr<3> to i32", I32, "smem")
    # As PTX: LLVM knows the alignment and would drop the check, and with it the only use of a
    # symbol that roles name in PTX themselves, which then nobody declares.
    asm = f'llvm.inline_asm asm_dialect = att "and.b32 $0, $1, {_ALIGN - 1};", "=r,r"'
    low = out.op(f"{asm} {base} : (i32) -> i32", I32)
    wrong = out.op(f"arith.cmpi ne, {low}, {out.constant(0)} : i32", "i1")
    # Swizzles and descriptors take the alignment for granted; a wrong result would be silent.
    out.line(f"scf.if {wrong} {{")
    out.line('  "llvm.intr.trap"() : () -> ()')
    out.line("}")
    e.place(base, out)
