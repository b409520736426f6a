"""Definitions that are drawn, statement by statement, with inputs for one call."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

__all__ = ["DrawnText", "Tensor"]

_TORCH = {"BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of a definition: its name, sizes and the name of its type."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return self.name


@dataclass
class DrawnText:
    """A definition as it grows, and the inputs of a call.

    Args:
        seed: which.
        largest: most elements of a dimension, at least 16.

    Attributes:
        inputs: of the call.
    """

    seed: int
    largest: int
    inputs: list[torch.Tensor] = field(default_factory=list, init=False)
    _declared: list[str] = field(default_factory=list, init=False)
    _lines: list[str] = field(default_factory=list, init=False)
    _results: list[Tensor] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(f"program {self.seed}")
        self.generator = torch.Generator().manual_seed(self.seed)
        self.dtype = "BFloat16" if self.random.random() < 0.75 else "Half"
        self.open = self.random.random() < 0.3
        self.head = self.random.choice([n for n in (8, 16, 32, 64, 128) if 2 * n <= self.largest])

    @property
    def text(self) -> str:
        """The definition. Its inputs are all read."""
        results = [f"fd.add_output({n})" for n in dict.fromkeys(t.name for t in self._results)]
        lines = (*self._declared, *self._lines, *results)
        head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
        return head + "".join(f"    {line}\n" for line in lines)

    # --- sizes and statements -------------------------------------------------------------------

    def rows(self, most: int) -> int:
        """Rows of activations: mostly a multiple of 8, sometimes any number."""
        found = self.random.randint(1, max(2, most))
        return found if self.random.random() < 0.3 else 8 * -(-found // 8)

    def width(self) -> int:
        """Columns of activations or weights: mostly whole heads."""
        if self.random.random() < 0.1:
            return self.random.randint(8, self.largest)
        return self.head * self.random.randint(1, self.largest // self.head)

    def given(self, shape: tuple[int, ...], dtype: str = "", deviation: float = 1.0) -> Tensor:
        """An input of normal numbers, or of which of them are not small; a matrix may lie by
        columns.
        """
        dtype, name = dtype or self.dtype, f"t{len(self.inputs)}"
        value = torch.randn(shape, generator=self.generator).mul(deviation)
        value = value > -0.5 if dtype == "Bool" else value.to(_TORCH[dtype])
        order = ""
        if len(shape) == 2 and 1 not in shape and self.random.random() < 0.15:
            value, order = value.T.contiguous().T, ", stride_order=[0, 1]"
        self.inputs.append(value)
        told = [-1 if self.open and n > 1 else n for n in shape]
        dense = [None if n == 1 else True for n in shape]
        self._declared.append(
            f"{name} = fd.define_tensor(shape={told}, contiguity={dense}, "
            f"dtype=DataType.{dtype}, is_cpu=False{order})"
        )
        return Tensor(name, shape, dtype)

    def do(self, call: str, shape: Sequence[int], dtype: str = "Float") -> Tensor:
        """An operation as it is written, and what it makes."""
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = fd.ops.{call}")
        return Tensor(name, tuple(shape), dtype)

    def both(self, call: str, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
        """An operation of two results in fp32."""
        names = [f"v{len(self._lines)}{end}" for end in "ab"]
        self._lines.append(f"{', '.join(names)} = fd.ops.{call}")
        return Tensor(names[0], tuple(shape), "Float"), Tensor(names[1], tuple(shape), "Float")

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """The same in another type."""
        if x.dtype == dtype:
            return x
        return self.do(f"cast({x}, dtype=DataType.{dtype})", x.shape, dtype)

    def wide(self, x: Tensor) -> Tensor:
        """In fp32."""
        return self.cast(x, "Float")

    def narrow(self, x: Tensor) -> Tensor:
        """In the type of the operands."""
        return self.cast(x, self.dtype)

    def add(self, x: Tensor, y: Tensor | float) -> Tensor:
        """A sum in fp32."""
        return self.do(f"add({x}, {y})", x.shape)

    def mul(self, x: Tensor, y: Tensor | float) -> Tensor:
        """A product, element by element, in fp32."""
        return self.do(f"mul({x}, {y})", x.shape)

    def over(self, x: Tensor, op: str = "sum") -> Tensor:
        """A reduction over the last dimension, spread over it again."""
        rank, shape = len(x.shape), (*x.shape[:-1], 1)
        typed = ", dtype=DataType.Null" if op == "sum" else ""
        made = self.do(f"{op}({x}, dims=[{rank - 1}], keepdim=False{typed})", x.shape[:-1])
        flags = [False] * (rank - 1) + [True]
        return self.do(f"broadcast({made}, is_broadcast_dim={flags})", shape)

    def along(self, x: Tensor, like: Tensor) -> Tensor:
        """A vector along the last dimension of another tensor, in fp32."""
        rank = len(like.shape)
        flags = [True] * (rank - 1) + [False]
        shape = (*(1,) * (rank - 1), x.shape[0])
        made = self.do(f"broadcast({x}, is_broadcast_dim={flags})", shape, x.dtype)
        if not self.open and self.random.random() < 0.5:
            made = self.do(f"expand({made}, shape={list(like.shape)})", like.shape, x.dtype)
        return self.wide(made)

    def reshape(self, x: Tensor, *shape: int) -> Tensor:
        """Another shape."""
        return self.do(f"reshape({x}, new_shape={list(shape)})", shape, x.dtype)

    def cat(self, dim: int, *tensors: Tensor) -> Tensor:
        """Tensors one behind the other along a dimension."""
        shape, dtype = list(tensors[0].shape), tensors[0].dtype
        shape[dim] = sum(t.shape[dim] for t in tensors)
        return self.do(f"cat([{', '.join(map(str, tensors))}], dim={dim})", shape, dtype)

    def permute(self, x: Tensor, *dims: int) -> Tensor:
        """The dimensions in another order."""
        made = [x.shape[d] for d in dims]
        return self.do(f"permute({x}, dims={list(dims)})", made, x.dtype)

    def slice(self, x: Tensor, begin: int, end: int) -> Tensor:
        """Some of the last dimension."""
        rank = len(x.shape)
        starts, ends = [0] * (rank - 1) + [begin], [*x.shape[:-1], end]
        call = f"slice({x}, start_indices={starts}, end_indices={ends}, strides={[1] * rank})"
        return self.do(call, (*x.shape[:-1], end - begin), x.dtype)
