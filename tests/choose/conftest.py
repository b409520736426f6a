"""What tests of the cost model share."""

from collections.abc import Iterator

import pytest

from wsched.choose.heuristics import _searched, candidates
from wsched.choose.learned import order


@pytest.fixture
def by_laws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Choices by the laws alone, as where nobody has measured."""
    monkeypatch.setattr(order, "_is_known", lambda problem: False)
    for kept in (candidates, _searched):
        kept.cache_clear()
    yield
    for kept in (candidates, _searched):
        kept.cache_clear()
