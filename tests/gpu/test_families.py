"""A kernel or more of each family on the GPU, against the machine."""

from __future__ import annotations

import pytest

from tests.gpu.families import loaded, ran, wrong
from tests.mutants.subjects import HOPPER, subject

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", HOPPER)
def test_as_the_machine(name: str) -> None:
    right = subject(name)
    kernel = loaded(right)
    assert not any(wrong(right, each, ran(kernel, each)) for each in right.launches)
