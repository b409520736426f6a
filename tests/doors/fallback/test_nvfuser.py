"""A definition made again through nvFuser's own functions; nothing of a text is executed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.doors.fallback import execute, rebuild
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

GELU = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv1 = fd.define_tensor(shape=[-1, 64], contiguity=[True, True], dtype=DataType.BFloat16)
    tv2 = fd.ops.linear(tv0, tv1)
    tv3 = fd.ops.cast(tv2, dtype=DataType.Float)
    tv4 = fd.ops.mul(tv3, 0.044715)
    tv5, tv6, tv7 = fd.ops.welford(tv4, dims=[1])
    tv9 = fd.ops.gt(tv3, 0.0)
    tv8 = fd.ops.where(tv9, tv3, tv4)
    fd.add_output(tv8)
    fd.add_output(tv5)
"""


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct")


@pytest.mark.parametrize("op", ["linear", "matmul", "matmul_t"])
@pytest.mark.parametrize("result", ["bf16", "f16", "f32"])
def test_prints_as_before(nvf: Any, op: str, result: str) -> None:
    first = repr(rebuild(record_text(definition("bf16", result, op, rounded=True))))
    assert repr(rebuild(record_text(first))) == first


def test_several_results_and_names_assigned_again(nvf: Any) -> None:
    text = GELU.replace(
        "    fd.add_output(tv8)", "    tv8 = fd.ops.neg(tv8)\n    fd.add_output(tv8)"
    )
    fd = rebuild(record_text(text))
    assert [str(v.dtype()).split(".")[1].split(":")[0] for v in fd.fusion.outputs()] == [
        "Float",
        "Float",
    ]
    assert "neg" in repr(fd) and "welford" in repr(fd)


def refusal(text: str) -> str:
    with pytest.raises(UnsupportedError) as caught:
        rebuild(record_text(text))
    return str(caught.value)


def test_an_operation_that_nvfuser_does_not_have(nvf: Any) -> None:
    assert refusal(definition().replace("fd.ops.linear", "fd.ops.frobnicate")) == (
        "fd.ops.frobnicate by this nvFuser is not supported; supported: operations that it has"
    )


def test_a_call_that_nvfuser_refuses(nvf: Any, capfd: pytest.CaptureFixture[str]) -> None:
    text = definition().replace("fd.ops.linear(x, w)", "fd.ops.permute(x, dims=[0, 1, 2])")
    assert refusal(text).startswith("line 4: fd.ops.permute by nvFuser (Expected ")
    assert capfd.readouterr() == ("", "")


def test_nvfuser_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvfuser_direct", None)
    assert refusal(definition()) == (
        "nvFuser, which is not installed (import of nvfuser_direct halted; None in sys.modules), "
        "is not supported; supported: other routes"
    )


class Definition:
    """Raises what it is told to."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def execute(self, inputs: list[Any]) -> list[Any]:
        raise self.error


@pytest.mark.parametrize(
    "error", [RuntimeError("no scheduler\nmore"), NotImplementedError("no scheduler")]
)
def test_what_nvfuser_cannot_run_is_unsupported(error: Exception) -> None:
    with pytest.raises(UnsupportedError) as caught:
        execute(Definition(error), [])
    assert str(caught.value) == (
        "this definition by nvFuser (no scheduler) is not supported; supported: what nvFuser takes"
    )


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUDA error: misaligned address")],
)
def test_faults_of_the_device_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        execute(Definition(error), [])
    assert caught.value is error


@pytest.mark.gpu
def test_on_a_gpu(nvf: Any) -> None:
    import wsched

    x, w = (torch.randint(-2, 3, (n, 64), device="cuda").float() for n in (16, 24))
    text = definition().replace("BFloat16", "Float")  # fp32 is nvFuser's as long as nobody asks
    wanted = x @ w.T
    assert wsched.explain(text, [x, w]).route == "nvfuser"
    assert torch.equal(wsched.execute(text, [x, w])[0], wanted)
    fd = rebuild(record_text(text))
    assert torch.equal(wsched.execute(fd, [x, w])[0], wanted)
