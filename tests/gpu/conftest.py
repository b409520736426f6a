"""The tests of the kernels on a real GPU (compute capability 9.0).

From the root of the repository, with any Python that has torch, pytest and the requirements of
wsched (nvFuser is not needed)::

    WSCHED_CACHE_DIR=/tmp/wsched-cubins python -m pytest tests/gpu -m gpu -rA -p no:cacheprovider

``WSCHED_CACHE_DIR`` may be left out where platformdirs is installed. One process only: a second
one on the same GPU changes nothing but the times. A test that hangs ends the process with a line
that names it, exit status 3. More launches of the same kind, as a script::

    python -m wsched stress --seconds 300 --seed 1
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.gpu.watchdog import watchdog

SECONDS = 60.0


@pytest.fixture(scope="session")
def terminal(request: pytest.FixtureRequest) -> Iterator[int]:
    """The real standard error, which pytest's capture has replaced."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        file = os.dup(2)
    yield file
    os.close(file)


@pytest.fixture(autouse=True)
def no_hang(request: pytest.FixtureRequest, terminal: int) -> Iterator[None]:
    """Every test of this folder ends, one way or the other."""
    with watchdog(SECONDS, request.node.nodeid, terminal):
        yield
