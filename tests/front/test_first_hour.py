"""What a new user asks for with a mistake in it, and what is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import wsched
from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.cli.app import app
from wsched.importer import record_text
from wsched.importer.input_error import InputError

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

HEAD = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
TENSOR = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)"
CHAIN = HEAD + "".join(
    f"    {line}\n"
    for line in (
        *(f"{name} = {TENSOR}" for name in "xwv"), "y = fd.ops.linear(x, w)",
        "z = fd.ops.linear(y, v)", "fd.add_output(z)",
    )
)  # fmt: skip
FLOATS = CHAIN.replace("BFloat16", "Float")


def explained(tmp_path: Path, text: str, *words: str) -> Any:
    file = tmp_path / "mine.py"
    file.write_text(text)
    return CliRunner(env={"COLUMNS": "1000"}).invoke(app, ["explain", str(file), *words])


def ones(*shapes: tuple[int, int], dtype: Any = None) -> list[Any]:
    return [torch.ones(shape, dtype=dtype or torch.bfloat16) for shape in shapes]


@pytest.mark.parametrize("gpu", [None, "H200"])
@pytest.mark.parametrize(
    ("text", "shapes", "wrong"),
    [
        (FLOATS, ((8, 8), (8, 9), (8, 8)), "line 5: fd.ops.linear of [[8, 8], [8, 9]]: "),
        (FLOATS, ((8, 8), (6, 8), (8, 8)), "line 6: fd.ops.linear of [[8, 6], [8, 8]]: "),
    ],
)
def test_what_no_way_takes_has_none(
    text: str, shapes: tuple[tuple[int, int], ...], wrong: str, gpu: str | None
) -> None:
    """Explain said ``torch``, which then refused the call."""
    inputs = ones(*shapes, dtype=torch.float32)
    for ask in (wsched.execute, lambda *call: wsched.explain(*call, gpu=gpu)):
        with pytest.raises(InputError, match="line ") as error:
            ask(text, inputs)
        assert str(error.value).startswith(wrong)
    fitting = ones((8, 8), (6, 8), (7, 6), dtype=torch.float32)
    assert wsched.explain(text, fitting).route == "torch"


def test_sizes_that_contradict_each_other(tmp_path: Path) -> None:
    fixed = definition().replace("[-1, -1]", "[128, 64]", 1).replace("[-1, -1]", "[256, 32]", 1)
    done = explained(tmp_path, fixed)
    assert done.exit_code == 2
    assert "mine.py: line 4: fd.ops.linear of [[128, 64], [256, 32]]: " in done.output


def test_a_tensor_of_no_type() -> None:
    with pytest.raises(UnsupportedError) as error:
        record_text(definition().replace("DataType.BFloat16", "DataType.Null", 1))
    assert error.value.what.startswith("line 2: a tensor of DataType.Null in `")
    assert error.value.supported == "a type of elements"


@pytest.mark.parametrize("body", ["pass", "...", '"""Nothing."""'])
def test_a_body_that_does_nothing(body: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        record_text(f"{HEAD}    {body}\n")
    assert str(error.value) == (
        "line 1: a definition that calls nothing of fd is not supported; supported: one with "
        "inputs and a result, fd.add_output(...)"
    )


def test_sizes_of_what_is_cut_are_those_of_the_help(tmp_path: Path) -> None:
    done = explained(tmp_path, CHAIN, "--json")
    assert done.exit_code == 0, done.output
    problems = [part["kernel"]["problem"] for part in json.loads(done.stdout)["parts"]]
    assert problems == ["512x512x512"] * 2
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["explain", "--help"]).stdout
    told = " ".join(shown.replace("│", " ").split())
    assert "256x256x512 where it is symbolic, and 512 of each such dimension" in told


@pytest.mark.parametrize(
    ("calls", "what"),
    [
        (definition(), "calls is a str"),
        (5, "calls is a int"),
        ([definition()], "one of calls is a str"),
        ([(definition(),)], "one of calls is a tuple"),
    ],
)
def test_what_is_prepared_is_pairs(calls: Any, what: str) -> None:
    with pytest.raises(InputError) as error:
        wsched.prepare(calls)
    assert str(error.value) == f"{what}; prepare takes [(definition, [tensor, ...]), ...]"


def test_one_of_a_thing_is_one() -> None:
    text = str(wsched.explain(definition(), ones((8, 64), (8, 64))))
    assert ", 1 warpgroup of 64x" in text and ": 1 tile of 64x" in text
    assert "1 CTA loops over 1 tile\n" in text


def test_matmuls_say_why_no_cut_is_run() -> None:
    """What they said in its place was that no cut can be run."""
    found = wsched.explain(CHAIN, ones((4096, 4096), (4096, 4096), (4096, 4096)))
    (cut,) = (r.reason for r in found.refusals if r.what == "cut")
    assert found.route == "torch" and "on the machine that takes about" in cut
    assert [fate.reason for fate in found.matmuls] == [cut, cut]
