"""Numbers of dimensions: what the walk over a text knows, beside the extents that a cut infers."""

from __future__ import annotations

from tests.front.cut.test_shapes import INPUTS, OPERATIONS, definition_of
from wsched.front.cut.infer import infer
from wsched.importer import Ref, record_text
from wsched.importer.ranks import Ranks

UNTOLD = {"grouped_mm": (3, 3), "sdpfa_bwd": (4,), "sdpfa_fwd": (4, 4)}
"""Operations of which the walk does not know how many dimensions there are, as extents do: as many
as what is read there, which numbers have none of."""

OF_NUMBERS = {
    "add(none, 2.0)": True, "where(none, 1.0, 2.0)": True, "add(1.0, none)": True,
    "mul(n, 2)": False, "cast(m, dtype=DataType.Double)": False, "size(b, 1)": False,
}  # fmt: skip
"""Operations whose results have no dimensions, and whether these are tensors."""


def ranks_of(operation: str) -> tuple[Ranks, list[str], dict[str, int | None]]:
    """The walk, names of the results, and how many dimensions extents say of each tensor."""
    text, names = definition_of(operation)
    definition = record_text(text)
    found = infer(definition).types
    known = {name: None if t.dims is None else len(t.dims) for name, t in found.items()}
    return Ranks.all_of(definition), names, known


def test_as_many_as_extents() -> None:
    untold, both = dict[str, tuple[int, ...]](), 0
    for operation in OPERATIONS.split("\n")[1:-1]:
        ranks, names, extents = ranks_of(operation)
        for name in (*INPUTS, *names):
            assert ranks.is_tensor(Ref(name)), (operation, name)
            rank, most = ranks.get(Ref(name)), ranks.of(Ref(name))
            if rank is None:
                op = operation.partition("(")[0]
                untold[op] = (*untold.get(op, ()), most) if name == names[0] else untold[op]
            elif extents[name] is not None:
                assert (rank, most) == (extents[name],) * 2, (operation, name)
                both += name == names[0]
    assert untold == UNTOLD
    assert both > 140


def test_numbers_have_none() -> None:
    for operation, tensor in OF_NUMBERS.items():
        ranks, (name,), _ = ranks_of(operation)
        assert (ranks.get(Ref(name)), ranks.is_tensor(Ref(name))) == (0, tensor), operation
    for number in (2.0, 3, True):
        assert ranks.get(number) == 0 and not ranks.is_tensor(number)
    assert ranks.get((1, 2)) is None and ranks.of((1, 2)) == 0
