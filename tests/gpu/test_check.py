"""What ``wsched run`` compares a kernel with, where that runs on a GPU."""

from __future__ import annotations

import pytest

from tests.cli.test_check import of_words
from wsched.cli.check import check, sized_inputs
from wsched.front.sizes import kernel_for

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("group", [0, 32])
def test_weights_in_words(group: int) -> None:
    """The reference multiplies rows on the GPU by weights that NumPy has widened and scaled."""
    text, extents = of_words(group)
    kernel = kernel_for(text, extents)
    assert check(kernel, sized_inputs(kernel, extents, 0, "cuda")).passed
