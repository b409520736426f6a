"""Import from text: what nvFuser prints for a definition, or a script that has one.

The text is Python, but it is read from its syntax tree: nothing in a bug report is ever executed,
and neither nvFuser nor torch need be installed. Statements around the definition (inputs,
``fd.execute``) only say what its names stand for.
"""

from __future__ import annotations

import ast

from wsched.importer.definition import Definition, Open, Ref
from wsched.importer.indices import with_vector_indices
from wsched.importer.orders import with_whole_orders
from wsched.importer.places import with_places_from_the_front
from wsched.importer.text.find import Found, find, surroundings
from wsched.importer.text.recording import Recording
from wsched.importer.text.source import Source
from wsched.importer.text.statements import Returned, Statements
from wsched.importer.text.values import Handle, Python, Scope

__all__ = ["record_printed", "record_text"]


def record_text(text: str) -> Definition:
    """The definition in ``text``, of nvFuser's older and newer front end, as it was written.

    Operations are recorded whether or not anybody knows them. Calls may be nested, loops go over
    lists that the text has, functions of the text are followed. What depends on an argument of the
    function around the definition is left open; :meth:`Definition.check_complete` tells.

    Args:
        text: ``repr(fd)``, or a script that contains it: a function ``f(fd: FusionDefinition)``,
            a body below ``with FusionDefinition() as fd:``, or the method ``definition`` of a class
            of FusionDefinition's.

    Raises:
        UnsupportedError: there is no definition or more than one, or something in it is not
            understood; the error names line and text.
    """
    return with_vector_indices(record_printed(text))


def record_printed(text: str) -> Definition:
    """The same with what nvFuser has put into it, operation by operation."""
    source = Source(text)
    found = find(source, source.parse())
    recording = Recording(source)
    scope = surroundings(source, found)
    statements = Statements(recording)
    _parameters(statements, found, scope)
    scope.update(dict.fromkeys(found.handles, Handle("")))
    returned = statements.block(found.at.body, scope)
    if found.sharding is not None:
        recording.mark_all(found.sharding)
    if returned is not None and not recording.outputs and not recording.marks:
        recording.outputs += _tensors(returned)
    return with_places_from_the_front(with_whole_orders(recording.definition()))


def _parameters(statements: Statements, found: Found, scope: Scope) -> None:
    """What a function is given: tensors of any shape, its defaults; all else is open."""
    for a in found.parameters:
        kind = ast.unparse(a.annotation) if a.annotation is not None else ""
        if kind.rpartition(".")[2] == "TensorView":
            scope[a.arg] = statements.recording.unknown_tensor(a.arg, a.arg, a.lineno)
        elif a.arg in found.defaults:
            statements.assign(found.at, [_named(a)], found.defaults[a.arg], scope)
        else:
            scope[a.arg] = Open(a.arg, a.lineno)


def _named(a: ast.arg) -> ast.expr:
    return ast.copy_location(ast.Name(a.arg, ast.Store()), a)


def _tensors(returned: Returned) -> list[str]:
    """The names of what a function returns in place of calling ``add_output``."""
    value: Python = returned.value
    values = value if isinstance(value, tuple) else (value,)
    return [x.name for x in values if isinstance(x, Ref)]
