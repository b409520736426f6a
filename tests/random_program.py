"""Random definitions as programs have them: blocks of layers around a stream of activations.

Each is a text as nvFuser prints it: several matmuls, norms, softmaxes, gates, heads, residuals,
reductions, backward passes, views and casts, with inputs for one call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from tests.drawn_text import DrawnText, Tensor

__all__ = ["RandomProgram"]


@dataclass
class RandomProgram(DrawnText):
    """A definition and the inputs of a call.

    Args:
        most: blocks.

    Attributes:
        blocks: names of those that were drawn.
    """

    most: int = 4
    blocks: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        batch = self.random.choice([(), (), (1,), (2,), (3,), (4,)])
        x = self.given((*batch, self.rows(self.largest // prod(batch)), self.width()))
        products = (
            self.layer, self.gated, self.heads, self.low_rank, self.backward, self.matrix,
            self.beside, self.summed, self.of_one_weight, self.around, self.turned, self.polynomial,
            self.one_weight, self.some_rows, self.put_together, self.masked,
        )  # fmt: skip
        others = (self.norm, self.halves, self.softmax, self.pointwise, self.joined)
        made = self.random.choices((*products, *others), k=self.random.randint(1, self.most))
        for block in made if {*made} & {*products} else (*made, self.layer):
            before, x = x, block(x)
            self.blocks.append(block.__name__)
            if before.shape == x.shape and self.random.random() < 0.5:
                x = self.narrow(self.add(self.wide(before), self.wide(x)))
            if self.random.random() < 0.2:
                self.statistic(x)
            elif self.random.random() < 0.15:
                self._results.append(x)
        self._results.append(self.moved(x))

    # --- blocks ---------------------------------------------------------------------------------

    def linear(self, x: Tensor, width: int, bias: bool = False) -> Tensor:
        """A layer with a weight of its own."""
        k = x.shape[-1]
        w = self.given((width, k), deviation=k**-0.5)
        b = f", bias={self.given((width,))}" if bias else ""
        return self.do(f"linear({x}, {w}{b})", (*x.shape[:-1], width), self.dtype)

    def layer(self, x: Tensor) -> Tensor:
        """A linear layer, perhaps with a bias and an activation."""
        y = self.linear(x, self.width(), self.random.random() < 0.5)
        return self.narrow(self.activation(self.wide(y))) if self.random.random() < 0.5 else y

    def activation(self, f: Tensor) -> Tensor:
        """A smooth function of an fp32 tensor, as nvFuser has it."""
        kind = self.random.choice(["relu", "tanh", "silu", "gelu", "square", "scale"])
        if kind in ("relu", "tanh"):
            return self.do(f"{kind}({f})", f.shape)
        if kind == "square":
            r = self.do(f"relu({f})", f.shape)
            return self.mul(r, r)
        if kind == "scale":
            return self.mul(f, 0.75)
        if kind == "silu":
            n = self.do(f"neg({f})", f.shape)
            d = self.add(self.do(f"exp({n})", f.shape), 1.0)
            return self.mul(f, self.do(f"reciprocal({d})", f.shape))
        e = self.do(f"erf({self.mul(f, 0.70710678)})", f.shape)
        return self.mul(self.mul(f, 0.5), self.add(e, 1.0))

    def gated(self, x: Tensor) -> Tensor:
        """Gate and up, their product, down."""
        inner, width = self.width(), self.random.choice([x.shape[-1], self.width()])
        gate, up = self.linear(x, inner), self.linear(x, inner)
        both = self.narrow(self.mul(self.activation(self.wide(gate)), self.wide(up)))
        return self.linear(both, width)

    def one_weight(self, x: Tensor) -> Tensor:
        """Layers that are parts of one: two halves that meet, or widths of their own."""
        n = self.width()
        if self.random.random() < 0.5:
            y = self.linear(x, 2 * n, self.random.random() < 0.3)
            if self.open or self.random.random() < 0.5:
                a, b = self.slice(y, 0, n), self.slice(y, n, 2 * n)
            else:
                pair, dim = self.reshape(y, *y.shape[:-1], 2, n), len(y.shape) - 1
                calls = (f"select({pair}, index={at}, dim={dim})" for at in (0, 1))
                a, b = (self.do(call, (*y.shape[:-1], n), y.dtype) for call in calls)
            return self.narrow(self.mul(self.activation(self.wide(a)), self.wide(b)))
        ends = [0, *sorted(self.random.sample(range(1, 8), self.random.randint(1, 3))), 8]
        unit = self.random.choice([1, 2, 8, 8, 16])
        y = self.linear(x, 8 * unit)
        parts = [self.slice(y, a * unit, b * unit) for a, b in pairwise(ends)]
        first, *others = (self.activation(self.wide(p)) for p in parts)
        self._results += others
        return self.narrow(first)

    def some_rows(self, x: Tensor) -> Tensor:
        """A layer of which the last rows of each matrix are read."""
        y = self.linear(x, self.width())
        *outer, rows, n = y.shape
        first = self.random.choice([0, rows // 2, rows - 1])
        starts, ends = [0] * len(outer) + [first, 0], [*outer, rows, n]
        call = f"slice({y}, start_indices={starts}, end_indices={ends})"
        return self.narrow(
            self.activation(self.wide(self.do(call, (*outer, rows - first, n), y.dtype)))
        )

    def put_together(self, x: Tensor) -> Tensor:
        """A layer of two weights put together, of two inputs, or the results of two layers."""
        n, k = self.width(), x.shape[-1]
        kind = self.random.choice(["weights", "results", "rows"])
        if kind == "results":
            y, z = self.linear(x, n), self.linear(x, self.width())
            return self.cat(len(x.shape) - 1, y, z)
        if kind == "rows":
            other = self.given((self.rows(x.shape[0]), *x.shape[1:]))
            return self.linear(self.cat(0, x, other), n)
        parts = (self.given((m, k), deviation=k**-0.5) for m in (n, self.width()))
        w = self.cat(0, *parts)
        return self.do(f"linear({x}, {w})", (*x.shape[:-1], w.shape[0]), self.dtype)

    def masked(self, x: Tensor) -> Tensor:
        """A layer of which some elements are a number: those of a mask, or behind the diagonal."""
        f = self.wide(self.linear(x, self.width()))
        if self.open or self.random.random() < 0.5:
            left = self.random.choice(
                [f.shape, (*f.shape[:-1], 1), (*[1] * (len(f.shape) - 1), f.shape[-1])]
            )
            mask = self.given(left, "Bool")
        else:
            mask = self.before(f)
        return self.narrow(self.do(f"where({mask}, {f}, -0.5)", f.shape))

    def before(self, f: Tensor) -> Tensor:
        """Whether a matrix' row comes before its column, perhaps some places later."""
        rows, columns = f.shape[-2:]
        first = self.random.choice([0, 0, 1, 3])
        made = []
        for size, start, flag in ((rows, first, [False, True]), (columns, 0, [True, False])):
            i = self.do(f"iota({size}, {start}, 1, dtype=DataType.Int)", (size,), "Int")
            flags = [True] * (len(f.shape) - 2) + flag
            shape = tuple(1 if new else size for new in flags)
            made.append(self.do(f"broadcast({i}, is_broadcast_dim={flags})", shape, "Int"))
        return self.do(f"ge({made[0]}, {made[1]})", f.shape[-2:], "Bool")

    def low_rank(self, x: Tensor) -> Tensor:
        """A layer with an update of low rank."""
        width = self.width()
        y, t = self.linear(x, width), self.linear(x, self.random.choice([8, 16]))
        update = self.mul(self.wide(self.linear(t, width)), 0.5)
        return self.narrow(self.add(self.wide(y), update))

    def matrix(self, x: Tensor) -> Tensor:
        """``matmul`` by a matrix as it lies."""
        k, n = x.shape[-1], self.width()
        w = self.given((k, n), deviation=k**-0.5)
        return self.do(f"matmul({x}, {w})", (*x.shape[:-1], n), self.dtype)

    def beside(self, x: Tensor) -> Tensor:
        """A layer, and a product that shares nothing with it: mostly of the same sizes, and perhaps
        added behind an activation of each.
        """
        width, rows = self.width(), prod(x.shape[:-1])
        y = self.linear(x, width)
        alike = self.random.random() < 0.7
        k = x.shape[-1] if alike else self.width()
        other = self.given((*x.shape[:-1], k) if alike else (self.rows(rows), k))
        z = self.linear(other, width if alike else self.width())
        if alike and self.random.random() < 0.5:
            return self.narrow(self.add(*(self.activation(self.wide(v)) for v in (y, z))))
        self._results.append(z)
        return y

    def summed(self, x: Tensor) -> Tensor:
        """The sum of two products of operands of their own."""
        width, other = self.width(), self.given((*x.shape[:-1], self.width()))
        return self.narrow(self.add(*(self.wide(self.linear(t, width)) for t in (x, other))))

    def of_one_weight(self, x: Tensor) -> Tensor:
        """Two inputs by the same weight; both are results, or one is."""
        k, n = x.shape[-1], self.width()
        w = self.given((n, k), deviation=k**-0.5)
        other = self.given((self.rows(prod(x.shape[:-1])), k))
        y, z = (self.do(f"linear({t}, {w})", (*t.shape[:-1], n), self.dtype) for t in (x, other))
        self._results += [z, y] if self.random.random() < 0.5 else [z]
        return y

    def around(self, x: Tensor) -> Tensor:
        """A layer whose input meets its result again, as it is or behind an activation of both."""
        y, f = self.wide(self.linear(x, x.shape[-1])), self.wide(x)
        if self.random.random() < 0.5:
            return self.narrow(self.mul(self.activation(y), f))
        return self.narrow(self.add(y, self.activation(f)))

    def turned(self, x: Tensor) -> Tensor:
        """Two products of one square weight, of which one has it transposed."""
        n = x.shape[-1]
        w = self.given((n, n), deviation=n**-0.5)
        t = self.permute(w, 1, 0)
        y, z = (self.do(f"linear({x}, {v})", x.shape, self.dtype) for v in (w, t))
        return self.narrow(self.mul(self.activation(self.wide(y)), self.wide(z)))

    def polynomial(self, x: Tensor) -> Tensor:
        """A step of Newton and Schulz: a polynomial of ``x · xᵀ``, times x."""
        if len(x.shape) != 2:
            return self.around(x)
        rows, k = x.shape
        t = self.permute(x, 1, 0)
        a = self.do(f"matmul({x}, {t})", (rows, rows), self.dtype)
        a = self.narrow(self.mul(self.wide(a), 1 / (rows + k)))
        square = self.do(f"matmul({a}, {a})", (rows, rows), self.dtype)
        b = self.narrow(self.add(self.mul(self.wide(a), -1.5), self.wide(square)))
        made = self.do(f"matmul({b}, {x})", x.shape, self.dtype)
        return self.narrow(self.add(self.mul(self.wide(x), 1.5), self.wide(made)))

    def backward(self, x: Tensor) -> Tensor:
        """All gradients of a layer whose result has the gradient x."""
        n, k = x.shape[-1], self.width()
        rows = prod(x.shape[:-1])
        flat = x if len(x.shape) == 2 or self.open else self.reshape(x, rows, n)
        if len(flat.shape) == 2:
            a = self.given((rows, k))
            scaled = self.narrow(self.mul(self.wide(flat), rows**-0.5))
            turned = self.permute(scaled, 1, 0)
            self._results.append(self.do(f"matmul({turned}, {a})", (n, k), self.dtype))
            if self.random.random() < 0.5:
                total = self.do(f"sum({self.wide(flat)}, dims=[0], keepdim=False, "
                                "dtype=DataType.Null)", (n,))  # fmt: skip
                self._results.append(self.narrow(total))
        w = self.given((n, k), deviation=n**-0.5)
        return self.do(f"matmul({x}, {w})", (*x.shape[:-1], k), self.dtype)

    def heads(self, x: Tensor) -> Tensor:
        """Attention by hand, with queries, keys and values of all heads."""
        if self.open or len(x.shape) == 2:
            return self.layer(x)
        b, s, width = x.shape
        h, d = self.random.choice([1, 2, 4]), self.head
        q, k, v = (self.split_heads(self.linear(x, h * d), h, d) for _ in range(3))
        kt = self.permute(k, 0, 1, 3, 2)
        scores = self.mul(
            self.wide(self.do(f"matmul({q}, {kt})", (b, h, s, s), self.dtype)), d**-0.5
        )
        p = self.narrow(self.probabilities(scores))
        o = self.permute(self.do(f"matmul({p}, {v})", (b, h, s, d), self.dtype), 0, 2, 1, 3)
        return self.linear(self.reshape(o, b, s, h * d), width)

    def split_heads(self, x: Tensor, h: int, d: int) -> Tensor:
        """``[b, s, h * d]`` as ``[b, h, s, d]``."""
        b, s, _ = x.shape
        return self.permute(self.reshape(x, b, s, h, d), 0, 2, 1, 3)

    def probabilities(self, f: Tensor) -> Tensor:
        """A softmax over the last dimension, in fp32."""
        less = self.do(f"sub({f}, {self.over(f, 'max')})", f.shape)
        e = self.do(f"exp({less})", f.shape)
        return self.mul(e, self.do(f"reciprocal({self.over(e)})", (*f.shape[:-1], 1)))

    def softmax(self, x: Tensor) -> Tensor:
        """A softmax, of the size of its argument."""
        return self.narrow(self.mul(self.probabilities(self.wide(x)), x.shape[-1] ** 0.5))

    def norm(self, x: Tensor) -> Tensor:
        """RMSNorm, or LayerNorm with a variance or with sums."""
        f, n = self.wide(x), x.shape[-1]
        kept = (*x.shape[:-1], 1)
        kind = self.random.choice(["rms", "rms", "sums", "variance"])
        if kind == "variance":
            dims = f"dims=[{len(kept) - 1}], correction=0, keepdim=True"
            v, m = self.both(f"var_mean({f}, {dims})", kept)
            r = self.do(f"rsqrt({self.add(v, 0.01)})", kept)
            return self.narrow(self.mul(self.do(f"sub({f}, {m})", f.shape), r))
        if kind == "sums":
            mean = self.do(f"mul({self.over(f)}, {1 / n})", kept)
            f = self.do(f"sub({f}, {mean})", f.shape)
        mean = self.do(f"mul({self.over(self.mul(f, f))}, {1 / n})", kept)
        r = self.do(f"rsqrt({self.do(f'add({mean}, 0.01)', kept)})", kept)
        y = self.mul(f, r)
        if self.random.random() < 0.7:
            y = self.mul(y, self.along(self.given((n,)), y))
        return self.narrow(y)

    def halves(self, x: Tensor) -> Tensor:
        """The halves of the columns, one times a function of the other."""
        n = x.shape[-1] // 2
        if n < 8:
            return self.pointwise(x)
        ends = [(0, n), (n, 2 * n)]
        a, b = (self.slice(x, *end) for end in ends)
        return self.narrow(self.mul(self.activation(self.wide(a)), self.wide(b)))

    def joined(self, x: Tensor) -> Tensor:
        """Another tensor beside it."""
        return self.cat(len(x.shape) - 1, x, self.given((*x.shape[:-1], self.head)))

    def pointwise(self, x: Tensor) -> Tensor:
        """A few operations, with a matrix, a row or a column."""
        f = self.activation(self.wide(x))
        kind = self.random.choice(["matrix", "row", "column", "wide"])
        if kind == "row":
            return self.narrow(self.add(f, self.along(self.given(x.shape[-1:]), f)))
        shape = (*x.shape[:-1], 1) if kind == "column" else x.shape
        other = self.given(shape, "Float" if kind == "wide" else "")
        return self.narrow(self.add(f, self.wide(other)))

    # --- results --------------------------------------------------------------------------------

    def statistic(self, x: Tensor) -> None:
        """A reduction as a result."""
        f, rank = self.wide(x), len(x.shape)
        kind = self.random.choice(["sum", "squares", "amax"])
        dims = self.random.choice([[rank - 1], list(range(rank - 1)), list(range(rank))])
        left = [n for at, n in enumerate(x.shape) if at not in dims]
        if kind == "amax":
            f = self.do(f"abs({f})", f.shape)
            self._results.append(self.do(f"max({f}, dims={dims}, keepdim=False)", left))
            return
        f = self.mul(f, f) if kind == "squares" else f
        call = f"sum({f}, dims={dims}, keepdim=False, dtype=DataType.Null)"
        self._results.append(self.do(call, left))

    def moved(self, x: Tensor) -> Tensor:
        """The last result, perhaps looked at otherwise, or in fp32."""
        kind, rank = self.random.random(), len(x.shape)
        if kind < 0.15:
            return self.permute(x, *range(rank)[::-1])
        if kind < 0.25 and not self.open:
            return self.reshape(x, prod(x.shape[:-1]), x.shape[-1])
        return self.wide(x) if kind < 0.35 else x
