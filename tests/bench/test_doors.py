"""nvFuser's kernel with wsched's parameters as systems of the benchmark."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.bench.peers import doors as peer_doors
from wsched.bench.peers import plugin_answer
from wsched.bench.peers.systems import Skip, prepare
from wsched.bench.problem import Problem, Shape, definition_text
from wsched.choose.problem import Problem as Question
from wsched.fusion import DataType
from wsched.nvfuser.choice import choose_params
from wsched.nvfuser.params import to_fields
from wsched.schedule.matmul.params import MatmulParams

PROBLEM = Problem(Shape(4096, 3584, 512))
PARAMS = choose_params(Question(4096, 3584, 512, DataType.BFloat16, (DataType.BFloat16,), 132))


@pytest.fixture
def scheduled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """``wsched.nvfuser.schedule``'s arguments; its kernel returns the sum of its inputs."""
    pytest.importorskip("nvfuser_direct")
    calls: list[Any] = []

    def schedule(*arguments: Any) -> Any:
        calls.append(arguments)
        return SimpleNamespace(execute=lambda inputs: [sum(inputs)], fields={"cta_tile": [1]})

    monkeypatch.setattr(peer_doors, "schedule", schedule)
    return calls


def test_wscheds_parameters(scheduled: list[Any]) -> None:
    prepared = prepare("nvfuser-wsched", None, PROBLEM, 1, 2)
    assert scheduled == [(definition_text(PROBLEM), [1, 2], None)]
    assert (prepared.launch(3, 4, 0), prepared.details) == (7, {"params": {"cta_tile": [1]}})


def test_the_plugins_answer(scheduled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_doors, "plugin_answer", lambda problem: (problem, "answer"))
    prepare("nvfuser-plugin", None, PROBLEM, 1, 2)
    assert scheduled == [(definition_text(PROBLEM), [1, 2], (PROBLEM, "answer"))]


def test_what_is_not_supported_is_skipped(
    scheduled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(problem: Problem) -> None:
        raise UnsupportedError("building the plugin without a C++ compiler", "one")

    monkeypatch.setattr(peer_doors, "plugin_answer", refuse)
    with pytest.raises(Skip) as skip:
        prepare("nvfuser-plugin", None, PROBLEM, 1, 2)
    assert str(skip.value) == (
        "building the plugin without a C++ compiler is not supported; supported: one"
    )


@dataclass
class Process:
    """In place of the Python that asks nvFuser: what it says, and what it was started with."""

    path: Path
    code: int = 0
    out: str = ""
    err: str = ""

    def asked(self) -> MatmulParams:
        """What is made of what it says."""
        says = f"cat <<'END'\n{self.out}\nEND\ncat >&2 <<'END'\n{self.err}\nEND\n"
        begin = f"#!/bin/sh\nenv > {self.path}.env\nprintf '%s\\n' \"$@\" > {self.path}.words\n"
        self.path.write_text(f"{begin}{says}exit {self.code}\n")
        self.path.chmod(0o755)
        return plugin_answer.plugin_answer(replace(PROBLEM, layout="nt"))

    def given(self, what: str) -> list[str]:
        """Lines of its ``words`` or of its ``env``."""
        return self.path.with_suffix(f".{what}").read_text().splitlines()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Process:
    built = lambda folder, version: SimpleNamespace(path=Path(folder) / "x.so")  # noqa: E731
    monkeypatch.setattr(plugin_answer, "build_plugin", built)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return Process(tmp_path / "python")


def test_the_process_that_is_asked(process: Process, capfd: pytest.CaptureFixture[str]) -> None:
    process.out, process.err = "a warning\n" + json.dumps(to_fields(PARAMS)), "another one"
    assert to_fields(process.asked()) == to_fields(PARAMS)
    question = '[4096, 3584, 512, "bf16", "nt"]'
    assert process.given("words") == ["-m", "wsched.bench.peers.plugin_answer", question]
    found = dict(line.partition("=")[::2] for line in process.given("env"))
    assert found["NVFUSER_MATMUL_HEURISTIC_PLUGIN"].endswith("/x.so")
    assert found["NVFUSER_ENABLE"] == "fuse_matmul" and found["PATH"] == os.environ["PATH"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("err", "why"),
    [("Traceback\nRuntimeError: no device\n", "RuntimeError: no device"), ("", "exit status 3")],
)
def test_the_process_fails(process: Process, err: str, why: str) -> None:
    process.code, process.err = 3, err
    with pytest.raises(UnsupportedError) as error:
        process.asked()
    assert str(error.value) == (
        f"nvFuser's heuristic with the plugin ({why}) is not supported; supported: others"
    )
