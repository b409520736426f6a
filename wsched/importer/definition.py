"""A fusion definition as data: the operations in the order in which they were written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lowering.ground.errors import UnsupportedError
from wsched.fusion.types import DataType

__all__ = ["Definition", "Node", "Open", "Ref", "Value", "Written", "definition_text", "text_of"]


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor or scalar by the name that the text gives it, e.g. ``tv3`` or ``c7``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Open:
    """A value that a text leaves open: ``4 * h``, where ``h`` is an argument of the function."""

    text: str
    line: int

    def __str__(self) -> str:
        return self.text


Value = Ref | Open | DataType | bool | int | float | complex | str | None | tuple["Value", ...]


@dataclass(frozen=True)
class Node:
    """One operation.

    Args:
        op: ``define_tensor``, ``define_scalar``, or the name below ``fd.ops``.
        results: names that it defines, each only once in a definition; where the text assigns a
            name again, the later ones are ``name@line``.
        operands: positional arguments.
        kwargs: named arguments, in the order of the text.
        line: line of the text, from 1.
    """

    op: str
    results: tuple[str, ...]
    operands: tuple[Value, ...]
    kwargs: tuple[tuple[str, Value], ...]
    line: int

    @property
    def arguments(self) -> tuple[Value, ...]:
        """Operands, then named arguments."""
        return (*self.operands, *(v for _, v in self.kwargs))

    @property
    def factors(self) -> tuple[Value, ...]:
        """What a product multiplies: the first two of :attr:`arguments` that are no bias."""
        return (*self.operands, *(v for k, v in self.kwargs if k != "bias"))[:2]

    @property
    def values(self) -> tuple[Value, ...]:
        """:attr:`arguments`, lists taken apart."""
        flat: list[Value] = []
        for v in self.arguments:
            flat += v if isinstance(v, tuple) else (v,)
        return tuple(flat)

    @property
    def is_input(self) -> bool:
        """Whether the caller passes it; a scalar with a value is a constant."""
        if self.op == "define_scalar":
            return self.operands[:1] in ((), (None,))
        return self.op == "define_tensor"

    @cached_property
    def refs(self) -> tuple[str, ...]:
        """Names that it reads."""
        return tuple(v.name for v in self.values if isinstance(v, Ref))

    def reading(self, names: Mapping[str, str]) -> Node:
        """The same operation of tensors under other names, where there are some."""

        def of(value: Value) -> Value:
            if isinstance(value, tuple):
                return tuple(map(of, value))
            return Ref(names.get(value.name, value.name)) if isinstance(value, Ref) else value

        kwargs = tuple((k, of(v)) for k, v in self.kwargs)
        return replace(self, operands=tuple(map(of, self.operands)), kwargs=kwargs)

    def get(self, name: str, default: Value = None) -> Value:
        """A named argument."""
        return dict(self.kwargs).get(name, default)

    def argument(self, name: str, position: int) -> Value:
        """An operand, or what stands in front of one, by name, else by position; None if neither is
        there. What is said of operands behind all of them is named (``text/arguments.py``).
        """
        return self.get(name, self.operands[position] if len(self.operands) > position else None)


@dataclass(frozen=True, slots=True)
class Written:
    """An output that is written into the memory of an input: ``add_output(output, into)``.

    Args:
        output: its name, one of the definition's outputs.
        into: name of the input.
        returned: whether the caller is given it as well, because there is an ``add_output`` of it
            alone.
        line: of the text.
    """

    output: str
    into: str
    returned: bool
    line: int


@dataclass(frozen=True)
class Definition:
    """Operations in topological order, and the names of the outputs.

    Args:
        nodes: the operations.
        outputs: names, in the order of ``add_output``; what is only written into an input is one.
        marks: what a text says beside them, nodes without results: that a tensor is sharded or
            scheduled (``set_device_mesh``, ``split``, ...; a tensor and the text of the call; None
            where a method of the definition's class does it to several).
        written: the outputs that are written into inputs. Operations read what an input held
            before, wherever they stand.
        given_back: names of what the caller is given, where that is not each output once: an input,
            or one that is listed twice. None where it is.
        numbers: scalars among the inputs that are tensors of one element on the CPU to the caller.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    marks: tuple[Node, ...] = ()
    written: tuple[Written, ...] = ()
    given_back: tuple[str, ...] | None = None
    numbers: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        told = self.marks, self.written, self.given_back, self.numbers
        return hash((self.nodes, self.outputs, told))

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """What the caller passes: tensors and run-time scalars, in order."""
        return tuple(n for n in self.nodes if n.is_input)

    @property
    def reads_tensors(self) -> bool:
        """Whether the caller passes a tensor; where it lies is where a definition runs."""
        return any(n.op == "define_tensor" for n in self.inputs)

    @property
    def returned(self) -> tuple[str, ...]:
        """The outputs that the caller is given."""
        if self.given_back is not None:
            return self.given_back
        hidden = {w.output for w in self.written if not w.returned}
        return tuple(name for name in self.outputs if name not in hidden)

    @property
    def computed(self) -> Definition:
        """The same, whose outputs are each once what is computed: nobody has to make an input that
        is passed through, nor anything a second time. What is written into an input stays.
        """
        given = {n.results[0] for n in self.inputs} - {*self.into}
        outputs = tuple(name for name in dict.fromkeys(self.outputs) if name not in given)
        if outputs == self.outputs:
            return self
        return replace(self, outputs=outputs, given_back=self.returned)

    @property
    def into(self) -> dict[str, str]:
        """The input that an output is written into, by its name."""
        return {w.output: w.into for w in self.written}

    def node(self, name: str) -> Node | None:
        """The operation that defines ``name``."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        """Where a name is given twice it is the first one's."""
        return {name: n for n in reversed(self.nodes) for name in reversed(n.results)}

    def behind(self, names: Iterable[str]) -> dict[str, Node]:
        """The operations that define these names, and those that they depend on; each by the first
        name that it defines.
        """
        found, pending = dict[str, Node](), list(names)
        while pending:
            node = self.node(pending.pop())
            if node is not None and node.results[0] not in found:
                found[node.results[0]] = node
                pending += node.refs
        return found

    def check_complete(self) -> None:
        """Refuse what can be looked at but not run.

        Raises:
            UnsupportedError: a value is left open, a tensor is sharded or scheduled, or an output
                is written into what is no input, or one that another output is written into.
        """
        for node in self.nodes:
            for value in node.arguments:
                for x in _leaves(value):
                    if isinstance(x, Open):
                        raise UnsupportedError(
                            f"line {x.line}: `{x}`, which the text gives no value,",
                            "definitions whose sizes, types and numbers are in the text",
                        )
        for mark in self.marks:
            raise UnsupportedError(
                f"line {mark.line}: `{mark.operands[1]}`",
                "tensors that nobody has sharded or scheduled",
            )
        tensors = {n.results[0] for n in self.inputs if n.op == "define_tensor"}
        for at, w in enumerate(self.written):
            if w.into not in tensors or w.into in [v.into for v in self.written[:at]]:
                raise UnsupportedError(
                    f"line {w.line}: the output {w.output}, which is written into {w.into},",
                    "outputs with memory of their own, or with that of an input each",
                )

    def check_pure(self, what: str) -> None:
        """Refuse outputs that are written into inputs.

        Args:
            what: would have to write them.

        Raises:
            UnsupportedError: there is one.
        """
        for w in self.written:
            raise UnsupportedError(
                f"line {w.line}: the output {w.output}, which is written into {w.into}, by {what}",
                "outputs with memory of their own",
                "wsched.execute and wsched.install write it where its operations allow",
            )


def _leaves(value: Value) -> Iterator[Value]:
    """What is in a list, however deep."""
    if isinstance(value, tuple):
        for x in value:
            yield from _leaves(x)
    else:
        yield value


def text_of(value: Value) -> str:
    """A value as the text of a definition has it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(text_of, value))}]"
    return str(value) if isinstance(value, Ref | Open) else repr(value)


_NO_WORD = re.compile(r"\W")
"""Made here, because Dynamo traces who writes a text, but not the making of patterns."""


def definition_text(definition: Definition) -> str:
    """A definition as nvFuser prints one, which ``record_text`` reads back; scalars in full."""
    names: dict[str, str] = {}
    for name in (r for n in definition.nodes for r in n.results):
        plain = _NO_WORD.sub("_", name)  # a name that the text assigned again, or never
        while plain in names.values():
            plain += "_"
        names[name] = plain
    lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
    for n in definition.nodes:
        inner = "" if n.op in ("define_tensor", "define_scalar") else "ops."
        arguments = [_source(v, names) for v in n.operands]
        arguments += [f"{k}={_source(v, names)}" for k, v in n.kwargs]
        results = ", ".join(names[r] for r in n.results)
        lines.append(f"    {results} = fd.{inner}{n.op}({', '.join(arguments)})")
    into, returned = definition.into, definition.returned
    for name in definition.outputs:
        if name in into:
            lines.append(f"    fd.add_output({names[name]}, {names[into[name]]})")
        if name in returned:
            lines.append(f"    fd.add_output({names[name]})")
    return "\n".join([*lines, ""])


def _source(value: Value, names: dict[str, str]) -> str:
    """A value as Python that the recorder reads back."""
    if isinstance(value, tuple):
        return f"[{', '.join(_source(v, names) for v in value)}]"
    if isinstance(value, Ref):
        return names[value.name]
    text = f"{value!r}"  # Dynamo traces this of a number that varies, not ``repr`` or ``isfinite``
    return f"float('{text}')" if text in _NOT_FINITE else text


_NOT_FINITE = ("inf", "-inf", "nan")
"""Floats that are no words of Python's."""
