"""nvFuser's kernel with wsched's parameters as systems of the benchmark."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
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


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The process that asks nvFuser: what it was started with, and what it says."""
    found = SimpleNamespace(command=None, env=None, code=0, out="", err="")

    def run(command: Any, env: Any, **_: Any) -> Any:
        found.command, found.env = command, env
        return subprocess.CompletedProcess(command, found.code, found.out, found.err)

    built = lambda folder, version: SimpleNamespace(path=Path(folder) / "x.so")  # noqa: E731
    monkeypatch.setattr(plugin_answer, "build_plugin", built)
    monkeypatch.setattr(plugin_answer.subprocess, "run", run)
    return found


def test_the_process_that_is_asked(process: Any) -> None:
    process.out = "a warning\n" + json.dumps(to_fields(PARAMS)) + "\n"
    answer = plugin_answer.plugin_answer(replace(PROBLEM, layout="nt"))
    assert to_fields(answer) == to_fields(PARAMS)
    assert process.command[1:] == [
        "-m", "wsched.bench.peers.plugin_answer", '[4096, 3584, 512, "bf16", "nt"]',
    ]  # fmt: skip
    assert process.env["NVFUSER_MATMUL_HEURISTIC_PLUGIN"].endswith("/x.so")
    assert process.env["NVFUSER_ENABLE"] == "fuse_matmul"


def test_the_process_fails(process: Any) -> None:
    process.code, process.err = 1, "Traceback\nRuntimeError: no device\n"
    with pytest.raises(UnsupportedError) as error:
        plugin_answer.plugin_answer(PROBLEM)
    assert str(error.value) == (
        "nvFuser's heuristic with the plugin (RuntimeError: no device) is not supported; "
        "supported: others"
    )
