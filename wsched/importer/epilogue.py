"""The pointwise part of a definition as a graph of steps, with nvFuser's types made explicit.

nvFuser computes a linear or matmul in fp32, adds the bias and rounds to the operation's type, which
readers get, but for casts to fp32 of products of 8 bits, and for sums
(:mod:`wsched.importer.only_summed`); a product that says ``dtype=DataType.Float``, a word of
wsched's own, is in fp32.

Steps are demanded from the outputs, so what nothing reads is never made, and a step that is
demanded twice is made once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from lowering.ground.errors import UnsupportedError
from lowering.ground.resolve import resolve
from wsched.fusion import DataType
from wsched.fusion.names import COLS, ROWS
from wsched.importer.before import dims_before
from wsched.importer.composite import COMPOSITES
from wsched.importer.constants import Numbers, exact, same_size
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.layout import input_axes
from wsched.importer.monotone import unrounded
from wsched.importer.ops import ALIASES, MISSING, Promotion, arity_of, promotion
from wsched.importer.positions import Lengths, compared, iota, is_index, recast
from wsched.importer.products import wide_product
from wsched.importer.ranks import Ranks
from wsched.importer.reductions import Reduced
from wsched.importer.steps import REDUCED, Dims, Operand, Places, Step

__all__ = ["STORED", "EpilogueImport", "Key", "Making"]

_FLOAT = DataType.Float
STORED = (DataType.BFloat16, DataType.Half, _FLOAT)
_ROUNDED = (DataType.Float8_e4m3fn, DataType.Float8_e5m2)
_NAMES = ", ".join(map(str, STORED))
_COMPUTED = (*STORED, DataType.Bool)
Key = tuple[str, Dims]
"""A name, and the dimensions of the matmul's result that its own are."""
Making = Generator[Key, Operand, Operand]
"""How a name's step is made; it asks for the steps that it reads."""

_POINTWISE = "the operations of design/pointwise-ops.md"


@dataclass
class EpilogueImport:
    """Builds the steps of one definition.

    Args:
        definition: what to import.
        matmuls: its linears and matmuls by their results' names, which are alike, each with the
            name of the first that multiplies the same.
        rounded: their type.
        dims: their dimensions.
        where: the steps are, in texts of errors.
        summed: type of the accumulator.
        ones: dimensions that are 1 in the results of the matmuls.
        steps: what has been made, in an order in which it can be computed.
        results: those of matmuls, to which accumulators are rounded with their biases.
        ranks: of the definition's names.
        numbers: what it computes of constants alone.
        lengths: what it says of sizes.
    """

    LOADED: ClassVar[tuple[DataType, ...]] = _COMPUTED
    """Types of inputs."""
    ROUNDED: ClassVar[tuple[DataType, ...]] = _ROUNDED
    """Types that results alone are cast to, at their largest number if they exceed it."""

    definition: Definition
    matmuls: Mapping[str, str]
    rounded: DataType
    dims: Dims = (ROWS, COLS)
    where: str = "in an epilogue"
    summed: DataType = DataType.Float
    ones: frozenset[str] = frozenset()
    steps: list[Step] = field(default_factory=list)
    results: set[Step] = field(default_factory=set)
    ranks: Ranks = field(init=False)
    numbers: Numbers = field(init=False)
    lengths: Lengths = field(init=False)
    _found: dict[tuple[str, Dims], Operand] = field(default_factory=dict)
    _same: dict[tuple[object, ...], Step] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ranks = Ranks.all_of(self.definition)
        self.numbers = Numbers(self.definition)
        self.lengths = Lengths(self.definition, self.numbers, {})

    def output(self, name: str) -> Step:
        """The step of an output of the fusion.

        Raises:
            UnsupportedError: something on the way to it is not supported.
        """
        node = self.definition.node(name)
        if node is None or node.op in ("define_tensor", "define_scalar"):
            raise UnsupportedError(f"the output {name}, which is an input,", "a computed output")
        rank = self.ranks.of(Ref(name))
        if rank != len(self.dims) and node.op not in MISSING:
            what = f"the output {name} with {rank} dimensions"
            raise UnsupportedError(what, f"outputs [{', '.join(self.dims)}]")
        step = self.operand(Ref(name), self.dims)
        if not isinstance(step, Step) or step.spread != set(self.dims):
            what = f"the output {name}, which is the same along a dimension of the matmul,"
            raise UnsupportedError(what, "outputs that the matmul or a full matrix has a part in")
        if step.op == "matmul":
            raise _unrounded(step)
        known = (*STORED, *self.ROUNDED)
        if step.dtype not in (*known, self.summed):
            names = ", ".join(map(str, known))
            raise UnsupportedError(f"the output {name} of type {step.dtype}", names)
        return step

    def reduction(self, found: Reduced) -> Step:
        """The step of an output that is a reduction; raises as :meth:`output`."""
        call = f"fd.ops.{found.op}"
        if self.ranks.of(found.value) != len(self.dims):
            what = f"{call} of {self.ranks.of(found.value)} dimensions"
            raise UnsupportedError(what, f"of [{', '.join(self.dims)}]")
        value = self.operand(found.value, self.dims)
        if not isinstance(value, Step) or value.spread != set(self.dims):
            what = f"{call} of what is the same along a dimension of the matmul"
            raise UnsupportedError(what, "values that the matmul or a full matrix has a part in")
        dtype = found.dtype or value.dtype
        to = found.cast or dtype
        twice = to is not dtype and dtype is not _FLOAT
        if twice or not {value.dtype, dtype, to} <= set(STORED):
            types = f"{value.dtype} as {dtype}" + (f", cast to {to}" if to is not dtype else "")
            raise UnsupportedError(
                f"{call} of {types}", "BFloat16, Half, Float, and casts of a reduction in Float"
            )
        wide, rounded = unrounded(self, found.op, self.cast(value, _FLOAT))
        step = Step(found.op, to, (wide,), value.spread - found.over, rounded=rounded)
        self.steps.append(step)
        return step

    # --- steps ---------------------------------------------------------------------------------

    def make(
        self, op: str, dtype: DataType, *inputs: Operand, places: Places | None = None
    ) -> Step:
        """A step, the one that there is if it was made before."""
        key = (op, dtype, places, *inputs)
        if key not in self._same:
            spread = frozenset().union(*(x.spread for x in inputs if isinstance(x, Step)))
            spread |= {axis for axis, _ in places.terms} if places else set()
            weak = not places and not any(isinstance(x, Step) and not x.weak for x in inputs)
            self._same[key] = Step(op, dtype, inputs, spread, weak=weak, places=places)
            self.steps.append(self._same[key])
        return self._same[key]

    def cast(self, x: Operand, to: DataType) -> Operand:
        """``x`` as another type; a number has none until it meets a tensor."""
        if not isinstance(x, Step):
            return x
        if x.op == "matmul":
            if to is not _FLOAT:
                raise _unrounded(x)
            return x.inputs[0]
        if x.dtype is to:
            return x
        of = x.inputs[0] if x.op == "cast" and x.dtype is _FLOAT and to in STORED else None
        if isinstance(of, Step) and of.dtype is to:
            return of  # widened and rounded back, which changes nothing
        if x.op == "cast" and x.dtype in self.ROUNDED:
            raise UnsupportedError(f"fd.ops.cast of what is cast to {x.dtype}", "results of it")
        if x.dtype is DataType.Double:
            narrow = [self.narrowed(y) for y in x.inputs]
            return self.cast(self.make(x.op, _FLOAT, *narrow), to)
        if to is DataType.Bool:
            return self.make("ne", to, self.cast(x, _FLOAT), 0.0)
        return self.make("cast", to, x)

    def narrowed(self, x: Operand) -> Operand:
        """An input of a Double step, which is a choice between numbers that fp32 holds exactly."""
        return x if not isinstance(x, Step) or x.dtype is DataType.Bool else self.cast(x, _FLOAT)

    def pointwise(self, op: str, *operands: Operand) -> Operand:
        """An operation on operands of any types, promoted as nvFuser promotes them."""
        tensors = [x for x in operands if isinstance(x, Step)]
        if not tensors:
            raise UnsupportedError(f"fd.ops.{op} of constants alone", "a tensor among the operands")
        op = ALIASES.get(op, op)
        if any(map(is_index, tensors)):
            return compared(self, op, operands)
        match promotion(op):
            case Promotion.LOGICAL:
                args = [self.cast(x, DataType.Bool) for x in operands]
                return self.make(op, DataType.Bool, *args)
            case Promotion.TEST:
                self.require_computed(op, self.common(op, operands))
                return self.make(op, DataType.Bool, *operands)
            case Promotion.COMPARE:
                if all(x.dtype is DataType.Bool for x in tensors) and op in ("eq", "ne"):
                    differ = COMPOSITES["bitwise_xor"](self, *operands)
                    return differ if op == "ne" else self.pointwise("logical_not", differ)
                return self.make(op, DataType.Bool, *(self.cast(x, _FLOAT) for x in operands))
            case Promotion.SAME:
                condition = [self.cast(x, DataType.Bool) for x in operands[: int(op == "where")]]
                rest = operands[len(condition) :]
                dtype = self.common(op, rest)
                self.require_computed(op, dtype)
                return self.make(op, dtype, *condition, *(self.cast(x, dtype) for x in rest))
        self.require_computed(op, self.common(op, operands), STORED)
        return self.make(op, _FLOAT, *(self.cast(x, _FLOAT) for x in operands))

    def require_computed(
        self, op: str, dtype: DataType, known: tuple[DataType, ...] = (*_COMPUTED, DataType.Double)
    ) -> None:
        """Refuse an operation on a type that it is not computed in."""
        if dtype not in known:
            raise UnsupportedError(f"fd.ops.{op} of {dtype}", _NAMES)

    def common(self, op: str, operands: tuple[Operand, ...]) -> DataType:
        """The type that tensors are promoted to: one that all have, else Float.

        A run-time scalar counts only where there is nothing else, a number never. A choice between
        numbers is Double in nvFuser; fp32 holds the numbers that are accepted there exactly.
        """
        tensors = [x for x in operands if isinstance(x, Step)]
        strong = [x for x in tensors if not x.weak] or tensors
        kinds = {x.dtype for x in strong}
        if not kinds:
            if all(exact(x) for x in operands):
                return DataType.Double
            raise UnsupportedError(f"fd.ops.{op} of constants alone", "one tensor beside them")
        if DataType.Double in kinds:
            return DataType.Double
        return kinds.pop() if len(kinds) == 1 else _FLOAT

    # --- nodes ---------------------------------------------------------------------------------

    def operand(self, value: Value, dims: Dims) -> Operand:
        """The step of a name whose dimensions are those of the matmul's result named ``dims``."""
        if not isinstance(value, Ref):
            return self.numbers.of(value)
        return resolve((value.name, dims), self.node, self._found)

    def asked(self, value: Value, dims: Dims) -> Making:
        """The same for what another is made of."""
        return (yield value.name, dims) if isinstance(value, Ref) else self.numbers.of(value)

    def node(self, key: Key) -> Making:
        """Make what a name stands for."""
        name, dims = key
        node = self.definition.node(name)
        if node is None:
            raise UnsupportedError(f"the name {name}", "names defined above")
        if name in self.matmuls:
            return self.result(node, dims)
        if node.op == "define_tensor":
            return self.input(node, dims)
        if node.op == "define_scalar" and node.is_input:
            return self.scalar(node)
        if self.ranks.of(Ref(name)) == 0 and not self.numbers.reads_tensor(node):
            return self.numbers.of(Ref(name))
        call = f"fd.ops.{node.op}"
        match node.op:
            case "cast":
                x = yield from self.asked(node.operands[0], dims)
                return recast(self, x, node) or self.cast(x, self.type_of(node))
            case "broadcast" | "broadcast_in_dim" | "set" | "expand" | "stride_order" | "squeeze":
                self.check_shape(node, dims)
                before = dims_before(node, dims, self.ranks)
                return (yield from self.asked(node.operands[0], before))
            case "iota" if self.matmuls:
                return iota(self, node, dims, self.lengths)
        if node.op in REDUCED:
            raise UnsupportedError(
                f"{call} that an operation of the kernel reads", "reductions that are results"
            )
        if node.op in MISSING:
            raise UnsupportedError(f"{call} ({MISSING[node.op]}) {self.where}", _POINTWISE)
        arity = arity_of(node.op)
        if arity is None:
            raise UnsupportedError(f"{call} {self.where}", _POINTWISE)
        values = node.arguments
        if len(values) != arity:
            raise UnsupportedError(f"{call} with {len(values)} operands", f"{arity} operands")
        operands = []
        for v in values:
            operands.append((yield from self.asked(v, self.inner(v, dims))))
        if node.op in COMPOSITES:
            return COMPOSITES[node.op](self, *operands)
        return self.pointwise(node.op, *operands)

    def result(self, matmul: Node, dims: Dims) -> Operand:
        """A matmul's result, rounded to its type."""
        if dims != self.dims:
            whole = f"the result as [{', '.join(self.dims)}]"
            raise UnsupportedError("a broadcast of the matmul's result", whole)
        name = self.matmuls[matmul.results[0]]
        if (total := self._same.get(("mma", name))) is None:
            total = Step("mma", self.summed, (), frozenset(self.dims), source=name)
            self._same[("mma", name)] = total
            self.steps.append(total)
        bias = matmul.argument("bias", 2)
        if bias is not None:
            if (rank := self.ranks.of(bias)) != 1:
                raise UnsupportedError(f"a bias with {rank} dimensions", "a bias [N]")
            self.require_computed("linear with a bias", self.summed)
            row = self.cast(self.operand(bias, (COLS,)), _FLOAT)
            total = self.make("add", _FLOAT, total, row)
        if wide_product(matmul):
            return self.cast(total, _FLOAT)
        if self.rounded is self.summed:
            return total
        if self.rounded in STORED:
            self.results.add(made := self.make("cast", self.rounded, total))
            return made
        return Step("matmul", self.rounded, (total,), total.spread)

    def input(self, node: Node, dims: Dims) -> Step:
        """An input of the fusion that the epilogue reads."""
        shape, dtype = node.get("shape", ()), node.get("dtype", _FLOAT)
        name = node.results[0]
        if not isinstance(shape, tuple) or not isinstance(dtype, DataType):
            raise UnsupportedError(f"{name} with shape {text_of(shape)}", "a list of sizes")
        if dtype not in self.LOADED:
            known = ", ".join(map(str, self.LOADED))
            raise UnsupportedError(f"the input {name} of type {dtype}", known)
        if node.get("is_cpu", False):
            raise UnsupportedError(f"{name} with is_cpu=True", "tensors on the GPU")
        if len(shape) != len(dims):
            raise UnsupportedError(
                f"{name} with {len(shape)} dimensions", f"{len(dims)} dimensions, where it is read"
            )
        return self._input(name, dtype, input_axes(dims, shape, self.ones), dims, weak=False)

    def scalar(self, node: Node) -> Step:
        """A run-time scalar: a tensor of one element that does not widen what it meets."""
        dtype = node.get("dtype", DataType.Double)
        if dtype not in (DataType.Double, _FLOAT):
            raise UnsupportedError(
                f"the run-time scalar {node.results[0]} of type {dtype}", "Double, Float"
            )
        return self._input(node.results[0], _FLOAT, (), (), weak=True)

    def _input(self, name: str, dtype: DataType, axes: Dims, dims: Dims, weak: bool) -> Step:
        key = ("input", name, axes, dims)
        if key not in self._same:
            spread = frozenset(a for a in axes if a != "1")
            made = Step("input", dtype, (), spread, weak, name, axes, dims)
            other = [s for s in self.steps if s.source == name]
            if other:
                raise UnsupportedError(f"{name} as row and as column", "one way to read an input")
            self._same[key] = made
            self.steps.append(made)
        return self._same[key]

    def type_of(self, cast: Node) -> DataType:
        """What is cast to."""
        to = cast.get("dtype")
        known = (*_COMPUTED, *self.ROUNDED)
        if to not in known or not isinstance(to, DataType):
            names = ", ".join(map(str, known))
            raise UnsupportedError(f"fd.ops.cast to {text_of(to)}", names)
        return to

    # --- shapes --------------------------------------------------------------------------------

    def inner(self, value: Value, dims: Dims) -> Dims:
        """Dimensions of an operand of lower rank: the last ones, as NumPy aligns shapes."""
        return dims[len(dims) - self.ranks.of(value) :]

    def check_shape(self, node: Node, dims: Dims) -> None:
        """An expand may only go to the sizes of the matmul's result."""
        if node.op != "expand":
            return
        if not self.matmuls:
            raise UnsupportedError(f"fd.ops.expand {self.where}", _POINTWISE)
        shape = node.get("shape")
        matmul = next(node for node in self.definition.nodes if node.results[0] in self.matmuls)
        for size, axis in zip(shape if isinstance(shape, tuple) else (), dims, strict=False):
            if not same_size(self.definition, matmul, size, axis):
                raise UnsupportedError(
                    f"fd.ops.expand to shape={text_of(shape)}", "the sizes of the matmul's result"
                )


def _unrounded(x: Step) -> UnsupportedError:
    """A matmul's result of a type that its sums are not rounded to."""
    what = f"a matmul's result rounded to {x.dtype}"
    return UnsupportedError(what, "what is made of it cast to Float")
