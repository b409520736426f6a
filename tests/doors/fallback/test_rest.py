"""A part that nvFuser refuses when it runs is torch's from then on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.doors.dropin.definitions import BUILDERS, built, inputs_of
from tests.doors.dropin.spy import Spy, nvfuser
from wsched.doors.dropin.report import report
from wsched.doors.fallback import NvfuserError, interpret, or_torch
from wsched.importer import definition_of, record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

__all__ = ["nvfuser"]

TEXT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    y = fd.ops.neg(x)
    fd.add_output(y)
"""


def refusing(_: Sequence[Any]) -> list[Any]:
    raise NvfuserError("this definition by nvFuser (bfs.h:261)", "what nvFuser takes")


def test_one_refusal_is_enough() -> None:
    asked = []

    def asking(values: Sequence[Any]) -> list[Any]:
        asked.append(values)
        return refusing(values)

    run = or_torch(record_text(TEXT), asking)
    x = torch.ones(2, 3)
    assert [run([x])[0].tolist() for _ in range(3)] == [(-x).tolist()] * 3
    assert len(asked) == 1


def test_what_torch_has_not_is_refused() -> None:
    text = TEXT.replace("neg", "rand_like")
    with pytest.raises(UnsupportedError) as error:
        or_torch(record_text(text), refusing)([torch.ones(2, 3)])
    assert str(error.value) == (
        "this definition by nvFuser (bfs.h:261) is not supported; supported: what nvFuser takes"
    )


def test_install_runs_what_nvfuser_fails_at(nvfuser: Spy) -> None:
    """Both a part and the whole end with an error of nvFuser's own; the matmul is wsched's."""
    fd, inputs = built(BUILDERS["centred_before"]), inputs_of("centred_before")
    wanted = interpret(definition_of(fd), inputs)
    nvfuser.error = RuntimeError("INTERNAL ASSERT FAILED at bfs.h:261")
    report(clear=True)
    with wsched.enabled():
        for _ in range(2):
            (found,) = fd.execute(inputs)
            torch.testing.assert_close(found, wanted[0], rtol=2**-6, atol=2**-6)
    assert [c[0] is fd for c in nvfuser.calls] == [False, True]
    assert report().taken == 2


def test_a_fault_of_the_device_is_told(nvfuser: Spy) -> None:
    fd, inputs = built(BUILDERS["centred_before"]), inputs_of("centred_before")
    nvfuser.error = RuntimeError("CUDA error: an illegal memory access was encountered")
    with wsched.enabled(), pytest.raises(RuntimeError, match="illegal memory access"):
        fd.execute(inputs)
    assert len(nvfuser.calls) == 1
