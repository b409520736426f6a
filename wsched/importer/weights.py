"""Weights that a definition takes apart and puts together again, as wsched's own words say them.

nvFuser has no integers of 4 bits and no scales of groups: a definition shifts and masks words, and
multiplies what it looks at as [N, K / 128, 128]. Here the words are an input of ``UInt4``, [N, K],
what is computed of each element is computed of that, and numbers of groups are words of the product
(:mod:`wsched.importer.scales`).

What is multiplied by a group's scale is rounded to the operand's type by nvFuser. The sum of a
group times its scale, in fp32, leaves that out; the product is rounded as the definition says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.bits import BITS, PARTS, integer, known
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.layout import broadcast_flags
from wsched.importer.ops import MATMULS, arity_of
from wsched.importer.ranks import argument_of
from wsched.importer.scaled import SCALES
from wsched.importer.scales import GROUP, GROUPS, ZERO
from wsched.importer.weight_views import OfGroups, Views, Weight

__all__ = ["with_weights"]

_FLOATS = (DataType.Float, DataType.BFloat16, DataType.Half)
_NARROW = (DataType.UInt4, DataType.Float8_e4m3fn, DataType.Float8_e5m2)
"""Types of which each number is one of all those."""
_INTEGERS = (DataType.Int, DataType.Int32)
_OF_BITS = ("bitwise_and", "bitwise_right_shift", "logical_right_shift")
_ARITHMETIC = ("add", "sub", "mul")
"""Operations that make integers of integers."""
_EXACT, _BFLOAT, _HALF = 1 << 24, 1 << 8, 65504
"""Up to which fp32 has every integer, and bf16; the largest number of fp16."""


def with_weights(definition: Definition) -> Definition:
    """The definition with its words of integers of 4 bits as inputs of ``UInt4``, and with scales
    of groups as words of the linears that they are of.

    Raises:
        UnsupportedError: an operand of a product is made of bits of words, or of what is scaled by
            groups, in another way than is known here.
    """
    if not any(n.op == "reshape" for n in definition.nodes):
        return definition
    return _Walk(definition, Views(definition)).result()


@dataclass
class _Walk:
    """The operations of a definition in their order.

    Attributes:
        why: tensors are no weights that are made of words.
        made: operations on matrices, by their results; and behind which of the definition's.
        products: those whose operands are other ones now.
    """

    definition: Definition
    views: Views
    why: dict[str, UnsupportedError] = field(default_factory=dict)
    made: dict[str, Node] = field(default_factory=dict)
    behind: dict[str, list[str]] = field(default_factory=dict)
    products: dict[str, Node] = field(default_factory=dict)

    def result(self) -> Definition:
        """The definition in its new words; itself where it has none."""
        live = self.definition.behind(self.definition.outputs)
        for node in (n for n in self.definition.nodes if n.is_input or n.results[0] in live):
            self._visit(node)
        if not self.products:
            return self.definition
        nodes: list[Node] = []
        for node in self.definition.nodes:
            nodes.append(self.products.get(node.results[0], node))
            nodes += [self.made[name] for name in self.behind.get(node.results[0], ())]
        kept = replace(self.definition, nodes=tuple(nodes)).behind(self.definition.outputs)
        words = {w.source for w in self.views.weights.values() if self.views.of_words(w)}
        words = {name for name in words if self._is_read(name, kept)}
        nodes = [
            self.views.integers(n) if n.results[0] in words else n
            for n in nodes if n.is_input or n.results[0] in kept
        ]  # fmt: skip
        return replace(self.definition, nodes=tuple(nodes))

    def _is_read(self, name: str, kept: dict[str, Node]) -> bool:
        """Whether words are read as integers now.

        Raises:
            UnsupportedError: and in another way as well.
        """
        products = {*self.products.values()}
        read = [n for n in kept.values() if name in n.refs]
        own = [n for n in read if n.results[0] in self.made or n in products]
        if own and (len(own) < len(read) or name in self.definition.outputs):
            what = f"{name} as words and as integers of {BITS} bits"
            raise UnsupportedError(what, "one way to read it")
        return bool(own)

    # --- one operation after the other -----------------------------------------------------------

    def _visit(self, node: Node) -> None:
        name = node.results[0]
        if node.op in MATMULS:
            self._product(node)
        elif self.views.bits.visit(node):
            self._unfinished(name)
        elif node.op == "define_tensor":
            shape = node.get("shape")
            if isinstance(shape, tuple) and len(shape) == 2:
                self.views.weights[name] = Weight(name, name, exact=name)
        elif before := [self.why[v] for v in node.refs if v in self.why]:
            self.why[name] = before[0]
        else:
            try:
                self._follow(node)
            except UnsupportedError as e:
                self.why[name] = UnsupportedError(e.what, e.supported, e.hint)  # without frames

    def _unfinished(self, name: str) -> None:
        """What has been made of words, and is no integers, cannot be an operand."""
        words = self.views.bits.found.get(name)
        if words is not None and not words.whole and not words.numbers:
            self.why[name] = UnsupportedError(
                f"an operand of {words},",
                f"{PARTS} integers of {BITS} bits side by side along K, the first one in the "
                f"lowest bits: shifts of 0, {BITS}, ..., {BITS * (PARTS - 1)}, masks of 15",
            )

    def _follow(self, node: Node) -> None:
        """Enter what an operation makes of weights, or of numbers of groups."""
        views, first = self.views, node.operands[0] if node.operands else None
        name, weight, group = node.results[0], views.weight(first), views.group(first)
        made: Weight | OfGroups | None = None
        match node.op:
            case op if op in _OF_BITS and any(views.words(v) for v in node.arguments):
                of = ", ".join(text_of(v) for v in node.arguments)
                raise UnsupportedError(
                    f"an operand that is made by fd.ops.{op} of {of}",
                    f"numbers of the definition from 0 to {BITS * PARTS - 1}, and fd.ops.iota of "
                    f"{PARTS}",
                )
            case "broadcast" if weight is not None:
                plain = not (weight.span or weight.typed or weight.by_groups)
                flags = broadcast_flags(node) == (False, False, True)
                made = OfGroups(text_of(first)) if plain and flags else None
            case "expand" if group is not None:
                made = views.expanded(node, group)
            case "set":
                made = weight or group
            case "cast" if group is not None:  # as the product does
                made = group if argument_of(node, "dtype") is DataType.Float else None
            case "reshape" if group is not None:
                made = views.joined(node, group)
            case "reshape" if weight is not None:
                made = views.reshaped(node, weight)
            case "permute" if weight is not None and not weight.span:
                made = self._turned(node, weight)
            case "cast" if weight is not None:
                made = self._cast(node, weight)
            case op if arity_of(op) is not None:
                made = self._pointwise(node)
        if isinstance(made, Weight):
            views.weights[name] = made
        elif made is not None:
            views.groups[name] = made

    def _enter(self, node: Node, made: Node, suffix: str = "flat") -> str:
        """The name of an operation beside one of the definition."""
        name = f"{node.results[0]}.{suffix}"
        self.made[name] = replace(made, results=(name,))
        self.behind.setdefault(node.results[0], []).append(name)
        return name

    def _turned(self, node: Node, weight: Weight) -> Weight | None:
        if argument_of(node, "dims") != (1, 0):
            return None
        flat = node.results[0]
        if weight.flat != text_of(node.operands[0]):
            turned = replace(node, operands=(Ref(weight.flat),), kwargs=(("dims", (1, 0)),))
            flat = self._enter(node, turned)
        return replace(weight, flat=flat, turned=not weight.turned, exact="")

    # --- arithmetic ------------------------------------------------------------------------------

    def _cast(self, node: Node, weight: Weight) -> Weight | None:
        """As another type. What has been scaled is not rounded, what counts times the scale is:
        that has to fit the type, and to be exact where a zero point is taken from it.
        """
        to = argument_of(node, "dtype")
        if weight.typed and to in _INTEGERS:
            return weight
        keeps = to is DataType.Float or self.views.type_of(weight.source) in (*_NARROW, to)
        # Zero points are taken from integers up to 256 alone, which each type has.
        sure = 0 < weight.most <= _HALF or (weight.exact and keeps)
        lossy = weight.by_groups and (to is DataType.Half or weight.zero is not None)
        if to not in _FLOATS or (lossy and not sure):
            if weight.typed or weight.by_groups:
                what = f"fd.ops.cast of {weight.source}, taken apart, to {text_of(to)}"
                supported = "Float, BFloat16, and Half of what it surely holds"
                if weight.zero is not None:
                    supported = "types with all numbers that zero points are taken from"
                raise UnsupportedError(what, supported)
            return None
        exact = weight.exact if keeps else ""
        if text_of(node.operands[0]) == (weight.exact or weight.flat):
            return replace(weight, flat=node.results[0], exact=exact)
        if not weight.exact and to is DataType.Float and (weight.typed or weight.by_groups):
            return replace(weight, typed=False)  # computed in fp32 already
        source = Ref(weight.exact or weight.flat)
        flat = self._enter(node, Node("cast", (), (source,), (("dtype", to),), node.line))
        return replace(weight, flat=flat, exact=exact, typed=False)

    def _pointwise(self, node: Node) -> Weight | None:
        """An operation on weights and on what is the same for all of a row, or for all."""
        views, given = self.views, node.arguments
        weights = [w for v in given if (w := views.weight(v)) is not None]
        groups = [g for v in given if (g := views.group(v)) is not None]
        if not weights:
            return None
        if len(weights) == len(groups) == 1 and len(given) == 2:
            return self._of_group(node, weights[0], groups[0])
        first, words = weights[0], any(map(views.of_words, weights))
        if scaled := [w.source for w in weights if w.by_groups]:
            what = f"fd.ops.{node.op} of {scaled[0]} behind its scales or zero points of groups"
            raise UnsupportedError(what, "a cast in front of the product")
        alike = len({w.span for w in weights}) == 1
        alike = alike and all(self._is_number(v) for v in given if views.weight(v) is None)
        if any(w.turned for w in weights) or (any(w.span for w in weights) and not alike):
            if words:
                what = f"fd.ops.{node.op} of {first.source}, taken apart, and a tensor"
                raise UnsupportedError(what, "numbers of all of it, of a row or of a group")
            return None
        most, typed = self._integers(node, weights)
        if all(views.weight(v) is None or text_of(v) == views.weights[str(v)].flat for v in given):
            return replace(first, flat=node.results[0], exact="", most=most, typed=typed)
        operands = [self._in_floats(node, v) for v in given]
        flat = self._enter(node, replace(node, operands=tuple(operands), kwargs=()))
        return replace(first, flat=flat, exact="", most=most, typed=typed)

    def _in_floats(self, node: Node, value: Value) -> Value:
        """An operand as a matrix of a type that is computed with: integers as fp32."""
        weight = self.views.weight(value)
        if weight is None or not (weight.typed and weight.exact):
            return value if weight is None else Ref(weight.flat)
        kwargs = (("dtype", DataType.Float),)
        return Ref(self._enter(node, Node("cast", (), (Ref(weight.exact),), kwargs, 0), "wide"))

    def _is_number(self, value: Value) -> bool:
        return not isinstance(value, Ref) or known(self.views.numbers, value) is not None

    def _integers(self, node: Node, weights: list[Weight]) -> tuple[int, bool]:
        """How large an operation makes integers, 0 where it makes others; and whether it makes a
        type of integers.

        Raises:
            UnsupportedError: of such a type it makes what fp32 may not have.
        """
        others = [v for v in node.arguments if self.views.weight(v) is None]
        found = [integer(self.views.numbers, v) for v in others]
        sizes = [w.most for w in weights] + [abs(n) for n in found if n is not None]
        most = 0
        if node.op in _ARITHMETIC and len(sizes) == 2 and all(w.most for w in weights):
            most = max(sizes[0] * sizes[1] if node.op == "mul" else sum(sizes), 1)
        most = most if most < _EXACT else 0
        typed = all(w.typed for w in weights) and not any(map(self._is_real, others))
        if typed and not most:
            of = ", ".join(text_of(v) for v in node.arguments)
            raise UnsupportedError(
                f"fd.ops.{node.op} of integers of {BITS} bits, {of}",
                "sums, differences and products with small integers, and casts to floats",
            )
        return most, typed

    def _is_real(self, value: Value) -> bool:
        node = self.definition.node(value.name) if isinstance(value, Ref) else None
        if node is None:
            return isinstance(value, float)
        dtype = argument_of(node, "dtype")
        return dtype in (*_FLOATS, DataType.Double) or any(map(self._is_real, node.operands))

    def _of_group(self, node: Node, weight: Weight, group: OfGroups) -> Weight | None:
        """Weights times their groups' scales, or without their zero points: of what the operand's
        type has exactly, so that rounding it first changes nothing.
        """
        fits = not (weight.span or weight.turned) if group.flat else weight.span > 0
        span = weight.span or group.span
        if not fits or group.span not in (0, span):
            return None
        alike = weight.zero is None or weight.zero[1] == span
        if node.op == "mul" and not weight.scale and not weight.typed and alike:
            return replace(weight, scale=(group.source, span))
        exact = weight.exact or 0 < weight.most <= _BFLOAT
        first = self.views.weight(node.arguments[0]) is weight
        if node.op == "sub" and first and exact and not weight.typed and not weight.by_groups:
            return replace(weight, zero=(group.source, span))
        if not self.views.of_words(weight) and span not in GROUPS:
            return None
        raise UnsupportedError(
            f"fd.ops.{node.op} of {weight.source} and {group.source}, numbers of groups,",
            "in floats zero points, which are taken from small integers, then scales",
        )

    # --- products --------------------------------------------------------------------------------

    def _product(self, node: Node) -> None:
        """A product with its operands in their new words."""
        for name in (v.name for v in node.factors if isinstance(v, Ref)):
            if name in self.why:
                raise self.why[name]
        found = dict[Value, Value]()
        for v in node.factors:
            weight = self.views.weight(v)
            if weight is not None and not weight.span and self.views.of_words(weight):
                found[v] = Ref(weight.flat)
        second = self.views.weight(node.factors[-1])
        scaled = second is not None and not second.span and second.scale is not None
        if second is not None and scaled and second.turned == (node.op == "matmul"):
            found[node.factors[-1]] = Ref(second.flat)
        elif any(w is not None and w.by_groups for w in map(self.views.weight, node.factors)):
            return  # reshaped, as the importer says
        if not found:
            return
        made = replace(node, operands=tuple(found.get(v, v) for v in node.operands))
        if second is not None and scaled:
            made = self._scaled(made, second)
        self.products[node.results[0]] = made

    def _scaled(self, node: Node, weight: Weight) -> Node:
        """A linear whose weights' groups count times these numbers."""
        assert weight.scale is not None
        words: list[tuple[str, Value]] = [(SCALES[1], Ref(weight.scale[0]))]
        words += [(ZERO, Ref(weight.zero[0]))] if weight.zero else []
        words.append((GROUP, weight.scale[1]))
        words += node.kwargs
        if node.op == "linear":
            return replace(node, kwargs=tuple(words))
        x, w = node.factors
        turned = self.made.get(str(w)) or self.definition.node(str(w))
        assert turned is not None
        return Node("linear", node.results, (x, turned.operands[0]), tuple(words), node.line)
