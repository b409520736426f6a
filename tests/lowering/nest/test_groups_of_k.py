"""Numbers of groups of K: the scales of each group in a step, and zero points, once or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from lowering.kernel.nodes import FragLoadGlobal, MmaTile
from lowering.kernel.visit import walk
from lowering.nest.lower import lower
from tests.computed import fusion
from wsched.fusion import Fusion, MmaOp
from wsched.schedule.matmul.params import GemmTile, MatmulParams
from wsched.schedule.matmul.tiles import tile_choice
from wsched.schedule.plan import make_plan

WORDS = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    q = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Int8)
    zero = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    scale = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    w = fd.ops.cast(q, dtype=DataType.BFloat16)
    d = fd.ops.linear(x, w, scale_b=scale, zero_b=zero, group=128)
    fd.add_output(d)
"""


def without_zero_points(text: str) -> str:
    lines = (line for line in text.splitlines(True) if "zero =" not in line)
    return "".join(lines).replace("zero_b=zero, ", "")


def scheduled(text: str, exchanged: bool = True) -> str:
    """The built-in schedule of tiles of 64 x 16 and slices of 128, as a text."""
    base = MatmulParams(exchange_operands=exchanged)
    choice = tile_choice(fusion(text), base, GemmTile(64, 16, 128), 1, False, along_k=1)
    return str(wsched.Schedule.of(text, choice.params))


def refused(f: Fusion) -> tuple[str, str]:
    with pytest.raises(UnsupportedError) as error:
        lower(make_plan(f), "k")
    return error.value.what, error.value.supported


@pytest.mark.parametrize(("group", "blocks"), [(128, ["k"]), (64, ["k * 2", "k * 2 + 1"])])
def test_a_step_has_the_scales_of_each_of_its_groups(group: int, blocks: list[str]) -> None:
    text = scheduled(without_zero_points(WORDS)).replace("group=128", f"group={group}")
    kernel = lower(make_plan(wsched.Schedule.parse(text).fusion), "k")
    loads = [s for s in walk(kernel.body) if isinstance(s, FragLoadGlobal)]
    assert [(s.src.map, str(s.src.coords[0])) for s in loads] == [("T2", at) for at in blocks]
    (product,) = (s for s in walk(kernel.body) if isinstance(s, MmaTile))
    assert product.by_row == tuple(s.out for s in loads) and product.by_col == ()


@pytest.mark.parametrize(("group", "blocks"), [(128, ["k"]), (64, ["k * 2", "k * 2 + 1"])])
def test_a_step_takes_the_zero_points_of_each_of_its_groups_from_its_rows(
    group: int, blocks: list[str]
) -> None:
    text = scheduled(WORDS).replace("group=128", f"group={group}")
    kernel = lower(make_plan(wsched.Schedule.parse(text).fusion), "k")
    loads = [s for s in walk(kernel.body) if isinstance(s, FragLoadGlobal) and s.src.map == "T2"]
    assert [str(s.src.coords[0]) for s in loads] == blocks
    (product,) = (s for s in walk(kernel.body) if isinstance(s, MmaTile))
    assert product.zeros == tuple(s.out for s in loads)
    assert all(z.type.cols == 1 for z in product.zeros)


def test_zero_points_of_both_operands() -> None:
    """The rule takes those of the one that registers hold."""
    f = wsched.Schedule.parse(scheduled(WORDS)).fusion
    exprs = [
        replace(e, scales=(e.scales[1], e.scales[1])) if isinstance(e, MmaOp) and e.scales else e
        for e in f.exprs
    ]
    what, supported = refused(f.updated((), exprs))
    assert what.count("behind zero points T2") == 2
    assert supported == "zero points of A, in registers"


@pytest.mark.parametrize("exchanged", [False, True], ids=["of B", "in shared memory"])
def test_zero_points_of_what_no_registers_hold(exchanged: bool) -> None:
    """Of weights that are multiplied as they are, whichever of both operands they are."""
    cast = "    w = fd.ops.cast(q, dtype=DataType.BFloat16)\n"
    plain = without_zero_points(WORDS).replace(cast, "").replace("linear(x, w,", "linear(x, q,")
    text = scheduled(plain.replace("Int8", "BFloat16"), exchanged)
    f = wsched.Schedule.parse(text).fusion
    exprs = [
        replace(e, scales=tuple(s and replace(s, zero=s.tensor) for s in e.scales or ()))
        if isinstance(e, MmaOp)
        else e
        for e in f.exprs
    ]
    what, supported = refused(f.updated((), exprs))
    assert " = mma(" in what and "behind zero points T2" in what
    assert supported == "zero points of A, in registers"
