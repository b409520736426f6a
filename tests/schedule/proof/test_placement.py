"""What is changed around the edges after they fit: the rest of compute's nest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from lowering.target.target import Target
from lowering.target.targets import BLACKWELL, DEFAULT
from tests.epilogues import RESIDUAL
from tests.reductions import ALL, definition
from tests.schedule.fusions import LOADS, NON_PERSISTENT, PING_PONG, linear
from tests.schedules import SCHEDULES, for_result, in_tensor_memory
from wsched.front.known import import_fusion
from wsched.fusion import Fusion, LoadStoreOp, LoadStoreOpType, MemoryType, ParallelType
from wsched.schedule import MatmulParams, Schedule, make_plan, schedule_matmul
from wsched.schedule.proof.placement import check_memory


def schedule(params: MatmulParams = PING_PONG) -> Schedule:
    """The built-in schedule, all primitives done."""
    return Schedule(schedule_matmul(linear(), params))


def serial_cta(s: Schedule) -> None:
    s.parallelize("T5", 0, ParallelType.Serial)


def group_before_tile(s: Schedule) -> None:
    s.reorder("T5", {1: 2})


def load_in_registers(s: Schedule) -> None:
    s.set_memory_type(LOADS[0], MemoryType.Local)


def staged_in_registers(s: Schedule) -> None:
    s.set_memory_type("T8", MemoryType.Local)


def fragments_in_shared_memory(s: Schedule) -> None:
    s.set_memory_type("T9", MemoryType.Shared)


def result_of_another_group(s: Schedule) -> None:
    """Nothing is inlined, and the other axis counts the groups of the result."""
    for tv in ("T4", "T9", "T8"):
        s.inline_at(tv, 0)
    s.parallelize("T5", 2, ParallelType.TIDz)


def chunks_of_the_result_alone(s: Schedule) -> None:
    """What is inlined deeper than the loops that are still alike has a place further outside."""
    s.split("T5", "chunk", 2)


def all_tiles_at_once(s: Schedule) -> None:
    s.inline_at("T4", 1)


def three_tiles_in_a_turn(s: Schedule) -> None:
    """Sums of three tiles have a size that is known; but every other tile is another's."""
    for tv in ("T8", "T9", "T4"):
        s.inline_at(tv, 0)
    for tv in ("T4", "T9", "T8", "T5"):
        s.split(tv, 1, 3, labels=("three", "tile"))
    s.inline_at("T8", 4)
    s.inline_at("T9", 4)
    s.inline_at("T4", 2)


REFUSED: dict[str, Callable[[Schedule], None]] = {
    f.__name__: f
    for f in (
        serial_cta, group_before_tile, load_in_registers, staged_in_registers,
        fragments_in_shared_memory, result_of_another_group, all_tiles_at_once,
        chunks_of_the_result_alone, three_tiles_in_a_turn,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, golden: object) -> None:
    s = schedule()
    make_plan(s.fusion)
    REFUSED[name](s)
    with pytest.raises(ScheduleError) as error:
        make_plan(s.fusion)
    assert str(error.value) == golden


def residual() -> Fusion:
    """TMA loads a matrix, from which fragments are read."""
    params = for_result(SCHEDULES["coop_128x128"], "bf16", inputs=("bf16",))
    return schedule_matmul(import_fusion(RESIDUAL), params)


def reduced() -> Fusion:
    """A sum of sums, behind what is added to them."""
    return schedule_matmul(import_fusion(definition(ALL[:1])), SCHEDULES["coop_128x128"])


def in_cells() -> Fusion:
    return schedule_matmul(linear(), in_tensor_memory(128, 64, epilogue_stages=1), BLACKWELL)


@pytest.mark.parametrize(
    ("made", "target", "name", "memory", "said"),
    [
        (residual, DEFAULT, "T5", "Shared", "mma writes Local"),
        (residual, DEFAULT, "T5", "Tensor", "mma writes Local"),
        (residual, DEFAULT, "T14", "Shared", "LdMatrix writes Local"),
        (residual, DEFAULT, "T13", "Local", "CpAsyncBulkTensorTile writes Shared"),
        (residual, DEFAULT, "T15", "Local", "StMatrix writes Shared"),
        (residual, DEFAULT, "T16", "Shared", "StMatrix reads Local"),
        (residual, DEFAULT, "T9", "Tensor", "cast(T9) reads Local"),
        (reduced, DEFAULT, "T8", "Shared", "sum reads Local"),
        (reduced, DEFAULT, "T14", "Shared", "sum writes Local"),
        (in_cells, BLACKWELL, "T4", "Local", "mma writes Tensor"),
        (in_cells, BLACKWELL, "T10", "Shared", "LdTMem writes Local"),
        (in_cells, BLACKWELL, "T10", "Tensor", "LdTMem writes Local"),
    ],
)  # fmt: skip
def test_memories(
    made: Callable[[], Fusion], target: Target, name: str, memory: str, said: str
) -> None:
    """Each of an expression's tensors is where its instruction has it."""
    fusion = made()
    check_memory(fusion, target)
    t = fusion.tensor(name)
    wrong = fusion.updated([replace(t, memory=MemoryType[memory])])
    with pytest.raises(ScheduleError) as error:
        check_memory(wrong, target)
    why = f"{said} memory, {name} is in {memory} memory"
    call = f"set_memory_type('{name}', {t.memory!r})"
    assert (error.value.rule, error.value.why, error.value.legal) == ("memory", why, (call,))


def test_a_fragment_is_read_from_shared_memory() -> None:
    """Whoever has filled it: here threads."""
    fusion = residual()
    *_, matrix = fusion.loads
    load = fusion.definition(matrix.name)
    assert isinstance(load, LoadStoreOp)
    copy = replace(load, op=LoadStoreOpType.Set)
    exprs = tuple(copy if e is load else e for e in fusion.exprs)
    wrong = fusion.updated([replace(matrix, memory=MemoryType.Local)], exprs)
    with pytest.raises(ScheduleError) as error:
        check_memory(wrong)
    assert error.value.why == f"LdMatrix reads Shared memory, {matrix.name} is in Local memory"


def test_one_tile_needs_no_inlining() -> None:
    """Loops on CTAs and warpgroups part what is held all the same."""
    s = schedule(NON_PERSISTENT)
    for tv in ("T4", "T9", "T8"):
        s.inline_at(tv, 0)
    assert make_plan(s.fusion).operands.outside == 0
