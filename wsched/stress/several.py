"""Definitions of several products, as ``wsched.execute`` takes them: products that share nothing,
an operand or a result, one of another one's result, sums of two, results of any of them.

What is one kernel of them and what is cut apart is wsched's affair, which a kernel that is drawn
with its schedule cannot ask for.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from wsched.stress.form import Asked, Sizes, Wanted, definition, drawn_size, tensor_text
from wsched.stress.tensors import filled, matrix, sparse

__all__ = ["Joined", "Operand", "Product", "Several", "drawn_several"]

_MOST = 4
"""Products of a definition."""

_JOINED = ("add", "sub", "maximum", "minimum")

_FEW = 2
"""Expected elements of a row that are not 0 of a weight that multiplies another product: what comes
of it stays below 256, too, so that nothing depends on who rounds where."""

_ALIKE = 1 / 3
"""Share of the launches whose sizes are all the same: then any product could be beside any."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An input, or what a product or a join has made.

    Args:
        name: in the definition.
        rows, cols: which of ``m``, ``n`` and ``k`` its sizes are.
        depth: products that are in it.
    """

    name: str
    rows: str
    cols: str
    depth: int = 0

    def shape(self, sizes: Sizes) -> tuple[int, int]:
        """Its sizes in a launch."""
        return getattr(sizes, self.rows), getattr(sizes, self.cols)


@dataclass(frozen=True, slots=True)
class Product:
    """``made = left right^T``, of a right one whose rows lie in memory, or its columns.

    Args:
        left: [rows, K].
        right: [columns, K].
        by_rows: whether ``linear`` multiplies them; else ``matmul``, which has the right one as
            [K, columns].
    """

    left: Operand
    right: Operand
    by_rows: bool

    @property
    def made(self) -> Operand:
        """The result."""
        depth = 1 + self.left.depth
        name = f"y_{self.left.name}_{self.right.name}"
        return Operand(name, self.left.rows, self.right.rows, depth)

    @property
    def lines(self) -> tuple[str, ...]:
        """Of the definition."""
        op = "linear" if self.by_rows else "matmul"
        return (f"{self.made.name} = fd.ops.{op}({self.left.name}, {self.right.name})",)


@dataclass(frozen=True, slots=True)
class Joined:
    """Two of the same sizes, joined element by element in fp32 and rounded.

    Args:
        op: ``add``, ``sub``, ``maximum`` or ``minimum``.
        first, second: what is joined.
        operand: nvFuser's type of the result.
    """

    op: str
    first: Operand
    second: Operand
    operand: str

    @property
    def made(self) -> Operand:
        """The result."""
        name = f"{self.op}_{self.first.name}_{self.second.name}"
        return replace(self.first, name=name, depth=max(self.first.depth, self.second.depth))

    @property
    def lines(self) -> tuple[str, ...]:
        """Of the definition."""
        name, wide = self.made.name, "dtype=DataType.Float"
        return (
            f"{name}_a = fd.ops.cast({self.first.name}, {wide})",
            f"{name}_b = fd.ops.cast({self.second.name}, {wide})",
            f"{name}_f = fd.ops.{self.op}({name}_a, {name}_b)",
            f"{name} = fd.ops.cast({name}_f, dtype=DataType.{self.operand})",
        )


@dataclass(frozen=True, slots=True)
class Several:
    """Products, what joins them, and which of all that are results.

    Args:
        operand: nvFuser's type of all tensors.
        steps: in order.
        results: names.
    """

    operand: str
    steps: tuple[Product | Joined, ...]
    results: tuple[str, ...]
    aligned: bool = True

    @property
    def _given(self) -> dict[Operand, Product]:
        """The inputs in the order in which they are read, and a product that reads each."""
        made, found = {s.made for s in self.steps}, dict[Operand, Product]()
        for product in (s for s in self.steps if isinstance(s, Product)):
            for side in (product.left, product.right):
                if side not in made:
                    found.setdefault(side, product)
        return found

    @property
    def text(self) -> str:
        """The definition as nvFuser prints one."""
        given = tensor_text((-1, -1), self.operand)
        return definition(
            *(f"{g.name} = {given}" for g in self._given),
            *(line for step in self.steps for line in step.lines),
            *(f"fd.add_output({name})" for name in self.results),
        )

    def sizes(self, rng: random.Random, largest: int) -> Sizes:
        """Multiples of 8, often all the same."""
        m, n, k = (drawn_size(rng, largest, 8) for _ in range(3))
        if rng.random() < _ALIKE:
            n = k = m
        return Sizes(1, m, n, k, rng.choice((0, 0, 16, 64)))

    def asked(self, sizes: Sizes, seed: int, device: str) -> Asked:
        """Integers, with NaN around them; what one product makes is rounded before the next."""
        import torch

        from wsched.fusion import DataType
        from wsched.run.arguments import torch_dtype

        kind = torch_dtype(DataType[self.operand])
        generator = torch.Generator(device).manual_seed(seed)
        inputs, values = list[torch.Tensor](), dict[str, torch.Tensor]()
        for given, product in self._given.items():
            left = given == product.left
            by_rows = left or product.by_rows
            made = matrix(given.shape(sizes), by_rows, sizes.padding, self.operand, device)
            k = made.shape[1]
            if left:
                sparse(made, k, generator)
            elif product.left.depth:
                sparse(made, k, generator, _FEW)
            else:
                filled(made, generator)
            values[given.name] = made.float()
            inputs.append(made if by_rows else made.mT)
        exact = dict(values)
        for step in self.steps:
            if isinstance(step, Product):
                found = values[step.left.name] @ values[step.right.name].mT
            else:
                found = getattr(torch, step.op)(exact[step.first.name], exact[step.second.name])
            exact[step.made.name] = found
            values[step.made.name] = found.to(kind).float()
        return Asked(inputs, [Wanted(exact[name], self.operand) for name in self.results])


def drawn_several(rng: random.Random) -> Several:
    """Two to four products; what nothing reads is a result, and one in four of the rest."""
    operand = rng.choice(("BFloat16", "Half"))
    lefts, rights = list[Operand](), list[tuple[Operand, bool]]()
    steps: dict[Operand, Product | Joined] = {}
    wanted = rng.randint(2, _MOST)
    while sum(isinstance(s, Product) for s in steps.values()) < wanted:
        product = _product(rng, len(lefts) + len(rights), lefts, rights, list(steps))
        steps.setdefault(product.made, product)
        joined = _join(rng, list(steps), operand) if rng.random() < 0.3 else None
        if joined is not None:
            steps.setdefault(joined.made, joined)
    read = {x for s in steps.values() for x in _reads(s)}
    kept = [o.name for o in steps if o not in read or rng.random() < 0.25]
    return Several(operand, tuple(steps.values()), tuple(kept))


def _reads(step: Product | Joined) -> tuple[Operand, Operand]:
    return (step.left, step.right) if isinstance(step, Product) else (step.first, step.second)


def _product(
    rng: random.Random,
    number: int,
    lefts: list[Operand],
    rights: list[tuple[Operand, bool]],
    made: list[Operand],
) -> Product:
    """A product of operands of its own, of some that others have, or of what others make."""
    shallow = [o for o in made if o.depth < 2]
    way = rng.random()
    if shallow and way < 0.3:
        left = rng.choice(shallow)
    elif lefts and way < 0.55:
        left = rng.choice(lefts)
    else:
        left = Operand(f"x{number}", rng.choice("mmn"), rng.choice("kkn"))
        lefts.append(left)
    same = [r for r in rights if r[0].cols == left.cols and r[0].depth == left.depth]
    if same and rng.random() < 0.3:
        right, by_rows = rng.choice(same)
        return Product(left, right, by_rows)
    # A weight of what is chained is another kind of numbers: its depth says which it is.
    right = Operand(f"w{number}", rng.choice("nnk"), left.cols, left.depth)
    by_rows = rng.random() < 0.7
    rights.append((right, by_rows))
    return Product(left, right, by_rows)


def _join(rng: random.Random, made: list[Operand], operand: str) -> Joined | None:
    """The newest value and another one of its sizes; None if there is none."""
    newest = made[-1]
    others = [o for o in made[:-1] if (o.rows, o.cols) == (newest.rows, newest.cols)]
    if not others:
        return None
    first, second = rng.sample((newest, rng.choice(others)), 2)
    return Joined(rng.choice(_JOINED), first, second, operand)
