"""What depends on no tensor is stored once, where much reads it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.doors.dropin.definitions import nvf, torch
from wsched.doors.fallback import NvfuserError, interpret, rebuild
from wsched.front.cut import tables
from wsched.front.cut.tables import by_nvfuser, with_tables
from wsched.importer import Definition, definition_of, record_text

assert nvf  # definitions are built by nvFuser

MASK = """\
i = fd.ops.iota(length=128, start=0, step=1)
r = fd.ops.broadcast(i, is_broadcast_dim=[True, False])
c = fd.ops.broadcast(i, is_broadcast_dim=[False, True])
m = fd.ops.gt(r, c)
b = fd.ops.broadcast(m, is_broadcast_dim=[True, False, False])
e = fd.ops.expand(b, shape=[64, 128, 128])
f = fd.ops.cast(x, dtype=DataType.Float)
w = fd.ops.where(e, -1.0, f)
y = fd.ops.exp(w)
"""
"""Scores of 64 heads behind a causal mask."""

ANGLES = """\
i = fd.ops.iota(length=128, start=0, step=1)
a = fd.ops.cast(i, dtype=DataType.Float)
s = fd.ops.sin(a)
n = fd.ops.cast(s, dtype=DataType.BFloat16)
b = fd.ops.broadcast(n, is_broadcast_dim=[True, True, False])
e = fd.ops.expand(b, shape=[64, 128, 128])
g = fd.ops.cast(e, dtype=DataType.Float)
f = fd.ops.cast(x, dtype=DataType.Float)
y = fd.ops.mul(f, g)
"""
"""A factor of 16 bits that each head reads as fp32."""


CPU = torch.device("cpu")


def definition(body: str, shape: str = "[64, 128, 128]") -> Definition:
    given = (
        f"x = fd.define_tensor(shape={shape}, contiguity=[True, True, True], "
        "dtype=DataType.BFloat16)"
    )
    lines = [given, *body.splitlines(), "fd.add_output(y)"]
    text = "".join(f"    {line}\n" for line in lines)
    return record_text(f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{text}")


def stored(found: Definition) -> list[str]:
    return [n.results[0] for n in found.nodes if n.op == "segment_set"]


@pytest.mark.parametrize(("body", "name"), [(MASK, "m"), (ANGLES, "n")])
def test_a_table(body: str, name: str) -> None:
    """In front of what spreads and widens it; who reads it reads what is stored."""
    given = definition(body)
    found = with_tables(given)
    assert stored(found) == [name]
    nodes = [n for n in found.nodes if n.op != "segment_set"]
    assert [n.op for n in nodes] == [n.op for n in given.nodes]
    reader = next(n for n in found.nodes if n.refs == (name,))
    assert reader.op == "broadcast" and found.outputs == given.outputs


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        pytest.param(MASK.replace("[64, 128, 128]", "[-1, 128, 128]"), "[-1, 128, 128]", id="open"),
        pytest.param(MASK.replace("[64,", "[32,"), "[32, 128, 128]", id="few elements"),
        pytest.param(
            MASK.replace("length=128", "length=512").replace("[64, 128, 128]", "[4, 512, 512]"),
            "[4, 512, 512]",
            id="read four times",
        ),
        pytest.param(
            "n = fd.ops.full(shape=[128], fill_value=2.0, dtype=DataType.Float)\n"
            + ANGLES[ANGLES.index("b = ") :],
            "[64, 128, 128]",
            id="as cheap as a table",
        ),
        pytest.param(
            "q = fd.ops.sum(x, dims=[0, 1])\n" + ANGLES.replace("sin(a)", "mul(a, q)"),
            "[64, 128, 128]",
            id="of an input",
        ),
        pytest.param(
            ANGLES.replace("s = fd.ops.sin(a)", "s = fd.ops.uniform(0.0, 1.0, shape=[128], "
                           "dtype=DataType.Float)"),
            "[64, 128, 128]",
            id="drawn",
        ),
        *(
            pytest.param(
                "n = fd.ops.full(shape=[128], fill_value=2.0, dtype=DataType.Float)\n"
                + ANGLES.replace("sin(a)", f"{op}(n)"),
                "[64, 128, 128]",
                id=f"drawn by {op}",
            )
            for op in ("rand_like", "randn_like")
        ),
    ],
)  # fmt: skip
def test_no_table(body: str, shape: str) -> None:
    given = definition(body, shape)
    assert with_tables(given) is given


def test_a_result_is_stored_anyway() -> None:
    given = definition(MASK + "fd.add_output(m)")
    assert with_tables(given) is given


@pytest.mark.parametrize("body", [MASK, ANGLES])
@pytest.mark.parametrize("refused", [False, True])
def test_nvfuser_has_both_forms(body: str, refused: bool) -> None:
    """The one without tables from the first refusal on; both have the same results."""
    asked = []

    def function(fd: Any, values: Sequence[Any]) -> list[Any]:
        asked.append(fd)
        if refused and fd is asked[0]:
            raise RuntimeError("INTERNAL ASSERT FAILED")
        return interpret(definition_of(fd), values)

    given, x = definition(body), torch.randn(64, 128, 128).bfloat16()
    run = by_nvfuser(given, CPU, function)
    found = [run([x])[0] for _ in range(2)]
    (wanted,) = interpret(given, [x])
    assert all(torch.equal(f, wanted) for f in found)
    casts = [sum(n.op in ("cast", "set") for n in definition_of(fd).nodes) for fd in asked]
    assert casts == ([casts[1] + 1, casts[1], casts[1]] if refused else [casts[0]] * 2)


@pytest.mark.parametrize("alone", [True, False])
def test_what_reads_no_tensor_is_told_where(alone: bool) -> None:
    """NvFuser would take the first GPU, wherever the other parts run."""
    given = definition(MASK)
    if alone:
        mask = "".join(f"{line}\n" for line in MASK.splitlines()[:4])
        given = definition(mask + "y = fd.ops.logical_not(m)")
        given = replace(given, nodes=given.nodes[1:])
    asked, x = list[Any](), torch.randn(64, 128, 128).bfloat16()

    def function(fd: Any, values: Sequence[Any], **told: Any) -> list[Any]:
        asked.append(told)
        return interpret(definition_of(fd), values)

    inputs = [] if alone else [x]
    (found,), (wanted,) = by_nvfuser(given, CPU, function)(inputs), interpret(given, inputs)
    assert torch.equal(found, wanted) and asked == [{"device": CPU} if alone else {}]


def test_an_nvfuser_without_segment_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def rebuilt(found: Definition) -> Any:
        if stored(found):
            raise UnsupportedError("fd.ops.segment_set by this nvFuser", "operations that it has")
        return rebuild(found)

    def function(fd: Any, values: Sequence[Any]) -> list[Any]:
        return interpret(definition_of(fd), values)

    monkeypatch.setattr(tables, "rebuild", rebuilt)
    given, x = definition(MASK), torch.randn(64, 128, 128).bfloat16()
    (found,), (wanted,) = by_nvfuser(given, CPU, function)([x]), interpret(given, [x])
    assert torch.equal(found, wanted)


def test_two_threads_that_are_refused_at_once() -> None:
    """Both go on with the form without tables, which stays; the other one is not asked again."""
    both, tabled = Barrier(2, timeout=60), list[Any]()

    def function(fd: Any, values: Sequence[Any]) -> list[Any]:
        found = definition_of(fd)
        if sum(n.op in ("cast", "set") for n in found.nodes) > 1:
            tabled.append(fd)
            both.wait()
            raise RuntimeError("INTERNAL ASSERT FAILED")
        return interpret(found, values)

    given, x = definition(MASK), torch.randn(64, 128, 128).bfloat16()
    run, (wanted,) = by_nvfuser(given, CPU, function), interpret(given, [x])
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(run, [x]) for _ in range(2)]
        found = [*(call.result()[0] for call in calls), *run([x])]
    assert all(torch.equal(f, wanted) for f in found)
    assert len(tabled) == 2


def test_who_refuses_both_is_heard() -> None:
    def refusing(fd: Any, values: Sequence[Any]) -> list[Any]:
        raise RuntimeError("INTERNAL ASSERT FAILED")

    with pytest.raises(NvfuserError, match="INTERNAL ASSERT FAILED"):
        by_nvfuser(definition(MASK), CPU, refusing)([torch.zeros(64, 128, 128).bfloat16()])
