"""The drop-in beside nvFuser itself: the same results, strides and memory, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import wsched
from tests.doors.dropin.definitions import BF16, BUILDERS, F32, built, inputs_of, matrix, nvf, torch
from wsched.doors.dropin import decision_of, uninstall
from wsched.doors.dropin.patch import nvfusers_own

pytestmark = pytest.mark.gpu

ERROR = 1e-2
"""Largest relative Frobenius error: roundings to bf16, of which wsched makes one less."""


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    uninstall()


def executed(build: Callable[[Any], None], inputs: list[Any], **options: Any) -> tuple[Any, Any]:
    """The results of nvFuser alone, and with wsched in front of it twice."""
    wanted = built(build).execute(inputs, **options)
    with wsched.enabled():
        fd = built(build)
        fd.execute(inputs, **options)
        found = fd.execute(inputs, **options)
    return wanted, found


def check(wanted: list[Any], found: list[Any]) -> None:
    assert len(wanted) == len(found)
    for w, f in zip(wanted, found, strict=True):
        assert (f.dtype, f.shape, f.stride(), f.device) == (w.dtype, w.shape, w.stride(), w.device)
        assert (f.float() - w.float()).norm() <= ERROR * w.float().norm()


@pytest.mark.parametrize("rows", [32, 2048])
@pytest.mark.parametrize("name", BUILDERS)
def test_results_are_nvfusers(name: str, rows: int) -> None:
    inputs = inputs_of(name, rows, "cuda")
    check(*executed(BUILDERS[name], inputs))


def test_inputs_and_results_that_are_outputs_once_more() -> None:
    """As nvFuser gives them: an input is no copy, a result that is listed twice is one tensor."""

    def build(fd: Any) -> None:
        x = matrix(fd)
        y = fd.ops.linear(x, matrix(fd))
        for output in (x, y, y):
            fd.add_output(output)

    inputs = inputs_of("linear", 2048, "cuda")
    wanted, found = executed(build, inputs)
    check(wanted, found)
    for own, first, second in (wanted, found):
        assert own.data_ptr() == inputs[0].data_ptr() and first.data_ptr() == second.data_ptr()


def test_a_number_on_the_cpu() -> None:
    def build(fd: Any) -> None:
        s = fd.define_tensor(shape=[], contiguity=[], dtype=F32, is_cpu=True)
        y = fd.ops.linear(matrix(fd), matrix(fd))
        fd.add_output(fd.ops.cast(fd.ops.mul(y, s), dtype=BF16))

    inputs = [torch.tensor(0.5), *inputs_of("linear", 2048, "cuda")]
    assert decision_of(built(build), inputs).taken
    check(*executed(build, inputs))


def test_which_are_taken() -> None:
    for name in ("linear", "mlp", "gated", "normed_before"):
        assert decision_of(built(BUILDERS[name]), inputs_of(name, 32, "cuda")).taken, name


def test_a_number() -> None:
    inputs = [torch.randint(-2, 3, (4096, 4096), device="cuda").bfloat16() for _ in range(2)]
    assert decision_of(built(BUILDERS["scaled"]), [*inputs, 0.5]).taken
    for number in (0.5, 2.0):
        check(*executed(BUILDERS["scaled"], [*inputs, number]))


def wide(build: Callable[[Any], None], *, fp32: bool = False) -> list[Any]:
    """Two matrices of 256 x 512 and 128 x 512, in bf16 unless told."""
    made = [torch.randint(-2, 3, (r, 512), device="cuda").bfloat16() for r in (256, 128)]
    return [t.float() for t in made] if fp32 else made


def permuted(fd: Any) -> None:
    fd.add_output(fd.ops.permute(fd.ops.linear(matrix(fd), matrix(fd)), [1, 0]))


def by_columns(fd: Any) -> None:
    fd.add_output(fd.ops.stride_order(fd.ops.linear(matrix(fd), matrix(fd)), [0, 1]))


def transposed(fd: Any) -> None:
    x, w = matrix(fd), matrix(fd)
    y = fd.ops.matmul(x, fd.ops.permute(w, [1, 0]))
    fd.add_output(fd.ops.mul(fd.ops.cast(y, dtype=F32), 2.0))
    fd.add_output(y)


def sliced(fd: Any) -> None:
    y = fd.ops.linear(matrix(fd), matrix(fd))
    fd.add_output(fd.ops.slice(y, start_indices=[0, 0], end_indices=[8, 16]))


def reduced(fd: Any) -> None:
    y = fd.ops.cast(fd.ops.linear(matrix(fd), matrix(fd)), dtype=F32)
    fd.add_output(fd.ops.sum(y, dims=[0]))
    fd.add_output(fd.ops.max(y, dims=[1]))


def pointwise(fd: Any) -> None:
    x, _ = matrix(fd), matrix(fd)
    fd.add_output(fd.ops.cast(fd.ops.add(x, 1.0), dtype=BF16))


@pytest.mark.parametrize("build", [permuted, by_columns, transposed, sliced, reduced, pointwise])
def test_strides_of_results(build: Callable[[Any], None]) -> None:
    check(*executed(build, wide(build)))


def test_fp32_operands_are_nvfusers() -> None:
    def build(fd: Any) -> None:
        fd.add_output(fd.ops.linear(matrix(fd, F32), matrix(fd, F32)))

    check(*executed(build, wide(build, fp32=True)))


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_operands_by_columns(order: tuple[int, int]) -> None:
    def build(fd: Any) -> None:
        x, w = (
            fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=BF16, stride_order=so)
            for so in ([1, 0] if not o else [0, 1] for o in order)
        )
        fd.add_output(fd.ops.neg(fd.ops.linear(x, w)))

    inputs = [t.T.contiguous().T if o else t for t, o in zip(wide(build), order, strict=True)]
    check(*executed(build, inputs))


@pytest.mark.parametrize("options", [{"device": 0}, {"device": "cuda:0"}, {"device": None}])
def test_the_device_of_the_inputs(options: dict[str, Any]) -> None:
    check(*executed(BUILDERS["linear"], inputs_of("linear", 32, "cuda"), **options))


def test_reproduction_scripts() -> None:
    inputs = inputs_of("linear", 32, "cuda")
    with wsched.enabled():
        fd = built(BUILDERS["linear"])
        fd.execute(inputs)
        fd.execute(inputs, save_repro_inputs=True)
        assert "fd.execute(inputs)" in fd.last_repro_script()


def test_dynamic_shapes() -> None:
    with wsched.enabled():
        fd = built(BUILDERS["mlp"])
        for rows in (32, 100, 1, 517, 32):
            inputs = inputs_of("mlp", rows, "cuda", seed=rows)
            wanted = nvfusers_own(nvf.FusionDefinition)(built(BUILDERS["mlp"]), inputs)
            check(wanted, fd.execute(inputs))


def test_aliased_outputs_are_written_in_place() -> None:
    def build(fd: Any) -> None:
        x, w = matrix(fd), matrix(fd)
        fd.add_output(fd.ops.linear(x, w))
        fd.add_output(fd.ops.cast(fd.ops.add(x, 1.0), dtype=BF16), x)

    first = inputs_of("linear", 32, "cuda")
    second = [t.clone() for t in first]
    wanted = built(build).execute(first)
    with wsched.enabled():
        found = built(build).execute(second)
    check(wanted, found)
    assert torch.equal(first[0], second[0])


def test_lru_cache() -> None:
    make = nvf.LruFusionCache()(lambda: built(BUILDERS["linear"]))
    inputs = inputs_of("linear", 32, "cuda")
    wanted = make().execute(inputs)
    with wsched.enabled():
        for _ in range(3):
            check(wanted, make().execute(inputs))
    assert make.num_fusions() == 1
    check(wanted, make().execute(inputs))


def test_validate() -> None:
    inputs = inputs_of("linear", 32, "cuda")
    with wsched.enabled():
        built(BUILDERS["linear"]).validate(inputs)
        reference = torch.nn.functional.linear(*inputs)
        built(BUILDERS["linear"]).validate(inputs, [reference])


def test_two_streams() -> None:
    streams = [torch.cuda.Stream() for _ in range(2)]
    cases = [inputs_of("mlp", 512, "cuda", seed=s) for s in range(2)]
    wanted = [built(BUILDERS["mlp"]).execute(c) for c in cases]
    torch.cuda.synchronize()
    with wsched.enabled():
        fd = built(BUILDERS["mlp"])
        found: list[list[Any]] = [[], []]
        for _ in range(20):
            for stream, case, results in zip(streams, cases, found, strict=True):
                with torch.cuda.stream(stream):
                    results[:] = fd.execute(case)
        torch.cuda.synchronize()
    for w, f in zip(wanted, found, strict=True):
        check(w, f)


def test_inputs_that_require_gradients() -> None:
    inputs = [t.requires_grad_() for t in inputs_of("linear", 32, "cuda")]
    wanted, found = executed(BUILDERS["linear"], inputs)
    check(wanted, found)
    assert [t.requires_grad for t in found] == [t.requires_grad for t in wanted]


def test_after_a_call_the_definition_is_as_nvfuser_leaves_it() -> None:
    inputs = inputs_of("linear", 32, "cuda")
    own, ours = built(BUILDERS["linear"]), built(BUILDERS["linear"])
    text = repr(ours)
    own.execute(inputs)
    with wsched.enabled():
        ours.execute(inputs)
    assert set(ours.__dict__) - {"_wsched"} == set(own.__dict__)
    assert repr(ours) == text == repr(own)
    check(own.execute(inputs), ours.execute(inputs))


def test_uninstalled_it_is_nvfuser_again() -> None:
    own = nvf.FusionDefinition.execute
    wsched.install()
    built(BUILDERS["linear"]).execute(inputs_of("linear", 32, "cuda"))
    uninstall()
    assert nvf.FusionDefinition.execute is own
