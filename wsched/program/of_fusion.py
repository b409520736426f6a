"""The buffers that a fusion's kernel is called with."""

from __future__ import annotations

from lowering.ground.expr import ONE, Const, Expr, Var, substitute
from wsched.fusion import Fusion, TensorBinding
from wsched.program.program import Buffer

__all__ = ["program_buffers"]


def program_buffers(fusion: Fusion) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...]]:
    """A buffer for each input of a fusion, ``in0`` first, and one for each output, ``out0`` first.

    A size that the definition fixes is that number wherever the dimension occurs. Inputs lie as the
    caller has them, and a number may be passed for one without dimensions; results lie as the
    kernel stores them.
    """
    extents: dict[str, Expr] = {"1": ONE}
    for binding in (*fusion.inputs, *fusion.outputs):
        for axis, size in zip(binding.extents, binding.sizes, strict=True):
            if size is not None:
                extents.setdefault(axis, Const(size))
    inputs = tuple(
        _buffer(f"in{at}", binding, extents) if binding.axes else Buffer(f"in{at}")
        for at, binding in enumerate(fusion.inputs)
    )
    fixed = {Var(axis): size for axis, size in extents.items()}
    for binding in (b for b in fusion.outputs if b.of_parts):
        for d in fusion.tensor(binding.tensor).stored:
            extents.setdefault(str(d.extent), substitute(d.extent, fixed))
    outputs = tuple(
        _stored(fusion, binding, _buffer(f"out{at}", binding, extents))
        for at, binding in enumerate(fusion.outputs)
    )
    return inputs, outputs


def _buffer(name: str, binding: TensorBinding, extents: dict[str, Expr]) -> Buffer:
    shape = tuple(extents.get(axis, Var(axis)) for axis in binding.extents)
    return Buffer(name, binding.dtype.element, shape)


def _stored(fusion: Fusion, binding: TensorBinding, dense: Buffer) -> Buffer:
    """A result in memory as the fusion stores it."""
    order = list(fusion.order(binding))
    if order == list(binding.axes):
        return dense
    places = [binding.axes.index(axis) for axis in order]
    steps = Buffer("", dense.dtype, tuple(dense.shape[p] for p in places)).steps
    strides = tuple(steps[places.index(at)] for at in range(len(places)))
    return Buffer(dense.name, dense.dtype, dense.shape, strides)
