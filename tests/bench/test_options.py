"""What every module of the benchmark that runs by itself may be asked."""

from __future__ import annotations

import argparse
from importlib import import_module

import pytest

MODULES = (
    "host",
    "narrow",
    "norms",
    "queue",
    "reductions",
    "shared",
    "sweeps",
    "unaligned",
    "weights",
)


def line_of(a: argparse.Action) -> str:
    """An option: its names, what it takes, what it is without, what is said of it."""
    kind = getattr(a.type, "__name__", "str") if a.nargs != 0 else "flag"
    more = [f"{k} {v}" for k, v in (("nargs", a.nargs), ("choices", a.choices)) if v is not None]
    plain = a.default is None or a.default is False or a.default == argparse.SUPPRESS
    more += [] if plain else [f"default {a.default}"]
    more += ["required"] * a.required
    names = " ".join(a.option_strings) or a.dest
    return f"{names}: {', '.join((kind, *more))}\n    {' '.join((a.help or '').split())}"


@pytest.mark.parametrize("name", MODULES)
def test_options(name: str, golden: object, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[argparse.ArgumentParser] = []

    def parse(self: argparse.ArgumentParser, _: object = None) -> None:
        asked.append(self)
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    module = import_module(f"wsched.bench.{name}")
    with pytest.raises(SystemExit):
        module.main([])
    (parser,) = asked
    about = " ".join((parser.description or "").split())
    lines = map(line_of, parser._actions)
    assert "\n".join((parser.prog, about, *lines)) == golden
