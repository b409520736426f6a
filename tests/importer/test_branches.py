"""Conditions of a text: the branch that it decides for, both where that makes no difference."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_spellings import X
from wsched.importer import Definition, Ref, record_text


@pytest.mark.parametrize(
    ("condition", "kept"),
    [("x is not None", "neg"), ("not bias", None), ("3 > 2 and True", "relu"), ("[]", "neg")],
)
def test_conditions(condition: str, kept: str | None) -> None:
    lines = (
        "def f(fd: FusionDefinition, bias):",
        f"    t = {X}",
        "    x = None",
        f"    if {condition}:",
        "        fd.add_output(fd.ops.relu(t))",
        "    else:",
        "        fd.add_output(fd.ops.neg(t))",
    )
    if kept is not None:
        assert record_text("\n".join(lines)).nodes[1].op == kept
        return
    with pytest.raises(UnsupportedError) as error:
        record_text("\n".join(lines))
    assert str(error.value) == (
        "line 4: `if not bias:` is not supported; supported: conditions that the text decides"
    )


def undecided(*branches: tuple[str, ...]) -> Definition:
    """A text with a branch, and perhaps another one, between which an argument decides."""
    lines = ["def f(fd: FusionDefinition, bias):", f"    t = {X}", "    x = 1"]
    for head, body in zip(("if bias:", "else:"), branches, strict=False):
        lines += [f"    {head}", *(f"        {line}" for line in body)]
    return record_text("\n".join([*lines, "    fd.add_output(fd.ops.mul(t, x))"]))


@pytest.mark.parametrize(
    "branches",
    [
        (("pass",),),
        (("print(bias)",), ("assert bias is None", "log(bias)")),
        (("t.set_device_mesh(mesh)",),),
        (("x = 1",), ("pass",)),
    ],
)
def test_branches_that_define_nothing_need_no_decision(
    branches: tuple[tuple[str, ...], ...],
) -> None:
    plain, found = undecided(), undecided(*branches)
    assert [n.op for n in found.nodes] == [n.op for n in plain.nodes] == ["define_tensor", "mul"]
    assert found.node("mul").operands == (Ref("t"), 1)  # type: ignore[union-attr]
    assert found.outputs == plain.outputs
    assert len(found.marks) == ("set_device_mesh" in str(branches))


@pytest.mark.parametrize(
    "body",
    [("x = 2",), ("fd.ops.neg(t)",), ("fd.add_output(t)",), ("return",), ("return t",)],
    ids=str,
)
@pytest.mark.parametrize("other", [False, True])
def test_branches_that_define_something_do(body: tuple[str, ...], other: bool) -> None:
    """The first as the second, and what is only left as what is made."""
    with pytest.raises(UnsupportedError) as error:
        undecided(("pass",), body) if other else undecided(body)
    assert str(error.value) == (
        "line 4: `if bias:` is not supported; supported: conditions that the text decides"
    )
