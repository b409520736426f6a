"""The buffers of a cut definition's program, by the names in the definition."""

from __future__ import annotations

from lowering.ground.expr import Expr
from wsched.front.cut.tensors import Tensors, TensorType
from wsched.program.program import Buffer

__all__ = ["Buffers"]


class Buffers(dict[str, Buffer]):
    """The buffer of each name in a definition; made when it is asked for."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors

    def __call__(self, name: str) -> Buffer:
        """What is known of a tensor; numbers, and what is expanded, have no shape."""
        if name not in self:
            self[name] = self._of(name, self._type(name).extents)
        return self[name]

    def whole(self, name: str) -> Buffer:
        """The same of what a kernel makes: it is in memory whole, expanded or not."""
        if name not in self:
            self[name] = self._of(name, self._type(name).spread)
        return self[name]

    def _of(self, name: str, extents: tuple[Expr, ...] | None) -> Buffer:
        if extents is None:
            return Buffer(name)
        kind = self._type(name).dtype
        dtype = kind.element if kind is not None and kind.is_stored else None
        return Buffer(name, dtype, extents, self._tensors.strides(name))

    def _type(self, name: str) -> TensorType:
        return self._tensors.types.get(name, TensorType(None, None))
