"""Kernels for sm_90a are byte for byte what they were: who works on another target changes none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from zlib import crc32

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.conftest import Golden
from tests.mutants.families import FAMILIES
from tests.mutants.subjects import subject
from tests.replay import cases
from tests.schedules import QUICK, SCHEDULES, definition
from wsched.front.known import import_fusion
from wsched.importer import build_fusion, record_text
from wsched.ladder.climb import climb
from wsched.run.compiled import compile_fusion

BY_HAND = (
    "a_by_threads", "b_by_two_warpgroups", "both_by_threads", "four_warpgroups", "in_turns",
    "in_turns_from_the_queue", "coop_128x128-residual", "pingpong_64x128-residual",
)  # fmt: skip


def scheduled(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name and CUDA text of schedules of the tests."""
    for name in names:
        yield name, compile_fusion(build_fusion(record_text(definition())), SCHEDULES[name]).source


def digests(sources: Iterable[tuple[str, str]]) -> str:
    lines = (f"{sha256(text.encode()).hexdigest()[:16]} {name}" for name, text in sources)
    return "\n".join(lines)


def test_one_of_each_kind(golden: Golden) -> None:
    assert digests(scheduled(sorted(QUICK))) == golden


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str, golden: Golden) -> None:
    """Groups, lists, several products, reductions, 8 bits, computed operands, tensor memory."""
    made = FAMILIES[family].items()
    assert digests((n, emit_cuda(make().kernel)) for n, make in made) == golden


def test_by_hand(golden: Golden) -> None:
    """Loads by threads, four warpgroups, results beside what is added: schedules call by call."""
    assert digests((n, emit_cuda(subject(n).kernel)) for n in BY_HAND) == golden


@pytest.mark.parametrize("part", range(4))
def test_epilogues_and_layouts(part: int, golden: Golden) -> None:
    """One in eight of the cases of ``tests.replay``, by name, and why some have no kernel."""
    found = []
    for name, text, params in cases():
        if crc32(name.encode()) % 32 != part:
            continue
        try:
            fusion = import_fusion(text)
            found.append((name, compile_fusion(fusion, params).source))
        except (ScheduleError, UnsupportedError) as e:
            found.append((name, str(e)))
    assert digests(found) == golden


@pytest.mark.slow
def test_texts(golden: Golden) -> None:
    """A line that differs is a kernel that has changed: ``python -m tests.replay DIR`` in front of
    the change and behind it shows how, for these with epilogues and layouts too.
    """
    rungs = ((step.rung.name, step.kernel.source) for step in climb())
    assert digests(chain(scheduled(SCHEDULES), rungs)) == golden
