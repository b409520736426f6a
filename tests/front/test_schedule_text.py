"""A schedule as text: there and back, and what is refused, with its line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Binary, Const, Special, Var, ceildiv, maximum, minimum
from tests.front.own import cooperative
from tests.schedules import SCHEDULES, definition
from wsched import CachePolicy, Schedule, ScheduleError
from wsched.front.schedule import is_schedule_text
from wsched.front.sizes import read_definition
from wsched.fusion import PrimitiveCall
from wsched.importer import build_fusion, record_text
from wsched.importer.definition import definition_text
from wsched.schedule.text import calls_text, parse_calls

DATA = Path(__file__).resolve().parent.parent / "data"

HEAD = """\
# wsched schedule 1
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    d = fd.ops.linear(x, w)
    fd.add_output(d)

def schedule(s : Schedule) -> None :
"""


def test_form() -> None:
    s = Schedule(definition())
    s.split(s.acc, "M", 64)
    s.configure(cache_policies={"T0": CachePolicy.EvictLast})
    assert str(s) == HEAD + (
        "    s.split('T4', 0, 64)\n    s.configure(cache_policies={'T0': CachePolicy.EvictLast})\n"
    )
    again = Schedule.parse(str(s))
    assert (again.fusion, again.options, str(again)) == (s.fusion, s.options, str(s))


def test_no_calls() -> None:
    text = str(Schedule(definition()))
    assert text == HEAD + "    pass\n"
    assert str(Schedule.parse(text)) == text


def test_in_a_file(tmp_path: Path) -> None:
    s, path = cooperative(definition()), tmp_path / "own.sched"
    s.save(path)
    assert path.read_text() == str(s) and Schedule.load(path).fusion == s.fusion
    assert [p.name for p in tmp_path.iterdir()] == ["own.sched"]


def test_a_failed_save_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s, path = cooperative(definition()), tmp_path / "own.sched"
    path.write_text("before")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        s.save(path)
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"# wsched schedule 1\n\xff")
    with pytest.raises(ScheduleError) as refused:
        Schedule.load(tmp_path / "x")
    assert str(refused.value) == f"ScheduleError[text]: {tmp_path / 'x'}: no UTF-8 at byte 20"


def test_arguments_go_there_and_back() -> None:
    m, ctas = Var("M"), Special("nctaid.x")
    history = [
        PrimitiveCall("split", ("T1", 0, e))
        for e in (
            Const(7), ctas, ctas // 2, m % 3, ceildiv(m, 128) * ctas, (m + 1) * (m - ctas),
            m - (ctas - m), minimum(m, 4), maximum(ctas, m // (m * 2)), Binary("*", m, m // 2),
        )
    ]  # fmt: skip
    history.append(
        PrimitiveCall("split", ("T1", 0, 2), (("inner_split", False), ("labels", ("a", "b"))))
    )
    history.append(PrimitiveCall("reorder", ("T1", {0: 1, 2: 0})))
    found = [call for _, call in parse_calls(calls_text(history))]
    found[0] = replace(found[0], args=("T1", 0, Const(7)))  # printed as a number
    assert found == history


def lines(text: str) -> int:
    return len(text.splitlines())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            "s.frob(1)",
            "s.frob(1): this is no call of the schedule\n  legal here: s.configure(...); ",
        ),
        ("t.split('T4', 0, 2)", "t.split('T4', 0, 2): this is no call of the schedule"),
        ("import os", "import os: this is no call of the schedule"),
        ("x = 1", "x = 1: this is no call of the schedule"),
        (
            "s.split('T4', 0, __import__('os'))",
            "s.split('T4', 0, __import__('os')): __import__('os') is no extent",
        ),
        (
            "s.split('T4', 0, open)",
            "s.split('T4', 0, open): open is no argument of a call\n  legal here: numbers, "
            "strings, True, False and None; tuples, lists and dicts; CachePolicy.{EvictNormal, ",
        ),
        (
            "s.parallelize('T4', 0, ParallelType.BIDw)",
            "ParallelType.BIDw is no argument of a call",
        ),
        ("s.split('T4', 0, Special('clock'))", "Special('clock') is no extent"),
        ("s.reorder('T4', {**x})", "{**x} is no argument of a call"),
        ("s.split(**x)", "s.split(**x): arguments are written out\n  legal here: name=value"),
        (
            "s.circular_buffer('T4', 2, 1, Pipelined(3))",
            "s.circular_buffer('T4', 2, 1, Pipelined(3)): Pipelined takes other arguments",
        ),
        ("s.reorder('T4', {x: 1})", "s.reorder('T4', {x: 1}): x is no key of a dict"),
        (
            "s.split('T4', 0)",
            "split('T4', 0): missing a required argument: 'factor'\n  legal here: split(tv: ",
        ),
        (
            "s.split('T4', 5, 2)",
            "split('T4', 5, 2): T4 has axes 0 to 3, not 5\n  in:\n    T4_l_float:",
        ),
        ("s.split('T4', 0, 2 +)", "s.split('T4', 0, 2 +): this is no Python"),
        ("s.split('T4', 0, \0)", "s.split('T4', 0, \\0): Python has no NUL"),
        ("pass  # caf\udce9", "pass  # caf\\udce9: Python has no '\\udce9'"),
        (f"s.split('T4', 0, {'1+' * 1500}1)", "1...: this is nested deeper than Python takes it"),
        (f"s.split('T4', 0, {'-' * 5000}1)", "-...: this is nested deeper than Python takes it"),
        (f"s.split('T4', 0, {'9' * 4000})", "9...: a number has more than 64 bits"),
        (f"s.split('T4', 0, {'9' * 5000})", "9...: a number has more than 64 bits"),
        ("s.split('T4', 0, 9999999999 * 9999999999)", "a number has more than 64 bits"),
        (
            f"s.split('T4', 0, {' + '.join(['Var(' + repr('M') + ')'] * 500)})",
            "split('T4', 0, ...): the factor has more than 100 parts\n  legal here: 1 to ",
        ),
    ],
)
def test_a_wrong_line_is_named(call: str, text: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        Schedule.parse(f"{HEAD}    s.split('T4', 1, 2)\n    {call}\n")
    message = str(refused.value).partition(": ")[2]
    assert message.startswith(f"line {lines(HEAD) + 2}: ") and text in message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            HEAD.replace("schedule 1", "schedule 2"),
            "line 1: # wsched schedule 2: this wsched reads version 1, not 2",
        ),
        (definition(), "the first line does not say that this is a schedule"),
        ("", "line 1: : the first line does not say that this is a schedule"),
        (
            HEAD.partition("\ndef schedule")[0],
            "def schedule: the text has 0 functions schedule(s), a schedule is one",
        ),
        (
            HEAD + "    pass\n" + HEAD.rpartition("\n\n")[2] + "    pass\n",
            "the text has 2 functions",
        ),
        (
            HEAD.replace("Schedule)", "Schedule, t)") + "    pass\n",
            "line 8: def schedule(s : Schedule, t) -> None :: a schedule takes one argument, its",
        ),
    ],
    ids=["version", "definition", "nothing", "no calls", "two", "two arguments"],
)
def test_a_text_of_another_form(text: str, why: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        Schedule.parse(text)
    assert refused.value.rule == "text" and why in str(refused.value)
    assert is_schedule_text(text) is text.startswith("# wsched schedule")


@pytest.mark.parametrize(
    "front", ["# tiles of 64\n", "\n", ""], ids=["a note", "a line", "nothing"]
)
def test_calls_behind_another_first_line_are_no_definition(front: str) -> None:
    """A kernel of the heuristic's schedule would pass for that of these calls."""
    text = front + HEAD.partition("\n")[2] + "    s.split('T4', 1, 2)\n"
    with pytest.raises(ScheduleError, match="the first line does not say that this is a schedule"):
        read_definition(text)


@pytest.mark.parametrize("ask", ["compile", "execute", "explain", "why", "legal_tiles"])
def test_a_schedule_in_place_of_a_definition(ask: str) -> None:
    """Its calls are not left out without a word."""
    torch = pytest.importorskip("torch")
    operands = [torch.ones(64, 64, dtype=torch.bfloat16)] * 2
    inputs = [] if ask == "legal_tiles" else [operands]
    with pytest.raises(UnsupportedError, match=r"the text of a schedule .*Schedule\.parse"):
        getattr(wsched, ask)(f"{HEAD}    s.split('T4', 1, 2)\n", *inputs)


def test_a_byte_order_mark(tmp_path: Path) -> None:
    """Some editors write one."""
    text = f"{HEAD}    s.split('T4', 1, 2)\n"
    path = tmp_path / "marked.sched"
    path.write_text(text, encoding="utf-8-sig")
    assert str(Schedule.load(path)) == text
    assert str(read_definition(path.read_text(encoding="utf-8"))) == text


def test_a_definition_that_is_not_supported_names_its_line() -> None:
    with pytest.raises(UnsupportedError) as refused:
        Schedule.parse(HEAD.replace("fd.ops.linear(x, w)", "open(x)") + "    pass\n")
    assert str(refused.value).startswith("line 5: the name open in `d = open(x)` is not supported")


def test_definitions_go_there_and_back() -> None:
    """Every definition in the tests that has a fusion has the same one after being printed."""
    from tests import epilogues

    texts = [v for v in vars(epilogues).values() if isinstance(v, str) and "fd.ops" in v]
    texts += [p.read_text() for p in sorted(DATA.rglob("*.py"))]
    texts += [definition("f16", "f32", op) for op in ("linear", "matmul", "matmul_t")]
    same = 0
    for text in texts:
        try:
            recorded = record_text(text)
        except UnsupportedError:
            continue
        again = record_text(definition_text(recorded))
        assert definition_text(again) == definition_text(recorded)
        try:
            fusion = build_fusion(recorded)
        except UnsupportedError:
            continue
        assert build_fusion(again) == fusion
        same += 1
    assert same >= 8


def test_scalars_that_are_no_literals() -> None:
    text = HEAD.partition("\ndef schedule")[0].replace(
        "    fd.add_output(d)",
        "    e = fd.ops.mul(d, float('-inf'))\n    e = fd.ops.mul(e, nan)\n"
        "    e = fd.ops.mul(e, -1e-30)\n    fd.add_output(e)",
    )
    printed = definition_text(record_text(text))
    assert "e_8 = fd.ops.mul(e_7, -1e-30)" in printed and "float('-inf')" in printed
    assert definition_text(record_text(printed)) == printed


@pytest.mark.parametrize("params", ["ping-pong", 3])
def test_what_is_no_parameters(params: Any) -> None:
    with pytest.raises(ScheduleError) as refused:
        Schedule.of(definition(), params)
    assert str(refused.value).startswith(
        f"ScheduleError[argument]: Schedule.of(..., {params!r}): params takes a MatmulParams"
    )


def test_what_is_long_in_the_place_of_parameters_is_not_printed() -> None:
    with pytest.raises(ScheduleError, match=r"Schedule\.of\(\.\.\., list\): params takes"):
        Schedule.of(definition(), [object()])  # type: ignore[arg-type]


def test_schedules_of_the_tests_are_read_back() -> None:
    for name in ("cluster_2x2", "dynamic_cluster_pingpong", "stream_k_pingpong", "pipelined"):
        s = Schedule.of(definition(layout="nt"), SCHEDULES[name])
        assert Schedule.parse(str(s)).fusion == s.fusion
