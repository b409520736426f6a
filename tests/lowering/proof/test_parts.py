"""Kernels that share groups out: what each of them has to write, and what is refuted."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from tests.mutants.subjects import subject
from tests.run.test_siblings import KERNELS, kernel
from wsched.run.counts import admitted_by

FAULTS = {
    "from the group's begin on": (
        "begin + part_front", "begin", "is written, which is no part of its own"),
    "all of the group": (
        "part_size: i32 of size", "other: i32 of size\nlet part_size: i32 = size",
        "is written, which is no part of its own"),
    "whole tiles alone": (
        "* ceildiv(part_size, 32)", "* (part_size // 32)", "of T5 are written"),
    "tiles of a row more": (
        "* ceildiv(part_size, 32)", "* ceildiv(part_size, 33)", "of T5 are written"),
    "of a group without its last row": (
        "i32 of size", "i32 of max(size - 1, 0)", "of T5 are written"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", KERNELS)
def test_each_writes_its_part(name: str) -> None:
    k = kernel(name)
    for one in (k, *k.siblings):
        assert not prove(one.kernel, admitted_by(one.plan)).open


@pytest.mark.parametrize("fault", FAULTS)
def test_another_part(fault: str) -> None:
    before, after, why = FAULTS[fault]
    text = print_kernel(subject("grouped_second").kernel)
    assert before in text
    found = prove(parse_kernel(text.replace(before, after))).open
    said = [o.why for o in found if o.verdict is Verdict.REFUTED and o.name == "results"]
    assert said and all(why in s for s in said), [str(o) for o in found]
