"""Whether the laws are still those that trees were fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from wsched.choose import combine, copy_engine, cost_model, epilogue, memory, step
from wsched.choose.gpus import GPUS
from wsched.choose.learned.features import FEATURES
from wsched.choose.learned.order import TREES
from wsched.choose.learned.probes import moved, probed
from wsched.choose.learned.trees import Numbers, Trees

FITTED_TO = [f"tests/data/{gpu}_order.jsonl.xz" for gpu in ("h200", "h100")]


def test_the_laws_are_those_that_the_trees_were_fitted_to() -> None:
    changed = moved(Trees.read(TREES, FEATURES).probes)
    assert not changed, (
        f"of what trees are asked with, {', '.join(changed)} changed since they were fitted; fit "
        f"again: python -m wsched.bench.drawn.fit {' '.join(FITTED_TO)} --out {TREES}"
    )


def test_what_is_there_has_not_moved() -> None:
    assert moved(probed()) == []
    assert moved(probed() * np.float32(1 + 1e-6)) == []
    assert moved(probed()[1:]) == list(FEATURES)


def test_what_has_moved_is_named() -> None:
    known, at = probed(), FEATURES.index("stages")
    known[3, at] += 1
    assert moved(known) == ["stages"]
    known[3, at] = np.nan
    assert moved(known) == ["stages"]


LAWS = {
    cost_model: (
        "GHZ", "START", "HAND_OVER", "OVERLAPPED_WORK", "STORE_LINE", "CLUSTER_START",
        "FLOP_ENERGY", "BYTE_ENERGY", "CLOCK_EXPONENT", "MEMORY_SHARP",
    ),
    combine: (
        "COMBINE", "COMBINE_TILE", "COMBINE_PART", "ADDED_US", "ADDED_PART", "ADDED_BYTES",
    ),
    step: (
        "FLOPS_PER_CYCLE", "WGMMA", "WGMMA_N", "STEP", "SHARED_STEP", "SMEM_BYTES", "PARTED_BYTES",
        "LATENCY", "CLUSTER_LATENCY", "CLUSTER_STEP",
    ),
    memory: (
        "BYTES_PER_US", "START_US", "APART_BYTES", "CLOSE_BYTES", "CLOSE_BYTES_IN_ALL", "REPEATED",
    ),
    copy_engine: ("RECEIVED_BYTES", "RECEIVED_SHARP", "ACROSS_LINES"),
    epilogue: ("TILE_END", "CHUNK", "SINGLE", "ELEMENT", "WORK"),
}  # fmt: skip
"""Constants of laws that features are made of."""

TABLES = {
    cost_model: ("LAUNCH_US", "PLACED"),
    combine: ("NUMBERED_US",),
    step: ("FILL_BYTES", "HELD_STEPS"),
    copy_engine: ("ASKED_BYTES", "FETCHED_WIDE", "RECEIVED_SLOWLY"),
}
"""And such of which there is one for each case."""

CONSTANTS = (
    *(pytest.param(vars(law), name, id=name) for law, names in LAWS.items() for name in names),
    *(
        pytest.param(getattr(law, name), case, id=f"{name}[{case}]")
        for law, names in TABLES.items()
        for name in names
        for case in getattr(law, name)
    ),
    pytest.param(memory.OTHER_BYTES_PER_US, GPUS["H100"].name, id="OTHER_BYTES_PER_US[H100]"),
)


@pytest.fixture
def known() -> Iterator[Numbers]:
    """The features by the laws as they are, of which nothing is remembered in a test, nor of those
    that it changes behind it.
    """
    known = probed()
    for remembered in (memory.moved_us, cost_model.places):
        remembered.cache_clear()
    yield known
    for remembered in (memory.moved_us, cost_model.places):
        remembered.cache_clear()


@pytest.mark.parametrize(("constants", "name"), CONSTANTS)
def test_a_constant_that_is_a_hundredth_less_moves_features(
    constants: dict[Any, Any], name: Any, monkeypatch: pytest.MonkeyPatch, known: Numbers
) -> None:
    monkeypatch.setitem(constants, name, constants[name] * 0.99)
    assert moved(known)
