"""What every command may be asked: names, types, bounds, defaults and the text of each option."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, getdoc, signature
from typing import Any, get_type_hints

import pytest
import typer
from typer.models import ArgumentInfo, OptionInfo
from typer.testing import CliRunner

from wsched.cli.app import app

SAID = ("metavar", "min", "max", "envvar", "hidden", "is_eager", "formats", "case_sensitive")
"""What typer may be told of an option, beside its names, default and text."""


def commands(group: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The function of each command by its words."""
    for info in group.registered_commands:
        assert info.callback is not None
        name = info.name or info.callback.__name__.replace("_", "-")
        yield " ".join((*path, name)), info.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*path, str(inner.name)))


ALL = dict(commands(app))


def line_of(given: Parameter, type_: Any) -> str:
    """A parameter: what it is called, what it takes, what it is without, what is said of it."""
    kind, *about = (type_.__origin__, *type_.__metadata__) if is_annotated(type_) else (type_,)
    default = given.default
    if isinstance(default, (ArgumentInfo, OptionInfo)):
        about, default = [default], default.default
    (info,) = about
    names = " ".join(info.param_decls or [given.name])
    plain = OptionInfo()
    told = [f"{s} {getattr(info, s)}" for s in SAID if getattr(info, s) != getattr(plain, s)]
    told += [] if default in (Parameter.empty, ...) else [f"default {default}"]
    head = ", ".join((getattr(kind, "__name__", str(kind)), *told))
    return f"{names}: {head}\n    {' '.join((info.help or '').split())}".rstrip()


def is_annotated(type_: Any) -> bool:
    return hasattr(type_, "__metadata__")


@pytest.mark.parametrize("name", ALL)
def test_options(name: str, golden: object) -> None:
    call = ALL[name]
    types = get_type_hints(call, include_extras=True)
    lines = [line_of(p, types[p.name]) for p in signature(call).parameters.values()]
    assert "\n".join((" ".join((getdoc(call) or "").split()), *lines)) == golden


@pytest.mark.parametrize("command", ["dump", "run", "explain", "check", "tiles"])
def test_a_file_that_cannot_be_looked_at(command: str) -> None:
    """Its name is too long; so it is of one in a folder of others."""
    done = CliRunner().invoke(app, [command, "x" * 300])
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.exit_code == 2 and "Invalid value for" in said and "File name too long." in said
