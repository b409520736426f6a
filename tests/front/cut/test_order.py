"""The order in memory of results, and which dimensions of tensors are one: as nvFuser has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.doors.dropin.definitions import BF16, BUILDERS, F32, built, matrix, nvf
from tests.front.cut.test_infer import many
from wsched.front.cut.infer import infer
from wsched.front.cut.order import Orders, by_stride
from wsched.importer import definition_of

_TENSOR = re.compile(r"T(\d+)_")
_SET = re.compile(r"\{ (.*) \}")


def orders_of(build: Callable[[Any], None]) -> Orders:
    definition = definition_of(built(build))
    return Orders(definition, infer(definition))


def found(build: Callable[[Any], None]) -> list[Any]:
    """Of each output its order, ``view`` of one that nvFuser looks for none for."""
    orders = orders_of(build)
    outputs = orders.definition.outputs
    return ["settled" if orders.is_settled(n) else orders.of(n) for n in outputs]


def cube(fd: Any, order: list[int] | None = None, dtype: Any = BF16) -> Any:
    return fd.define_tensor(
        shape=[-1, -1, -1], contiguity=True, dtype=dtype, stride_order=order or [2, 1, 0]
    )


# --- dimensions -----------------------------------------------------------------------------------


def moved(fd: Any) -> None:
    """The same views twice, and what they make side by side."""
    x = fd.define_tensor(shape=[4, 6, 8], contiguity=True, dtype=BF16)
    y = fd.ops.relu(x)
    one, two = (fd.ops.reshape(t, [4, 6, 2, 4]) for t in (x, y))
    fd.add_output(fd.ops.add(one, fd.ops.neg(two)))
    fd.add_output(fd.ops.permute(fd.ops.reshape(x, [24, 8]), [1, 0]))
    fd.add_output(fd.ops.reshape(fd.ops.reshape(x, [3, 8, 8]), [3, 2, 4, 8]))
    left, right = (fd.ops.slice(t, [0, 0, 2], [4, 6, 6]) for t in (x, y))
    fd.add_output(fd.ops.mul(left, right))
    fd.add_output(fd.ops.pad(x, [1, 1]))
    fd.add_output(fd.ops.squeeze(fd.ops.sum(x, dims=[1], keepdim=True), dims=[1]))
    fd.add_output(fd.ops.matmul(fd.ops.permute(x, [0, 2, 1]), y))
    fd.add_output(fd.ops.matmul(x, fd.define_tensor(shape=[1, 8, 5], contiguity=True, dtype=BF16)))


def attention(fd: Any) -> None:
    q, k, v = (
        fd.define_tensor(shape=[-1, -1, -1, 64], contiguity=True, dtype=BF16) for _ in range(3)
    )
    out, total, *_ = fd.ops.sdpfa_fwd(q, k, v, None, None, None, None, None)
    fd.add_output(fd.ops.permute(out, [0, 2, 1, 3]))
    fd.add_output(fd.ops.neg(total))


def best(fd: Any) -> None:
    """The largest of each row, and the same numbers read along with them."""
    x = fd.define_tensor(shape=[-1, -1, 8], contiguity=True, dtype=BF16)
    values, indices = fd.ops.topk(x, fd.define_scalar(2, dtype=nvf.DataType.Int), 2, True, True)
    fd.add_output(fd.ops.add(fd.ops.neg(values), indices))
    fd.add_output(fd.ops.relu(x))


def selected(fd: Any) -> None:
    """Rows by an index, twice, and columns."""
    x, y, rows, columns = matrix(fd), cube(fd), *(vector(fd) for _ in range(2))
    first, second = (fd.ops.index_select(t, rows, 0) for t in (x, fd.ops.neg(x)))
    fd.add_output(fd.ops.add(first, fd.ops.neg(second)))
    fd.add_output(fd.ops.neg(fd.ops.index_select(y, columns, 2)))
    fd.add_output(fd.ops.relu(x))


def looked(fd: Any) -> None:
    """What is read and written at places that a tensor says."""
    x, y, w = matrix(fd), matrix(fd), matrix(fd)
    places = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=nvf.DataType.Int)
    fd.add_output(fd.ops.neg(fd.ops.gather(x, places, 1)))
    taken = fd.ops.take_along_axis(fd.ops.relu(y), fd.ops.abs(places), 1)
    fd.add_output(fd.ops.neg(taken))
    fd.add_output(fd.ops.neg(fd.ops.embedding_fwd(places, w)))
    fd.add_output(fd.ops.neg(fd.ops.scatter(x, places, y, 0)))
    fixed, at, source = (
        fd.define_tensor(shape=[16, n], contiguity=True, dtype=kind)
        for n, kind in ((8, BF16), (2, nvf.DataType.Int), (2, BF16))
    )
    fd.add_output(fd.ops.neg(fd.ops.scatter(fixed, at, source, 1)))
    fd.add_output(fd.ops.neg(fd.ops.scatter(fd.ops.neg(fixed), at, fd.define_scalar(2.0), -1)))
    one = fd.define_tensor(shape=[1, 8], contiguity=[None, True], dtype=BF16)
    fd.add_output(fd.ops.neg(fd.ops.take_along_axis(one, fd.ops.neg(at), 1)))


def vector(fd: Any) -> Any:
    return fd.define_tensor(shape=[-1], contiguity=True, dtype=nvf.DataType.Int)


@pytest.mark.parametrize(
    "build", [*BUILDERS.values(), many, moved, attention, best, selected, looked]
)
def test_dimensions_are_one_where_nvfuser_maps_them(build: Callable[[Any], None]) -> None:
    fd = built(build)
    definition = definition_of(fd)
    dimensions = Orders(definition, infer(definition)).dimensions
    model = nvf.idm.IdModel(fd.fusion)  # the graph does not keep it
    graph = model.maybe_build_graph(nvf.IdMappingMode.exact)
    groups = [set(line.split("; ")) for line in _SET.findall(str(graph.disjoint_val_sets()))]
    theirs: dict[int, list[Any]] = {}
    ours: dict[int, list[Any]] = {}
    for value in fd.fusion.vals():
        if not value.is_tensor():
            continue
        name = f"tv{_TENSOR.match(str(value))[1]}"  # type: ignore[index]
        axes = [str(d) for d in value.get_logical_domain() if not str(d).startswith("r")]
        ids = dimensions.of(name)
        if ids is None:
            continue
        for at, (axis, number) in enumerate(zip(axes, ids, strict=True)):
            if axis[0] == "i":
                (group,) = (n for n, g in enumerate(groups) if axis in g)
                theirs.setdefault(group, []).append((name, at))
                ours.setdefault(number, []).append((name, at))
    assert sorted(map(sorted, ours.values())) == sorted(map(sorted, theirs.values()))
    assert len(ours) > 2


# --- orders ---------------------------------------------------------------------------------------


def test_two_inputs_with_most_dimensions_that_differ_say_nothing() -> None:
    def build(fd: Any) -> None:
        fd.add_output(fd.ops.relu(fd.ops.permute(fd.ops.linear(matrix(fd), matrix(fd)), [1, 0])))

    assert found(build) == [(0, 1)]


def test_the_input_with_most_dimensions_says_it() -> None:
    """x and the residual have three; only the residual has the product's columns."""

    def build(fd: Any) -> None:
        x, w = matrix(fd), matrix(fd)
        y = fd.ops.broadcast(fd.ops.linear(x, w), [True, False, False])
        moved = fd.ops.permute(fd.ops.add(y, cube(fd)), [0, 2, 1])
        fd.add_output(fd.ops.neg(moved))
        fd.add_output(fd.ops.sum(fd.ops.neg(moved), dims=[0]))

    assert found(build) == [(0, 2, 1), (1, 0)]


def test_an_order_of_an_input() -> None:
    def build(fd: Any) -> None:
        x = cube(fd, [0, 2, 1])
        fd.add_output(fd.ops.neg(x))
        fd.add_output(fd.ops.sum(x, dims=[2], dtype=F32))
        fd.add_output(fd.ops.neg(fd.ops.sum(x, dims=[2], dtype=F32)))
        fd.add_output(fd.ops.sum(x, dims=[0], dtype=F32))

    assert found(build) == [(1, 2, 0), (1, 0), (1, 0), (0, 1)]


def test_one_dimension_is_enough_to_say_it_and_none_is_not() -> None:
    def build(fd: Any) -> None:
        for shape, runs in (([1, -1], [True, None]), ([1, 1], [None, None])):
            fd.add_output(fd.ops.neg(fd.define_tensor(
                shape=shape, contiguity=runs, dtype=BF16, stride_order=[0, 1]
            )))  # fmt: skip

    assert found(build) == [(1, 0), (0, 1)]


def test_dimensions_that_the_input_has_not_come_first() -> None:
    def build(fd: Any) -> None:
        x = matrix(fd)
        row = fd.define_tensor(shape=[-1], contiguity=True, dtype=BF16)
        wide = fd.ops.broadcast(x, [False, True, False])
        fd.add_output(fd.ops.add(wide, fd.ops.broadcast(row, [True, False, True])))

    assert found(build) == [(1, 0, 2)]


def test_views_and_products_are_settled() -> None:
    def build(fd: Any) -> None:
        y = fd.ops.linear(cube(fd), matrix(fd))
        fd.add_output(y)
        fd.add_output(fd.ops.permute(y, [2, 0, 1]))
        fd.add_output(
            fd.ops.squeeze(
                fd.ops.broadcast(fd.ops.permute(y, [2, 0, 1]), [True] + [False] * 3), [0]
            )
        )
        fd.add_output(fd.ops.stride_order(fd.ops.neg(y), [0, 1, 2]))

    assert found(build) == ["settled"] * 4


def views(fd: Any) -> None:
    x = fd.define_tensor(shape=[4, 6, 8], contiguity=True, dtype=BF16)
    y = fd.ops.neg(x)
    heads = fd.ops.permute(fd.ops.reshape(y, [4, 6, 2, 4]), [0, 2, 1, 3])
    fd.add_output(heads)
    fd.add_output(fd.ops.reshape(heads, [8, 6, 4]))  # no longer side by side
    fd.add_output(fd.ops.reshape(fd.ops.permute(heads, [0, 2, 1, 3]), [24, 8]))
    left = fd.ops.slice(y, [0, 0, 0], [4, 6, 4])
    fd.add_output(left)
    fd.add_output(fd.ops.reshape(left, [24, 4]))  # the rows are
    fd.add_output(fd.ops.reshape(left, [4, 24]))  # these elements are not
    fd.add_output(fd.ops.reshape(fd.ops.slice(y, [0, 2, 0], [4, 4, 8]), [8, 8]))


def test_a_reshape_is_a_view_where_what_it_joins_lies_side_by_side() -> None:
    kinds = [x == "settled" for x in found(views)]
    assert kinds == [True, False, True, True, True, False, False]


def test_as_stride_order_says_it() -> None:
    assert by_stride((0, 1, 2)) == (2, 1, 0)
    assert by_stride((1, 2, 0)) == (0, 2, 1)
