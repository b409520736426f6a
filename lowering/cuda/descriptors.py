"""Parameters for tensor maps, and rules for those in device memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.cuda.emitter import Emitter, Rule
from lowering.cuda.parameters import Parameter
from lowering.ground.errors import InternalError
from lowering.ground.expr import Const
from lowering.kernel.nodes import (
    FenceTensormapAcquire,
    FenceTensormapRelease,
    Stmt,
    TensormapReplaceAddress,
    TensormapReplaceDim,
)
from lowering.kernel.tensors import TensorMap

__all__ = ["RULES", "parameters"]

_ARRAY = """\
template <int count>
struct TensorMaps {
  TensorMap at[count];
};"""

_FUNCTIONS = {
    "fence_tensormap_acquire": (
        "const TensorMap* map",
        "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;", '"l"(map)',
    ),
    "fence_tensormap_release": ("", "fence.proxy.tensormap::generic.release.gpu;", ""),
    "tensormap_replace_address": (
        "TensorMap* map, const void* address",
        "tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;",
        '"l"(map), "l"(address)',
    ),
}  # fmt: skip
"""Name -> parameters, instruction, operands."""


def parameters(e: Emitter) -> list[Parameter]:
    """Descriptors by value first, then the addresses of those in device memory."""
    return [*_by_value(e), *_by_address(e)]


def _by_value(e: Emitter) -> Iterator[Parameter]:
    for m in e.kernel.tensor_maps:
        if not m.device:
            yield Parameter(_type(e, m), e.names.of("map", m.name), constant=True)


def _by_address(e: Emitter) -> Iterator[Parameter]:
    for m in e.kernel.tensor_maps:
        if m.device:
            yield Parameter("TensorMap*", e.names.of("map", m.name))


def _type(e: Emitter, m: TensorMap) -> str:
    if m.count is None:
        return "TensorMap"
    if not isinstance(m.count, Const):
        raise InternalError("emit_cuda", f"{m.count} tensor maps {m.name} as a parameter")
    e.functions["TensorMaps"] = _ARRAY
    return f"TensorMaps<{m.count.value}>"


def _function(e: Emitter, name: str) -> str:
    """Have a function of the table written; its name."""
    taken, instruction, operands = _FUNCTIONS[name]
    e.functions[name] = _text(name, taken, instruction, operands)
    return name


def _text(name: str, taken: str, instruction: str, operands: str) -> str:
    return "\n".join([
        f"__device__ __forceinline__ void {name}({taken}) {{",
        f'  asm volatile("{instruction}" :: {operands} : "memory");',
        "}",
    ])  # fmt: skip


def _acquire(e: Emitter, s: FenceTensormapAcquire) -> None:
    e.out.line(f"{_function(e, 'fence_tensormap_acquire')}({e.tensor_map(s.map)});")


def _release(e: Emitter, s: FenceTensormapRelease) -> None:
    e.out.line(f"{_function(e, 'fence_tensormap_release')}();")


def _replace_address(e: Emitter, s: TensormapReplaceAddress) -> None:
    e.out.call(_function(e, "tensormap_replace_address"), e.tensor_map(s.map), e.address(s.src))


def _replace_dim(e: Emitter, s: TensormapReplaceDim) -> None:
    """The number of the dimension, innermost first as PTX has it, is part of the instruction."""
    ordinal = e.kernel.tensor_map(s.map.map).rank - 1 - s.dim
    name = f"tensormap_replace_dim{ordinal}"
    instruction = f"tensormap.replace.tile.global_dim.global.b1024.b32 [%0], {ordinal}, %1;"
    e.functions[name] = _text(name, "TensorMap* map, int size", instruction, '"l"(map), "r"(size)')
    e.out.call(name, e.tensor_map(s.map), e.arg(s.size))


RULES: Mapping[type[Stmt], Rule] = {
    FenceTensormapAcquire: _acquire, FenceTensormapRelease: _release,
    TensormapReplaceAddress: _replace_address, TensormapReplaceDim: _replace_dim,
}  # fmt: skip
