"""Older and newer spellings of nvFuser's front end, and Python around them, read as one thing."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer import Definition, Node, Open, Ref, build_fusion, record_text
from wsched.importer.signatures import parameters

X = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)"


def body(*lines: str) -> Definition:
    return record_text("\n".join(("def f(fd: FusionDefinition):", *(f"    {s}" for s in lines))))


def nodes(definition: Definition, op: str) -> list[tuple[object, ...]]:
    """Results, operands and keywords of every operation of that name."""
    return [(n.results, n.operands, dict(n.kwargs)) for n in definition.nodes if n.op == op]


# --- spellings of calls --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "shape=[-1, 1], contiguity=[True, None], dtype=DataType.Half, stride_order=[1, 0]",
        "[-1, 1], [True, None], DataType.Half, stride_order=[1, 0]",
        "symbolic_sizes=[-1, 1], contiguous=[True, None], dtype=nvfuser.DataType.Half, "
        "stride_order=(1, 0)",
        "dtype=DataType.Half, stride_order=[1, 0], shape=(-1, 1), contiguity=[True, None]",
    ],
)
def test_define_tensor(call: str) -> None:
    ((_, operands, named),) = nodes(body(f"T0 = fd.define_tensor({call})"), "define_tensor")
    assert operands == ()
    assert named == {
        "shape": (-1, 1),
        "contiguity": (True, None),
        "dtype": DataType.Half,
        "stride_order": (1, 0),
    }


@pytest.mark.parametrize(
    ("call", "shape", "contiguity", "order"),
    [
        ("sizes=[4, 5], strides=[5, 1]", (-1, -1), (True, True), (1, 0)),
        ("[4, 5], [5, 1]", (-1, -1), (True, True), (1, 0)),
        ("sizes=[4, 5], strides=[1, 4], static_sizes=True", (4, 5), (True, True), (0, 1)),
        ("sizes=[4, 1, 6], strides=[12, 12, 2]", (-1, 1, -1), (True, None, False), (2, 1, 0)),
    ],
)
def test_define_tensor_by_strides(
    call: str, shape: object, contiguity: object, order: object
) -> None:
    ((_, _, named),) = nodes(body(f"t = fd.define_tensor({call})"), "define_tensor")
    assert named == {"shape": shape, "contiguity": contiguity, "stride_order": order}


@pytest.mark.parametrize(
    ("call", "value", "named"),
    [
        ("None, dtype=DataType.Int", None, {"dtype": DataType.Int}),
        ("DataType.Int", None, {"dtype": DataType.Int}),
        ("dtype=DataType.Int", None, {"dtype": DataType.Int}),
        ("", None, {}),
        ("2.5", 2.5, {}),
        ("value=3, dtype=DataType.Int", 3, {"dtype": DataType.Int}),
        ("3, DataType.Int", 3, {"dtype": DataType.Int}),
        ("1 + 2j", 1 + 2j, {}),
        ("-float('inf')", -float("inf"), {}),
    ],
)
def test_define_scalar(call: str, value: object, named: object) -> None:
    definition = body(f"S0 = fd.define_scalar({call})")
    assert nodes(definition, "define_scalar") == [(("S0",), (value,), named)]
    assert bool(definition.inputs) == (value is None)


def test_vectors_are_lists() -> None:
    definition = body(
        f"T0 = {X}",
        "S1 = fd.define_scalar(4, dtype=DataType.Int)",
        "V2 = fd.define_vector([S1, -1, 3], dtype=DataType.Int)",
        "T3 = fd.ops.reshape(T0, new_shape=V2)",
        "V4 = fd.define_vector(2)",
        "T5 = fd.ops.expand(T0, V4)",
        "T6 = fd.ops.reshape(T0, [2, 3], [6])",
        "T7 = fd.ops.squeeze(T0, original_shape=[1, 3], dims=[0])",
    )
    reshaped = nodes(definition, "reshape")
    assert reshaped[0][2] == {"new_shape": (Ref("S1"), -1, 3)}
    assert reshaped[1][1:] == ((Ref("T0"),), {"new_shape": (6,)})
    shape = Ref("V4[0]"), Ref("V4[1]")
    assert nodes(definition, "expand")[0][1:] == ((Ref("T0"),), {"shape": shape})
    assert nodes(definition, "squeeze")[0][1:] == ((Ref("T0"),), {"dims": (0,)})
    assert [n.results for n in definition.inputs] == [("T0",), ("V4[0]",), ("V4[1]",)]


def test_a_type_that_says_that_none_is_given() -> None:
    definition = body(
        f"T0 = {X}",
        "T1 = fd.ops.sum(T0, dims=[0], keepdim=False, dtype=DataType.Null)",
        "T2 = fd.ops.sum(T0, axes=[0], keepdim=False, dtype=DataType.Float)",
        "T3 = fd.ops.sum(T0, [0], False, DataType.Null)",
        "S4 = fd.define_scalar(1.5, dtype=DataType.Null)",
    )
    reduced = nodes(definition, "sum")
    assert reduced[0][2] == {"dims": (0,), "keepdim": False}
    assert reduced[1][2] == {"dims": (0,), "keepdim": False, "dtype": DataType.Float}
    assert reduced[2][1:] == ((Ref("T0"),), {"dims": (0,), "keepdim": False})
    assert nodes(definition, "define_scalar") == [(("S4",), (1.5,), {})]


@pytest.mark.parametrize("name", DataType.__members__)
def test_every_type_has_a_name(name: str) -> None:
    definition = body(f"t = fd.define_tensor(shape=[2], dtype=DataType.{name})")
    assert definition.nodes[0].get("dtype") is DataType[name]


def test_types_that_are_not_computed_with() -> None:
    assert DataType.Float8_e5m2.is_stored and DataType.Float8_e5m2.bytes == 1
    with pytest.raises(UnsupportedError) as error:
        assert DataType.Float4_e2m1fn.bytes
    assert str(error.value) == (
        "a tensor of DataType.Float4_e2m1fn is not supported; supported: BFloat16, Half, Float, "
        "Double, Float8_e4m3fn, Float8_e5m2, Int, Int32, Int8, UInt8, UInt4, TF32, Index, "
        "Bool"
    )


def test_nvfusers_types_are_ours() -> None:
    """And three more, of which it has none."""
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    theirs = set(nvfuser.DataType.__members__)
    ours = {"Int8", "UInt8", "UInt4", "TF32"}
    assert {*DataType.__members__, "Null"} == theirs | ours
    assert not theirs & ours


def test_arguments_are_nvfusers() -> None:
    """Every call refuses twenty arguments, and names those that it takes."""
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    with nvfuser.FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor(shape=[-1], contiguity=[True])))
        for op in (name for name in dir(fd.ops) if not name.startswith("_")):
            with pytest.raises(TypeError) as error:
                getattr(fd.ops, op)(*range(20))
            ours = parameters(op)
            for line in re.findall(r"^ +\d+\. \((.*)\) ->", str(error.value), re.M):
                theirs = re.findall(r"(?:^|, )(\w+):", re.sub(r"\[[^\[\]]*\]", "", line))
                assert ours is None or set(theirs) <= set(ours), op


@pytest.mark.parametrize(
    "call",
    [
        "x, w, b",
        "x, w, bias=b",
        "arg1=x, arg2=w, bias=b",
        "bias=b, arg2=w, arg1=x",
        "x, arg2=w, bias=b",
    ],
)
def test_operands_have_an_order(call: str) -> None:
    definition = body(f"x = {X}", f"w = {X}", f"b = {X}", f"fd.add_output(fd.ops.linear({call}))")
    ((_, operands, named),) = nodes(definition, "linear")
    assert operands[:2] == (Ref("x"), Ref("w"))
    assert (*operands[2:], *named.values()) == (Ref("b"),)


@pytest.mark.parametrize("dims", ["[0, 2, 1]", "[0, -1, 1]", "(-3, -1, -2)"])
def test_dimensions_that_are_counted_from_the_end(dims: str) -> None:
    batch = X.replace("[-1, -1]", "[-1, -1, -1]").replace("[True, True]", "[True, True, True]")
    definition = body(f"x = {batch}", f"y = fd.ops.permute(x, dims={dims})")
    assert nodes(definition, "permute") == [(("y",), (Ref("x"),), {"dims": (0, 2, 1)})]


def test_operands_by_name_make_the_same_fusion() -> None:
    texts = [
        (f"x = {X}", f"w = {X}", f"fd.add_output(fd.ops.linear({call}))")
        for call in ("x, w", "arg2=w, arg1=x")
    ]
    first, second = (build_fusion(body(*lines)) for lines in texts)
    assert first == second


# --- outputs -------------------------------------------------------------------------------------


def test_an_output_with_an_order() -> None:
    definition = body(f"T0 = {X}", "T1 = fd.ops.relu(T0)", "fd.add_output(T1, [0, 1])")
    assert nodes(definition, "stride_order") == [
        (("T1@4",), (Ref("T1"),), {"stride_order": (0, 1)})
    ]
    assert definition.outputs == ("T1@4",)
    named = body(f"T0 = {X}", "T1 = fd.ops.relu(T0)", "fd.add_output(T1, stride_order=[0, 1])")
    assert named == definition


# --- Python around the calls ---------------------------------------------------------------------


def test_calls_in_calls() -> None:
    definition = body(
        f"x, w = {X}, \\",
        f"    {X}",
        "fd.add_output(  # a comment",
        "    fd.ops.relu(fd.ops.linear(x, w)))",
    )
    assert [(n.op, n.results) for n in definition.nodes][2:] == [
        ("linear", ("linear",)),
        ("relu", ("relu",)),
    ]
    assert definition.outputs == ("relu",)
    build_fusion(definition)


def test_names_stay_apart() -> None:
    definition = body(f"a = {X}", "a = fd.ops.neg(fd.ops.neg(fd.ops.neg(a)))", "a = fd.ops.neg(a)")
    names = [name for n in definition.nodes for name in n.results]
    assert names == ["a", "neg", "neg@3", "a@3", "a@4"]


def test_loops_and_lists() -> None:
    definition = body(
        "n = 3",
        f"ts = [{X} for _ in range(n)]",
        "a = ts[-1]",
        "for i, t in enumerate(ts[:2]):",
        "    b = fd.ops.relu(t)",
        "    if i == 1:",
        "        continue_ = b",
        "    a = fd.ops.add(a, b)",
        "fd.add_output(a)",
    )
    assert [n.op for n in definition.nodes].count("add") == 2
    assert definition.outputs == ("a@9",)
    assert [n.operands for n in definition.nodes if n.op == "add"] == [
        (Ref("tensor@3.2"), Ref("b")),
        (Ref("a"), Ref("b@6")),
    ]


def test_functions_of_the_text_are_followed() -> None:
    text = """
        import torch
        from nvfuser import FusionDefinition, DataType as Type

        def scaled(fd, x, by=2.0):
            y = fd.ops.mul(x, by)
            return y

        def test_something(size):
            half = 32
            with FusionDefinition() as fd:
                t = fd.define_tensor(shape=[half * 2, size], dtype=Type.Half)
                fd.add_output(scaled(fd, scaled(fd, t), by=3.0))
            fd.execute([torch.randn(64, size)])
    """
    definition = record_text(textwrap.dedent(text))
    assert [n.operands for n in definition.nodes if n.op == "mul"] == [
        (Ref("t"), 2.0),
        (Ref("y"), 3.0),
    ]
    assert definition.outputs == ("y@6",)
    assert definition.nodes[0].get("shape") == (64, Open("size", 12))


@pytest.mark.parametrize("rest", ["*more", "**named"])
def test_functions_of_any_arguments_are_refused(rest: str) -> None:
    text = (
        f"def shifted(fd, x, {rest}):\n    return fd.ops.add(x, 1.0)\n\n"
        f"def f(fd: FusionDefinition):\n    t = {X}\n    fd.add_output(shifted(fd, t))\n"
    )
    with pytest.raises(UnsupportedError, match=r"shifted\(fd, x\)"):
        record_text(text)


def test_a_definition_in_a_test() -> None:
    text = f"""
        class TestMatmul:
            def test_linear(self, bias):
                def fusion_func(fd: "nvfuser.FusionDefinition") -> None:
                    x = {X}
                    fd.add_output(fd.ops.relu(x))

                with FusionDefinition() as fd:
                    fusion_func(fd)
                self.exec(fusion_func, [1])
    """
    assert [n.op for n in record_text(textwrap.dedent(text)).nodes] == ["define_tensor", "relu"]


@pytest.mark.parametrize("argument", ["factor", "[2, factor]", "[[1], [2, [factor, 3]]]"])
def test_what_has_no_value_is_found_however_deep(argument: str) -> None:
    node = record_text(
        "def f(fd: FusionDefinition, z: nvfuser.TensorView, factor):\n"
        f"    return fd.ops.expand(z, {argument})\n"
    ).nodes[-1]
    definition = Definition((node,), ())
    with pytest.raises(UnsupportedError, match=r"`factor`, which the text gives no value"):
        definition.check_complete()


def test_a_part_of_a_definition() -> None:
    """Tensors that a function is given are inputs, what it returns are outputs."""
    definition = record_text(
        "def gate(fd: FusionDefinition, z: nvfuser.TensorView, factor):\n"
        "    kind = z.dtype()\n"
        "    return fd.ops.cast(fd.ops.mul(z, factor), dtype=kind)\n"
    )
    assert [n.results for n in definition.inputs] == [("z",)] and definition.outputs == ("cast",)
    assert definition.nodes[1].operands == (Ref("z"), Open("factor", 3))
    with pytest.raises(UnsupportedError) as error:
        build_fusion(definition)
    assert str(error.value) == (
        "line 1: `z.shape`, which the text gives no value, is not supported; supported: "
        "definitions whose sizes, types and numbers are in the text"
    )


def test_what_is_said_of_tensors_is_kept() -> None:
    definition = body(
        f"x = {X}",
        "y = fd.ops.relu(x)",
        "fd.add_output(y)",
        "for t in [x, y]:",
        "    t.set_device_mesh(mesh_of(t))",
        "y.axis(0).parallelize(ParallelType.mesh_x)",
    )
    assert [(m.op, m.operands[0], m.line) for m in definition.marks] == [
        ("set_device_mesh", Ref("x"), 6),
        ("set_device_mesh", Ref("y"), 6),
        ("parallelize", Ref("y"), 7),
    ]
    with pytest.raises(UnsupportedError) as error:
        definition.check_complete()
    assert str(error.value) == (
        "line 6: `t.set_device_mesh(mesh_of(t))` is not supported; supported: tensors that nobody "
        "has sharded or scheduled"
    )


def test_shapes_of_tensors() -> None:
    definition = body(
        f"x = {X}",
        "y = fd.ops.reshape(x, [x.size(0), 4])",
        "z = fd.ops.reshape(y, new_shape=x.shape())",
        "n = fd.ops.shape(x)[1]",
    )
    assert nodes(definition, "size") == [(("size",), (Ref("x"),), {"dim": 0})]
    assert definition.node("z") == Node(
        "reshape", ("z",), (Ref("y"),), (("new_shape", Ref("shape")),), 4
    )
    assert definition.node("shape@5[1]").operands == (Ref("shape@5"), 1)  # type: ignore[union-attr]


def test_torch_tensors_are_inputs_of_unknown_shape() -> None:
    definition = body("t = fd.from_pytorch(inputs[0])", "fd.add_output(fd.ops.relu(t))")
    assert definition.inputs[0].get("shape") == Open("inputs[0].shape", 2)
    assert [n.results for n in definition.nodes] == [("t",), ("relu",)]


def test_what_has_no_name_is_called_by_its_call() -> None:
    calls = {"tensor": X, "scalar": "fd.define_scalar(2.0)", "from_pytorch": "fd.from_pytorch(x)"}
    definition = body(*(f"fd.add_output(fd.ops.neg({call}))" for call in calls.values()))
    assert [n.results[0] for n in definition.nodes if n.op != "neg"] == [*calls]


def test_operations_that_nobody_knows_are_recorded() -> None:
    definition = body(f"x = {X}", "a, b = fd.ops.frobnicate(x, by=[1, x], how='well')")
    assert definition.nodes[1] == Node(
        "frobnicate", ("a", "b"), (Ref("x"),), (("by", (1, Ref("x"))), ("how", "well")), 3
    )


def test_the_readmes_example_is_a_definition() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    example = readme.split("```python\n")[1].split("```")[0]
    definition = record_text(example)
    assert [n.op for n in definition.nodes] == ["define_tensor", "define_tensor", "linear"]
    build_fusion(definition)
