"""What a kernel of a stress run computes: a product of two matrices and what follows it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp, log

from wsched.stress.epilogue import Epilogue, drawn_epilogue

__all__ = ["Form", "Sizes", "drawn_form", "drawn_sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one launch.

    Args:
        batch: matrices; 1 of a form without a batch.
        m, n, k: of each.
        padding: elements behind each row of every matrix.
    """

    batch: int
    m: int
    n: int
    k: int
    padding: int

    def __str__(self) -> str:
        batch = f"{self.batch} x " if self.batch > 1 else ""
        return f"{batch}{self.m}x{self.n}x{self.k}, rows {self.padding} elements apart"


@dataclass(frozen=True, slots=True)
class Form:
    """A definition whose sizes are open.

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
        matrix = _tensor((-1,) * rank, self.operand)
        lines = [f"x = {matrix}", f"w = {matrix}"]
        shapes = {"matrix": (-1,) * rank, "row": (-1,), "column": (-1, 1), "number": ()}
        lines += [f"{g.name} = {_tensor(shapes[g.kind], g.dtype)}" for g in self.epilogue.given]
        if self.batched:
            lines += ["t = fd.ops.permute(w, dims=[0, 2, 1])", "y = fd.ops.matmul(x, t)"]
        else:
            lines.append("y = fd.ops.linear(x, w)")
        body = "".join(f"    {line}\n" for line in (*lines, *self.epilogue.lines))
        return f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{body}"


def _tensor(shape: tuple[int, ...], dtype: str) -> str:
    dense = [None if n == 1 else True for n in shape]
    return (
        f"fd.define_tensor(shape={list(shape)}, contiguity={dense}, dtype=DataType.{dtype}, "
        "is_cpu=False)"
    )


def drawn_form(rng: random.Random) -> Form:
    """A form; one in eight has a batch, one in six is of any sizes."""
    operand = rng.choice(("BFloat16", "Half"))
    batched = rng.random() < 0.125
    a_by_rows, b_by_rows, aligned = (rng.random() < share for share in (0.8, 0.8, 5 / 6))
    epilogue = drawn_epilogue(rng, operand, batched)
    return Form(operand, batched, a_by_rows, b_by_rows, aligned, epilogue)


def drawn_sizes(rng: random.Random, form: Form, largest: int) -> Sizes:
    """Sizes up to ``largest``, all lengths of a number alike; a third just beside a multiple of 64.

    What lies in rows of 16 bytes are multiples of 8.
    """

    def size() -> int:
        found = round(exp(rng.uniform(0, log(largest))))
        if rng.random() < 1 / 3:
            found = 64 * max(1, round(found / 64)) + rng.choice((-8, -1, 0, 1, 8))
        found = min(max(found, 1), largest)
        return 8 * -(-found // 8) if form.aligned else found

    batch = rng.randint(1, 5) if form.batched else 1
    padding = rng.choice((0, 0, 8, 64)) if form.aligned else rng.choice((0, 0, 1, 8))
    return Sizes(batch, size(), size(), size(), padding)
