"""Random epilogues with their values in fp64 and bounds on what rounding may do to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.epilogues import epilogue

F64 = torch.float64
EPS = 2.0**-22
"""Error of one fp32 operation, with room for functions that are not correctly rounded."""
HALF = {"BFloat16": 2.0**-8, "Half": 2.0**-10}
"""Relative error of a rounding to a 16-bit type, doubled."""


@dataclass(frozen=True)
class Value:
    """A name of the definition, its exact value, and how far a correct result may be off."""

    name: str
    exact: Any
    bound: Any


@dataclass
class RandomEpilogue:
    """A definition of up to ``ops`` pointwise operations on a matmul of integers.

    Comparisons are between exact values only, so that no rounding decides one.
    """

    seed: int
    m: int
    n: int
    k: int
    ops: int
    lines: list[str] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    exact: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)
        x, w = self.operand(self.m), self.operand(self.n)
        self.inputs += [x.to(torch.bfloat16), w.to(torch.bfloat16)]
        y = x.to(F64) @ w.to(F64).T
        self.declared: list[str] = []
        self.add_exact("fy", y)
        self.lines += ["y = fd.ops.linear(x, w)", "fy = fd.ops.cast(y, dtype=DataType.Float)"]
        for make in self.random.sample([self.row, self.column, self.full, self.scalar], k=3):
            make(len(self.declared))
        inputs = self.exact[1:]
        for number in range(self.random.randint(1, self.ops)):
            self.operation(f"v{number}")
        # A definition may not have inputs that nothing reads.
        for v in (self.exact[0], *inputs):
            last = self.values[-1]
            exact, bound = last.exact + v.exact, last.bound + v.bound
            self.put(f"vi{v.name}", f"add({last.name}, {v.name})", exact, bound)

    @property
    def text(self) -> str:
        """The definition; its last value and one other are outputs."""
        return epilogue(*self.declared, *self.lines, outputs=" ".join(v.name for v in self.outputs))

    @property
    def outputs(self) -> list[Value]:
        """The last value, which every other may have a part in, and perhaps the one in the middle.

        Values that are the same along a dimension are none; where a dimension has a single element
        they would look like the others.
        """
        if 1 in (self.m, self.n):
            return self.values[-1:]
        full = [v for v in self.values if v.name[0] in "vf" and v.exact.shape == (self.m, self.n)]
        middle = full[len(full) // 2]
        return [full[-1]] if middle is full[-1] or self.seed % 2 else [full[-1], middle]

    def operand(self, rows: int) -> Any:
        return self.integers(rows, self.k)

    def integers(self, *shape: int) -> Any:
        return torch.randint(-2, 3, shape, generator=self.generator)

    def add_exact(self, name: str, value: Any) -> None:
        self.exact.append(Value(name, value, torch.zeros_like(value)))
        self.values.append(self.exact[-1])

    # --- inputs --------------------------------------------------------------------------------

    def row(self, number: int) -> None:
        value = self.integers(self.n)
        dtype, kind = self.random.choice([("BFloat16", torch.bfloat16), ("Float", torch.float32)])
        flat = self.random.random() < 0.5
        self.declared.append(f"i{number}: {'[-1]' if flat else '[1, -1]'} {dtype}")
        self.inputs.append((value if flat else value[None]).to(kind))
        self.add_exact(f"i{number}", value.to(F64)[None])

    def column(self, number: int) -> None:
        value = self.integers(self.m)
        dtype, kind = self.random.choice([("Half", torch.float16), ("Float", torch.float32)])
        self.declared.append(f"i{number}: [-1, 1] {dtype}")
        step = self.random.choice([1, 2])
        self.inputs.append(value.repeat_interleave(step).to(kind)[::step, None])
        self.add_exact(f"i{number}", value.to(F64)[:, None])

    def full(self, number: int) -> None:
        value = self.integers(self.m, self.n)
        dtype, kind = self.random.choice([("BFloat16", torch.bfloat16), ("Float", torch.float32)])
        self.declared.append(f"i{number}: [-1, -1] {dtype}")
        layout: Callable[[Any], Any] = self.random.choice(
            [
                lambda t: t,
                lambda t: t.T.contiguous().T,
                lambda t: torch.cat([t, t], 1)[:, : self.n],
                lambda t: torch.cat([t[:, :1], t], 1)[:, 1:],
            ]
        )
        self.inputs.append(layout(value.to(kind)))
        self.add_exact(f"i{number}", value.to(F64))

    def scalar(self, number: int) -> None:
        value = self.random.choice([0.5, -1.25, 2.0])
        self.declared.append(f"i{number}: [] Float")
        self.inputs.append(torch.tensor(value))
        self.add_exact(f"i{number}", torch.tensor([[value]], dtype=F64))

    # --- operations ----------------------------------------------------------------------------

    def pick(self) -> Value:
        """One of the newer values, so that graphs grow deep."""
        return self.random.choice(self.values[-5:])

    def put(self, name: str, call: str, exact: Any, bound: Any, relative: float = EPS) -> None:
        self.lines.append(f"{name} = fd.ops.{call}")
        bound, exact = torch.broadcast_tensors(bound, exact)
        self.values.append(Value(name, exact, bound + relative * (exact.abs() + bound)))

    def operation(self, name: str) -> None:
        self.random.choice(
            [self.binary, self.binary, self.binary, self.unary, self.number, self.select, self.cast]
        )(name)

    def binary(self, name: str) -> None:
        a, b = self.pick(), self.pick()
        op = self.random.choice(["add", "sub", "mul", "minimum", "maximum"])
        if op == "mul" and max(a.exact.abs().max(), b.exact.abs().max()) > 1e4:
            op = "add"
        exact = {
            "add": torch.add, "sub": torch.sub, "mul": torch.mul,
            "minimum": torch.minimum, "maximum": torch.maximum,
        }[op](a.exact, b.exact)  # fmt: skip
        bound = a.bound + b.bound
        if op == "mul":
            bound = a.exact.abs() * b.bound + b.exact.abs() * a.bound + a.bound * b.bound
        self.put(name, f"{op}({a.name}, {b.name})", exact, bound)

    def unary(self, name: str) -> None:
        """Functions whose slope is at most 1.1."""
        a = self.pick()
        op, f = self.random.choice(
            [
                ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("erf", torch.erf),
                ("neg", torch.neg), ("abs", torch.abs), ("relu", torch.relu),
                ("silu", torch.nn.functional.silu),
            ]
        )  # fmt: skip
        self.lines.append(f"{name}f = fd.ops.cast({a.name}, dtype=DataType.Float)")
        slope = {"erf": 1.2, "silu": 1.1}.get(op, 1.0)
        tiny = 8 * EPS if op in ("tanh", "sigmoid", "erf", "silu") else 0.0
        self.put(name, f"{op}({name}f)", f(a.exact), slope * a.bound + tiny)

    def number(self, name: str) -> None:
        a, c = self.pick(), self.random.choice([0.25, -1.5, 3.0, 0.1])
        c32 = torch.tensor(c, dtype=torch.float32).item()
        if self.random.random() < 0.5:
            self.put(name, f"mul({a.name}, {c})", a.exact * c32, a.bound * abs(c32))
        else:
            self.put(name, f"sub({c}, {a.name})", c32 - a.exact, a.bound)

    def select(self, name: str) -> None:
        p, q = self.random.choice(self.exact), self.random.choice(self.exact)
        a, b = self.pick(), self.pick()
        op, f = self.random.choice(
            [("lt", torch.lt), ("ge", torch.ge), ("eq", torch.eq), ("ne", torch.ne)]
        )
        self.lines.append(f"{name}c = fd.ops.{op}({p.name}, {q.name})")
        chosen = f(p.exact, q.exact)
        for x, side in ((a, "a"), (b, "b")):
            self.lines.append(f"{name}{side} = fd.ops.cast({x.name}, dtype=DataType.Float)")
        exact = torch.where(chosen, a.exact, b.exact)
        bound = torch.where(chosen, a.bound, b.bound)
        self.put(name, f"where({name}c, {name}a, {name}b)", exact, bound, 0.0)

    def cast(self, name: str) -> None:
        a = self.pick()
        to = "BFloat16" if a.exact.abs().max() > 1e4 else self.random.choice(list(HALF))
        least = 2.0**-24 if to == "Half" else 0.0
        self.put(name, f"cast({a.name}, dtype=DataType.{to})", a.exact, a.bound + least, HALF[to])
