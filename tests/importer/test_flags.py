"""Flags that are written as numbers, and numbers as flags: nvFuser takes both, and so do texts."""

from __future__ import annotations

import pytest

from wsched.importer import Definition, record_text
from wsched.importer.consistent import check_consistent
from wsched.importer.definition import definition_text


def _body(*lines: str) -> Definition:
    return record_text("\n".join(("def f(fd: FusionDefinition):", *(f"    {s}" for s in lines))))


def _typed(*, flags: tuple[object, ...], places: tuple[object, ...]) -> tuple[str, ...]:
    """A definition whose flags and dimensions are written so."""
    (true, false), (one, none) = flags, places
    return (
        f"T0 = fd.define_tensor(shape=[-1, -1], contiguity=[{true}, {true}], "
        f"dtype=DataType.Float, is_cpu={false}, stride_order=[{one}, {none}])",
        f"T1 = fd.ops.sum(T0, [{one}], {true})",
        f"T2 = fd.ops.broadcast(T1, [{false}, {true}, {false}])",
        f"T3 = fd.ops.squeeze(T2, [{one}], {false})",
        f"T4 = fd.ops.permute(T3, [{one}, {none}])",
        f"T5 = fd.ops.pad(T4, [{one}, {none}, {none}, {one}])",
        f"T6 = fd.ops.max(T5, {one}, keepdim={false})",
        f"T7 = fd.ops.cumsum(T6, {none})",
        f"T8, T9 = fd.ops.topk(T7, fd.define_scalar(2), {none}, largest={true}, sorted={false})",
        "fd.add_output(T8)",
    )


@pytest.mark.parametrize("flags", [(1, 0), (0.5, 0.0), (2, 0j)])
def test_numbers_are_flags_and_flags_are_numbers(flags: tuple[object, ...]) -> None:
    """As nvFuser takes them: what is no list and no text has a truth, and True is 1."""
    plain = _body(*_typed(flags=(True, False), places=(1, 0)))
    other = _body(*_typed(flags=flags, places=(True, False)))
    assert definition_text(other) == definition_text(plain)
    check_consistent(other)


@pytest.mark.parametrize("flags", [(1, 0), (0.5, 0.0), (2, 0j)])
def test_nvfuser_takes_these_flags_too(flags: tuple[object, ...]) -> None:
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    printed = []
    for lines in (
        _typed(flags=(True, False), places=(1, 0)),
        _typed(flags=flags, places=(True, False)),
    ):
        with nvfuser.FusionDefinition() as fd:
            exec("\n".join(lines), {"fd": fd, "DataType": nvfuser.DataType})
        printed.append(repr(fd))
    assert printed[0] == printed[1]


def test_integers_are_strides_by_position_and_flags_by_name() -> None:
    """As nvFuser reads them."""
    (by_name, *_) = _body("t = fd.define_tensor(shape=[4, 5], contiguity=[5, 0])").nodes
    assert dict(by_name.kwargs) == {"shape": (4, 5), "contiguity": (True, False)}
    (by_position, *_) = _body("t = fd.define_tensor([4, 5], [5, 1])").nodes
    assert by_position.get("contiguity") == (True, True)
    assert by_position.get("shape") == (-1, -1)
