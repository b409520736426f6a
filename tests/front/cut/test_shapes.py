"""What each operation makes of types, extents, dimensions and places in memory: a table, in
``tests/golden``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wsched.front.cut.infer import infer
from wsched.front.cut.looks import move_of
from wsched.front.cut.order import Orders
from wsched.fusion import DataType
from wsched.importer import record_text
from wsched.importer.dtypes import result_types

INPUTS = {
    "a": "[-1, 6, 8], dtype=DataType.BFloat16",
    "b": "[4, 6, 8], dtype=DataType.BFloat16",
    "turned": "[4, 6, 8], dtype=DataType.BFloat16, stride_order=[2, 0, 1]",
    "gaps": "[4, 6, 8], dtype=DataType.Half, contiguity=[False, True, True]",
    "turned_gaps": "[4, 6, 8], dtype=DataType.Half, stride_order=[1, 0, 2], "
    "contiguity=[True, False, True]",
    "c": "[-1, 6, 8], dtype=DataType.BFloat16",
    "one": "[4, 1, 8], dtype=DataType.BFloat16",
    "row": "[8], dtype=DataType.Float",
    "w": "[16, 8], dtype=DataType.BFloat16",
    "open": "[-1, -1], dtype=DataType.BFloat16",
    "q": "[2, 3, 32, 8], dtype=DataType.BFloat16",
    "k": "[2, 3, 48, 8], dtype=DataType.BFloat16",
    "v": "[2, 3, 48, 24], dtype=DataType.BFloat16",
    "heads": "[2, 1, 8, 48], dtype=DataType.BFloat16",
    "stack": "[5, 8, 16], dtype=DataType.BFloat16",
    "ends": "[5], dtype=DataType.Int32",
    "index": "[7], dtype=DataType.Int",
    "table": "[9, 7], dtype=DataType.Int",
    "none": "[], dtype=DataType.Float",
}
"""By name what :func:`define_tensor` takes; ``n`` is a number that only the call tells, ``m`` 3."""

OPERATIONS = """
neg(a)
add(a, b)
add(a, c)
add(one, b)
add(row, b)
add(b, none)
add(open, w)
where(one, a, row)
mul(a, 2.0)
cast(a, dtype=DataType.Float)
set(one)
stride_order(b, stride_order=[2, 0, 1])
broadcast(row, [True, False])
broadcast(w, is_broadcast_dim=[False, True, False, True])
broadcast_in_dim(w, shape=[4, 16, 8], broadcast_dims=[1, 2])
broadcast_in_dim(row, shape=[n, 6, 8], broadcast_dims=[2])
broadcast_in_dim(one, shape=[4, 1, 8], broadcast_dims=[0, 1, 2])
broadcast_in_dim(w, shape=[4, 16, 8], broadcast_dims=[1])
expand(one, [4, 6, 8])
expand(one, [-1, -1, 8])
expand(one, [4, 1, 8])
expand(one, [4, 6])
expand(open, [5, -1])
squeeze(one, dims=[1])
squeeze(one, [-2])
permute(b, dims=[2, 0, 1])
permute(b, [-1, 0, 1])
permute(b, [0, 1])
reshape(b, new_shape=[24, 8])
reshape(b, [2, 2, 48])
reshape(b, [3, 8, 8])
reshape(b, [4, 1, 6, 8])
reshape(b, [-1, 16])
reshape(a, [-1, 48])
reshape(a, [n, 6, 8])
reshape(a, [3, -1, 6, 8])
reshape(open, [-1])
slice(b, start_indices=[0, 0, 2], end_indices=[4, 6, 8])
slice(b, start_indices=[0, 0, 0], end_indices=[4, 6, 8])
slice(b, start_indices=[0, 0, 1], end_indices=[4, 6, 8], strides=[1, 1, 3])
slice(b, start_indices=[0, 0, 0], end_indices=[4, 6, 8], strides=[2, 1, 1])
slice(b, start_indices=[0, -2, 0], end_indices=[-1, 6, 100])
slice(a, start_indices=[1, 0, 0], end_indices=[7, 6, 8])
slice(a, start_indices=[1, 0, 0], end_indices=[8, 6, 8], strides=[2, 1, 1])
slice(a, start_indices=[-3, 0, 0], end_indices=[7, 6, 8])
slice(a, start_indices=[0, 0, 0], end_indices=[-1, 6, 8])
slice(a, start_indices=[0, 0, 0], end_indices=[n, 6, 8])
slice(a, start_indices=[n, 0, 0], end_indices=[4, 6, 8])
slice(b, start_indices=[0, 0], end_indices=[4, 6])
cat([b, b], dim=0)
cat([b, b, one], dim=1)
cat([a, b], dim=0)
cat([a, b], dim=-1)
cat([b, b], dim=1, manual_padding=True)
pad(b, [0, 2])
pad(b, [1, 2, 3, 0])
pad(b, [0, 0, 0, 1])
pad(a, [0, 0, 0, 0, m, 1])
pad(b, [0, n])
pad(one, [0, 0, 1, 2])
slice(b, start_indices=[0, 2, 0], end_indices=[4, 3, 8])
linear(a, w)
linear(row, w)
linear(a, w, w)
linear(open, w)
linear(w, row)
matmul(w, row)
matmul(row, row)
matmul(b, row)
matmul(q, heads)
matmul(heads, k)
matmul(open, open)
matmul(w, heads)
grouped_mm(w, stack, ends)
grouped_mm(stack, stack, ends)
grouped_mm(w, open, ends)
grouped_mm(none, stack, ends)
sum(b, dims=[1])
sum(b, dims=[-1, 0], keepdim=True)
sum(b)
max(a, [0], False)
var_mean(b, dims=[2], correction=1, keepdim=True)
var(b, [0, 1], 0)
select(b, 3, 1)
select(b, 3, dim=-1)
topk(b, 3)
topk(b, k=m, dim=0)
topk(b, n, -2)
argsort(b, 1, False, True)
cumsum(one, 1)
triu(b, 1)
index_select(b, index, dim=1)
index_select(b, index, -1)
index_select(b, table, 0)
index_select(b, none, 0)
take_along_axis(b, b, dim=1)
take_along_axis(a, one, -2)
take_along_axis(one, b, 0)
take_along_axis(w, open, 1)
take_along_axis(b, w, 1)
gather(b, b, 1)
gather(w, open, 0)
scatter(b, one, one, 1)
scatter(b, a, 2.0, -1)
embedding_fwd(index, w)
embedding_fwd(table, open)
sdpfa_fwd(q, k, v)
sdpfa_fwd(q, k, v, 0.1, True, 0.5)
sdpfa_bwd(q, q, k, v, q, q)
full(shape=[3, n, m], fill_value=1.0, dtype=DataType.Float)
iota(length=m, start=0, step=1, dtype=DataType.Int)
full(shape=[3.0, 2.5], fill_value=1.0, dtype=DataType.Float)
uniform(0.0, 1.0, [3, 5], dtype=DataType.Float)
rand_like(one)
neg(turned)
neg(gaps)
neg(turned_gaps)
cast(turned, dtype=DataType.Float)
cast(gaps, dtype=DataType.Float)
cast(turned_gaps, dtype=DataType.Float)
set(turned)
set(gaps)
set(turned_gaps)
permute(turned, dims=[2, 0, 1])
permute(gaps, dims=[2, 0, 1])
permute(turned_gaps, dims=[2, 0, 1])
permute(turned, dims=[1, 0, 2])
permute(gaps, dims=[1, 0, 2])
permute(turned_gaps, dims=[1, 0, 2])
reshape(turned, [24, 8])
reshape(gaps, [24, 8])
reshape(turned_gaps, [24, 8])
reshape(turned, [4, 48])
reshape(gaps, [4, 48])
reshape(turned_gaps, [4, 48])
reshape(turned, [4, 3, 2, 8])
reshape(gaps, [4, 3, 2, 8])
reshape(turned_gaps, [4, 3, 2, 8])
reshape(turned, [4, 1, 6, 8])
reshape(gaps, [4, 1, 6, 8])
reshape(turned_gaps, [4, 1, 6, 8])
slice(turned, start_indices=[0, 0, 2], end_indices=[4, 6, 8])
slice(gaps, start_indices=[0, 0, 2], end_indices=[4, 6, 8])
slice(turned_gaps, start_indices=[0, 0, 2], end_indices=[4, 6, 8])
slice(turned, start_indices=[1, 0, 0], end_indices=[4, 6, 8])
slice(gaps, start_indices=[1, 0, 0], end_indices=[4, 6, 8])
slice(turned_gaps, start_indices=[1, 0, 0], end_indices=[4, 6, 8])
broadcast(turned, [False, True, False, False])
broadcast(gaps, [False, True, False, False])
broadcast(turned_gaps, [False, True, False, False])
expand(turned, [4, 6, 8])
expand(gaps, [4, 6, 8])
expand(turned_gaps, [4, 6, 8])
stride_order(turned, [2, 0, 1])
stride_order(gaps, [2, 0, 1])
stride_order(turned_gaps, [2, 0, 1])
squeeze(one, [1])
add(turned, b)
add(gaps, turned_gaps)
sum(turned, [0])
sum(turned, [1], keepdim=True)
sum(turned_gaps, [2])
reshape(one, [4, 8])
broadcast(one, [True, False, False, False])
stride_order(one, [1, 2, 0])
stride_order(one, [2, 0, 1])
mul(turned, row)
add(none, none)
gt(b, 0.5)
add(index, row)
add(index, 1)
add(ends, 1.5)
div(index, index)
scaled_mm(w, w, w, w)
"""

SEVERAL = {"var_mean": 2, "topk": 2, "sdpfa_fwd": 4, "sdpfa_bwd": 3, "scaled_mm": 3}


def definition_of(operation: str, before: str = "") -> tuple[str, list[str]]:
    """A text with one operation, and the names of its results.

    Args:
        operation: a call.
        before: a line in front of it.
    """
    names = [f"z{n}" for n in range(SEVERAL.get(operation.partition("(")[0], 1))]
    lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
    lines += [f"    {x} = fd.define_tensor(shape={told})" for x, told in INPUTS.items()]
    lines += ["    n = fd.define_scalar(None, dtype=DataType.Int)"]
    lines += ["    m = fd.define_scalar(3, dtype=DataType.Int)"]
    lines += [
        f"    {line}" for line in (before, f"{', '.join(names)} = fd.ops.{operation}") if line
    ]
    return "\n".join([*lines, "    fd.add_output(z0)", ""]), names


def listed(known: object, words: list[str]) -> str:
    """Words in brackets, of what is known."""
    return "unknown" if known is None else f"[{', '.join(words)}]"


def place(orders: Orders, name: str) -> str:
    """Whether it is a view, and places from the slowest on, `/` where one does not run on."""
    if (lies := orders.layout(name)) is None:
        return "somewhere"
    places = " ".join(f"{at}{'' if runs else '/'}" for at, runs in zip(*lies, strict=True))
    return f"{'view' if orders.is_view(name) else 'lies'} {places}".rstrip()


def shown(operation: str) -> str:
    """Extents of the results, and of which input's dimension each is."""
    text, names = definition_of(operation)
    definition = record_text(text)
    found = infer(definition)
    orders = Orders(definition, found)
    dimensions = orders.dimensions
    known: dict[int, str] = {}
    for name in INPUTS:
        for at, number in enumerate(dimensions.of(name) or ()):
            known[number] = f"{known[number]}={name}{at}" if number in known else f"{name}{at}"
    lines = []
    for name in names:
        dims, numbers = found.types[name].dims, dimensions.of(name)
        extents = [f"{d.extent}" + " repeated" * d.repeated for d in dims or ()]
        own = [known.setdefault(n, f"new{n}") for n in numbers or ()]
        words = [listed(dims, extents), listed(numbers, own), place(orders, name)]
        lines.append("    {}: {} of {}, {}".format(found.types[name].dtype, *words))
        if (move := move_of(definition.node(name), found.types)) is not None:
            extents = [str(e) for e in move.extents]
            lines.append(f"    looks: {move.op} {move.places}, {listed(move, extents)}")
    joined = sorted(x for x in known.values() if "=" in x)
    return "\n".join([operation, *lines, *(f"    {x}" for x in joined)])


def test_of_every_operation(golden: object) -> None:
    assert "\n".join(map(shown, OPERATIONS.split("\n")[1:-1])) == golden


UNKNOWN = "u = fd.ops.broadcast_in_dim(w, shape=[4, 16, 8], broadcast_dims=[1])"
"""Not known, because nvFuser takes no such call."""


def of_what_is_not_known() -> Iterator[str]:
    """Of each operation a call for each tensor that it reads, with ``u`` in its place."""
    seen = set[str]()
    for operation in OPERATIONS.split("\n")[1:-1]:
        op, _, rest = operation.partition("(")
        if op in seen:
            continue
        seen.add(op)
        for found in re.finditer(rf"\b({'|'.join(INPUTS)})\b(?!=)", rest):
            yield f"{op}({rest[: found.start()]}u{rest[found.end() :]}"


def test_of_a_tensor_of_which_nothing_is_known(golden: object) -> None:
    lines = []
    for operation in of_what_is_not_known():
        text, names = definition_of(operation, UNKNOWN)
        definition = record_text(text)
        found = infer(definition)
        orders = Orders(definition, found)
        assert found.types["u"].dims is None
        told = []
        for name in names:
            dims = found.types[name].dims
            extents = [f"{d.extent}" + " repeated" * d.repeated for d in dims or ()]
            told.append(
                f"{found.types[name].dtype}: {listed(dims, extents)}, {place(orders, name)}"
            )
        lines.append(f"{operation}: {'; '.join(told)}")
    assert "\n".join(lines) == golden


def test_as_many_types_as_results() -> None:
    for operation in OPERATIONS.split("\n")[1:-1]:
        text, names = definition_of(operation)
        node = record_text(text).node(names[0])
        assert node is not None
        kinds = result_types(node, [DataType.BFloat16] * 4, False)
        assert len(kinds) == len(node.results), operation
