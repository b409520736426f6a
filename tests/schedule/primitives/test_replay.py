"""A history is a program."""

from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError
from lowering.ground.expr import Special
from tests.schedule.fusions import CLASSES, linear
from wsched.fusion import (
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    Pipelined,
    PrimitiveCall,
    history_text,
)
from wsched.fusion import WarpSpecialized as WarpSpecializedType
from wsched.schedule import Schedule, replay, schedule_matmul


@pytest.mark.parametrize("name", CLASSES)
def test_calls_give_the_same_schedule(name: str) -> None:
    f = schedule_matmul(linear(), CLASSES[name])
    assert replay(linear(), f.history) == f


@pytest.mark.parametrize("name", CLASSES)
def test_text_gives_the_same_schedule(name: str) -> None:
    f = schedule_matmul(linear(), CLASSES[name])
    words = {
        "s": (s := Schedule(linear())),
        "LoadStoreOpType": LoadStoreOpType,
        "MemoryType": MemoryType,
        "ParallelType": ParallelType,
        "Pipelined": Pipelined,
        "WarpSpecialized": WarpSpecializedType,
        "Special": Special,
    }
    exec("".join(f"s.{line}\n" for line in history_text(f).splitlines()), words)
    assert s.fusion == f


def test_unknown_primitive() -> None:
    with pytest.raises(InternalError, match=r"^replay: no primitive swizzle\n"):
        replay(linear(), (PrimitiveCall("swizzle", ("T4",)),))
