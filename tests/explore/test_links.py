from __future__ import annotations

import pytest

from tests.explore.pages import compiled
from tests.schedule.gated import gated
from tests.schedules import QUICK, SCHEDULES, cooperative
from tests.tiers import in_tiers
from wsched.explore.data import NestLine
from wsched.explore.links import KernelText, _staged, _tensor
from wsched.explore.texts import Texts, texts_of
from wsched.fusion import MmaOp
from wsched.run.compiled import compile_fusion


def links(texts: Texts, line: NestLine, text: int = -1) -> list[str]:
    return [texts.table[texts.texts[text][at]].strip() for at in line.lines[text]]


@pytest.mark.sampled
@pytest.mark.parametrize("name", [*in_tiers(SCHEDULES, QUICK), "sm_100a"])
def test_each_loop_and_expression_is_found_after_each_pass(name: str) -> None:
    texts = texts_of(compiled(name))
    lines = [line for nest in texts.nests for line in nest.lines]
    assert lines
    for line in lines:
        assert len(line.lines) == len(texts.texts), line.text
        assert all(line.lines), line.text


def test_what_they_are_linked_to(golden: object) -> None:
    """Ping-pong: loops of one label in both nests, an unrolled one, a result through a buffer."""
    texts = texts_of(compiled("pingpong_128x128"))
    found = [
        "\n".join(["  " * line.depth + line.text, *(f"    -> {x}" for x in links(texts, line))])
        for nest in texts.nests
        for line in nest.lines
    ]
    assert "\n".join(found) + "\n" == golden


def test_each_product_has_its_own_statements() -> None:
    """Of two with one A: it is B that tells them apart."""
    made = compile_fusion(gated(), cooperative(128, 128, stages=4))
    fusion = made.plan.fusion
    text = KernelText.of(made.kernel, fusion)
    products = [e for e in fusion.exprs if isinstance(e, MmaOp)]
    found = [{text.lines[at] for at in text.made[e.output]} for e in products]
    for lines, mine, other in ((found[0], *products), (found[1], *reversed(products))):
        assert lines and all(" = wgmma " in line and mine.b in line for line in lines)
        assert not any(other.b in line for line in lines)


def test_a_number_behind_a_name_leads_to_the_tensor_without_it() -> None:
    """``t102`` is a value of T10 where there is no T102, ``T5_s`` what T5 is stored from."""
    fusion = compiled("coop_128x128").fusion
    assert [_tensor(x, fusion) for x in ("t9", "t92", "T6", "T623", "t1", "total", "T", "t")] == [
        "T9", "T9", "T6", "T6", "T1", "", "", "",
    ]  # fmt: skip
    assert [_staged(x, fusion) for x in ("T6", "T5_s", "T5_s2", "queue")] == ["T6", "T8", "T8", ""]
