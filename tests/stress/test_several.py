"""Definitions of several products: what is drawn, launches on the machine, what is found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import wsched.stress.launches
from lowering.ground.errors import ScheduleError
from wsched.importer import record_text
from wsched.importer.ops import MATMULS
from wsched.run.compiled import CompiledFusion
from wsched.stress.launches import Executed, Where, Worked, drawn_kernel
from wsched.stress.run import judged
from wsched.stress.several import Joined, Operand, Product, Several, drawn_several

torch = pytest.importorskip("torch", reason="torch is not installed")

WHERE = Where("cpu", 64, 1)
X, W, T, B = (Operand(f"{name}0", rows, "k") for name, rows in zip("xwtb", "mnmn", strict=True))
APART = Several("BFloat16", (Product(X, W, True), Product(T, B, True)), ("y_x0_w0", "y_t0_b0"))
"""Two linears of operands of their own."""


def groups(form: Several) -> int:
    """Sets of products that share operands, read each other, or are joined."""
    known: dict[str, str] = {}

    def root(name: str) -> str:
        while (found := known.setdefault(name, name)) != name:
            name = found
        return name

    for step in form.steps:
        read = (step.left, step.right) if isinstance(step, Product) else (step.first, step.second)
        for other in read:
            known[root(other.name)] = root(step.made.name)
    return len({root(name) for name in form.results})


def test_what_is_drawn() -> None:
    drawn = [drawn_several(random.Random(seed)) for seed in range(400)]
    found = Counter[str]()
    for form in drawn:
        products = [s for s in form.steps if isinstance(s, Product)]
        made = {s.made for s in form.steps}
        sides = Counter(side for p in products for side in (p.left, p.right))
        found["apart"] += groups(form) > 1
        found["shared"] += any(n > 1 for side, n in sides.items() if side not in made)
        found["chained"] += any(p.left in made for p in products)
        found["joined"] += any(isinstance(s, Joined) for s in form.steps)
        found["several results"] += len(form.results) > 1
        found["matmul"] += not all(p.by_rows for p in products)
        recorded = record_text(form.text)
        assert 2 <= sum(n.op in MATMULS for n in recorded.nodes) == len(products) <= 4
        assert len(recorded.outputs) == len(form.results) == len(set(form.results))
    assert min(found.values()) >= 100, found
    assert drawn_several(random.Random(7)) == drawn[7]


@pytest.mark.parametrize("seed", range(8))
def test_inputs_and_results(seed: int) -> None:
    """What a launch is asked for is what torch makes of the definition."""
    from wsched.doors.fallback import interpret

    form = drawn_several(random.Random(seed))
    sizes = form.sizes(random.Random(seed), 64)
    asked = form.asked(sizes, seed, "cpu")
    dense = [t.contiguous() for t in asked.inputs]  # torch may multiply what lies behind a row by 0
    results = interpret(record_text(form.text), dense)
    for got, wanted in zip(results, asked.wanted, strict=True):
        kind = got.dtype
        assert torch.equal(got, wanted.value.to(kind)) and 0 < wanted.value.abs().max() < 256


def test_sizes_are_often_alike() -> None:
    found = [APART.sizes(random.Random(seed), 2048) for seed in range(300)]
    assert 80 < sum(s.m == s.n == s.k for s in found) < 160


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(40))
def test_the_machine_passes(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsched.stress.launches, "drawn_form", drawn_several)
    row = judged(WHERE, drawn_kernel(WHERE, number), range(2))
    assert row.failures == () and row.launches == 2 and row.form == "several"


def test_what_shares_nothing_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wsched.stress.launches, "drawn_form", lambda rng: APART)
    made = [drawn_kernel(WHERE, number) for number in range(6)]
    assert {type(w.kernel) for w in made} == {Executed}
    assert (made[0].name, made[0].told) == ("execute", "cut and scheduled as wsched.execute does")
    rights = tuple(Product(X, Operand(f"w{n}", "n", "k"), True) for n in range(2))
    shared = Several("Half", rights, tuple(p.made.name for p in rights))
    monkeypatch.setattr(wsched.stress.launches, "drawn_form", lambda rng: shared)
    both = Counter[type]()
    for number in range(16):
        with suppress(ScheduleError):  # a schedule that is drawn may be illegal
            both[type(drawn_kernel(WHERE, number).kernel)] += 1
    assert min(both[CompiledFusion], both[Executed]) >= 2


def spoiled(results: Sequence[Any], how: str) -> list[Any]:
    first, *rest = results
    if how == "sum":  # what two matmuls that share nothing once were
        return [first + rest[0], *rest]
    if how == "order":
        return [*rest, first]
    return [first.float(), *rest]


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ("sum", "elements are beyond the bound"),
        ("order", "elements are beyond the bound"),
        ("type", "ValueError: a result is torch.float32 [64, 64], not torch.bfloat16 [64, 64]"),
    ],
)
def test_a_wrong_result_is_found(how: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = wsched.execute
    monkeypatch.setattr(
        "wsched.front.api.execute", lambda text, inputs: spoiled(execute(text, inputs), how)
    )
    alike = replace(APART.sizes(random.Random(0), 64), m=64, n=64, k=64)
    monkeypatch.setattr(Several, "sizes", lambda *_: alike)
    row = judged(WHERE, Worked(1, APART, Executed(APART.text)), range(1))
    assert len(row.failures) == 1 and wrong in row.failures[0].wrong


def test_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from wsched.cli.app import app
    from wsched.stress import command

    monkeypatch.setattr(command, "_device", lambda: "cpu")
    monkeypatch.setattr(wsched.stress.launches, "drawn_form", lambda rng: APART)
    done = CliRunner().invoke(app, ["stress", "--largest", "16", "--only", "3.0"])
    assert done.exit_code == 0, done.output
    assert "cut and scheduled as wsched.execute does\n" in done.output
    assert "none wrong" in done.output
