"""All registers of a kernel are written."""

from __future__ import annotations

from itertools import islice

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.unwritten import unwritten
from tests.lowering.machine.conversions import conversions
from tests.replay import cases
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion

SHARES = 8


def test_what_is_found() -> None:
    text = emit_cuda(parse_kernel(conversions("bf16", 1)))
    assert unwritten(text) == []
    line = "wide[r] = ptx::cvt_f32_bf16<0>(x_2[r]);"
    assert line in text
    assert unwritten(text.replace(line, line.replace("[r]", "[0]"))) == ["wide[1]"]


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_of_every_schedule(share: int) -> None:
    made = 0
    for name, text, params in islice(cases(), share, None, SHARES):
        try:
            source = compile_fusion(build_fusion(record_text(text)), params).source
        except (ScheduleError, UnsupportedError):
            continue
        made += 1
        assert unwritten(source) == [], name
    assert made > 50
