"""A live nvFuser fusion that was scheduled, by hand or by nvFuser, in wsched's IR.

nvFuser's Python objects say which tensors there are, in which memory, how each loop nest came from
the tensor's dimensions, what runs each loop, and where tensors are computed. They do not say how a
tensor is circular-buffered (stages, prefetch distance, warp specialization, registers), its
allocation domain, or its alternate loop domain (of stmatrix and ldmatrix); and a fusion whose TMA
loads are swizzled shows the swizzle as an expression that is neither a split nor a merge. So what
is read here is for looking at and comparing, not for making a kernel of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.expr import Const, Expr, Var
from wsched.fusion import (
    DataType,
    IterDomain,
    IterType,
    MemoryType,
    Merge,
    ParallelType,
    Split,
    TensorView,
)
from wsched.fusion.domain import Transform, split_extents
from wsched.importer import is_live

__all__ = ["ReadSchedule", "ReadTensor", "read_schedule"]

_TENSOR = re.compile(r"T(\d+)_([a-z])_(\w+?)\[")
_POSITION = re.compile(r"\bca_pos\( (\d+) \)")
_DOMAIN = re.compile(r"([a-z?])([A-Za-z.]*?)(\d+)\{(.*)\}(?:rf)?$", re.DOTALL)
_INFIX = re.compile(r"\n\s*([-+*/%<>=!&|^]+)\s")
_WORD = re.compile(r"([A-Za-z_][\w.:]*(?=\s*\()|[-!~])")

_PARALLEL = {p.value: p for p in ParallelType}
_MEMORY = {m.value: m for m in MemoryType}
_ITERATION = {t.value: t for t in IterType}
_DTYPES = {d.text: d for d in DataType if d.is_stored}


@dataclass(frozen=True, slots=True)
class ReadTensor:
    """A tensor as nvFuser shows it.

    Args:
        view: its dimensions, loop nest and the way between them.
        operation: what computes it, in nvFuser's words; empty for an input.
        inputs: names of the tensors that it is computed from.
        opaque: transforms that are neither splits nor merges, as text; their results stand in the
            loop nest without an origin.
    """

    view: TensorView
    operation: str
    inputs: tuple[str, ...]
    opaque: tuple[str, ...]

    def __str__(self) -> str:
        v = self.view
        of = f" = {self.operation}({', '.join(self.inputs)})" if self.operation else ""
        position = f" compute_at {v.compute_at}" if v.compute_at else ""
        lines = [f"{v}{of}{position}", *(f"  {t}" for t in v.transforms)]
        return "\n".join([*lines, *(f"  {text}" for text in self.opaque)])


@dataclass(frozen=True, slots=True)
class ReadSchedule:
    """All tensors of a scheduled fusion, producers first."""

    tensors: tuple[ReadTensor, ...]

    def tensor(self, name: str) -> ReadTensor:
        """The tensor with this name."""
        return next(t for t in self.tensors if t.view.name == name)

    def __str__(self) -> str:
        return "".join(f"{t}\n" for t in self.tensors)


def read_schedule(definition: Any) -> ReadSchedule:
    """Read a scheduled definition as far as nvFuser shows it; the module says what it does not.

    Args:
        definition: a live ``nvfuser_direct.FusionDefinition``.

    Raises:
        UnsupportedError: no live definition, or a memory, type or parallel type that wsched has no
            word for.
        InternalError: nvFuser writes a tensor, domain or operation otherwise than expected.
    """
    if not is_live(definition):
        kind = type(definition).__name__
        what = "nvfuser_direct.FusionDefinition: its text does not tell the schedule"
        raise UnsupportedError(f"the schedule of a {kind}", what)
    live = {_name(t): t for t in definition.fusion.vals() if t.is_tensor()}
    done: dict[str, ReadTensor] = {}

    def visit(name: str) -> None:
        if name in done:
            return
        read = _tensor(live[name])
        for producer in read.inputs:
            visit(producer)
        done[name] = read

    for name in sorted(live, key=lambda n: int(n[1:])):
        visit(name)
    return ReadSchedule(tuple(done.values()))


def _tensor(live: Any) -> ReadTensor:
    name, memory, dtype = _head(live)
    domains = _Domains(name)
    logical = tuple(domains.root(d) for d in live.get_logical_domain())
    loop = tuple(domains.read(d) for d in live.get_loop_domain())
    position = _POSITION.search(str(live))
    view = TensorView(
        name,
        _known(_DTYPES, dtype, f"the type {dtype} of {name}"),
        _known(_MEMORY, memory, f"the memory {memory!r} of {name}"),
        logical,
        loop,
        domains.transforms(),
        int(position[1]) if position else 0,
    )
    definition = live.definition()
    opaque = tuple(domains.opaque)
    if definition is None:
        return ReadTensor(view, "", (), opaque)
    inputs = tuple(_name(v) for v in _ends(definition.input) if v.is_tensor())
    return ReadTensor(view, _operation(str(definition)), inputs, opaque)


class _Domains:
    """The domains of one tensor, each read once, with the transforms between them."""

    def __init__(self, tensor: str) -> None:
        self._tensor = tensor
        self._found: dict[int, IterDomain] = {}
        self._steps: dict[int, Transform] = {}
        self.opaque: dict[str, None] = {}

    def root(self, live: Any) -> IterDomain:
        """A domain whose origin does not matter; its extent is a number or a name.

        Of one that is expanded only its text says to how much.
        """
        _, _, expanded = self._parts(live)[3].partition(" ex ")
        number, made = self._made(live, _extent(expanded or str(live.extent())))
        return self._found.setdefault(number, made)

    def read(self, live: Any) -> IterDomain:
        """A domain, after those that it is made of."""
        number = int(self._parts(live)[2])
        if number in self._found:
            return self._found[number]
        origin = live.definition()
        if origin is None:
            return self.root(live)
        kind = type(origin).__name__
        if kind == "Split":
            self._split(origin)
        elif kind == "Merge":
            self._merge(origin)
        else:
            text = " ".join(str(origin).split())
            for part in _ends(origin.input):
                self.read(part)
            for part in _ends(origin.output):
                self.root(part)
            self.opaque[text] = None
        return self._found[number]

    def transforms(self) -> tuple[Transform, ...]:
        """In the order in which nvFuser made them: its numbers only grow."""
        return tuple(self._steps[n] for n in sorted(self._steps))

    def _split(self, origin: Any) -> None:
        source = self.read(origin.input(0))
        inner_split = not str(origin).lstrip().startswith("Outer")
        factor = _extent(str(origin.inner().extent() if inner_split else origin.outer().extent()))
        extents = split_extents(source.extent, factor, inner_split)
        made = []
        for live, extent in zip((origin.outer(), origin.inner()), extents, strict=True):
            number, domain = self._made(live, extent)
            self._found[number] = domain
            made.append(domain)
        self._steps[made[0].id] = Split(source, made[0], made[1], inner_split)

    def _merge(self, origin: Any) -> None:
        outer, inner = self.read(origin.outer()), self.read(origin.inner())
        number, made = self._made(origin.output(0), outer.extent * inner.extent)
        self._found[number] = made
        self._steps[number] = Merge(outer, inner, made)

    def _made(self, live: Any, extent: Expr) -> tuple[int, IterDomain]:
        kind, parallel, number, _ = self._parts(live)
        what = f"{parallel!r} of a loop of {self._tensor}"
        return int(number), IterDomain(
            int(number),
            extent,
            f"i{number}",
            _known(_ITERATION, kind, f"the domain kind {kind!r} of {self._tensor}"),
            _known(_PARALLEL, parallel, f"the parallel type {what}"),
        )

    def _parts(self, live: Any) -> tuple[str, str, str, str]:
        found = _DOMAIN.match(str(live))
        if found is None:
            raise InternalError("read_schedule", f"a domain that is written otherwise: {live}")
        kind, parallel, number, extent = found.groups()
        return kind, parallel, number, extent


def _extent(text: str) -> Expr:
    """A number, or a symbol for anything else."""
    return Const(int(text)) if text.isdigit() else Var(text)


def _operation(text: str) -> str:
    """The word before the operands, ``relu`` or ``mma``; or the sign between or before them."""
    _, _, right = text.partition(" = ")
    found = _INFIX.search(right) or _WORD.match(right)
    if found is None:
        raise InternalError("read_schedule", f"an operation that is written otherwise: {text}")
    return found[1]


def _ends(part: Any) -> Iterator[Any]:
    """Inputs or outputs of an expression; the only way to learn their number is to go past it."""
    position = 0
    while True:
        try:
            yield part(position)
        except IndexError:
            return
        position += 1


def _head(live: Any) -> tuple[str, str, str]:
    """Name, memory and type of a tensor."""
    found = _TENSOR.match(str(live))
    if found is None:
        raise InternalError("read_schedule", f"a tensor without a name: {live}")
    return f"T{found[1]}", found[2], found[3]


def _name(live: Any) -> str:
    return _head(live)[0]


def _known(words: dict[str, Any], word: str, what: str) -> Any:
    if word not in words:
        raise UnsupportedError(f"{what} in nvFuser's schedule", ", ".join(words))
    return words[word]
