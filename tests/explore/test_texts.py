from __future__ import annotations

import pytest

from passes.pipeline import PASSES
from tests.explore.pages import compiled
from wsched.explore.texts import texts_of


@pytest.mark.slow
def test_the_texts_are_those_of_the_dumps() -> None:
    made = compiled("coop_128x128")
    texts = texts_of(made)
    assert [s.name for s in texts.stages] == ["lower", *(p.__name__ for p in PASSES)]
    for stage in texts.stages:
        text = "\n".join(texts.table[line] for line in texts.texts[stage.text]) + "\n"
        assert text == made.dump(stage.name)


def test_a_pass_that_changed_nothing_has_the_same_text() -> None:
    by_name = {s.name: s for s in texts_of(compiled("coop_128x128")).stages}
    assert by_name["order_pingpong"].text == by_name["synchronize_wgmma"].text
    assert by_name["warp_specialize"].text != by_name["lower"].text
    assert len(set(texts_of(compiled("coop_128x128")).texts)) == len(
        texts_of(compiled("coop_128x128")).texts
    )


def test_what_a_pass_does_is_a_sentence() -> None:
    stages = texts_of(compiled("coop_128x128")).stages
    assert all(s.about and not s.about.endswith(".") and "``" not in s.about for s in stages)
    (mbarriers,) = [s for s in stages if s.name == "allocate_mbarriers"]
    assert mbarriers.about == "Full and empty mbarriers for each ring"


def test_parts_without_loops_have_no_nest() -> None:
    texts = texts_of(compiled("coop_128x128"))
    assert [n.part for n in texts.nests] == [0, 1]
    first = texts.nests[0].lines
    assert [line.text for line in first] == [
        "for cta [BIDx]",
        "for tile·k [6 stages]",
        "T6 = CpAsyncBulkTensorTile(T2)  128 x 64",
        "T7 = CpAsyncBulkTensorTile(T3)  128 x 64",
    ]
    assert [line.depth for line in first] == [0, 1, 2, 2]
    assert [line.loop for line in first] == ["cta", "tile·k", "", ""]
    assert [line.tensors for line in first] == [("T6", "T7"), ("T6", "T7"), ("T6",), ("T7",)]
