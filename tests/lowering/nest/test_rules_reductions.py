from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.nest.rules.reduction import reduction
from wsched.bench.reductions import definition
from wsched.front.known import import_fusion
from wsched.fusion import ReductionOp


def test_what_is_rounded_behind_the_kernel_is_in_parts() -> None:
    """A kernel that has all of it would leave the largest element as it is."""
    fusion = import_fusion(definition("amax"))
    (e,) = (e for e in fusion.exprs if isinstance(e, ReductionOp))
    place = SimpleNamespace(
        tensor=fusion.tensor(e.output), expr=e, require_box=lambda parallel: None,
        refuse=UnsupportedError,
    )  # fmt: skip
    told = f"{e.output} = {e} as a whole is not supported; supported: rfactor of {e.output}"
    with pytest.raises(UnsupportedError, match=re.escape(told)):
        reduction(cast(Any, place))
