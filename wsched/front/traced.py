"""``wsched.execute`` inside of ``torch.compile``: one operator, whose results have known shapes.

Dynamo would read all of wsched's Python and fail after minutes. Where it traces, ``execute`` calls
the operator ``wsched::execute`` instead, which is opaque to it: its fake kernel says shapes, types
and strides of the results, and when the compiled graph runs it calls ``execute`` itself. An eager
call asks one function whether anybody traces.

The operator writes into none of its inputs: a result that a definition writes into one is a value
like the others, which a copy behind the operator writes there.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.locks import Lock
from wsched.doors.fallback import check_inputs, evaluated
from wsched.front.cut.order import declared_order
from wsched.front.gradients import define_gradients
from wsched.front.known import recorded
from wsched.front.opaque import operator
from wsched.front.schedule import Schedule
from wsched.importer import Definition
from wsched.program.versions import gradients_lost
from wsched.schedule.matmul.params import MatmulParams

try:
    import torch
except ImportError:
    torch = None

__all__ = ["define", "traced"]

Execute = Callable[..., "list[torch.Tensor]"]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a graph calls, by the name that stands in it.

    Args:
        definition: as passed to ``execute``; the graph keeps it alive.
        kinds: of each input whether it is a tensor.
        options: the other arguments.
    """

    definition: Any
    kinds: tuple[bool, ...]
    options: dict[str, Any]

    def inputs(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The inputs in the order of the definition."""
        left = iter(tensors), iter(numbers)
        return [next(left[not tensor]) for tensor in self.kinds]

    @property
    def operations(self) -> Definition:
        """Of the definition, or of the one that a schedule is of."""
        given = self.definition
        return recorded(given.definition if isinstance(given, Schedule) else given)


_asked: dict[str, _Asked] = {}
_asking = Lock()


def traced(
    definition: Any,
    inputs: Sequence[Any],
    params: MatmulParams | None,
    batch_invariant: bool,
    constants: Sequence[int],
    gradients: bool = False,
) -> list[Any]:
    """What Dynamo traces in place of ``execute``; arguments and results as there.

    Without ``gradients`` these stop at the inputs, as they do in eager mode. With them eager calls
    come here too.
    """
    tensors, numbers, kinds = [], [], []
    for x in inputs:
        kinds.append(isinstance(x, torch.Tensor))
        if kinds[-1]:
            tensors.append(x if gradients else x.detach())
        else:
            numbers.append(x)
    text = definition if isinstance(definition, str) else ""
    live = 0 if isinstance(definition, str) else id(definition)
    given = 0 if params is None else id(params)
    name = _name(text, live, given, tuple(kinds), batch_invariant, tuple(constants))
    found, places = [], _places(name)
    if torch.is_grad_enabled():
        at = [n for n, is_tensor in enumerate(kinds) if is_tensor]
        for into, _ in places:
            if into is not None and inputs[at[into]].requires_grad:
                _refuse_recorded(at[into])
    for value, (into, returned) in zip(
        torch.ops.wsched.execute(name, tensors, numbers), places, strict=True
    ):
        result = value if into is None else tensors[into].copy_(value)
        if returned:
            found.append(result)
    return found


def _name(
    text: str,
    live: int,
    given: int,
    kinds: tuple[bool, ...],
    batch_invariant: bool,
    constants: tuple[int, ...],
) -> str:
    """The name under which a graph finds what it calls; called while it is traced.

    The same in each process for a text, because compiled graphs are kept on disk by what they say.

    Args:
        text: of the definition; empty if it is an object.
        live: the object's address. Dynamo passes no objects, but guards the identity of those whose
            ``id`` it is asked for, and the caller holds them meanwhile.
        given: the address of parameters; 0 of none.
        kinds: as :class:`_Asked` has them.
        batch_invariant: as there.
        constants: as there.
    """
    definition = text if text else _object_at(live)
    params = _object_at(given) if given else None
    if params is not None and not _is_whole(params):
        raise UnsupportedError(
            "params that are made inside of what torch.compile traces", "params made outside of it"
        )
    options = {"params": params, "batch_invariant": batch_invariant, "constants": constants}
    facts = repr((text or live, params, kinds, batch_invariant, constants))
    name = hashlib.sha256(facts.encode()).hexdigest()[:16]
    with _asking:
        _asked[name] = _Asked(definition, kinds, options)
    return name


def _places(name: str) -> tuple[tuple[int | None, bool], ...]:
    """Of each result which of the tensors it is written into, if any, and whether it is returned;
    called while a graph is traced.
    """
    asked = _asked[name]
    into = dict(_written(asked))
    tensors = [at for at, tensor in enumerate(asked.kinds) if tensor]
    definition = asked.operations
    return tuple(
        (tensors.index(into[output]) if output in into else None, output in definition.returned)
        for output in definition.outputs
    )


def _refuse_recorded(place: int) -> None:
    """Refuse to write into an input that requires gradients; called while a graph is traced."""
    raise gradients_lost(f"input {place}")


def _written(asked: _Asked) -> Iterator[tuple[str, int]]:
    """Results that are written into inputs, and the input's place."""
    inputs = [node.results[0] for node in asked.operations.inputs]
    for output, into in asked.operations.into.items():
        yield output, inputs.index(into)


def _object_at(address: int) -> Any:
    return ctypes.cast(address, ctypes.py_object).value


def _is_whole(params: object) -> bool:
    """Whether a constructor has run: Dynamo's stand-in for an object that it made has no fields."""
    try:
        return isinstance(params, MatmulParams) and bool(repr(params))
    except AttributeError:
        return False


def _executed(
    execute: Execute, name: str, tensors: Sequence[Any], numbers: Sequence[Any]
) -> list[Any]:
    """The operator: ``execute``, whose results lie as the fake kernel says and alias nothing."""
    asked = _asked[name]
    inputs, written = asked.inputs(tensors, numbers), dict(_written(asked))
    for at in written.values():
        inputs[at] = inputs[at].clone()
    made = dict(
        zip(
            asked.operations.returned,
            execute(asked.definition, inputs, **asked.options),
            strict=True,
        )
    )
    made |= {output: inputs[at] for output, at in written.items()}
    taken = {t.untyped_storage().data_ptr() for t in tensors}
    found = []
    for output, order in zip(asked.operations.outputs, _orders(asked.operations), strict=True):
        result = made[output]
        stride = _dense(result.shape, order)
        own = result.untyped_storage().data_ptr() not in taken
        if result.stride() != stride or not own:
            lies = torch.empty_strided(
                result.shape, stride, dtype=result.dtype, device=result.device
            )
            result = lies.copy_(result)
        taken.add(result.untyped_storage().data_ptr())  # it may be listed twice
        found.append(result)
    return found


def _fake(name: str, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
    """Results without values: torch's own operations tell what they are."""
    asked = _asked[name]
    operations = asked.operations
    # A number that varies: no shape depends on a fraction, so any will do.
    numbers = [1.0 if isinstance(n, torch.SymFloat) else n for n in numbers]
    held = [1 if isinstance(n, torch.SymInt) else n for n in numbers]
    check_inputs(operations, asked.inputs(tensors, held), runs=False)
    made = evaluated(operations, asked.inputs(tensors, numbers))
    device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
    return [
        torch.empty_strided(t.shape, _dense(t.shape, order), dtype=t.dtype, device=device)
        for t, order in zip(made, _orders(operations), strict=True)
    ]


def _orders(definition: Definition) -> Iterator[tuple[int, ...] | None]:
    """Of each result the places of its shape, slowest first; None row by row."""
    for name in definition.outputs:
        node = definition.node(name)
        yield None if node is None else declared_order(node)


def _dense(shape: Sequence[Any], order: tuple[int, ...] | None) -> tuple[Any, ...]:
    """Strides of a tensor without gaps, as torch computes them: a size of 0 counts as 1."""
    strides, length = [1] * len(shape), 1
    for at in reversed(order or tuple(range(len(shape)))):
        strides[at] = length
        length = length * torch.sym_max(shape[at], 1)
    return tuple(strides)


def define(execute: Execute) -> None:
    """Give torch the operator, if torch is there.

    Args:
        execute: what it runs.
    """
    if torch is None:
        return
    # What `torch.compiler.assume_constant_result` does, which imports Dynamo first: a second, also
    # in programs that never compile.
    constants: tuple[Any, ...] = (_name, _places, _refuse_recorded)
    for constant in constants:
        constant._dynamo_marked_constant = True
    schema = "execute(str name, Tensor[] tensors, Scalar[] numbers) -> Tensor[]"
    library = operator(schema, partial(_executed, execute), _fake)
    define_gradients(library, lambda name: (_asked[name].operations, _asked[name].inputs))
