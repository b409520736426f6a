"""What ``import wsched`` offers: names, completion, types."""

from __future__ import annotations

from pathlib import Path

import pytest

import wsched


def test_public_names_are_offered() -> None:
    assert dir(wsched) == sorted(wsched.__all__) and len({*wsched.__all__}) == len(wsched.__all__)


@pytest.mark.slow
def test_public_names_are_there() -> None:
    """They are imported when they are used; one that has moved would be found by users alone."""
    pytest.importorskip("torch")
    assert [name for name in wsched.__all__ if getattr(wsched, name, None) is None] == []


def test_a_name_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking takes as long as all else in front of a launch that has been prepared."""
    tile = wsched.GemmTile
    monkeypatch.setattr(wsched, "import_module", lambda name: pytest.fail(f"{name} again"))
    assert wsched.GemmTile is tile


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'wsched' has no attribute 'exekute'"):
        _ = wsched.exekute


def test_types_are_for_type_checkers() -> None:
    assert Path(wsched.__file__).with_name("py.typed").is_file()
