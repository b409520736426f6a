"""What a user reads when the tensors, the definition or the parameters do not fit: full texts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError, WschedError
from passes.pipeline import PASSES
from tests.schedules import SCHEDULES, cooperative, definition, dynamic
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")

BF16 = torch.bfloat16


def zeros(*shape: int, dtype: Any = BF16) -> Any:
    return torch.zeros(shape, dtype=dtype)


X, W = zeros(16, 64), zeros(24, 64)
FIXED = definition().replace("[-1, -1]", "[-1, 64]")


@pytest.mark.parametrize(
    ("text", "inputs", "message"),
    [
        (definition(), [X], "1 inputs, the definition has 2"),
        (definition(), [X, 3], "input 1 is a int, not a torch.Tensor"),
        (
            definition(),
            [X.half(), W],
            "input 0 is torch.float16, the definition says torch.bfloat16",
        ),
        (definition(), [X[0], W], "input 0 has shape [64], the definition has 2 dimensions"),
        (
            definition(),
            [X, W[:, :56]],
            "K is 64 in dimension 1 of input 0 and 56 in dimension 1 of input 1",
        ),
        (
            FIXED,
            [X[:, :8], W[:, :8]],
            "dimension 1 of input 0 is 8, the definition says 64",
        ),
        (
            definition(),
            [X, W.to("meta")],
            "inputs are on cpu and meta, not on one device",
        ),
    ],
)
def test_inputs_that_do_not_fit(text: str, inputs: list[Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        wsched.execute(text, inputs)
    assert str(caught.value) == message


OTHERS = definition().replace("linear(x", "linear(w")
"""Taken by nvFuser or torch."""


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("text", [definition(), OTHERS])
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_tensors(text: str, layout: str) -> None:
    """Some of which raise where torch is asked for their strides."""
    sparse = X.to_sparse(layout=getattr(torch, layout))
    for call in (wsched.execute, wsched.explain):
        with pytest.raises(InputError) as caught:
            call(text, [sparse, W])
        assert str(caught.value) == (
            f"input 0 is a tensor of layout torch.{layout}, not torch.strided"
        )


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_a_sparse_tensor_for_a_kernel_that_is_there() -> None:
    kernel = wsched.compile(definition(), [X, W])
    with pytest.raises(InputError, match=r"input 0 is a tensor of layout torch\.sparse_csr"):
        kernel(X.to_sparse_csr(), W)


@pytest.mark.slow
def test_nested_tensors() -> None:
    nested = torch.nested.nested_tensor([X, X], layout=torch.jagged)
    for text in (definition(), OTHERS):
        with pytest.raises(InputError, match=r"input 0 is a tensor of layout nested, not torch\."):
            wsched.execute(text, [nested, W])


def test_a_number_that_no_argument_holds() -> None:
    text = definition().replace("    fd.add_output(d)", (
        "    s = fd.define_scalar(None, dtype=DataType.Double)\n    y = fd.ops.mul(d, s)\n"
        "    fd.add_output(y)"
    ))  # fmt: skip
    for call in (wsched.execute, wsched.explain):
        with pytest.raises(InputError) as caught:
            call(text, [X, W, 10**400])
        assert str(caught.value) == ("input 2 is a whole number of 1329 bits, which 64 do not hold")


def test_a_device_without_a_kernel() -> None:
    """The kernel refuses it; ``wsched.execute`` goes another way (test_route)."""
    inputs = [X.to("meta"), W.to("meta")]
    with pytest.raises(UnsupportedError) as caught:
        wsched.compile(definition(), inputs)(*inputs)
    assert str(caught.value) == (
        "running on meta is not supported; supported: tensors on cuda or cpu"
    )


def test_an_input_in_another_order_than_the_kernels() -> None:
    kernel = wsched.compile(definition(), [X, W])
    with pytest.raises(UnsupportedError) as caught:
        kernel(zeros(64, 16).T, W)
    assert str(caught.value) == (
        "input 0 with stride 16 along K is not supported; supported: K contiguous (stride 1). "
        "A kernel is for one order of memory: compile one for these inputs"
    )


def test_too_large_for_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.001")
    inputs = [zeros(2048, 512), zeros(2048, 512)]
    name = wsched.compile(definition(), inputs, params=SCHEDULES["coop_128x256"]).kernel.name
    with pytest.raises(UnsupportedError) as caught:
        wsched.execute(definition(), inputs, params=SCHEDULES["coop_128x256"])
    # How long it takes is an estimate, calibrated elsewhere.
    text = re.sub(r"(more than|about) [\d.]+ s", "about N s", str(caught.value))
    assert text == (
        f"a run of {name} on the machine that takes about N s is not supported; supported: runs of "
        "up to 0.001 s. Take a smaller problem, or raise the limit: limit_seconds or "
        "WSCHED_MACHINE_SECONDS"
    )


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ([], "out has 0 tensors, the definition has 1 outputs"),
        (3, "out is a int, not a torch.Tensor"),
        ([None], "out[0] is a NoneType, not a torch.Tensor"),
        ([zeros(16, 24)] * 2, "out has 2 tensors, the definition has 1 outputs"),
        (
            [zeros(16, 24, dtype=torch.float32)],
            "out[0] is torch.float32 [16, 24] on cpu, the result is torch.bfloat16 [16, 24] on cpu",
        ),
        (
            [zeros(24, 16)],
            "out[0] is torch.bfloat16 [24, 16] on cpu, the result is torch.bfloat16 [16, 24] on "
            "cpu",
        ),
        (
            [zeros(16, 24).to("meta")],
            "out[0] is torch.bfloat16 [16, 24] on meta, the result is torch.bfloat16 [16, 24] on "
            "cpu",
        ),
    ],
)
def test_outputs_that_do_not_fit(out: Any, message: str) -> None:
    kernel = wsched.compile(definition(), [X, W])
    with pytest.raises(InputError) as caught:
        kernel(X, W, out=out)
    assert str(caught.value) == message


def test_an_output_by_columns() -> None:
    kernel = wsched.compile(definition(), [X, W])
    with pytest.raises(UnsupportedError) as caught:
        kernel(X, W, out=[zeros(24, 16).T])
    assert str(caught.value) == (
        "output 0 with stride 16 along N is not supported; supported: N contiguous (stride 1)"
    )


@pytest.mark.parametrize(("thing", "kind"), [(3, "int"), ([], "list"), (None, "NoneType")])
def test_something_else_than_a_definition(thing: Any, kind: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        wsched.execute(thing, [X, W])
    assert str(caught.value) == (
        f"a definition of type builtins.{kind} is not supported; supported: "
        "nvfuser_direct.FusionDefinition, or its text (repr(fd)) as a string"
    )


def test_a_size_that_no_coordinate_reaches() -> None:
    inputs = [zeros(8).expand(1 << 31, 8), zeros(8, 8)]
    with pytest.raises(UnsupportedError) as caught:
        wsched.compile(definition(), [zeros(8, 8)] * 2).bind(*inputs)
    assert str(caught.value) == (
        "M = 2147483648 is not supported; supported: sizes of at most 2130706431"
    )


def test_a_size_that_a_kernel_cannot_count() -> None:
    """Rows lie over each other: no memory of that size."""
    side = 46344
    one = zeros(9 * side).as_strided((side, side), (8, 1))
    params = dynamic(cooperative(64, 16, 16, groups=1, registers=None))
    kernel = wsched.compile(definition(), [one, one], params=params)
    with pytest.raises(UnsupportedError) as caught:
        kernel.admit([one, one])
    steps = 725 * 2897 * 2897
    assert str(caught.value) == (
        f"46344 x 46344 x 46344 on 4 CTAs, one of which counts {steps} steps, is not supported; "
        "supported: at most 2130706431. Take larger tiles, or more CTAs where each has tiles of "
        "its own"
    )


def test_another_operation() -> None:
    text = definition().replace("fd.ops.linear(x, w)", "fd.ops.add(x, w)")
    with pytest.raises(UnsupportedError) as caught:
        wsched.compile(text, [X, W])
    assert str(caught.value) == (
        "a fusion with no fd.ops.linear or fd.ops.matmul is not supported; supported: one of them"
    )


@pytest.mark.parametrize("call", [wsched.execute, wsched.compile, wsched.explain])
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (X, "inputs is a Tensor, not a list of tensors; write [x] for a tensor x"),
        (None, "inputs is a NoneType, not a list of tensors and numbers"),
        (iter([X, W]), "inputs is a list_iterator, not a list of tensors and numbers"),
    ],
)
def test_inputs_that_are_no_list(call: Any, inputs: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        call(definition(), inputs)
    assert str(caught.value) == message


def test_a_limit_of_the_machine_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "abc")
    with pytest.raises(WschedError) as caught:
        wsched.execute(definition(), [X, W])
    assert str(caught.value) == (
        "WSCHED_MACHINE_SECONDS=abc: use a number of seconds, 0 or more, for example 60 or 0.5"
    )


def test_parameters_of_another_type() -> None:
    with pytest.raises(InputError) as caught:
        wsched.execute(definition(), [X, W], params={})  # type: ignore[arg-type]
    assert str(caught.value) == "params is a dict, not a MatmulParams"


def test_illegal_parameters() -> None:
    params = replace(SCHEDULES["coop_128x256"], wgmma_in_flight=2)
    with pytest.raises(ScheduleError) as caught:
        wsched.execute(definition(), [X, W], params=params)
    assert str(caught.value) == (
        "ScheduleError[params]: MatmulParams(cta_tile=128x256x64, warp_tile=64x256x64, ...): "
        "smem_circular_buffer_prefetch_gap=2 leaves 1 wgmma groups in flight, wgmma_in_flight=2"
    )


def test_an_unknown_stage_of_the_dump() -> None:
    with pytest.raises(InputError) as caught:
        wsched.compile(definition(), [X, W]).dump("llvm")
    passes = ", ".join(p.__name__ for p in PASSES)
    assert str(caught.value) == (
        f"no stage 'llvm'; there are: fusion, subdags, dot, loops, lower, {passes}, kernel, cuda, "
        "ptx, sass, mlir, mlir-nvgpu"
    )


@pytest.mark.parametrize(
    ("op", "said"),
    [
        (
            "reshape(x, new_shape=[4, 4])",
            "fd.ops.reshape of [[3, 5]]: shape '[4, 4]' is invalid for input of size 15",
        ),
        ("cat([x, w], dim=0)", "fd.ops.cat of []: Sizes of tensors must match except in dimension"),
    ],
)
def test_an_explanation_of_what_nobody_runs_is_refused(op: str, said: str) -> None:
    """As the call, whoever would run it: torch says so of tensors that have no memory."""
    text = (
        "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
        "    x = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)\n"
        "    w = fd.define_tensor(shape=[-1, -1], dtype=DataType.Float)\n"
        f"    y = fd.ops.{op}\n"
        "    fd.add_output(fd.ops.triu(y, 1))\n"
    )
    inputs = [torch.zeros(3, 5), torch.zeros(4, 4)]
    for ask in (wsched.explain, wsched.execute):
        with pytest.raises(InputError) as error:
            ask(text, inputs)
        assert str(error.value).startswith(f"line 4: {said}")
    assert wsched.explain(text, [torch.zeros(2, 8), torch.zeros(4, 8)]).route == "torch"


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_a_tensor_that_has_shapes_alone() -> None:
    """Torch's own errors would come from within."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    fake = [mode.from_tensor(t) for t in (X, W)]
    told = "running on a FakeTensor without memory is not supported"
    with pytest.raises(UnsupportedError, match=told):
        wsched.execute(definition(), fake)
    with pytest.raises(UnsupportedError, match=told):
        wsched.compile(definition(), [X, W])(*fake)


def test_a_product_of_no_tensor_of_the_callers() -> None:
    """What is on no device has no kernel; torch has it."""
    text = (
        "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
        "    o = fd.ops.full([16, 24], fill_value=2.0, dtype=DataType.BFloat16)\n"
        "    fd.add_output(fd.ops.linear(o, o))\n"
    )
    (found,) = wsched.execute(text, [])
    assert (found == 96).all() and found.shape == (16, 16)
    assert "a definition that reads no tensor is not supported" in str(wsched.explain(text, []))
