"""Which operations go into which segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.conftest import Golden
from tests.doors.dropin.definitions import BF16, BUILDERS, F32, built, matrix, torch
from wsched.doors.dropin.segments import Epilogues, Segment, cut
from wsched.doors.dropin.tensors import tensor_types
from wsched.doors.fallback import interpret, rebuild
from wsched.importer import definition_of


def segments(build: Callable[[Any], None], epilogues: Epilogues) -> tuple[Segment, ...]:
    fd = built(build)
    return cut(definition_of(fd), tensor_types(fd.fusion), epilogues)


def shown(found: tuple[Segment, ...]) -> str:
    lines = []
    for s in found:
        ops = [n.op for n in s.definition.nodes if not n.op.startswith("define_")]
        who = "wsched" if s.matmul else "nvFuser"
        lines.append(f"{who}: {', '.join(s.inputs)} -> {', '.join(s.outputs)}: {' '.join(ops)}")
    return "\n".join(lines)


@pytest.mark.parametrize("epilogues", Epilogues, ids=lambda e: e.name)
@pytest.mark.parametrize("name", BUILDERS)
def test_cuts(name: str, epilogues: Epilogues, golden: Golden) -> None:
    assert shown(segments(BUILDERS[name], epilogues)) == golden


def test_what_a_segment_makes_is_declared_by_its_reader() -> None:
    found = segments(BUILDERS["normed"], Epilogues.NONE)
    declared = found[1].definition.node("tv2")
    assert declared is not None and declared.kwargs[:2] == (
        ("shape", (-1, -1)),
        ("contiguity", (True, True)),
    )


@pytest.mark.parametrize("epilogues", Epilogues, ids=lambda e: e.name)
@pytest.mark.parametrize("name", BUILDERS)
def test_segments_are_definitions_of_nvfuser(name: str, epilogues: Epilogues) -> None:
    for segment in segments(BUILDERS[name], epilogues):
        made = rebuild(segment.definition)
        assert len(made.fusion.outputs()) == len(segment.outputs)
        assert [n.op for n in definition_of(made).nodes if n.op == "linear"] == [
            n.op for n in segment.definition.nodes if n.op == "linear"
        ]


def test_segments_one_after_the_other_are_the_whole() -> None:
    from tests.doors.dropin.definitions import inputs_of

    for name, build in BUILDERS.items():
        inputs = inputs_of(name)
        fd = built(build)
        whole = definition_of(fd)
        wanted = interpret(whole, inputs)
        for epilogues in Epilogues:
            values = dict(zip((n.results[0] for n in whole.inputs), inputs, strict=True))
            for s in cut(whole, tensor_types(fd.fusion), epilogues):
                results = interpret(s.definition, [values[n] for n in s.inputs])
                values |= dict(zip(s.outputs, results, strict=True))
            for n, w in zip(whole.outputs, wanted, strict=True):
                assert torch.equal(values[n], w), (name, epilogues, n)


def test_of_an_epilogue_as_much_as_there_is_a_kernel_for() -> None:
    """An operand is not read again by the epilogue; what comes before that is in the kernel."""

    def build(fd: Any) -> None:
        x = matrix(fd)
        y = fd.ops.cast(fd.ops.relu(fd.ops.linear(x, matrix(fd))), dtype=F32)
        fd.add_output(fd.ops.mul(y, x))

    assert shown(segments(build, Epilogues.ALL)).splitlines() == [
        "wsched: tv0, tv1 -> tv3: linear relu",
        "nvFuser: tv0, tv3 -> tv6: cast cast mul",
    ]


# --- what is refused ------------------------------------------------------------------------------


def refusal(build: Callable[[Any], None]) -> str:
    texts = set()
    for epilogues in Epilogues:
        with pytest.raises(UnsupportedError) as caught:
            segments(build, epilogues)
        texts.add(str(caught.value))
    (text,) = texts
    return text


def test_no_matmul_of_ours() -> None:
    def build(fd: Any) -> None:
        fd.add_output(fd.ops.linear(matrix(fd, F32), matrix(fd, F32)))

    assert refusal(build) == (
        "fd.ops.linear of Float and Float is not supported; supported: BFloat16 and BFloat16, "
        "Half and Half"
    )


def test_a_result_that_is_permuted() -> None:
    """nvFuser makes it a view of the product; its strides are another matrix' than ours."""

    def build(fd: Any) -> None:
        fd.add_output(fd.ops.permute(fd.ops.linear(matrix(fd), matrix(fd)), [1, 0]))

    assert refusal(build) == (
        "fd.ops.permute of a result is not supported; supported: of operands; stride_order of an "
        "output"
    )


def test_an_input_as_output() -> None:
    def build(fd: Any) -> None:
        x = matrix(fd)
        fd.add_output(fd.ops.linear(x, matrix(fd)))
        fd.add_output(x)

    assert refusal(build) == (
        "the input tv0 as output is not supported; supported: computed outputs"
    )


def test_an_output_given_twice() -> None:
    def build(fd: Any) -> None:
        y = fd.ops.linear(matrix(fd), matrix(fd))
        fd.add_output(y)
        fd.add_output(y)

    assert refusal(build) == (
        "an output that is given twice is not supported; supported: different outputs"
    )


@pytest.mark.parametrize("several", [False, True])
def test_another_stride_order(several: bool) -> None:
    """nvFuser takes the order of results from the inputs'; only operands leave it as it is."""

    def build(fd: Any) -> None:
        x = matrix(fd)
        by_columns = fd.define_tensor(
            shape=[-1, -1], contiguity=True, dtype=BF16, stride_order=[0, 1]
        )
        if several:
            y = fd.ops.linear(fd.ops.linear(x, by_columns), matrix(fd))
        else:
            y = fd.ops.cast(fd.ops.add(fd.ops.linear(x, matrix(fd)), by_columns), dtype=BF16)
        fd.add_output(y)

    assert refusal(build) == (
        "an input with another stride order in a definition of several segments is not supported; "
        "supported: row-major"
        if several
        else "tv1 with another stride order is not supported; supported: for operands of a matmul "
        "only"
    )


def test_an_operand_by_columns_alone() -> None:
    def build(fd: Any) -> None:
        w = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=BF16, stride_order=[0, 1])
        fd.add_output(fd.ops.relu(fd.ops.linear(matrix(fd), w)))

    assert [s.matmul for s in segments(build, Epilogues.ALL)] == [True]


def test_an_operation_that_nvfuser_may_not_run_apart() -> None:
    def build(fd: Any) -> None:
        y = fd.ops.linear(matrix(fd), matrix(fd))
        fd.add_output(fd.ops.cumsum(fd.ops.cast(y, dtype=F32), 1))

    assert refusal(build) == (
        "fd.ops.cumsum beside a matmul is not supported; supported: pointwise and reductions"
    )


def test_a_tensor_on_the_cpu() -> None:
    def build(fd: Any) -> None:
        s = fd.define_tensor(shape=[], contiguity=[], dtype=F32, is_cpu=True)
        fd.add_output(fd.ops.mul(fd.ops.linear(matrix(fd), matrix(fd)), s))

    assert refusal(build) == "tv0 with is_cpu=True is not supported; supported: tensors on the GPU"
