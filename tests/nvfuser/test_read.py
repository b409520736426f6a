"""Schedules written with nvFuser's primitives, read into wsched's IR; nvFuser needs no GPU here."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lowering.ground.errors import InternalError, UnsupportedError
from wsched.fusion import IterType, MemoryType, Merge, ParallelType, Split
from wsched.nvfuser.read import ReadTensor, read_schedule


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct")


@pytest.fixture
def by_hand(nvf: Any) -> Any:
    """A linear with a relu, its operands cached by TMA, tiled 128 x 256 x 64."""
    bf16 = nvf.DataType.BFloat16
    with nvf.FusionDefinition() as fd:
        a, b = (
            fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=bf16) for _ in range(2)
        )
        y = fd.ops.relu(fd.ops.cast(fd.ops.linear(a, b), dtype=nvf.DataType.Float))
        out = fd.ops.cast(y, dtype=bf16)
        fd.add_output(out)
        for operand, rows in ((a, 128), (b, 256)):
            cached = operand.cache_after(nvf.LoadStoreOpType.tma)
            cached.set_memory_type(nvf.MemoryType.shared)
            cached.split(0, rows)
            cached.split(2, 64)
            cached.reorder({1: 2, 2: 1})
            cached.axis(2).parallelize(nvf.ParallelType.tma)
            cached.axis(3).parallelize(nvf.ParallelType.tma)
        out.split(0, 128)
        out.split(2, 256)
        out.reorder({1: 2, 2: 1})
        out.merge(0, 1)
        out.split(0, 132, inner_split=False)
        out.axis(0).parallelize(nvf.ParallelType.grid_x)
        fd.sched.inline_at(out, 2)
    return fd


def read_result(nvf: Any, build: Callable[[Any, Any], Any]) -> ReadTensor:
    """What a definition computes of a matrix, as it is read."""
    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvf.DataType.Float)
        y = build(fd, x)
        fd.add_output(y)
    name, _, _ = str(y).partition("_")
    return read_schedule(fd).tensor(name)


def test_by_hand(by_hand: Any, golden: Any) -> None:
    assert str(read_schedule(by_hand)) == golden


def test_objects(by_hand: Any) -> None:
    read = read_schedule(by_hand)
    cached = read.tensor("T6")
    assert (cached.view.memory, cached.operation, cached.inputs) == (
        MemoryType.Shared,
        "CpAsyncBulkTensorTile",
        ("T0",),
    )
    assert [d.parallel for d in cached.view.loop[2:]] == [ParallelType.Bulk] * 2
    out = read.tensor("T5").view
    kinds = [type(t) for t in out.transforms]
    assert kinds == [Split, Split, Merge, Split]
    assert not out.transforms[3].inner_split  # type: ignore[union-attr]
    assert str(out.loop[1].extent) == "ceildiv(ceildiv(i0, 128) * ceildiv(i3, 256), 132)"
    assert read.tensor("T2").inputs == ("T6", "T7")


def test_transforms_are_what_the_primitives_make(by_hand: Any) -> None:
    """Every domain of a loop nest is a dimension or comes out of exactly one transform."""
    for tensor in read_schedule(by_hand).tensors:
        alive = {d.id for d in tensor.view.logical}
        for step in tensor.view.transforms:
            alive -= {d.id for d in step.inputs}
            alive |= {d.id for d in step.outputs}
        assert alive == {d.id for d in tensor.view.loop}


def test_a_swizzle_is_opaque(nvf: Any) -> None:
    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvf.DataType.Float)
        y = fd.ops.relu(x)
        fd.add_output(y)
        y.split(1, 8)
        y.split(0, 8)
        y.swizzle(1, 3)
    read = read_schedule(fd).tensor("T1")
    (opaque,) = read.opaque
    assert opaque.startswith("Xor(2D): ")
    assert str(read).endswith(f"\n  {opaque}")


def test_what_a_swizzle_is_of_is_read(nvf: Any) -> None:
    """Nothing but the swizzle leads to it."""
    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[2, 4, 8], contiguity=True, dtype=nvf.DataType.Float)
        y = fd.ops.relu(x)
        fd.add_output(y)
        y.merge(0, 1)
        y.swizzle(0, 1)
    view = read_schedule(fd).tensor("T1").view
    assert [type(t) for t in view.transforms] == [Merge]
    assert {d.id for d in view.loop}.isdisjoint(d.id for t in view.transforms for d in t.outputs)


def test_a_parallel_type_without_a_word(nvf: Any) -> None:
    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvf.DataType.Float)
        y = fd.ops.relu(x)
        fd.add_output(y)
        y.axis(0).parallelize(nvf.ParallelType.stream)
    with pytest.raises(UnsupportedError) as error:
        read_schedule(fd)
    assert str(error.value) == (
        "the parallel type 'streamIdx' of a loop of T1 in nvFuser's schedule is not supported; "
        "supported: S, UR, V, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, "
        "threadIdx.z, B, MMA"
    )


def test_a_text_has_no_schedule() -> None:
    with pytest.raises(UnsupportedError) as error:
        read_schedule("def nvfuser_fusion(fd : FusionDefinition) -> None :\n")
    assert str(error.value) == (
        "the schedule of a str is not supported; supported: nvfuser_direct.FusionDefinition: its "
        "text does not tell the schedule"
    )


@pytest.mark.parametrize(
    ("build", "word", "inputs"),
    [
        (lambda ops, x: ops.relu(x), "relu", ("T0",)),
        (lambda ops, x: ops.mul(x, x), "*", ("T0", "T0")),
        (lambda ops, x: ops.sub(2.0, x), "-", ("T0",)),
        (lambda ops, x: ops.gt(x, 0.5), ">", ("T0",)),
        (lambda ops, x: ops.logical_and(x, x), "&&", ("T1", "T2")),
        (lambda ops, x: ops.neg(x), "-", ("T0",)),
        (lambda ops, x: ops.logical_not(ops.gt(x, 0.5)), "!", ("T1",)),
        (lambda ops, x: ops.pow(x, -2.0), "pow", ("T0",)),
        (lambda ops, x: ops.sum(x, [0]), "reduction", ("T0",)),
        (lambda ops, x: ops.welford(x, [0])[1], "Welford", ("T0",)),
        (lambda ops, x: ops.set(x), "Set", ("T0",)),
        (lambda ops, x: ops.permute(x, [1, 0]), "Set.Permute", ("T0",)),
        (lambda ops, x: ops.argsort(x, 0), "argsort", ("T0",)),
        (lambda ops, x: ops.full([2, 3], 1.0, dtype=x.dtype()), "full", ()),
    ],
)
def test_operations(nvf: Any, build: Callable[[Any, Any], Any], word: str, inputs: Any) -> None:
    read = read_result(nvf, lambda fd, x: build(fd.ops, x))
    assert (read.operation, read.inputs) == (word, inputs)


def test_a_domain_that_is_expanded(nvf: Any) -> None:
    """Its extent is the one that it is expanded to, and so are those of what becomes of it."""

    def expanded(fd: Any, x: Any) -> Any:
        y = fd.ops.expand(fd.ops.broadcast(x, [True, False, False]), [6, -1, -1])
        y.split(0, 2)
        y.merge(1, 2)
        return y

    read = read_result(nvf, expanded)
    assert read.operation == "expand"
    assert [str(d) for d in read.view.logical] == ["bS5{1 ex 6}", "iS6{i0}", "iS7{i1}"]
    assert [str(d.extent) for d in read.view.loop] == ["3", "2 * i0", "i1"]


def test_a_reduction_in_two_steps(nvf: Any) -> None:
    """What nvFuser computes first has dimensions that come of a split, and shows them so."""

    def reduced(fd: Any, x: Any) -> Any:
        y = fd.ops.sum(x, [0])
        y.split(0, 8)
        y.rfactor([1])
        return y

    with nvf.FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvf.DataType.Float)
        fd.add_output(reduced(fd, x))
    first, second = (read_schedule(fd).tensor(name) for name in ("T2", "T1"))
    kinds = [d.iter_type for d in first.view.logical]
    assert kinds == [IterType.Iteration, IterType.Reduction, IterType.Iteration]
    assert (first.inputs, second.inputs) == (("T0",), ("T2",))
    assert [d.iter_type for d in second.view.loop] == [IterType.Reduction, IterType.Iteration]


def test_a_dimension_that_is_padded(nvf: Any) -> None:
    read = read_result(nvf, lambda fd, x: fd.ops.pad(x, [1, 1]))
    assert (read.operation, len(read.view.logical), read.view.transforms) == ("pad", 2, ())


def test_a_kind_of_dimension_without_a_word(nvf: Any) -> None:
    """Which one it is nvFuser finds out from the sizes of a call."""
    with pytest.raises(UnsupportedError) as error:
        read_result(nvf, lambda fd, x: fd.ops.reshape(x, [8, 4]))
    assert str(error.value) == (
        "the domain kind '?' of T1 in nvFuser's schedule is not supported; supported: i, r, b"
    )


# --- what nvFuser may write otherwise one day ----------------------------------------------------


class Written:
    """A value of nvFuser's that is written so."""

    def __init__(self, text: str, *domains: Written, of: str = "") -> None:
        self.text, self.domains, self.of = text, list(domains), of

    def __str__(self) -> str:
        return self.text

    def is_tensor(self) -> bool:
        return True

    def get_logical_domain(self) -> list[Written]:
        return self.domains

    get_loop_domain = get_logical_domain

    def definition(self) -> Written | None:
        return Written(self.of) if self.of else None

    def input(self, position: int) -> Written:
        raise IndexError(position)

    def extent(self) -> str:
        return "8"


def written(tensor: Written) -> Any:
    """A definition of one tensor."""
    fusion = SimpleNamespace(vals=lambda: [tensor])
    kind = type("FusionDefinition", (), {"__module__": "nvfuser_direct", "fusion": fusion})
    return kind()


def test_what_is_written_as_expected() -> None:
    of = "T3_g_float[iS0{8}]\n   = some::thing({8});\n"
    read = read_schedule(written(Written("T3_g_float[iS0{8}]", Written("iS0{8}"), of=of)))
    assert str(read) == "T3_g_float[ iS0{8} ] = some::thing()\n"


@pytest.mark.parametrize(
    ("tensor", "kind", "told"),
    [
        (Written("tv3"), InternalError, "read_schedule: a tensor without a name: tv3"),
        (Written("T3_g_float[iS0]", Written("iS0")), InternalError,
         "read_schedule: a domain that is written otherwise: iS0"),
        (Written("T3_g_float[iS0{8}]", Written("iS0{8}"), of="T3 <- {8}"), InternalError,
         "read_schedule: an operation that is written otherwise: T3 <- {8}"),
        (Written("T3_x_float[iS0{8}]", Written("iS0{8}")), UnsupportedError,
         "the memory 'x' of T3 in nvFuser's schedule is not supported; supported: "),
        (Written("T3_g_float3[iS0{8}]", Written("iS0{8}")), UnsupportedError,
         "the type float3 of T3 in nvFuser's schedule is not supported; supported: "),
    ],
)  # fmt: skip
def test_what_is_written_otherwise(tensor: Written, kind: type[Exception], told: str) -> None:
    with pytest.raises(kind) as error:
        read_schedule(written(tensor))
    assert str(error.value).startswith(told)
