"""Which loops are a box, and where an element lies in it."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import Const, Var
from lowering.nest.tile import tile_of
from tests.schedule.fusions import linear
from wsched.fusion import IterDomain
from wsched.schedule.graph import TransformGraph
from wsched.schedule.schedule import Schedule


def split(*calls: tuple[str, int, tuple[str, str], bool]) -> Schedule:
    """The accumulator with loops split; ``False`` asks for the number of parts."""
    s = Schedule(linear())
    for axis, factor, labels, inner in calls:
        s.split("T4", axis, factor, labels=labels, inner_split=inner)
    return s


def loops(s: Schedule, *labels: str) -> list[IterDomain]:
    return [s.tensor("T4").loop[s.axis("T4", label)] for label in labels]


ROWS = (("M", 128, ("Mo", "Mi"), True), ("Mi", 64, ("m64", "M64"), True),
        ("N", 96, ("No", "Ni"), True), ("K", 64, ("k", "Ki"), True))  # fmt: skip


def test_sizes_and_offsets() -> None:
    s = split(*ROWS)
    tile = tile_of(s.tensor("T4"), loops(s, "m64", "M64", "Ni", "Ki"))
    assert tile.sizes == (128, 96)
    assert [tile.size(d) for d in s.tensor("T4").logical] == [128, 96, 64]
    graph = TransformGraph(s.fusion)
    found = {graph.group(d): e for d, e in zip(
        loops(s, "m64", "M64", "Ni"), (Var("m"), Const(0), Var("n")), strict=True
    )}  # fmt: skip
    at = tile.offsets(graph, found)
    assert at is not None
    assert [str(e) for e in at] == ["m * 64", "n"]
    del found[graph.group(loops(s, "Ni")[0])]
    assert tile.offsets(graph, found) is None


@pytest.mark.parametrize(
    ("calls", "inside", "what", "supported"),
    [
        (ROWS, ("m64", "Ni"), "a tile of T4 over m64 [Serial], Ni [Serial]",
         "neighbours in order, as Mo [Serial], m64 [Serial], M64 [Serial] are"),
        (ROWS, ("M64", "m64"), "a tile of T4 over M64 [Serial], m64 [Serial]",
         "neighbours in order, as Mo [Serial], m64 [Serial], M64 [Serial] are"),
        ((("M", 128, ("Mo", "Mi"), True), ("Mi", 48, ("part", "m"), True)), ("m",),
         "Split: iS16{128} by 48 -> iS17{3}, iS18{48} of T4", "a factor of 128 for Mi"),
    ],
)  # fmt: skip
def test_refused(
    calls: tuple[tuple[str, int, tuple[str, str], bool], ...],
    inside: tuple[str, ...],
    what: str,
    supported: str,
) -> None:
    s = split(*calls)
    with pytest.raises(UnsupportedError) as error:
        tile_of(s.tensor("T4"), loops(s, *inside))
    assert error.value.what == what
    assert error.value.supported == supported
    assert error.value.hint.startswith("The nest is:\nT4_l_float:\n  0: for ")


def test_two_dimensions_in_one_loop() -> None:
    s = split(*ROWS)
    s.reorder("T4", ["Mo", "No", "k", "M64", "Ni", "m64", "Ki"])
    s.merge("T4", "M64", "Ni", label="both")
    with pytest.raises(UnsupportedError) as error:
        tile_of(s.tensor("T4"), loops(s, "both"))
    assert error.value.what == "a tile of T4 over both [Serial]"
    assert error.value.supported == "loops of one dimension each"


def test_neighbours_that_are_merged_again_are_a_loop_of_their_dimension() -> None:
    s = split(*ROWS)
    s.merge("T4", "m64", "M64", label="rows")
    s.split("T4", "Ni", 32, labels=("third", "n"))
    s.merge("T4", "third", "n", label="columns")
    tile = tile_of(s.tensor("T4"), loops(s, "rows", "columns", "Ki"))
    assert tile.sizes == (128, 96)
    graph = TransformGraph(s.fusion)
    rows, columns = (graph.group(d) for d in loops(s, "rows", "columns"))
    assert tile.offsets(graph, {rows: Var("r"), columns: Const(0)}) == (Var("r"), Const(0))


@pytest.mark.parametrize("pair", [("M64", "m64"), ("Mo", "m64")])
def test_others_that_are_merged_are_no_loop_of_it(pair: tuple[str, str]) -> None:
    """The slower one inside, or with another one between."""
    s = split(*ROWS, ("m64", 1, ("m64o", "m64"), True))
    if pair == ("Mo", "m64"):
        s.reorder("T4", ["Mo", "m64"])
    s.merge("T4", *pair, label="rows")
    with pytest.raises(UnsupportedError) as error:
        tile_of(s.tensor("T4"), loops(s, "rows"))
    assert error.value.what == "a tile of T4 over rows [Serial]"
    assert error.value.supported == "loops of one dimension each"
