"""A pytest plugin, ``-p tests.gpu.memory_returned``: GPU memory goes back after every test.

torch keeps what a test had, up to tens of GiB of some of nvFuser's, from the processes beside it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

__all__ = ["pytest_runtest_teardown"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Give back what nobody holds once the test's fixtures are gone."""
    yield
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
