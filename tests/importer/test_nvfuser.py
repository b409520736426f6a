"""Import from the real nvFuser."""

from __future__ import annotations

from typing import Any

import pytest

from lowering.ground.errors import InternalError, UnsupportedError
from wsched.fusion import PointwiseOp, fusion_text
from wsched.importer import Node, Ref, build_fusion, definition_of, record_text
from wsched.importer.nvfuser import UnfinishedError, Version, _repair


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct")


def tensor(nvf: Any, fd: Any) -> Any:
    return fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=nvf.DataType.BFloat16)


def test_linear_equals_its_text(nvf: Any, golden: object) -> None:
    with nvf.FusionDefinition() as fd:
        y = fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd))
        fd.add_output(fd.ops.cast(y, dtype=nvf.DataType.Float))
    definition = definition_of(fd)
    assert definition == record_text(repr(fd))
    assert fusion_text(build_fusion(definition)) == golden


def test_matmul_with_a_transposed_operand(nvf: Any) -> None:
    with nvf.FusionDefinition() as fd:
        a, b = tensor(nvf, fd), fd.ops.permute(tensor(nvf, fd), dims=[1, 0])
        fd.add_output(fd.ops.matmul(a, b))
    assert [b.axes for b in build_fusion(definition_of(fd)).inputs] == [("M", "K"), ("N", "K")]


def test_scalars_have_all_digits(nvf: Any) -> None:
    with nvf.FusionDefinition() as fd:
        y = fd.ops.cast(fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd)), dtype=nvf.DataType.Float)
        y = fd.ops.mul(fd.ops.tanh(fd.ops.mul(y, 0.7978845608028654)), 0.5)
        fd.add_output(fd.ops.mul(y, fd.define_scalar(0.044715123456, dtype=nvf.DataType.Double)))
    assert "0.797885" in repr(fd)
    scalars = [v for n in definition_of(fd).nodes for v in n.operands if isinstance(v, float)]
    assert scalars == [0.7978845608028654, 0.5, 0.044715123456]


def test_computed_scalars_have_all_digits(nvf: Any) -> None:
    with nvf.FusionDefinition() as fd:
        y = fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd))
        c = fd.ops.add(fd.define_scalar(1.2345678901234567), fd.define_scalar(0.25))
        fd.add_output(fd.ops.mul(y, fd.ops.neg(c)))
    (product,) = (e for e in build_fusion(definition_of(fd)).exprs if isinstance(e, PointwiseOp))
    assert product.inputs[1] == -(1.2345678901234567 + 0.25)


def test_a_subclass_is_accepted(nvf: Any) -> None:
    class Definition(nvf.FusionDefinition):  # type: ignore[misc,name-defined]
        pass

    with Definition() as fd:
        fd.add_output(fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd)))
    assert [n.op for n in definition_of(fd).nodes] == ["define_tensor", "define_tensor", "linear"]


def test_other_objects_are_refused() -> None:
    with pytest.raises(UnsupportedError) as error:
        definition_of(3)
    assert str(error.value) == (
        "a definition of type builtins.int is not supported; supported: "
        "nvfuser_direct.FusionDefinition, or its text (repr(fd)) as a string"
    )


EMPTY = "the FusionDefinition is empty; write it in `with FusionDefinition() as fd: ...`"
WRITING = "the FusionDefinition is still being written; use it after its `with` block"
NO_OUTPUT = "the FusionDefinition has no output; call fd.add_output"


def unfinished(fd: Any) -> str:
    with pytest.raises(UnfinishedError) as error:
        definition_of(fd)
    return str(error.value)


def test_unfinished_definitions_are_refused(nvf: Any) -> None:
    """nvFuser's repr ends the process for some of them."""
    fd = nvf.FusionDefinition()
    assert unfinished(fd) == EMPTY
    with fd:
        assert unfinished(fd) == WRITING
        fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd))
        assert unfinished(fd) == WRITING
    assert unfinished(fd) == NO_OUTPUT


def scheduled(nvf: Any, change: Any) -> str:
    with nvf.FusionDefinition() as fd:
        y = fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd))
        fd.add_output(fd.ops.sum(fd.ops.reshape(y, [fd.ops.size(y, 0), 4, 32]), dims=[1]))
        if change is not None:
            change(nvf, y)
    if change is None:
        return definition_of(fd).outputs[0]
    with pytest.raises(UnsupportedError) as error:
        definition_of(fd)
    assert error.value.supported == "tensors that nobody has sharded or scheduled"
    return error.value.what


def test_scheduled_definitions_are_refused(nvf: Any) -> None:
    """Their text says nothing of it, but nvFuser would run them as they are scheduled."""
    torch = pytest.importorskip("torch")
    assert scheduled(nvf, None) == "tv4"
    for change in (
        lambda nvf, y: y.split(0, 2),
        lambda nvf, y: y.reorder({0: 1}),
        lambda nvf, y: y.axis(0).parallelize(nvf.ParallelType.stream),
        lambda nvf, y: y.set_device_mesh(nvf.multidevice.DeviceMesh(torch.arange(2))),
    ):
        assert scheduled(nvf, change).startswith("the tensor T2_l___bfloat[")


def test_what_is_scattered_into_has_the_loops_of_the_index(nvf: Any) -> None:
    """nvFuser makes it so; nobody has scheduled it, unless somebody has."""
    for change in (None, lambda y: y.axis(0).parallelize(nvf.ParallelType.stream)):
        with nvf.FusionDefinition() as fd:
            x, source = tensor(nvf, fd), tensor(nvf, fd)
            index = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=nvf.DataType.Int)
            y = fd.ops.scatter(x, index, source, 1)
            fd.add_output(y)
            if change is not None:
                change(y)
        if change is None:
            assert [n.op for n in definition_of(fd).nodes][-1] == "scatter"
            continue
        with pytest.raises(UnsupportedError, match="nobody has sharded or scheduled"):
            definition_of(fd)


def test_a_scatter_that_nobody_reads_is_no_part_of_it(nvf: Any) -> None:
    """Its text does not have it."""
    with nvf.FusionDefinition() as fd:
        x, source = tensor(nvf, fd), tensor(nvf, fd)
        index = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=nvf.DataType.Int)
        fd.ops.scatter(x, index, source, 1)
        fd.add_output(fd.ops.linear(x, source))
    assert [n.op for n in definition_of(fd).nodes][-1] == "linear"


def written(nvf: Any, fd: Any) -> Any:
    with fd:
        y = fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd))
        fd.add_output(y)
    return y


def test_a_version_ends_with_another_output(nvf: Any) -> None:
    fd = nvf.FusionDefinition()
    with fd:
        y = fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd))
        z = fd.ops.cast(y, dtype=nvf.DataType.Float)
        fd.add_output(y)
    version = Version.of(fd)
    assert version.is_current(fd)
    fd.add_output(z)
    assert not version.is_current(fd) and Version.of(fd).is_current(fd)


def test_a_version_ends_with_another_with(nvf: Any) -> None:
    fd = nvf.FusionDefinition()
    written(nvf, fd)
    version = Version.of(fd)
    written(nvf, fd)
    assert not version.is_current(fd) and Version.of(fd).is_current(fd)


def test_a_version_outlives_that_nvfuser_takes_the_fusion(nvf: Any) -> None:
    fd = nvf.FusionDefinition()
    written(nvf, fd)
    version, definition = Version.of(fd), definition_of(fd)
    fd.fec = nvf.FusionExecutorCache(fd._fusion)
    del fd._fusion
    assert version.is_current(fd) and Version.of(fd).is_current(fd)
    assert definition_of(fd) == definition


def test_text_and_ir_are_compared() -> None:
    node = Node("linear", ("tv2",), (Ref("tv0"), Ref("tv1")), (), 4)
    with pytest.raises(InternalError) as error:
        _repair(node, ["T0_g_float[iS0{i0}]", "T3_g_float[iS1{i1}]"], {})
    assert str(error.value).splitlines()[0] == (
        "import: the text says linear reads ['tv0', 'tv1'], the IR says ['tv0', 'tv3']"
    )


def test_a_scalar_that_the_ir_does_not_have() -> None:
    node = Node("mul", ("tv2",), (Ref("tv0"), 0.5), (), 4)
    with pytest.raises(UnsupportedError) as error:
        _repair(node, ["T0_g_float[iS0{i0}]", "double(0.75)"], {})
    assert str(error.value) == (
        "the scalar 0.5 of fd.ops.mul is not supported; supported: scalars whose full value is an "
        "input of the expression in nvFuser's IR"
    )


def test_a_named_constant_is_repaired_where_it_is_defined() -> None:
    scalar = Node("define_scalar", ("c1",), (2.12346,), (), 3)
    node = Node("mul", ("tv2",), (Ref("tv0"), Ref("c1")), (), 4)
    changed = _repair(node, ["T0_g_float[iS0{i0}]", "double(2.1234567890000001)"], {"c1": scalar})
    assert changed["c1"].operands == (2.123456789,)


def test_what_is_read_often_is_looked_at_once(nvf: Any) -> None:
    """There are 2^40 ways from the result to the product."""
    with nvf.FusionDefinition() as fd:
        y = fd.ops.linear(tensor(nvf, fd), tensor(nvf, fd))
        for _ in range(40):
            y = fd.ops.add(y, y)
        fd.add_output(y)
    assert [n.op for n in definition_of(fd).nodes].count("add") == 40
