"""Import from a live ``nvfuser_direct.FusionDefinition``.

Its printed text has every operation, name and keyword, but scalars with six digits only; the IR
that hangs off its outputs has all digits, but operations only as C++ text. So the text is recorded
and then corrected and cross-checked against the IR.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from weakref import ReferenceType, ref

from lowering.ground.errors import InternalError, UnsupportedError, WschedError
from wsched.importer.definition import Definition, Node, Ref, Value
from wsched.importer.indices import with_vector_indices
from wsched.importer.ops import SCALAR
from wsched.importer.text.record import record_printed

__all__ = ["UnfinishedError", "Version", "definition_of", "is_live", "refuse_unfinished"]

_TENSOR = re.compile(r"T(\d+)_")
_SCALAR_NAME = re.compile(r"[a-z]+(\d+)$")
_SERIAL = re.compile(r"\S?S\d+\{")
_LITERAL = re.compile(r"(?:double|float|__bfloat|__half)\((.*)\)$")

# nvFuser prints six significant digits, so a printed scalar is within half a unit of the sixth.
_PRINTED_DIGITS = 1e-5


class UnfinishedError(WschedError, ValueError):
    """A live definition that cannot be read yet; not the same as one that is not supported."""


@dataclass(frozen=True, slots=True)
class Version:
    """Which state of a live definition was read.

    A definition can be written anew by a second ``with``, and outputs can be added to it at any
    time; nothing else changes it. nvFuser takes the fusion away from a definition that it has
    executed, and keeps a copy; that is no other state.

    Attributes:
        fusion: what the ``with`` block made; None if nvFuser had taken it.
        outputs: their number.
    """

    fusion: ReferenceType[Any] | None
    outputs: int

    @staticmethod
    def of(fd: Any) -> Version:
        """The state of a definition that :func:`definition_of` takes."""
        made = getattr(fd, "_fusion", None)
        return Version(None if made is None else ref(made), len(fd.fusion.outputs()))

    def is_current(self, fd: Any) -> bool:
        """Whether ``fd`` is still in this state; takes about a microsecond."""
        made = getattr(fd, "_fusion", None)
        if made is not None and (self.fusion is None or self.fusion() is not made):
            return False
        return len(fd.fusion.outputs()) == self.outputs


def definition_of(fd: Any) -> Definition:
    """The definition that ``fd`` holds.

    Args:
        fd: a ``nvfuser_direct.FusionDefinition`` whose ``with`` block has ended.

    Raises:
        UnsupportedError: ``fd`` is no FusionDefinition of ``nvfuser_direct``, or its text has a
            construct that the recorder does not know, or a scalar cannot be restored; or
            somebody has sharded or scheduled a tensor, which the text does not show.
        UnfinishedError: the ``with`` block of ``fd`` has not begun or not ended, or it has no
            output.
        InternalError: text and IR contradict each other.
    """
    if not is_live(fd):
        kind = f"{type(fd).__module__}.{type(fd).__qualname__}"
        raise UnsupportedError(
            f"a definition of type {kind}",
            "nvfuser_direct.FusionDefinition, or its text (repr(fd)) as a string",
        )
    refuse_unfinished(fd)
    definition = record_printed(repr(fd))
    definition.check_complete()
    _refuse_scheduled(fd.fusion, definition)
    walked = dict(_walk(fd.fusion))
    constants = {n.results[0]: n for n in definition.nodes if n.op == "define_scalar"}
    repaired: dict[str, Node] = {}
    for node in definition.nodes:
        inputs = walked.get(node.results[0])
        if inputs is not None and (node.results[0].startswith("tv") or node.op in SCALAR):
            repaired |= _repair(node, inputs, constants)
    nodes = tuple(repaired.get(n.results[0], n) for n in definition.nodes)
    return with_vector_indices(replace(definition, nodes=nodes))


def refuse_unfinished(fd: Any) -> None:
    """Refuse what nvFuser's ``repr`` does not survive, and what is about to change.

    Raises:
        UnfinishedError: the ``with`` block of ``fd`` has not begun or not ended, or it has no
            output.
    """
    if getattr(fd, "_fusion", None) is None and not hasattr(fd, "fec"):
        raise UnfinishedError(
            "the FusionDefinition is empty; write it in `with FusionDefinition() as fd: ...`"
        )
    if getattr(fd, "_fusion_guard", None) is not None:
        raise UnfinishedError(
            "the FusionDefinition is still being written; use it after its `with` block"
        )
    if not fd.fusion.outputs():
        raise UnfinishedError("the FusionDefinition has no output; call fd.add_output")


def is_live(definition: Any) -> bool:
    """Whether this is nvFuser's own object; told by name, so that nvFuser need not be imported."""
    return any(
        base.__name__ == "FusionDefinition" and base.__module__.startswith("nvfuser_direct")
        for base in type(definition).__mro__
    )


def _refuse_scheduled(fusion: Any, definition: Definition) -> None:
    """Refuse tensors whose loops are not their dimensions, or are bound to threads or devices.

    What is scattered into has, from the beginning, the loops of the index. What nobody reads is no
    part of the definition.
    """
    scattered = {n.results[0] for n in definition.nodes if n.op == "scatter"}
    for value in fusion.vals():
        if not value.is_tensor() or definition.node(_name(str(value))) is None:
            continue
        text, loops = str(value), [str(d) for d in value.get_loop_domain()]
        dimensions = [str(d) for d in value.get_logical_domain()]
        plain = loops == dimensions or _name(text) in scattered
        if not plain or "DeviceMesh" in text or not all(map(_SERIAL.match, loops)):
            raise UnsupportedError(
                f"the tensor {text}", "tensors that nobody has sharded or scheduled"
            )


def _walk(fusion: Any) -> Iterator[tuple[str, list[str]]]:
    """For each computed value its name in the text and the texts of its definition's inputs."""
    pending, seen = list(fusion.outputs()), set()
    while pending:
        value = pending.pop()
        text, definition = str(value), value.definition()
        scalar = _SCALAR_NAME.match(text)
        name = f"c{scalar[1]}" if scalar else _name(text)
        if name in seen or definition is None:
            continue
        seen.add(name)
        inputs = list(_inputs(definition))
        pending += [v for v in inputs if v.is_symbolic()]
        yield name, [str(v) for v in inputs]


def _inputs(definition: Any) -> Iterator[Any]:
    """Inputs of an expression; the only way to learn their number is to go past the end."""
    for position in count():
        try:
            yield definition.input(position)
        except IndexError:
            return


def _name(text: str) -> str:
    """``tv3`` for ``T3_l_float[...]``, empty for a scalar."""
    found = _TENSOR.match(text)
    return f"tv{found[1]}" if found else ""


def _flat(node: Node) -> list[Value]:
    """Operands, then named arguments, also in lists, that can be inputs of an expression."""
    return [v for v in node.values if _can_be_input(v)]


def _can_be_input(v: Value) -> bool:
    return isinstance(v, Ref | float)


def _repair(node: Node, inputs: list[str], constants: dict[str, Node]) -> dict[str, Node]:
    """``node`` and the scalars that it uses, with all digits, after comparing the tensor edges."""
    written = [v.name for v in _flat(node) if isinstance(v, Ref) and v.name.startswith("tv")]
    walked = [name for text in inputs if (name := _name(text))]
    if written != walked:
        raise InternalError(
            "import", f"the text says {node.op} reads {written}, the IR says {walked}"
        )
    exact = [float(found[1]) for text in inputs if (found := _LITERAL.match(text))]
    changed: dict[str, Node] = {}

    def restore(value: Value) -> Value:
        if isinstance(value, Ref) and value.name in constants:
            scalar = constants[value.name]
            operands = tuple(map(restore, scalar.operands))
            changed[value.name] = replace(scalar, operands=operands)
        if not isinstance(value, float):
            return value
        for position, candidate in enumerate(exact):
            if _prints_as(candidate, value):
                return exact.pop(position)
        raise UnsupportedError(
            f"the scalar {value} of fd.ops.{node.op}",
            "scalars whose full value is an input of the expression in nvFuser's IR",
        )

    operands = tuple(map(restore, node.operands))
    kwargs = tuple((k, restore(v)) for k, v in node.kwargs)
    return {**changed, node.results[0]: replace(node, operands=operands, kwargs=kwargs)}


def _prints_as(value: float, printed: float) -> bool:
    """Whether ``printed`` can be the six-digit text of ``value``."""
    if value != value or printed != printed:
        return value != value and printed != printed
    return value == printed or abs(value - printed) <= _PRINTED_DIGITS * abs(value)
