"""How ``wsched bench gate`` ends: what is said, and the exit status, for what two files have."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from wsched.bench.drawn.problems import Drawn
from wsched.bench.gate import command
from wsched.bench.gate.results import Measured
from wsched.bench.gate.verdict import Limits
from wsched.bench.method.shapes_run import INTERRUPTED, TIME_IS_UP

FEW = (Drawn(512, 512, 512), Drawn(1000, 1000, 1000, "nt"))
ONE, TWO = (str(p) for p in FEW)


def result(us: float = 10.0, status: str = "ok") -> dict[str, Any]:
    """CuBLAS takes 10 us."""
    systems = {
        "cublas": {"status": "ok", "times_us": [10.0, 10.0]},
        "x": {"status": status, "reason": "off", "times_us": [us, us]},
    }
    return {"choice": "x", "systems": systems}


REFUSED = {"choice": "", "refused": "too large", "systems": {}}


def measured(*processes: dict[str, dict[str, Any]], cublas: str = "13.0") -> Measured:
    environment = {"gpu": {"name": "fake"}, "versions": {"cublas": cublas}}
    return Measured({"rounds": 2}, environment, dict(enumerate(processes)))


BOTH = {ONE: result(), TWO: result()}
BEFORE = measured(BOTH, BOTH)
SLOW = {ONE: result(), TWO: result(12.5)}
NOISY = ({ONE: result(), TWO: result(9.0)}, {ONE: result(), TWO: result(12.0)})
WRONG = {ONE: result(status="wrong"), TWO: result()}
LACKS = {ONE: REFUSED, TWO: result()}


def ended(
    capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, *given: Any
) -> tuple[int, list[str], str]:
    """The exit status, the lines behind the table, and what is said beside them."""
    patch.setattr(command, "PROBLEMS", FEW)
    patch.setattr(command, "show_table", lambda shown: None)
    status = 0
    try:
        command._end(*given)
    except typer.Exit as leave:
        status = leave.exit_code
    out, errors = capsys.readouterr()
    return status, out.splitlines(), errors


@pytest.mark.parametrize(
    ("found", "before", "stopped", "status", "said"),
    [
        (measured(BOTH, BOTH), None, "", 0, "recorded: 2 processes of 2 problems"),
        (measured(BOTH), None, TIME_IS_UP, 0, "recorded: 1 processes of 2 problems"),
        (measured(BOTH, WRONG), None, "", 1, "recorded: 2 processes of 2 problems"),
        (measured(LACKS), None, "", 0, "recorded: 1 processes of 2 problems"),
        (measured(BOTH, {}), BEFORE, TIME_IS_UP, 3,
         "unsure: 1 processes are complete, 2 are needed"),
        (measured(), BEFORE, TIME_IS_UP, 3, "unsure: 0 processes are complete, 2 are needed"),
        (measured(WRONG), BEFORE, TIME_IS_UP, 1,
         "slower: something failed, is wrong, or is refused now"),
        (measured(LACKS, LACKS), BEFORE, "", 1,
         "slower: something failed, is wrong, or is refused now"),
        (measured(LACKS, LACKS), measured(LACKS, LACKS), "", 0,
         "as fast: 1.000 (1.000 to 1.000) in geometric mean"),
        (measured(BOTH, BOTH), BEFORE, "", 0, "as fast: 1.000 (1.000 to 1.000) in geometric mean"),
        (measured(SLOW, SLOW), BEFORE, "", 1,
         f"slower: 0.894 (0.894 to 0.894) in geometric mean; {TWO}"),
    ],
)  # fmt: skip
def test_the_end(
    found: Measured, before: Measured | None, stopped: str, status: int, said: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    code, lines, errors = ended(capsys, monkeypatch, found, before, Limits(), stopped)
    assert (code, lines) == (status, [said])
    wrong = f"x at {ONE}: off\n" if found.broken() else ""
    assert errors == wrong + (f"{ONE}: too large\n" if found.refused() else "")


def test_an_interrupt_is_neither(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = measured(BOTH, WRONG), None, Limits(), INTERRUPTED
    assert ended(capsys, monkeypatch, *given) == (
        130, [], f"x at {ONE}: off\ninterrupted: 2 processes are complete\n",
    )  # fmt: skip


def test_noise(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Says how many more processes might do, and that the peers were others."""
    found = measured(*NOISY, cublas="12.9")
    code, lines, _ = ended(capsys, monkeypatch, found, BEFORE, Limits(), "")
    assert code == 3
    assert lines[0] == ("note: the baseline was measured beside other versions (of cuBLAS, too?)")
    (line,) = lines[1:]
    assert line.startswith("unsure: 0.981 (") and line.endswith(" more processes might settle it")
