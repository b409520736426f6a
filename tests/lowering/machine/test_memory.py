"""The two views of shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.machine.errors import FaultError
from lowering.machine.memory import SHARED_BASE, SharedMemory

CHUNK = np.array([SHARED_BASE // 16])
WORDS = np.array([SHARED_BASE // 8, SHARED_BASE // 8 + 1])
POISON, ONES = [0xFFFF_FFFF_FFFF_FFFF] * 2, [1, 1]


def test_generic_writes_wait_for_the_fence() -> None:
    memory = SharedMemory(64)
    memory.write_words(WORDS, np.array(ONES, np.uint64))
    assert memory.read_chunks(CHUNK).tolist() == [POISON]
    memory.publish(WORDS)
    assert memory.read_chunks(CHUNK).tolist() == [ONES]


def test_loads_are_seen_by_both() -> None:
    memory = SharedMemory(64)
    memory.land(CHUNK, np.array([ONES], np.uint64))
    assert memory.read_chunks(CHUNK).tolist() == [ONES]
    assert memory.generic[WORDS].tolist() == ONES


def test_faults() -> None:
    memory = SharedMemory(64, barriers=(48,))
    with pytest.raises(FaultError) as error:
        memory.land(CHUNK + 4, np.zeros((1, 2), np.uint64))
    assert str(error.value) == "offset 64 lies outside the 64 bytes of shared memory"
    with pytest.raises(FaultError) as error:
        memory.read_chunks(CHUNK + 9)
    assert str(error.value) == "offset 144 lies outside the 64 bytes of shared memory"
    with pytest.raises(FaultError) as error:
        memory.write_words(WORDS + 6, np.zeros(2, np.uint64))
    assert str(error.value) == "the bytes of an mbarrier at offset 48 would be overwritten"


def test_words_around_an_mbarrier_are_nobodys() -> None:
    """It is 8 bytes: a word may be written in front of it and behind it."""
    memory = SharedMemory(64, barriers=(48,))
    for offset in (44, 56):
        memory.write_word(SHARED_BASE + offset, offset)
        assert memory.read_word(SHARED_BASE + offset) == offset
    for offset in (48, 52):
        with pytest.raises(FaultError) as error:
            memory.write_word(SHARED_BASE + offset, 1)
        assert str(error.value) == "the bytes of an mbarrier at offset 48 would be overwritten"


def test_words_up_to_the_last() -> None:
    memory = SharedMemory(60)
    assert memory.read_word(SHARED_BASE + 56) is None  # nobody has written it
    memory.write_word(SHARED_BASE + 56, -1)
    assert memory.read_word(SHARED_BASE + 56) == -1
    for access in (memory.read_word, lambda at: memory.write_word(at, 0)):
        with pytest.raises(FaultError, match="offset 60 lies outside the 60 bytes"):
            access(SHARED_BASE + 60)
