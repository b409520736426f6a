"""A definition as a graph of its operations, with what cutting it into segments has to know."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.looks import is_part, is_strided, move_of
from wsched.front.cut.order import Orders, declared_order
from wsched.front.cut.shapes import SHAPES
from wsched.front.cut.sums import partners
from wsched.front.cut.tensors import Tensors
from wsched.front.cut.widened import widened
from wsched.importer import Definition, Node
from wsched.importer.dtypes import POINTWISE
from wsched.importer.ops import GROUPED, PRODUCTS, arity_of

__all__ = ["RANDOM", "Graph", "is_elementwise"]

_CHEAP = frozenset(("cast", "broadcast", "broadcast_in_dim", "squeeze", "size", "shape"))
"""Of inputs: what each segment that needs it does for itself."""

_SPREADS = frozenset(("broadcast", "broadcast_in_dim", "expand"))
"""Of anything: likewise, because what they make is larger than what they read."""

_LAYOUT = frozenset(("permute", "stride_order"))

_MOVES = frozenset(("cat", "pad", "permute", "reshape", "select", "slice", "stride_order"))
"""After these a tensor may lie otherwise than row by row."""

RANDOM = frozenset(("normal", "rand_like", "randn_like", "sdpfa_fwd", "uniform"))
"""Draws of one generator, unless seed and offset are given: cut, they would be other numbers."""


def is_elementwise(node: Node) -> bool:
    """Whether each element of a result is made of the elements at its place alone."""
    given = node.op.startswith("define_")
    return given or node.op in _CHEAP or node.op in _LAYOUT or arity_of(node.op) is not None


@dataclass(frozen=True)
class Graph:
    """Operations by their position in the definition.

    Args:
        definition: live, as nvFuser prints it.
        types: its tensors; every other name is a scalar.
    """

    definition: Definition
    types: Tensors

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All operations, in the order of the definition."""
        return self.definition.nodes

    @cached_property
    def home(self) -> dict[str, int]:
        """Position of the operation that defines a name."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.results}

    @cached_property
    def tried(self) -> dict[frozenset[int], UnsupportedError | None]:
        """What has been found out about groups as kernels: why one is none, None of one that is."""
        return {}

    @cached_property
    def live(self) -> frozenset[int]:
        """Positions of what the outputs depend on."""
        return self.reached(self.home[name] for name in self.definition.outputs)

    def reached(self, start: Iterable[int], within: frozenset[int] | None = None) -> frozenset[int]:
        """What these operations depend on, with themselves, among ``within``."""
        pending, seen = list(start), set[int]()
        while pending:
            i = pending.pop()
            if i not in seen and (within is None or i in within):
                seen.add(i)
                pending += self.operands(i)
        return frozenset(seen)

    def operands(self, i: int) -> list[int]:
        """Positions of what an operation reads."""
        return [self.home[name] for name in self.nodes[i].refs]

    def results(self, group: Collection[int], wanted: Collection[str]) -> tuple[str, ...]:
        """Names among ``wanted`` that a group defines, in the order of the definition."""
        return tuple(n for i in sorted(group) for n in self.nodes[i].results if n in wanted)

    @cached_property
    def readers(self) -> dict[int, frozenset[int]]:
        """Positions of the live operations that read one."""
        found: dict[int, set[int]] = {i: set() for i in range(len(self.nodes))}
        for i in self.live:
            for j in self.operands(i):
                found[j].add(i)
        return {i: frozenset(r) for i, r in found.items()}

    def readers_behind(self, i: int) -> frozenset[int]:
        """The same of one, what reads it through operations that are done by whoever needs them."""
        found, pending = set[int](), [i]
        while pending:
            readers = self.readers[pending.pop()]
            pending += readers & self.free
            found |= readers - self.free
        return frozenset(found)

    @cached_property
    def matmuls(self) -> tuple[int, ...]:
        """Positions of the live matmuls."""
        return tuple(i for i in sorted(self.live) if self.nodes[i].op in PRODUCTS)

    @cached_property
    def partners(self) -> dict[int, int]:
        """Positions of matmuls that nothing but their sum reads, the later by the earlier one."""
        return partners(self.definition)

    @cached_property
    def last_matmul(self) -> tuple[int, ...]:
        """For each operation the position of the last matmul that it depends on, -1 for none."""
        found: list[int] = []
        for i, node in enumerate(self.nodes):
            before = max((found[j] for j in self.operands(i)), default=-1)
            found.append(i if node.op in PRODUCTS else before)
        return tuple(found)

    def is_output(self, i: int) -> bool:
        """Whether a result of an operation is one of the definition."""
        return any(name in self.definition.outputs for name in self.nodes[i].results)

    def is_given(self, i: int) -> bool:
        """Whether it is an input or a constant."""
        return self.nodes[i].op.startswith("define_")

    @cached_property
    def free(self) -> frozenset[int]:
        """What every segment that needs it does for itself, so that it never lies in memory.

        Numbers, casts of inputs, operands that are views, broadcasts; and a 16-bit tensor as fp32,
        which is read as it is by whoever needs it; and what is wider than the inputs it is made of,
        where several read it. What a matmul takes for an operand lies in memory.
        """
        found: set[int] = set()
        transposed, made = self._operand_views
        sliced = self._sliced_beside
        for i, node in enumerate(self.nodes):
            if self.is_given(i) or self.is_output(i) or i in made:
                continue
            of_inputs = all(self.is_given(j) or j in found for j in self.operands(i))
            number = node.results[0] not in self.types
            cheap = node.op in _CHEAP or node.op in _LAYOUT
            spreads = node.op in _SPREADS
            if (
                (of_inputs and (number or cheap))
                or spreads
                or widened(self.types, [node])
                or i in transposed
                or i in sliced
            ):
                found.add(i)
        return self._with_shared(frozenset(found), made)

    def _with_shared(self, free: frozenset[int], operands: frozenset[int]) -> frozenset[int]:
        """With pointwise operations on inputs that several read, if to read those inputs again is
        no more than to read the result.
        """
        cones: dict[int, frozenset[int]] = {}
        for i in sorted(self.live):
            if self.is_given(i):
                cones[i] = frozenset((i,))
            elif i in free or (
                self.is_pointwise(i) and not self.is_output(i) and i not in operands
            ):
                before = self.operands(i)
                if all(j in cones for j in before):
                    cones[i] = frozenset().union(*(cones[j] for j in before))
        found = set(free)
        for i, cone in cones.items():
            again = i not in free and not self.is_given(i) and len(self.readers[i]) > 1
            if again and self._elements_bytes(i) >= sum(map(self._elements_bytes, cone)):
                found |= self.reached([i], frozenset(cones)) - {
                    j for j in cones if self.is_given(j)
                }
        return frozenset(found)

    def _elements_bytes(self, i: int) -> int:
        """Bytes of a result for each element of a tensor of most dimensions; 0 of smaller ones."""
        name = self.nodes[i].results[0]
        dims = self.types[name].dims if name in self.types else ()
        if dims is None:
            return 8
        if sum(not d.is_one for d in dims) < self._rank:
            return 0
        dtype = self.types[name].dtype
        return dtype.bytes if dtype is not None and dtype.is_stored else 4

    @cached_property
    def _rank(self) -> int:
        """Dimensions, other than those of size 1, of the results of matmuls."""
        products = (self.types[self.nodes[i].results[0]].dims or () for i in self.matmuls)
        return min((sum(not d.is_one for d in dims) for dims in products), default=0)

    @cached_property
    def _operand_views(self) -> tuple[frozenset[int], frozenset[int]]:
        """Views between an operand or a bias and its matmul, exact casts of both operands behind
        these, and the operands before them, and what parts of are a bias.
        """
        views, made = set[int](), set[int]()
        for i in self.matmuls:
            casts = [self.home[name] for name in self.nodes[i].refs[:2]]
            wide = widened(self.types, [self.nodes[j] for j in casts])
            views.update(casts if wide else ())
            for j in (self.operands(at)[0] if wide else at for at in casts):
                while self._transposes(self.nodes[j]) and self._is_of_memory(j):
                    views.add(j)
                    j = self.operands(j)[0]
                if is_strided(self.orders, self.nodes[i], self.nodes[j].results[0]):
                    while self._looks(j) and self._is_of_memory(j):
                        views.add(j)
                        j = self.operands(j)[0]
                made.add(j)
            beside = [self.home[name] for name in self.nodes[i].refs[2:]]
            made.update(beside if self.nodes[i].op == GROUPED else ())  # ends, a row for each group
            for j in beside:
                if is_part(self.nodes[j], self.orders):
                    while self._looks(j):
                        views.add(j)
                        j = self.operands(j)[0]
                    made.add(j)
        return frozenset(views), frozenset(made)

    @cached_property
    def _sliced_beside(self) -> frozenset[int]:
        """Slices of inputs that only biases and pointwise operations are made of."""
        beside = set[int]()
        for i in sorted(self.live):
            node = self.nodes[i]
            if node.op == "slice" and self._looks(i) and self.is_given(self.operands(i)[0]):
                readers = [(self.nodes[j], j) for j in self.readers[i]]
                if all(
                    self.is_pointwise(j)
                    or n.op in _SPREADS
                    or (n.op in PRODUCTS and node.results[0] not in n.refs[:2])
                    for n, j in readers
                ):
                    beside.add(i)
        return frozenset(beside)

    def _looks(self, i: int) -> bool:
        """Whether it is a step of a view that a kernel may read by strides."""
        node = self.nodes[i]
        if self.is_output(i) or move_of(node, self.types.types) is None:
            return False
        return self.orders.is_view(node.results[0])

    def _is_of_memory(self, i: int) -> bool:
        """Whether no output, and of an input or of what lies in memory without repeats: a kernel
        may read that in its place.
        """
        j = self.operands(i)[0]
        found = self.types.types.get(self.nodes[j].results[0])
        whole = found is None or all(not d.repeated for d in found.dims or ())
        return not self.is_output(i) and (whole or self.is_given(j))

    def _transposes(self, node: Node) -> bool:
        """Whether an operation exchanges the last two dimensions, or moves nothing."""
        dims = self.types[node.results[0]].dims if node.results[0] in self.types else None
        if node.op != "permute" or dims is None or len(dims) < 2:
            return node.op == "stride_order"
        rows = tuple(range(len(dims)))
        wanted = (*rows[:-2], rows[-1], rows[-2])
        return wanted == node.get("dims")

    def needs(self, i: int) -> Iterator[str]:
        """Names that an operation reads, or what it computes for itself reads."""
        for name in self.nodes[i].refs:
            j = self.home[name]
            if j in self.free:
                yield from self.needs(j)
            else:
                yield name

    def is_pointwise(self, i: int) -> bool:
        """Whether an epilogue may have it as far as its name says."""
        op = self.nodes[i].op
        return self.nodes[i].results[0] in self.types and (arity_of(op) is not None or op == "cast")

    def is_moved(self, i: int, group: frozenset[int]) -> bool:
        """Whether a result of a group may lie otherwise than row by row when others make it: torch
        takes the order of what it reads.

        What a matmul makes does not, however its operands lie.
        """
        rows = {j for j in group if self.nodes[j].op in PRODUCTS}
        within = self.reached([i], (group | self.free) - rows)
        read = {name for j in within for name in self.nodes[j].refs}
        moves = any(self.nodes[j].op in _MOVES for j in within)
        return moves or any(name in self.types.orders or self._is_turned(name) for name in read)

    def _is_turned(self, name: str) -> bool:
        """Whether it is an input that is declared to lie otherwise than row by row."""
        order = declared_order(self.nodes[self.home[name]])
        return order is not None and order != tuple(range(len(order)))

    @cached_property
    def orders(self) -> Orders:
        """The order in memory of results."""
        return Orders(self.definition, self.types)

    def check(self) -> None:
        """Refuse what would have other results, strides or memory if it were not nvFuser's alone.

        nvFuser gives results that alias inputs their memory, and infers the order in memory of
        others from inputs (:mod:`wsched.front.cut.order`).

        Raises:
            UnsupportedError: such a definition.
        """
        for w in self.definition.written:
            if w.into in self.definition.returned:
                what = f"line {w.line}: {w.into}, which {w.output} is written into, as output"
                raise UnsupportedError(what, "the output alone")
            kinds = [self.types[n].dtype if n in self.types else None for n in (w.output, w.into)]
            if kinds[0] is not kinds[1]:
                what = f"line {w.line}: {w.output} of {kinds[0]}, written into {w.into}"
                raise UnsupportedError(f"{what} of {kinds[1]},", "outputs of the input's type")
        for i in sorted(self.live):
            if self.is_given(i):
                self._check_input(i)
            elif self.nodes[i].op == "linear":
                self._check_ranks(self.nodes[i])
        for name in self.definition.outputs:
            if not self.orders.is_settled(name) and self.orders.of(name) is None:
                hidden = self.orders.untold(name)
                raise UnsupportedError(
                    f"a result that is computed after fd.ops.{hidden.op if hidden else '?'}",
                    "operations whose results have their operands' dimensions",
                )
        drawn = [self.nodes[i] for i in sorted(self.live) if self.draws(self.nodes[i])]
        if len(drawn) > 1 or any(n.op != "sdpfa_fwd" for n in drawn):
            raise UnsupportedError(
                f"fd.ops.{drawn[-1].op} beside a matmul",
                "random numbers of a given seed and offset",
                "nvFuser draws others from torch's generator, which a kernel for a part of the "
                "definition would find elsewhere",
            )

    def draws(self, node: Node) -> bool:
        """Whether it draws from the generator; attention alone draws the same in any segment."""
        return node.op in RANDOM and node.get("rng_seed") is None

    def _check_input(self, i: int) -> None:
        node = self.nodes[i]
        if self.is_output(i):
            raise UnsupportedError(f"the input {node.results[0]} as output", "computed outputs")
        if node.op == "define_tensor" and node.get("is_cpu", False):
            raise UnsupportedError(f"{node.results[0]} with is_cpu=True", "tensors on the GPU")

    def _check_ranks(self, node: Node) -> None:
        """Refuse a linear of numbers of dimensions that nvFuser has none of."""
        found = [self.types[n].dims if n in self.types else () for n in node.refs]
        ranks = [None if dims is None else len(dims) for dims in found]
        _, weight, *bias = ranks
        if weight is not None and (weight > 2 or any(b not in (None, weight - 1) for b in bias)):
            said = ", ".join("?" if n is None else str(n) for n in ranks)
            raise UnsupportedError(
                f"line {node.line}: fd.ops.linear of operands of {said} dimensions",
                "weights of 1 or 2, a bias of one less, other operands of 1 or more",
            )

    def check_rest(self, i: int) -> None:
        """Refuse an operation that nvFuser may not run in a segment of its own.

        Raises:
            UnsupportedError: so it is.
        """
        op = self.nodes[i].op
        known = op in SHAPES or op in POINTWISE or arity_of(op) is not None
        if not known and self.nodes[i].results[0] in self.types:
            raise UnsupportedError(f"fd.ops.{op} beside a matmul", "operations that are known")
