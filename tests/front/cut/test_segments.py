"""Which operations go into which segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.conftest import Golden
from tests.doors.dropin.definitions import BF16, BUILDERS, F32, built, matrix, nvf, torch
from wsched.doors.fallback import interpret, rebuild
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter, Segment
from wsched.importer import definition_of

WAYS = (Take.ALL, Take.NARROW, Take.NONE)


def segments(build: Callable[[Any], None], take: Take) -> tuple[Segment, ...]:
    return Cutter(definition_of(built(build))).all(take).segments


def shown(found: tuple[Segment, ...]) -> str:
    lines = []
    for s in found:
        ops = [n.op for n in s.definition.nodes if not n.op.startswith("define_")]
        who = "wsched" if s.matmul else "nvFuser"
        lines.append(f"{who}: {', '.join(s.inputs)} -> {', '.join(s.outputs)}: {' '.join(ops)}")
    return "\n".join(lines)


@pytest.mark.parametrize("take", WAYS, ids=lambda e: e.name)
@pytest.mark.parametrize("name", BUILDERS)
def test_cuts(name: str, take: Take, golden: Golden) -> None:
    assert shown(segments(BUILDERS[name], take)) == golden


def test_what_cuts_have_in_common_is_made_once() -> None:
    """A search asks for a cut for each matmul and take: what none of them changes is the same."""
    cutter = Cutter(definition_of(built(BUILDERS["mlp"])))
    first, last = (s for s in cutter.all(Take.ALL).segments if s.matmul)
    other = cutter.cut((Take.NONE, Take.ALL)).segments
    assert other[-1] is last and first not in other


def test_what_a_segment_makes_is_declared_by_its_reader() -> None:
    found = segments(BUILDERS["normed"], Take.NONE)
    declared = found[1].definition.node("tv2")
    assert declared is not None and declared.kwargs[:2] == (
        ("shape", (-1, -1)),
        ("contiguity", (True, True)),
    )


@pytest.mark.parametrize("take", WAYS, ids=lambda e: e.name)
@pytest.mark.parametrize("name", BUILDERS)
def test_segments_are_definitions_of_nvfuser(name: str, take: Take) -> None:
    for segment in segments(BUILDERS[name], take):
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
        for take in WAYS:
            values = dict(zip((n.results[0] for n in whole.inputs), inputs, strict=True))
            for s in Cutter(whole).all(take).segments:
                results = interpret(s.definition, [values[n] for n in s.inputs])
                values |= dict(zip(s.outputs, results, strict=True))
            for n, w in zip(whole.outputs, wanted, strict=True):
                assert torch.equal(values[n], w), (name, take, n)


def test_of_an_epilogue_as_much_as_there_is_a_kernel_for() -> None:
    """Integers are not read by the epilogue; what comes before that is in the kernel."""

    def build(fd: Any) -> None:
        y = fd.ops.relu(fd.ops.linear(matrix(fd), matrix(fd)))
        n = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=nvf.DataType.Int)
        fd.add_output(fd.ops.mul(fd.ops.cast(y, dtype=F32), n))

    assert shown(segments(build, Take.ALL)).splitlines() == [
        "wsched: tv0, tv1 -> tv3: linear relu",
        "nvFuser: tv4, tv3 -> tv7: cast cast mul",
    ]


# --- what is refused ------------------------------------------------------------------------------


def refusal(build: Callable[[Any], None]) -> str:
    texts = set()
    for take in WAYS:
        with pytest.raises(UnsupportedError) as caught:
            segments(build, take)
        texts.add(str(caught.value))
    (text,) = texts
    return text


def test_no_matmul_of_ours() -> None:
    def build(fd: Any) -> None:
        fd.add_output(fd.ops.linear(matrix(fd, F32), matrix(fd, F32)))

    assert refusal(build) == (
        "fd.ops.linear of Float and Float is not supported; supported: pairs of Half; of "
        "BFloat16; of TF32; of Float8_e4m3fn, Float8_e5m2; of Int8, UInt8. fp32 is multiplied as "
        "TF32 where torch may do so (torch.backends.cuda.matmul.allow_tf32 and its like), or by "
        "wsched.with_tf32"
    )


def test_a_result_that_is_permuted() -> None:
    """nvFuser makes it a view of the product; it makes one of ours as well."""

    def build(fd: Any) -> None:
        fd.add_output(fd.ops.permute(fd.ops.linear(matrix(fd), matrix(fd)), [1, 0]))

    assert shown(segments(build, Take.ALL)).splitlines() == [
        "wsched: tv0, tv1 -> tv2: linear",
        "nvFuser: tv2 -> tv3: permute",
    ]


def test_a_result_that_is_permuted_and_computed_with() -> None:
    """Of the whole nvFuser finds rows, because both operands have most dimensions; of the rest
    alone it would find columns."""

    def build(fd: Any) -> None:
        y = fd.ops.permute(fd.ops.linear(matrix(fd), matrix(fd)), [1, 0])
        fd.add_output(fd.ops.relu(y))

    found = segments(build, Take.ALL)
    assert shown(found).splitlines() == [
        "wsched: tv0, tv1 -> tv2: linear",
        "nvFuser: tv2 -> tv4: permute relu stride_order",
    ]
    assert found[1].definition.nodes[-1].get("stride_order") == (1, 0)


def test_a_result_whose_order_an_input_says() -> None:
    """The product has two dimensions, the residual three and the columns outermost."""

    def build(fd: Any) -> None:
        r = fd.define_tensor(
            shape=[-1, -1, -1], contiguity=True, dtype=BF16, stride_order=[2, 0, 1]
        )
        y = fd.ops.broadcast(fd.ops.linear(matrix(fd), matrix(fd)), [True, False, False])
        fd.add_output(fd.ops.cast(fd.ops.add(y, r), dtype=BF16))
        fd.add_output(fd.ops.relu(fd.ops.linear(matrix(fd), matrix(fd))))

    *_, rest = (s for s in segments(build, Take.ALL) if not s.matmul)
    said = rest.definition.nodes[-1]  # nvFuser would find it, the residual is there; torch not
    assert said.op == "stride_order" and said.get("stride_order") == (2, 0, 1)
    assert Cutter(definition_of(built(build))).graph.orders.of(rest.outputs[0]) == (0, 2, 1)


def test_a_kernels_result_by_columns() -> None:
    """Where nvFuser would store it so, after an input of three dimensions, the kernel does."""

    def build(fd: Any) -> None:
        y = fd.ops.linear(matrix(fd), matrix(fd))
        r = fd.define_tensor(
            shape=[-1, -1, -1], contiguity=True, dtype=BF16, stride_order=[2, 0, 1]
        )
        fd.add_output(fd.ops.cast(fd.ops.add(y, fd.ops.sum(r, dims=[0])), dtype=BF16))

    first, kernel = segments(build, Take.ALL)
    assert not first.matmul and kernel.matmul
    order = kernel.definition.nodes[-1]
    assert order.op == "stride_order" and order.get("stride_order") == (0, 1)


def test_what_is_moved_between_matmuls_is_put_into_rows() -> None:
    def build(fd: Any) -> None:
        h = fd.ops.linear(matrix(fd), matrix(fd))
        t = fd.ops.cast(fd.ops.neg(fd.ops.permute(h, [1, 0])), dtype=BF16)
        fd.add_output(fd.ops.linear(t, matrix(fd)))

    first, rest, last = segments(build, Take.ALL)
    assert shown((first, rest, last)).splitlines() == [
        "wsched: tv0, tv1 -> tv2: linear",
        "nvFuser: tv2 -> tv6: permute cast neg cast stride_order",
        "wsched: tv7, tv6 -> tv8: linear",
    ]
    x = torch.randn(4, 6).bfloat16()
    (made,) = interpret(rest.definition, [x])
    assert made.is_contiguous() and torch.equal(made, -x.T)
    rebuild(rest.definition)


@pytest.mark.parametrize("several", [False, True])
def test_another_stride_order(several: bool) -> None:
    """Operands and what an epilogue reads lie as they do; results are in nvFuser's order."""

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

    found = segments(build, Take.ALL)
    assert [s.matmul for s in found] == [True] * (2 if several else 1)
    assert not any(n.op == "stride_order" for s in found for n in s.definition.nodes)


@pytest.mark.parametrize(
    ("dims", "transposes"),
    [((1, 0), True), ((0, 2, 1), True), ((0, 1, 3, 2), True), ((0, 1), False), ((1, 0, 2), False)],
)
def test_a_kernel_transposes_what_no_tensor_map_has(
    dims: tuple[int, ...], transposes: bool
) -> None:
    """Of any rank: here what is put into another order in memory first, which is no view."""

    def build(fd: Any) -> None:
        x, w = (
            fd.define_tensor(shape=[-1] * len(dims), contiguity=True, dtype=BF16) for _ in range(2)
        )
        ordered = fd.ops.stride_order(w, list(range(len(dims))))
        fd.add_output(fd.ops.matmul(x, fd.ops.permute(ordered, list(dims))))

    (last,) = (s for s in segments(build, Take.ALL) if s.matmul)
    inside = {n.op for n in last.definition.nodes}
    assert ({"stride_order", "permute"} <= inside) is transposes


def test_an_operand_by_columns_alone() -> None:
    def build(fd: Any) -> None:
        w = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=BF16, stride_order=[0, 1])
        fd.add_output(fd.ops.relu(fd.ops.linear(matrix(fd), w)))

    assert [s.matmul for s in segments(build, Take.ALL)] == [True]


def test_an_operation_that_nvfuser_may_not_run_apart() -> None:
    def build(fd: Any) -> None:
        y = fd.ops.cast(fd.ops.linear(matrix(fd), matrix(fd)), dtype=BF16)
        fd.add_output(fd.ops.nv_block_quantize(y)[1])

    assert refusal(build) == (
        "a result that is computed after fd.ops.nv_block_quantize is not supported; supported: "
        "operations whose results have their operands' dimensions"
    )


def test_what_is_looked_up_or_scattered_is_apart() -> None:
    """The loss of a language model, from the tokens on; and tokens of each expert, by a router."""

    def loss(fd: Any) -> None:
        ids, labels = (
            fd.define_tensor(shape=shape, contiguity=True, dtype=nvf.DataType.Int)
            for shape in ([-1], [-1, 1])
        )
        y = fd.ops.linear(fd.ops.embedding_fwd(ids, matrix(fd)), matrix(fd))
        y = fd.ops.cast(y, dtype=F32)
        fd.add_output(fd.ops.neg(fd.ops.take_along_axis(y, labels, 1)))
        fd.add_output(fd.ops.neg(fd.ops.gather(y, labels, 1)))

    def router(fd: Any) -> None:
        y = fd.ops.linear(matrix(fd), matrix(fd))
        _, ids = fd.ops.topk(y, fd.define_scalar(1, dtype=nvf.DataType.Int), 1, True, False)
        zeros, ones = (
            fd.ops.full([fd.ops.size(y, 0), n], fd.define_scalar(m), dtype=nvf.DataType.Int)
            for n, m in ((fd.ops.size(y, 1), 0), (fd.define_scalar(1, nvf.DataType.Int), 1))
        )
        fd.add_output(fd.ops.sum(fd.ops.scatter(zeros, ids, ones, 1), dims=[0]))

    assert [s.matmul for s in segments(loss, Take.ALL)] == [False, True, False]
    assert [s.matmul for s in segments(router, Take.ALL)] == [True, False]


def test_random_numbers_of_a_seed_are_the_same_in_any_segment() -> None:
    def build(fd: Any) -> None:
        x, w = matrix(fd), matrix(fd)
        y = fd.ops.linear(x, w)
        seed, offset = (fd.define_scalar(None, dtype=nvf.DataType.Int) for _ in range(2))
        shape = [fd.ops.size(x, 0), fd.ops.size(w, 0)]
        drawn = fd.ops.uniform(0.0, 1.0, shape, rng_seed=seed, rng_offset=offset, dtype=F32)
        fd.add_output(
            fd.ops.mul(fd.ops.cast(y, dtype=F32), fd.ops.cast(fd.ops.lt(drawn, 0.9), F32))
        )

    assert [s.matmul for s in segments(build, Take.ALL)] == [False, True]  # drawn, then used


def test_a_tensor_on_the_cpu() -> None:
    def build(fd: Any) -> None:
        s = fd.define_tensor(shape=[], contiguity=[], dtype=F32, is_cpu=True)
        fd.add_output(fd.ops.linear(matrix(fd), matrix(fd)))
        fd.add_output(fd.ops.neg(s))

    assert refusal(build) == "tv0 with is_cpu=True is not supported; supported: tensors on the GPU"
