"""A product of two matrices, or batches of them, and a random epilogue."""

from __future__ import annotations

import random
from dataclasses import dataclass

from wsched.stress.epilogue import Epilogue, drawn_epilogue
from wsched.stress.form import Asked, Sizes, Wanted, definition, drawn_size, tensor_text
from wsched.stress.tensors import filled, matrix, poisoned, sparse

__all__ = ["Linear", "drawn_linear"]


@dataclass(frozen=True, slots=True)
class Linear:
    """``y = x w^T`` and what follows.

    Args:
        operand: nvFuser's type of both operands.
        batched: whether both have a batch dimension: ``matmul`` in place of ``linear``.
        a_by_rows, b_by_rows: whether the rows of an operand, [M, K] and [N, K], lie in memory, or
            its columns.
        aligned: whether rows begin at multiples of 16 bytes; else sizes are any.
        epilogue: what follows.
    """

    operand: str
    batched: bool
    a_by_rows: bool
    b_by_rows: bool
    aligned: bool
    epilogue: Epilogue

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        rank = 3 if self.batched else 2
        operand = tensor_text((-1,) * rank, self.operand)
        lines = [f"x = {operand}", f"w = {operand}"]
        shapes = {"matrix": (-1,) * rank, "row": (-1,), "column": (-1, 1), "number": ()}
        given = self.epilogue.given
        lines += [f"{g.name} = {tensor_text(shapes[g.kind], g.dtype)}" for g in given]
        if self.batched:
            lines += ["t = fd.ops.permute(w, dims=[0, 2, 1])", "y = fd.ops.matmul(x, t)"]
        else:
            lines.append("y = fd.ops.linear(x, w)")
        return definition(*lines, *self.epilogue.lines)

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """What lies in rows of 16 bytes are multiples of 8."""
        step = 8 if self.aligned else 1
        batch = rng.randint(1, 5) if self.batched else 1
        padding = rng.choice((0, 0, 8, 64)) if self.aligned else rng.choice((0, 0, 1, 8))
        m, n, k = (drawn_size(rng, largest, step) for _ in range(3))
        return Sizes(batch, m, n, k, padding)

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them."""
        import torch

        generator = torch.Generator(device).manual_seed(seed)
        batch = (sizes.batch,) if self.batched else ()
        k, padding, operand = sizes.k, sizes.padding, self.operand
        a = matrix((*batch, sizes.m, k), self.a_by_rows, padding, operand, device)
        b = matrix((*batch, sizes.n, k), self.b_by_rows, padding, operand, device)
        sparse(a, k, generator)
        filled(b, generator)
        given, shape = {}, (*batch, sizes.m, sizes.n)
        for g in self.epilogue.given:
            space = padding if g.kind == "matrix" else 0
            made = poisoned(g.shape(shape), space, g.dtype, device).tensor
            given[g.name] = filled(made, generator)
        values = self.epilogue.values(a.float() @ b.float().mT, given)
        types = [dtype for _, dtype in self.epilogue.results]
        wanted = [Wanted(v, dtype, padding) for v, dtype in zip(values, types, strict=True)]
        return Asked([a, b, *given.values()], wanted)


def drawn_linear(rng: random.Random) -> Linear:
    """One in eight has a batch, one in six is of any sizes."""
    operand = rng.choice(("BFloat16", "Half"))
    batched = rng.random() < 0.125
    a_by_rows, b_by_rows, aligned = (rng.random() < share for share in (0.8, 0.8, 5 / 6))
    epilogue = drawn_epilogue(rng, operand, batched)
    return Linear(operand, batched, a_by_rows, b_by_rows, aligned, epilogue)
