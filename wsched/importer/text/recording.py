"""The definition that a text is read into, one operation after the other."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from wsched.fusion.types import DataType
from wsched.importer.definition import Definition, Node, Open, Ref, Value, Written
from wsched.importer.dtypes import tensor_types
from wsched.importer.signatures import makes_one, results_of
from wsched.importer.text.arguments import Call, canonical, layout_of
from wsched.importer.text.source import Source

__all__ = ["NULL", "Recording"]

NULL = "DataType.Null"
"""nvFuser's type for "none given": an argument that is this is left out."""


@dataclass
class Recording:
    """Operations, outputs and marks so far.

    Args:
        source: the text, for errors.
    """

    source: Source
    nodes: list[Node] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    marks: list[Node] = field(default_factory=list)
    written: dict[str, Written] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def definition(self) -> Definition:
        """What was recorded."""
        written = tuple(self.written.values())
        return Definition(tuple(self.nodes), tuple(self.outputs), tuple(self.marks), written)

    def fresh(self, name: str, line: int) -> str:
        """``name``, or ``name@line`` if something has it, or ``name@line.2`` and so on."""
        found, number = name, 1
        while found in self._names:
            found = f"{name}@{line}" if number == 1 else f"{name}@{line}.{number}"
            number += 1
        self._names.add(found)
        return found

    def add(self, op: str, names: tuple[str, ...], call: Call, line: int) -> tuple[Ref, ...]:
        """Record a node; what it defines."""
        results = tuple(self.fresh(n, line) for n in names)
        operands, named = call
        self.nodes.append(Node(op, results, operands, tuple(named.items()), line))
        return tuple(map(Ref, results))

    def operation(self, at: ast.Call, op: str, names: tuple[str, ...], call: Call) -> Value:
        """``fd.ops.op``; one result, or a tuple of several."""
        operands, named = canonical(self.source, at, op, _given(call))
        if len(names) > 1 and makes_one(op):
            raise self.source.refusal(at, f"one, of fd.ops.{op}", f"{len(names)} results")
        if not names:
            count = results_of(op)
            names = (op,) if count == 1 else tuple(f"{op}.{n}" for n in range(count))
        elif len(names) == 1 and (count := results_of(op)) > 1:
            names = tuple(f"{names[0]}.{n}" for n in range(count))
        made = self.add(op, names, (operands, named), at.lineno)
        return made[0] if len(made) == 1 else made

    def define(self, at: ast.Call, op: str, names: tuple[str, ...], call: Call) -> Value:
        """``fd.define_tensor``, ``fd.define_scalar`` or ``fd.define_vector``."""
        if op == "define_scalar" and len(call[0]) == 1 and isinstance(call[0][0], DataType):
            call = (), {**call[1], "dtype": call[0][0]}
        if op == "define_tensor" and NULL in (*call[0], call[1].get("dtype")):
            raise self.source.refusal(at, "a type of elements", f"a tensor of {NULL}")
        _, named = canonical(self.source, at, op, _given(call))
        name = names[0] if len(names) == 1 else op.removeprefix("define_")
        if op == "define_tensor":
            return self.add(op, (name,), ((), layout_of(named)), at.lineno)[0]
        value = named.pop("value", None)
        if op == "define_scalar":
            return self.add(op, (name,), ((value,), named), at.lineno)[0]
        if isinstance(value, tuple):
            return value
        if type(value) is not int or not 0 <= value <= 64:
            raise self.source.refusal(at, "a list of at most 64", f"a vector of {value}")
        scalar: Call = (None,), {"dtype": DataType.Int}
        return tuple(
            self.add("define_scalar", (f"{name}[{n}]",), scalar, at.lineno)[0] for n in range(value)
        )

    def constant(self, at: ast.Call, names: tuple[str, ...], call: Call) -> Value:
        """``fd.define_constant``: what versions before ``fd.define_scalar`` took a value have for
        one that does.
        """
        if not isinstance(next(iter((*call[0], *call[1].values())), None), bool | int | float):
            raise self.source.refusal(at, "a number")
        return self.define(at, "define_scalar", names, call)

    def tensor_like(self, at: ast.Call, names: tuple[str, ...]) -> Value:
        """``fd.from_pytorch``: an input of which the text does not tell shape and type."""
        if len(at.args) != 1:
            raise self.source.refusal(at)
        name = names[0] if len(names) == 1 else "from_pytorch"
        return self.unknown_tensor(name, self.source.text_of(at.args[0]), at.lineno)

    def unknown_tensor(self, name: str, text: str, line: int) -> Ref:
        """An input whose shape and type are those of a torch tensor, given as text."""
        named: dict[str, Value] = {
            "shape": Open(f"{text}.shape", line), "dtype": Open(f"{text}.dtype", line)
        }  # fmt: skip
        return self.add("define_tensor", (name,), ((), named), line)[0]

    def output(self, at: ast.Call, call: Call) -> None:
        """``fd.add_output``: a result; the operand may be given an order or an input to fill."""
        _, named = canonical(self.source, at, "add_output", call)
        result, into = named.get("output"), named.get("alias_input")
        order = into if isinstance(into, tuple) else named.get("stride_order")
        if not isinstance(result, Ref):
            raise self.source.refusal(at, "a tensor or scalar of the definition")
        if isinstance(into, Ref):
            if result.name in self.written:
                raise self.source.refusal(at, "an output that is written into one input")
            returned = result.name in self.outputs
            self.written[result.name] = Written(result.name, into.name, returned, at.lineno)
            self.outputs += [] if returned else [result.name]
            return
        if into is not None and into is not order:
            raise self.source.refusal(at, "a tensor of the definition to write into")
        if order:
            call = (result,), {"stride_order": order}
            result = self.add("stride_order", (result.name,), call, at.lineno)[0]
        hidden = self.written.get(result.name)
        if hidden is not None and not hidden.returned:  # it stands where it is given to the caller
            self.written[result.name] = replace(hidden, returned=True)
            self.outputs.remove(result.name)
        self.outputs.append(result.name)

    def dtype_of(self, tensor: Ref, line: int) -> DataType | Open:
        """The type of a tensor's elements, where the text tells it."""
        found = tensor_types(self.nodes).get(tensor.name)
        return Open(f"{tensor}.dtype()", line) if found is None else found

    def mark(self, at: ast.Call, of: Ref, method: str) -> None:
        """A method of a tensor that shards or schedules it."""
        text = Open(self.source.text_of(at), at.lineno)
        self.marks.append(Node(method, (), (of, text), (), at.lineno))

    def mark_all(self, method: ast.FunctionDef) -> None:
        """A method of the definition's class that shards its tensors."""
        text = Open(self.source.shown(method.lineno), method.lineno)
        self.marks.append(Node(method.name, (), (None, text), (), method.lineno))


def _given(call: Call) -> Call:
    """Without the arguments that say that none is given."""
    operands, named = call
    while operands and operands[-1] == NULL:
        operands = operands[:-1]
    return operands, {k: v for k, v in named.items() if v != NULL}
