"""Types and extents found from a definition alone, beside those that nvFuser knows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Var
from tests.doors.dropin.definitions import BF16, BUILDERS, F32, built, inputs_of, matrix, nvf
from wsched.doors.fallback import rebuild
from wsched.front.cut.infer import infer
from wsched.front.cut.sizes import bind_extents
from wsched.front.cut.tensors import Dim, TensorType
from wsched.fusion import DataType
from wsched.importer import definition_of, record_text
from wsched.importer.input_error import InputError

_TENSOR = re.compile(r"T(\d+)_[a-z]_([\w:<>]+)\[(.*)\]")
_DIMENSION = re.compile(r"([ibr?])S\d+\{(.*?)( ex .*)?\}(rf)?$")


def nvfusers(fd: Any) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Type of each tensor in nvFuser's IR, and of each dimension its kind and extent."""
    found = {}
    for value in fd.fusion.vals():
        if value.is_tensor():
            named = _TENSOR.match(str(value))
            assert named is not None
            axes = [_DIMENSION.match(str(d)) for d in value.get_logical_domain()]
            kept = [(a[1] + ("x" if a[3] else ""), a[2]) for a in axes if a and a[1] != "r"]
            found[f"tv{named[1]}"] = named[2], kept
    return found


def compare(fd: Any) -> int:
    """Compare all tensors of a live definition; how many there are."""
    ours, theirs = infer(definition_of(fd)).types, nvfusers(fd)
    for name, (dtype, axes) in theirs.items():
        if name not in ours:
            continue  # what nvFuser makes on the way
        mine = ours[name]
        assert mine.dtype is not None and mine.dtype.text == dtype, name
        assert mine.dims is not None and len(mine.dims) == len(axes), name
        for dim, (kind, extent) in zip(mine.dims, axes, strict=True):
            assert dim.repeated == (kind == "bx") or kind == "?", (name, dim, kind)
            if kind == "b":
                assert dim.is_one, (name, dim)
            elif extent.isdigit() and kind == "i":
                assert dim.extent == Const(int(extent)), (name, dim, extent)
    return len(ours.keys() & theirs.keys())


def many(fd: Any) -> None:
    """Views, reductions and promotions beside each other."""
    x = fd.define_tensor(shape=[4, 6, 8], contiguity=True, dtype=BF16)
    w = fd.define_tensor(shape=[16, 8], contiguity=True, dtype=BF16)
    row = fd.define_tensor(shape=[16], contiguity=True, dtype=F32)
    whole = fd.define_tensor(shape=[4, 6, 16], contiguity=True, dtype=nvf.DataType.Int)
    y = fd.ops.linear(x, w)
    wide = fd.ops.expand(fd.ops.broadcast(row, [True, True, False]), [4, 6, 16])
    fd.add_output(fd.ops.add(y, wide))
    heads = fd.ops.permute(fd.ops.reshape(y, [4, 6, 2, 8]), [0, 2, 1, 3])
    scores = fd.ops.matmul(heads, fd.ops.permute(heads, [0, 1, 3, 2]))
    fd.add_output(fd.ops.cast(scores, dtype=F32))
    half = fd.ops.slice(y, start_indices=[0, 0, 8], end_indices=[4, 6, 16])
    fd.add_output(fd.ops.cat([half, fd.ops.relu(half)], dim=-1))
    variance, mean = fd.ops.var_mean(fd.ops.cast(y, dtype=F32), dims=[2], correction=0)
    fd.add_output(fd.ops.mul(variance, mean))
    fd.add_output(fd.ops.add(whole, whole))
    fd.add_output(fd.ops.gt(y, 0.5))
    fd.add_output(fd.ops.where(fd.ops.gt(y, 0.5), y, y))
    fd.add_output(fd.ops.sum(y, dims=[0, 1], dtype=F32))
    fd.add_output(fd.ops.squeeze(fd.ops.max(y, dims=[1], keepdim=True), dims=[1]))


@pytest.mark.parametrize("build", [*BUILDERS.values(), many], ids=lambda b: b.__name__)
def test_as_nvfuser_knows_them(build: Any) -> None:
    assert compare(built(build)) >= 3


def test_sizes_that_meet_are_one_symbol() -> None:
    types = infer(definition_of(built(BUILDERS["normed"]))).types
    x, w, r = (types[n].extents for n in ("tv0", "tv1", "tv2"))
    assert x is not None and w is not None and r is not None
    assert x[1] == w[1] and x[0] == r[0] and w[0] == r[1] and len({*x, *w}) == 3
    assert TensorType(DataType.Float, (Dim(x[0]), Dim(Const(1)))) in types.values()


def test_what_is_repeated_has_no_place_in_memory() -> None:
    def build(fd: Any) -> None:
        row = fd.define_tensor(shape=[-1], contiguity=True, dtype=F32)
        wide = fd.ops.expand(fd.ops.broadcast(row, [True, False]), [5, 7])
        fd.add_output(fd.ops.add(wide, 1.0))

    types = infer(definition_of(built(build))).types
    wide = next(t for t in types.values() if t.dims and t.dims[0] == Dim(Const(5), repeated=True))
    assert wide.dims is not None and wide.dims[1].extent == Const(7) and wide.extents is None


OLDER = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    S0 = fd.define_scalar(None, dtype=DataType.Int)
    T1 = fd.define_tensor(shape=[-1, 6], contiguity=[True, True], dtype=DataType.Float)
    S2 = fd.define_scalar(2, dtype=DataType.Int)
    S3 = fd.ops.size(T1, dim=0)
    S4 = fd.ops.div(S3, S2)
    T5 = fd.ops.reshape(T1, new_shape=[S4, 2, -1])
    T6 = fd.ops.broadcast_in_dim(T1, shape=[S0, S3, 6], broadcast_dims=[1, 2])
    T7 = fd.ops.pad(T5, [0, 2])
    T8 = fd.ops.iota(S2, 0, 1, dtype=DataType.Int)
    T9 = fd.ops.index_select(T1, T8, dim=0)
    fd.add_output(T7)
"""


def test_sizes_that_are_computed() -> None:
    types = infer(record_text(OLDER)).types
    rows = types["T1"].dims[0].extent  # type: ignore[index]
    shown = {n: [str(d.extent) for d in t.dims or ()] for n, t in types.items()}
    assert rows == Var("i0")
    assert shown["T5"][:2] == ["i0 // 2", "2"]
    assert types["T5"].shape({"i0": 8}) == (4, 2, 6)
    assert types["T7"].shape({"i0": 8}) == (4, 2, 8)
    assert shown["T6"] == ["None", "i0", "6"]  # S0 is a number that only the call tells
    assert shown["T9"] == ["2", "6"]


@pytest.mark.parametrize("op", ["grouped_mm", "frobnicate"])
def test_what_is_not_known_is_left_open(op: str) -> None:
    text = OLDER.replace("fd.ops.pad(T5, [0, 2])", f"fd.ops.{op}(T5, T5)")
    found = infer(record_text(text)).types["T7"]
    assert found.dims is None or op == "frobnicate"


def test_a_rebuilt_text_is_known_alike() -> None:
    assert compare(rebuild(record_text(OLDER.replace("    S0 = fd.define_scalar(None, dtype="
                                                     "DataType.Int)\n", "")
                                       .replace("S0", "1")))) >= 3  # fmt: skip


def test_sizes_of_the_symbols() -> None:
    definition = definition_of(built(BUILDERS["mlp"]))
    tensors = infer(definition)
    sizes = bind_extents(definition, tensors, inputs_of("mlp", rows=7))
    assert tensors["tv0"].shape(sizes) == (7, 64)
    assert tensors["tv4"].shape(sizes) == (7, 96)
    assert tensors["tv16"].shape(sizes) == (7, 64)


def test_a_size_that_no_input_tells() -> None:
    open_one = TensorType(DataType.Float, (Dim(Var("i9")), Dim(None), Dim(Const(3))))
    with pytest.raises(UnsupportedError) as caught:
        open_one.shape({"i0": 4})
    assert str(caught.value) == (
        "a tensor of shape [i9, ?, 3] is not supported; supported: extents that inputs have"
    )


def test_inputs_that_do_not_fit() -> None:
    definition = definition_of(built(BUILDERS["linear"]))
    with pytest.raises(InputError) as caught:
        bind_extents(definition, infer(definition), inputs_of("linear")[:1])
    assert str(caught.value) == "1 inputs, the definition has 2"


def test_what_somebody_has_scheduled_is_left_to_nvfuser() -> None:
    def split(fd: Any) -> None:
        y = fd.ops.matmul(matrix(fd), matrix(fd))
        fd.add_output(y)
        y.outer_split(1, 3)

    with pytest.raises(UnsupportedError) as caught:
        definition_of(built(split))
    assert str(caught.value) == (
        "the tensor T2_g___bfloat[iS4{i0}, iS7{3}, iS8{( ceilDiv(i4, 3) )}, rS6{i1}] is not "
        "supported; supported: tensors that nobody has sharded or scheduled"
    )


@pytest.mark.parametrize(
    "call",
    [
        "permute(x, dims=[0, 2])",
        "permute(x, dims=[0, 0])",
        "permute(x, dims=[0])",
        "slice(x, start_indices=[0, 0], end_indices=[4, 4], strides=[1, 0])",
        "slice(x, start_indices=[0, 0], end_indices=[4, 4], strides=[1, n])",
        "slice(x, start_indices=[0, 0, 0], end_indices=[4, 4, 4])",
        "slice(x, start_indices=[0], end_indices=[4])",
    ],
)
def test_what_contradicts_its_operand_has_no_dimensions(call: str) -> None:
    text = f"""
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[4, 8], contiguity=[True, True], dtype=DataType.Half)
    n = fd.define_scalar(None, dtype=DataType.Int)
    y = fd.ops.{call}
    z = fd.ops.permute(x, dims=[-1, 0])
    fd.add_output(y)
"""
    types = infer(record_text(text)).types
    assert types["y"].dims is None
    assert types["z"].dims == (Dim(Const(8)), Dim(Const(4)))


@pytest.mark.parametrize(
    "call",
    [
        "neg(u)", "add(x, u)", "linear(u, x)", "matmul(x, u)", "permute(u, dims=[1, 0])",
        "select(u, 1, dim=0)", "cat([u, x], dim=0)", "cat([x, u], dim=1)", "sum(u, dims=[0])",
        "slice(u, start_indices=[0, 0], end_indices=[2, 2])", "pad(u, [0, 1])", "squeeze(u, [0])",
        "index_select(u, i, dim=0)", "broadcast(u, [False, False, True])",
    ],
)  # fmt: skip
def test_what_is_made_of_what_has_none_has_none(call: str) -> None:
    text = f"""
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[4, 8], contiguity=[True, True], dtype=DataType.Half)
    i = fd.define_tensor(shape=[3], contiguity=[True], dtype=DataType.Int)
    u = fd.ops.permute(x, dims=[0, 0])
    y = fd.ops.{call}
    fd.add_output(y)
"""
    assert infer(record_text(text)).types["y"].dims is None


def test_sizes_that_are_told() -> None:
    """None is one of them; only those of -1 are found from inputs."""
    text = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[0, -1, 3], contiguity=[True, True, True], dtype=DataType.Half)
    fd.add_output(fd.ops.neg(x))
"""
    assert infer(record_text(text)).types["x"].dims == (
        Dim(Const(0)), Dim(Var("i0")), Dim(Const(3))
    )  # fmt: skip


def test_slices_that_end_at_a_size_or_before() -> None:
    """As nvFuser prints them where sizes are open; without saying so they may end anywhere."""
    text = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half)
    rows = fd.ops.size(x, dim=0)
    columns = fd.ops.size(x, dim=1)
    low = fd.ops.minimum(rows, 16)
    high = fd.ops.maximum(12, fd.ops.minimum(columns, 24))
    back = fd.ops.add(columns, fd.ops.neg(4))
    y = fd.ops.slice(x, start_indices=[0, 12], end_indices=[low, high], manual_normalization=True)
    z = fd.ops.slice(x, start_indices=[0, 0], end_indices=[rows, back], manual_normalization=True)
    u = fd.ops.slice(x, start_indices=[0, 0], end_indices=[rows, back])
    fd.add_output(y)
"""
    types = infer(record_text(text)).types
    for rows, columns in ((40, 40), (10, 20), (0, 5)):
        sizes = {"i0": rows, "i1": columns}
        ends = max(12, min(columns, 24))
        assert types["y"].shape(sizes) == (min(rows, 16), ends - 12)
        assert types["z"].shape(sizes) == (rows, columns - 4)
    assert types["u"].dims == (Dim(Var("i0")), Dim(None))


def test_gaps_that_a_constant_says() -> None:
    text = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[4, 8], contiguity=[True, True], dtype=DataType.Half)
    two = fd.define_scalar(2, dtype=DataType.Int)
    y = fd.ops.slice(x, start_indices=[0, 1], end_indices=[4, 8], strides=[1, two])
    fd.add_output(y)
"""
    assert infer(record_text(text)).types["y"].dims == (Dim(Const(4)), Dim(Const(4)))


def test_a_slice_up_to_a_size_that_is_found_to_be_the_same() -> None:
    """As of pairs of tokens: a mask says that both sizes are one, a slice ends at the other."""
    text = (
        "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
        "    x = fd.define_tensor(shape=[-1, -1, 8], contiguity=True, dtype=DataType.BFloat16)\n"
        "    m = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.BFloat16)\n"
        "    n = fd.ops.size(x, 0)\n"
        "    wide = fd.ops.broadcast_in_dim(m, shape=[n, n, 8], broadcast_dims=[0, 1])\n"
        "    y = fd.ops.mul(x, wide)\n"
        "    z = fd.ops.slice(y, start_indices=[0, 0, 2], end_indices=[n, n, 4])\n"
        "    fd.add_output(z)\n"
    )
    found = infer(record_text(text)).types["z"].dims
    assert found is not None
    assert found[0].extent == found[1].extent and isinstance(found[0].extent, Var)
    assert found[2].extent == Const(2)
