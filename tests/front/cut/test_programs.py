"""The steps of definitions that are cut: programs as text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import Golden
from tests.front.cut.features import FEATURES, Feature, inputs_of
from tests.front.cut.norms import COMMUTE
from tests.front.cut.ranks import RANKS
from tests.front.cut.test_in_place import CASES, inputs_like
from tests.front.cut.test_lifted import BACKWARD, LEADING, SHARED
from tests.front.cut.test_pieces import SCORES
from wsched.front.cut import program
from wsched.front.cut.route import chosen_cut, cutter_of, rest_by
from wsched.importer import record_text
from wsched.program.text import print_program

torch: Any = pytest.importorskip("torch")

ALL: dict[str, Feature] = {
    **FEATURES, **RANKS, **COMMUTE, "lifted": BACKWARD, "leading": LEADING, "shared": SHARED,
    "scores": SCORES,
}  # fmt: skip


def printed(text: str, inputs: list[Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The program that such a call runs, kernels by their number."""
    made, real = list[str](), program.prepare

    def prepare(found: Any, *others: Any) -> Any:
        made.append(print_program(found))
        return real(found, *others)

    monkeypatch.setattr(program, "prepare", prepare)
    chosen = chosen_cut(cutter_of(record_text(text)), inputs)
    program.make(
        chosen.cutter.definition, chosen.cutter.graph.types, chosen.cut.segments, inputs,
        lambda s, device: rest_by(s, device)[1],
    )  # fmt: skip
    whole = "\n".join(made)
    for number, name in enumerate(dict.fromkeys(re.findall(r"matmul_\w+|sweep_\w+", whole))):
        whole = whole.replace(name, f"kernel{number}")
    return whole


@pytest.mark.parametrize("name", ALL)
def test_programs(name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(ALL[name].text, inputs_of(ALL[name]), monkeypatch) == golden


@pytest.mark.parametrize("name", CASES)
def test_programs_that_write_into_inputs(
    name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, shapes, _ = CASES[name]
    assert printed(text, inputs_like(record_text(text), *shapes), monkeypatch) == golden
