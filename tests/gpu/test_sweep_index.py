"""Rows looked up by a sweep, on a GPU."""

from __future__ import annotations

import pytest

from tests.run.test_sweep_index import SAME_ALONG, TYPES, same_along
from wsched.doors.fallback import interpret
from wsched.importer.sweep import import_sweep
from wsched.run.sweep import compiled_sweep

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize("shape", SAME_ALONG)
def test_tables_that_are_the_same_along_other_dimensions(
    shape: tuple[int, ...], dtype: str
) -> None:
    import torch

    definition, inputs = same_along(shape, dtype)
    (found,) = compiled_sweep(import_sweep(definition))(*(t.cuda() for t in inputs))
    assert torch.equal(found.cpu(), interpret(definition, inputs)[0])
