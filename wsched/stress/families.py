"""Forms beyond one product: several, summed up, of groups, of 8 bits, reduced."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from wsched.stress.form import Asked, Sizes, Wanted, definition, drawn_size, tensor_text
from wsched.stress.tensors import filled, matrix, poisoned, sparse

if TYPE_CHECKING:
    import torch

__all__ = [
    "LARGEST", "Eight", "Gated", "Grouped", "Listed", "Reduced", "Rounded", "Summed",
]  # fmt: skip

_GROUPS = 6
"""Most groups, of which a third are empty."""


def _sizes(rng: random.Random, largest: int, batch: int = 1, step: int = 8) -> Sizes:
    m, n, k = (drawn_size(rng, largest, step) for _ in range(3))
    return Sizes(batch, m, n, k, rng.choice((0, 0, 16, 64)))


def _operands(
    sizes: Sizes, dtype: str, rows: tuple[int, ...], seed: int, device: str
) -> tuple[torch.Tensor, ...]:
    """Activations [M, K] and weights of so many rows."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    x = matrix((sizes.m, sizes.k), True, sizes.padding, dtype, device)
    weights = (matrix((n, sizes.k), True, sizes.padding, dtype, device) for n in rows)
    return sparse(x, sizes.k, generator), *(filled(w, generator) for w in weights)


def _product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.float() @ w.float().mT


@dataclass(frozen=True, slots=True)
class Listed:
    """Linears of one input side by side, queries, keys and values; or of several by one weight.

    Args:
        operand: nvFuser's type of all tensors.
        count: of weights, whose rows are N, half of it, N, ...
        of_one_weight: whether these are inputs, and the one of M rows is their weight.
    """

    operand: str
    count: int
    of_one_weight: bool = False
    aligned: bool = True

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        given, numbers = tensor_text((-1, -1), self.operand), range(self.count)
        pair = "w{}, x" if self.of_one_weight else "x, w{}"
        return definition(
            f"x = {given}", *(f"w{n} = {given}" for n in numbers),
            *(f"y{n} = fd.ops.linear({pair.format(n)})" for n in numbers),
            *(f"fd.add_output(y{n})" for n in numbers),
        )  # fmt: skip

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 8."""
        return _sizes(rng, largest)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them."""
        less = 8 * -(-sizes.n // 16)
        rows = tuple(less if n % 2 else sizes.n for n in range(self.count))
        x, *weights = _operands(sizes, self.operand, rows, seed, device)
        found = (_product(x, w) for w in weights)
        values = (y.mT.contiguous() if self.of_one_weight else y for y in found)
        return Asked([x, *weights], [Wanted(y, self.operand, sizes.padding) for y in values])


@dataclass(frozen=True, slots=True)
class Gated:
    """``silu(x g^T) * (x u^T)``, or with another function, both products in one kernel.

    Args:
        operand: nvFuser's type of all tensors.
        function: of the first product: ``silu``, ``relu`` or ``sigmoid``.
        of_one_weight: whether g and u are the inputs, and x is their weight.
    """

    operand: str
    function: str
    of_one_weight: bool = False
    aligned: bool = True

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        given = tensor_text((-1, -1), self.operand)
        first, second = ("g, x", "u, x") if self.of_one_weight else ("x, g", "x, u")
        return definition(
            f"x = {given}", f"g = {given}", f"u = {given}", f"a = fd.ops.linear({first})",
            f"b = fd.ops.linear({second})", "c = fd.ops.cast(a, dtype=DataType.Float)",
            f"s = fd.ops.{self.function}(c)", "d = fd.ops.mul(s, b)",
            f"e = fd.ops.cast(d, dtype=DataType.{self.operand})", "fd.add_output(e)",
        )  # fmt: skip

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 8."""
        return _sizes(rng, largest)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them."""
        import torch

        x, g, u = _operands(sizes, self.operand, (sizes.n, sizes.n), seed, device)
        functions = {"silu": torch.nn.functional.silu, "relu": torch.relu, "sigmoid": torch.sigmoid}
        value = functions[self.function](_product(x, g)) * _product(x, u)
        value = value.mT.contiguous() if self.of_one_weight else value
        return Asked([x, g, u], [Wanted(value, self.operand, sizes.padding)])


@dataclass(frozen=True, slots=True)
class Summed:
    """``x w^T + t b^T``, which share nothing but where they are added: one sum along both Ks.

    Args:
        operand: nvFuser's type of all tensors.
    """

    operand: str
    aligned: bool = True

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        given = tensor_text((-1, -1), self.operand)
        return definition(
            *(f"{name} = {given}" for name in "xwtb"),
            "y = fd.ops.linear(x, w)", "z = fd.ops.linear(t, b)", "s = fd.ops.add(y, z)",
            f"d = fd.ops.cast(s, dtype=DataType.{self.operand})", "fd.add_output(d)",
        )  # fmt: skip

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 8."""
        return _sizes(rng, largest)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them; the second sum is over half of K, or less."""
        import torch

        rank = 8 * -(-random.Random(seed).randint(1, sizes.k) // 16)
        less = replace(sizes, k=rank)
        pairs = [
            _operands(of, self.operand, (sizes.n,), seed + at, device)
            for at, of in enumerate((sizes, less))
        ]
        value = torch.stack([_product(x, w) for x, w in pairs]).sum(0)
        return Asked(
            [t for pair in pairs for t in pair], [Wanted(value, self.operand, sizes.padding)]
        )


@dataclass(frozen=True, slots=True)
class Reduced:
    """A linear and a reduction of it.

    Args:
        operand: nvFuser's type of the operands and the product.
        op: ``sum``, ``max`` or ``min``.
        over: the dimension that it is over, of [M, N].
    """

    operand: str
    op: Literal["sum", "max", "min"]
    over: int
    aligned: bool = True

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        given = tensor_text((-1, -1), self.operand)
        return definition(
            f"x = {given}", f"w = {given}", "y = fd.ops.linear(x, w)",
            "f = fd.ops.cast(y, dtype=DataType.Float)",
            f"r = fd.ops.{self.op}(f, dims=[{self.over}], keepdim=False, dtype=DataType.Null)",
            "fd.add_output(y)", "fd.add_output(r)",
        )  # fmt: skip

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 8."""
        return _sizes(rng, largest)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them: sums of them are exact."""
        import torch

        x, w = _operands(sizes, self.operand, (sizes.n,), seed, device)
        value = _product(x, w)
        function = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[self.op]
        reduced = function(value, self.over)
        return Asked([x, w], [Wanted(value, self.operand, sizes.padding), Wanted(reduced, "Float")])


@dataclass(frozen=True, slots=True)
class Eight:
    """A product of matrices of 8 bits.

    Args:
        floats: ``scaled_mm`` of e4m3 with numbers for scales, else ``int_mm``.
    """

    floats: bool
    aligned: bool = True

    def _call(self, a: torch.Tensor, b: torch.Tensor, one: Any) -> tuple[str, list[Any]]:
        from wsched.front.scaled import int_mm_call, scaled_mm_call

        if not self.floats:
            text, inputs = int_mm_call(a, b)
        else:
            text, inputs = scaled_mm_call(a, b, one, one)
        return str(text), [*inputs]

    @property
    def _operand(self) -> str:
        return "Float8_e4m3fn" if self.floats else "Int8"

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        import torch

        a = poisoned((16, 16), 0, self._operand, "cpu").tensor
        return self._call(a, a.t(), torch.ones(()))[0]

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 16."""
        return _sizes(rng, largest, step=16)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with poison around them."""
        import torch

        x, w = _operands(sizes, self._operand, (sizes.n,), seed, device)
        _, inputs = self._call(x, w.t(), torch.ones((), device=device))
        dtype = "BFloat16" if self.floats else "Int32"
        return Asked(inputs, [Wanted(_product(x, w), dtype, sizes.padding)])


@dataclass(frozen=True, slots=True)
class Rounded:
    """A linear, scaled and rounded to 8 bits; the largest absolute value in front of both.

    Args:
        operand: nvFuser's type of the operands.
        to: that of the result.
        scale: a number.
    """

    operand: str
    to: str
    scale: float
    aligned: bool = True

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        given = tensor_text((-1, -1), self.operand)
        return definition(
            f"x = {given}", f"w = {given}", "y = fd.ops.linear(x, w)",
            "f = fd.ops.cast(y, dtype=DataType.Float)", f"s = fd.ops.mul(f, {self.scale})",
            f"d = fd.ops.cast(s, dtype=DataType.{self.to})", "p = fd.ops.abs(f)",
            "a = fd.ops.max(p, dims=[0, 1], keepdim=False, dtype=DataType.Null)",
            "fd.add_output(d)", "fd.add_output(a)",
        )  # fmt: skip

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 16."""
        return _sizes(rng, largest, step=16)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them."""
        x, w = _operands(sizes, self.operand, (sizes.n,), seed, device)
        value = _product(x, w)
        rounded = (value * self.scale).clamp(-LARGEST[self.to], LARGEST[self.to])
        largest = value.abs().amax() if value.numel() else value.new_tensor(-math.inf)
        return Asked([x, w], [Wanted(rounded, self.to, sizes.padding), Wanted(largest, "Float")])


LARGEST = {"Float8_e4m3fn": 448.0, "Float8_e5m2": 57344.0}
"""What is larger is rounded to it."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """Groups of rows, each by a matrix of its own; their ends are on the device.

    Args:
        operand: nvFuser's type of the operands and the result.
    """

    operand: str
    aligned: bool = True

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one; the rows of ``w`` [G, K, N] lie in memory as those
        of [G, N, K].
        """
        return definition(
            f"x = {tensor_text((-1, -1), self.operand)}",
            f"w = fd.define_tensor(shape=[-1, -1, -1], contiguity=[True, True, True], "
            f"dtype=DataType.{self.operand}, is_cpu=False, stride_order=[2, 0, 1])",
            f"o = {tensor_text((-1,), 'Int32')}",
            "d = fd.ops.grouped_mm(x, w, o)", "fd.add_output(d)",
        )  # fmt: skip

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 8 but for rows, which are of any number."""
        found = _sizes(rng, largest, rng.randint(1, _GROUPS))
        return Sizes(found.batch, drawn_size(rng, largest), found.n, found.k, found.padding)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them; rows of groups are drawn."""
        import torch

        rng, last = random.Random(seed), sizes.m
        ends = sorted(rng.choice((0, last, rng.randint(0, last))) for _ in range(sizes.batch - 1))
        ends.append(last)
        rows = (sizes.batch * sizes.n,)
        x, w = _operands(sizes, self.operand, rows, seed, device)
        step = w.stride(0)
        whole = w.as_strided(
            (sizes.batch, sizes.n, sizes.k), (sizes.n * step, step, 1), w.storage_offset()
        )
        o = poisoned((sizes.batch,), 0, "Int32", device).tensor
        o.copy_(torch.tensor(ends, dtype=torch.int32))
        begins = [0, *ends[:-1]]
        parts = [_product(x[b:e], m) for b, e, m in zip(begins, ends, whole, strict=True)]
        wanted = [Wanted(torch.cat(parts), self.operand, sizes.padding)]
        return Asked([x, whole.mT, o], wanted)
