"""Rules for counters in global memory, their parameters, and the functions of their atomics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.cuda import watch
from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.expressions import C_TYPES
from lowering.cuda.parameters import Parameter
from lowering.ground.errors import InternalError
from lowering.kernel.atomic import ATOM_ORDERS, ATOMS
from lowering.kernel.nodes import Atom, CounterRef, CounterWait, Stmt

__all__ = ["RULES", "atom_function", "parameters"]

_TYPES = {"exch": "b32", "max": "s32", "min": "s32"}
"""PTX's type of an operation, where it is not u32."""


def parameters(e: Emitter) -> Iterator[Parameter]:
    """The kernel's parameters for counters: the address of each array."""
    for c in e.kernel.counters:
        yield Parameter("int*", e.names.of("counter", c.name))


def atom_function(op: str, order: str) -> str:
    """The device function that wraps one form of ``atom``."""
    return "\n".join([
        f"__device__ __forceinline__ int {_name(op, order)}(int* at, int value) {{",
        "  int old;",
        f'  asm volatile("atom.{order}.global.{op}.{_TYPES.get(op, "u32")} %0, [%1], %2;"',
        '               : "=r"(old)',
        '               : "l"(at), "r"(value)',
        '               : "memory");',
        "  return old;",
        "}",
    ])  # fmt: skip


def _name(op: str, order: str) -> str:
    return f"atom_{op}_{order.replace('.', '_')}"


def _atom(e: Emitter, s: Atom) -> None:
    if s.op not in ATOMS or s.order not in ATOM_ORDERS:
        raise InternalError("emit_cuda", f"no atom {s.op} with order {s.order}")
    e.atoms.add((s.op, s.order))
    call = f"{_name(s.op, s.order)}({_address(e, s.counter)}, {e.arg(s.value)});"
    result = f"const {C_TYPES[s.out.type]} {e.names.define('scalar', s.out.name)} = "
    e.out.line((result if s.out.name in e.read else "") + call)


def _counter_wait(e: Emitter, s: CounterWait) -> None:
    if e.kernel.watch is not None:
        return watch.counter_wait(e, s, _address(e, s.counter), e.kernel.watch)
    e.out.line(f"ptx::counter_wait({_address(e, s.counter)}, {e.arg(s.value)});")


def _address(e: Emitter, ref: CounterRef) -> str:
    return e.sum(e.names.of("counter", ref.array), ref.index)


RULES: Mapping[type[Stmt], Rule] = {Atom: _atom, CounterWait: _counter_wait}
