"""Whether wsched takes a call, by what is predicted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doors.dropin.definitions import BUILDERS, F32, built, inputs_of, matrix, torch
from wsched.doors.dropin import decide, decision_of
from wsched.doors.dropin.execute import _recorded
from wsched.front import problems
from wsched.importer import UnfinishedError
from wsched.importer.input_error import InputError


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU tensors are those of an H200; none of them is ever touched."""
    monkeypatch.setattr(decide, "runs_on", lambda device: True)
    monkeypatch.setattr(problems, "MULTIPROCESSORS", 132)


def large(tokens: int, width: int = 4096, hidden: int = 14336) -> list[Any]:
    sizes = (tokens, width), (hidden, width), (hidden,), (width, hidden)
    return [torch.empty(s, dtype=torch.bfloat16) for s in sizes]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tokens", [512, 2048, 8192])
def test_an_mlp_block_is_two_kernels(tokens: int) -> None:
    found = decision_of(built(BUILDERS["mlp"]), large(tokens))
    assert found.taken and found.nvfuser is not None and found.cost is not None
    assert [s.matmul for s in found.segments] == [True, True]
    assert 0.90 < found.cost.us / found.nvfuser.us < 0.95
    assert found.cost.host_us == 12.5 and found.nvfuser.host_us == 36.0


def test_the_cut_with_least_bytes_is_taken() -> None:
    """Gate and up in one kernel, although either would have one of its own."""
    x, w, _, v = large(2048)
    found = decision_of(built(BUILDERS["gated"]), [x, w, w.clone(), v])
    assert [s.outputs for s in found.segments] == [("tv10",), ("tv11",)]
    assert all(s.matmul for s in found.segments)


def test_weights_that_are_put_together_are_read_where_they_lie() -> None:
    """As nvFuser writes a ``cat``, with zeros around each; shares are of the parts."""
    x, w, _, _ = large(2048)
    found = decision_of(built(BUILDERS["put_together"]), [x, w, w[:1024]])
    assert found.taken and [bool(s.join) for s in found.segments] == [False, True]
    assert [s.problem for s in found.shares] == [
        "2048x4096 . 14336x4096", "2048x4096 . 1024x4096",
    ]  # fmt: skip
    assert all(s.reason == "" for s in found.shares)


def test_where_cublas_splits_k_nvfuser_stays() -> None:
    x, w = (torch.empty(r, 4096, dtype=torch.bfloat16) for r in (100, 4096))
    found = decision_of(built(BUILDERS["linear"]), [x, w])
    assert not found.taken and not found.segments
    assert str(found) == (
        "nvFuser runs it: predicted to keep the GPU longer by wsched; predicted 13.5 us (GPU 13.5, "
        "host 8.0), nvFuser's route 19.5 us: matmul by cuBLAS 11.2, other kernels 0.0, on the host "
        "19.5"
    )


def test_rows_that_are_no_multiples_of_16_bytes_are_copied() -> None:
    x, w = (torch.empty(r, 4095, dtype=torch.bfloat16) for r in (4096, 4096))
    found = decision_of(built(BUILDERS["linear"]), [x, w])
    assert found.taken and found.cost is not None and found.nvfuser is not None
    assert found.cost.us < 0.4 * found.nvfuser.us


def test_the_text_of_what_is_taken() -> None:
    found = decision_of(built(BUILDERS["linear"]), inputs_of("linear"))
    assert str(found) == (
        "wsched: linear; predicted 8.0 us (GPU 2.5, host 8.0), nvFuser's route 19.5 us: matmul by "
        "cuBLAS 2.6, other kernels 0.0, on the host 19.5"
    )


@pytest.mark.parametrize("rows", [512, 4096])
def test_a_number_costs_the_host_little(rows: int) -> None:
    given = [torch.empty(rows, rows, dtype=torch.bfloat16) for _ in range(2)]
    found = decision_of(built(BUILDERS["scaled"]), [*given, 0.5])
    assert found.taken and found.cost is not None and found.cost.host_us == 8.0 + 2.5


def test_columns_that_are_apart_are_copied_by_each_call() -> None:
    def build(fd: Any) -> None:
        r = fd.define_tensor(shape=[-1, -1], contiguity=False, dtype=F32)
        fd.add_output(fd.ops.add(fd.ops.linear(matrix(fd), matrix(fd)), r))

    x, w = inputs_of("linear")
    for r, host in ((torch.empty(32, 48)[:, ::2], 17.0), (torch.empty(32, 48)[:, :24], 8.0)):
        found = decision_of(built(build), [r, x, w])
        assert found.cost is not None and found.cost.host_us == host


def pointwise(fd: Any) -> None:
    fd.add_output(fd.ops.add(matrix(fd), 1.0))


def fp32(fd: Any) -> None:
    fd.add_output(fd.ops.linear(matrix(fd, F32), matrix(fd, F32)))


def aliased(fd: Any) -> None:
    x = matrix(fd)
    fd.add_output(fd.ops.linear(x, matrix(fd)))
    fd.add_output(fd.ops.add(x, 1.0), x)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (pointwise, "no linear or matmul"),
        (fp32, "fd.ops.linear of Float and Float is not supported; supported: pairs of Half; of "
         "BFloat16; of TF32; of Float8_e4m3fn, Float8_e5m2; of Int8, UInt8. fp32 is multiplied as "
         "TF32 where torch may do so (torch.backends.cuda.matmul.allow_tf32 and its like), or by "
         "wsched.with_tf32"),
        (aliased, "line 8: tv4 of Float, written into tv0 of BFloat16, is not supported; "
         "supported: outputs of the input's type"),
    ],
)  # fmt: skip
def test_definitions_that_are_never_taken(build: Any, reason: str) -> None:
    assert decision_of(built(build), inputs_of("linear")).reason == reason


def test_inputs_that_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    fd = built(BUILDERS["linear"])
    x, w = inputs_of("linear")

    def reason(*inputs: Any) -> str:
        return decision_of(fd, inputs).reason

    assert reason(x[:0], w) == "a dimension of size 0"
    assert reason(x.as_subclass(Other), w) == (
        "an input of another type is not supported; supported: torch.Tensor and numbers"
    )
    monkeypatch.setattr(decide, "runs_on", lambda device: False)
    assert reason(x, w) == (
        "running on cpu is not supported; supported: a GPU of compute capability 9.0"
    )


class Other(torch.Tensor):
    """A kind of tensor of which nothing is known."""


def test_inputs_that_do_not_fit() -> None:
    x, w = inputs_of("linear")
    with pytest.raises(InputError) as caught:
        decision_of(built(BUILDERS["linear"]), [x, w[:, :32]])
    assert str(caught.value) == "K is 64 in dimension 1 of input 0 and 32 in dimension 1 of input 1"


@pytest.mark.parametrize(
    ("variable", "value"),
    [("NVFUSER_ENABLE", "id_model,fuse_matmul"), ("NVFUSER_DISABLE", "matmul_expr_eval")],
)
def test_who_asks_for_nvfusers_matmuls_gets_them(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    found = decision_of(built(BUILDERS["linear"]), inputs_of("linear"))
    assert found.reason == f"{variable}={value} asks for nvFuser's own matmuls"
    monkeypatch.setenv(variable, "kernel_reuse")
    assert decision_of(built(BUILDERS["linear"]), inputs_of("linear")).taken


def test_a_definition_that_is_not_finished() -> None:
    from tests.doors.dropin.definitions import nvf

    with pytest.raises(UnfinishedError), nvf.FusionDefinition() as fd:
        BUILDERS["linear"](fd)
        decision_of(fd, inputs_of("linear"))


def test_a_cpu_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not decide.runs_on(torch.device("cpu"))


@pytest.mark.parametrize(("capability", "taken"), [((9, 0), True), ((10, 0), False)])
def test_a_gpu_on_which_nothing_has_run_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], taken: bool
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert decide.runs_on(torch.device("cuda")) is taken


def test_autograd_records_tensors_alone() -> None:
    """A number among the inputs asks for no gradients; nor does anything where none are taken."""
    plain, asked = torch.zeros(2), torch.zeros(2, requires_grad=True)
    assert not _recorded([plain, 0.5, 3]) and _recorded([plain, asked])
    with torch.no_grad():
        assert not _recorded([asked])


def test_what_the_prediction_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's tensors by name, which of them stay, their sizes and device."""
    told, real = list[Any](), decide.verdict

    def noted(cutter: Any, call: Any) -> Any:
        told.append(call)
        return real(cutter, call)

    monkeypatch.setattr(decide, "verdict", noted)
    known, inputs = decide.known_of(built(BUILDERS["linear"])), inputs_of("linear")
    assert known.names == ("tv0", "tv1")
    for constants, names in (((), set()), ((1,), {"tv1"}), ((0, 1), {"tv0", "tv1"})):
        decide.decide(known, inputs, constants)
        (call,) = told
        told.clear()
        assert call.constants == names and call.device == torch.device("cpu")
        assert list(call.given) == ["tv0", "tv1"] and call.given["tv1"] is inputs[1]
        assert sorted(call.sizes.values()) == [24, 32, 64]
