"""``wsched bench models``: from a command line to a file, a table and pictures, without a GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import UnsupportedError
from tests.bench.fake_models import DOT, ColdDevice, FakeDevice, FullDevice
from tests.conftest import Golden
from wsched.bench.cli import app
from wsched.bench.method.measure import Broken, Plan
from wsched.bench.models import command
from wsched.bench.models.asked import Asked, asked
from wsched.bench.models.measure import COMPILE, NVFUSER, OWN, WAYS, prepare_case
from wsched.bench.models.modules import MODULES
from wsched.bench.models.results import Line, line_of, reasons, table, totals

US = {
    "eager": 400.0, "compile": 240.0, "thunder": 300.0, "thunder+nvfuser": 220.0,
    "nvfuser": 260.0, "wsched": 200.0,
}  # fmt: skip


def fake(monkeypatch: pytest.MonkeyPatch, us: dict[str, float] = US, **bad: str) -> None:
    spec = {"us": us, "bad": {n.replace("_", "+"): kind for n, kind in bad.items()}}
    words = (sys.executable, "-m", "tests.bench.fake_models", json.dumps(spec))
    monkeypatch.setattr(command, "COMMAND", words)


def invoke(*words: str) -> tuple[int, str]:
    arguments = ["models", "--rounds", "2", "--burst-ms", "2", *words]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    return result.exit_code, result.output


def measured(device: FakeDevice, what: Asked | None = None) -> dict[str, Any]:
    """A module with all ways."""
    what = what or Asked("lora", 512)
    measure = prepare_case(
        device, what, WAYS, (), Plan(2, 2.0), lambda *_: None, clock=device.clock
    )
    return measure()


# --- what is asked for ----------------------------------------------------------------------------


def test_modules_and_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.py", "c.md"):
        (tmp_path / name).write_text("")
    found = asked("lora, moe", "512,8192", [tmp_path, tmp_path / "b.txt"])
    assert list(map(str, found)) == ["lora 512", "lora 8192", "moe 512", "moe 8192", "a", "b"]
    assert len(asked("all", "512", [])) == len(MODULES) == 8


@pytest.mark.parametrize(
    ("module", "tokens", "what"),
    [
        ("lora,gru", "512", "--module gru"),
        ("all", "512,x", "--tokens 512,x"),
        ("all", "0", "--tokens 0"),
        ("none", "512", "nothing to measure"),
    ],
)
def test_what_is_not_there(module: str, tokens: str, what: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        asked(module, tokens, [])
    assert error.value.what == what


# --- the method -----------------------------------------------------------------------------------


def test_times_of_calls_hosts_and_graphs() -> None:
    found = measured(FakeDevice(US))
    assert {n for n, r in found["systems"].items() if r["status"] == "ok"} == {*WAYS} - {"nvfuser"}
    for name, record in found["systems"].items():
        if record["status"] == "ok":
            assert record["us"] == pytest.approx([US[name]] * 2)
            assert record["host_us"] == pytest.approx([US[name] / 10] * 2)
            assert record["graph_us"] == pytest.approx([US[name] / 2] * 2)
    assert found["told"]["own"] == 75


def test_who_watches_is_told_what_begins(golden: Golden) -> None:
    """Each way's stages in order, also of one that cannot take part."""
    said = list[str]()
    device = FakeDevice(US, {"eager": "error", OWN: "wrong"})
    plan = Plan(2, 2.0)
    prepare_case(
        device, Asked("lora", 512), WAYS, ("nvfuser",), plan,
        lambda *words: said.append(" ".join(str(w) for w in words if not isinstance(w, float))),
        clock=device.clock,
    )()  # fmt: skip
    assert "\n".join(said) == golden


def test_first_calls_do_not_say_how_many_there_are() -> None:
    """A round of 2 ms is 10 calls of 200 us and 20 replays, though the first ones took 20 ms."""
    device = ColdDevice(US)
    plan = Plan(2, 2.0)
    what = Asked("lora", 512)
    prepare_case(device, what, (OWN,), (), plan, lambda *_: None, clock=device.clock)()
    lengths = 2 * (3 + 3)
    assert device.runs == 2 + lengths + 3 * (10 + 20)


@pytest.mark.parametrize(
    ("kind", "status", "reason", "error"),
    [
        ("skip", "skipped", "there is no module thunder", None),
        ("unsupported", "skipped", "split-K is not supported; supported: no split", None),
        ("error", "failed", "RuntimeError: an illegal memory access was encountered", None),
        ("wrong", "wrong", "error 5.00e-01, limit 2.20e-02", 0.5),
        ("nan", "wrong", "error nan, limit 2.20e-02", None),  # which JSON has no word for
    ],
)
def test_a_way_that_cannot_take_part(
    kind: str, status: str, reason: str, error: float | None
) -> None:
    found = measured(FakeDevice(US, {OWN: kind}))
    record = found["systems"][OWN]
    assert (record["status"], record["reason"], record.get("error")) == (status, reason, error)
    assert "us" not in record and not found["told"]
    assert ("in way\n" in record.get("traceback", "")) is (status == "failed")
    assert found["systems"]["eager"]["status"] == "ok"
    assert found["systems"]["eager"]["error"] == 1e-3


def test_a_way_without_a_graph() -> None:
    record = measured(FakeDevice(US, {"thunder": "graph"}))["systems"]["thunder"]
    assert record["graph_reason"] == "operation not permitted when stream is capturing"
    assert record["us"] and "graph_us" not in record


def test_a_lost_context_ends_it() -> None:
    with pytest.raises(Broken, match="illegal memory access"):
        measured(FakeDevice(US, {"compile": "broken"}))


def test_what_does_not_fit_into_memory() -> None:
    records = measured(FullDevice(US))["systems"].values()
    assert {(r["status"], r["reason"][:18]) for r in records} == {("skipped", "CUDA out of memory")}


# --- what it comes to -----------------------------------------------------------------------------


def test_lines_and_totals() -> None:
    us = {**US, OWN: 250.0}
    devices = (FakeDevice(US), FakeDevice(us), FakeDevice(US, {OWN: "wrong"}))
    lines = [line_of(name, measured(d)) for name, d in zip("abc", devices, strict=True)]
    assert [line.without.get("us") for line in lines] == [
        pytest.approx(1.1), pytest.approx(0.88), None
    ]  # fmt: skip
    assert lines[0].compiled["graph_us"] == pytest.approx(1.2)
    assert [line.share for line in lines] == [0.75, 0.75, None]
    assert [*lines[2].broken] == [OWN]
    told = totals(lines)
    assert told[0] == "75.0% of the operations of matmuls in wsched's kernels, 75.0% on average"
    assert told[1] == (
        "without wsched over wsched, call to call, 2 of 3: geometric mean 0.984, least 0.880, "
        "1 below 0.99"
    )
    assert reasons(lines) == [" 20.0% not: not handed to nvFuser", "  5.0% not: the rank"]
    assert table(lines, "t").row_count == 3
    assert totals([]) == ["nothing was measured"]


def cells(*lines: Line) -> list[list[str]]:
    """The header of the table of some lines, and each line's cells."""
    made = table(lines, "t")
    assert made.title == "t"
    assert {c.justify for c in made.columns[1:]} == {"right"}
    rows = zip(*(map(str, c.cells) for c in made.columns), strict=True)
    return [[str(c.header) for c in made.columns], *map(list, rows)]


def test_the_table_has_a_column_for_each_way_that_any_line_has() -> None:
    """In the order of the ways, whatever was measured first."""
    times = {OWN: 20.4, COMPILE: 30.0}
    one = Line("a", {"us": times, "host_us": {OWN: 7.6}, "graph_us": {OWN: 18.0}}, flops=4, own=3)
    two = Line("b", {"us": {NVFUSER: 25.0}, "host_us": {}, "graph_us": {}}, broken={OWN: "a fault"})
    ways = [COMPILE, NVFUSER, OWN]
    head = ["", "in wsched", *ways, "without / wsched", "host"]
    assert cells(one, two) == [
        head,
        ["a", "75.0%", "30", "–", "20 (18)", "–", "8"],
        ["b", "–", "–", "25", "failed", "–", "–"],
    ]
    assert cells(one)[0] == [h for h in head if h != NVFUSER]


def test_ratios_of_calls_and_of_graphs_stand_apart() -> None:
    us: dict[str, dict[str, float]] = {"us": {}, "host_us": {}, "graph_us": {}}
    ratios = {"both": {"us": 1.25, "graph_us": 1.5}, "call": {"us": 1.25}, "none": {}}
    found = cells(*(Line(name, us, without) for name, without in ratios.items()))
    assert [row[2] for row in found[1:]] == ["1.250 (1.500)", "1.250", "–"]


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch)
    (tmp_path / "some.txt").write_text("")
    saved, whole, pictures = (tmp_path / n for n in ("f.jsonl", "s.json", "dots"))
    words = ["--module", "lora", "--tokens", "512", "--definitions", str(tmp_path / "some.txt")]
    words += ["--json", str(saved), "--summary", str(whole), "--plot", str(pictures)]
    code, text = invoke(*words)
    assert code == 0, text
    head, *lines = [json.loads(line) for line in saved.read_text().splitlines()]
    assert head["schema"] == "wsched.bench.models/1"
    assert [ln["problem"] for ln in lines] == ["lora 512", "some"]
    assert lines[1]["result"]["systems"]["thunder"]["status"] == "skipped"
    assert [ln["without"]["us"] for ln in json.loads(whole.read_text())["lines"]] == [
        pytest.approx(1.1), pytest.approx(1.3)
    ]  # fmt: skip
    assert sorted(p.name for p in pictures.iterdir()) == ["lora_512_0.dot", "some_0.dot"]
    assert (pictures / "some_0.dot").read_text() == DOT
    monkeypatch.setattr(command, "COMMAND", ("false",))
    code, again = invoke(*words)
    assert (code, again.split()) == (0, text.split())  # nothing is measured again


@pytest.mark.slow
def test_a_wrong_result_of_wsched(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, wsched="wrong")
    code, text = invoke("--module", "lora", "--tokens", "512")
    assert code == 1
    assert "wsched at lora 512: error 5.00e-01, limit 2.20e-02" in text


def test_unknown_ways() -> None:
    code, text = invoke("--ways", "eager,jax")
    assert code == 2 and "--ways jax is not supported" in text
