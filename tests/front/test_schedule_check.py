"""What a schedule says of itself: its loops, whether it is legal, or why not."""

from __future__ import annotations

import json
from functools import reduce
from operator import add
from re import findall, sub
from typing import Any

import pytest

from lowering.ground.expr import Expr, Special
from tests.front.own import cooperative
from tests.schedules import definition
from wsched import MemoryType, ParallelType, Schedule, ScheduleError, WarpSpecialized
from wsched.front.check import Check


def test_show_before_anything_is_loaded() -> None:
    s = Schedule(definition())
    assert "T4_l_float:\n  0: for i10 = M [Serial] in 0 .. M\n" in s.show()


def test_show_is_both_nests() -> None:
    shown = cooperative(definition()).show()
    assert shown.startswith("load T6, T7 (ring, 4 stages)")
    assert "for tile·Ko [4 stages]" in shown and "for group [TIDy]" in shown


def test_legal() -> None:
    found = cooperative(definition()).check()
    assert found.legal and found.error is None
    assert found.threads == 384 and found.shared_bytes == 163904
    assert str(found).startswith(
        "legal, because the index of the load loop follows from compute's loops:\n  T6, T7: "
    )
    assert str(found).endswith(
        f"{found.kernel}: CTAs of 384 threads and 163904 bytes of shared memory\n"
    )
    assert json.loads(json.dumps(found.to_dict()))["relation"] == list(found.relation)


def test_illegal_by_the_proof() -> None:
    s = cooperative(definition())
    while s.tensor(s.a).circular_buffer is not None:
        s.undo()
    found = s.check()
    assert not found.legal and found.relation == ()
    assert isinstance(found.error, ScheduleError) and found.error.rule == "ring"
    assert str(found) == f"{found.error}\n"
    plain = found.to_dict()
    assert plain["error"]["rule"] == "ring" and plain["error"]["why"] == found.error.why


@pytest.mark.parametrize(
    ("shape", "rule", "why"),
    [
        (
            {"stages": 9},
            "smem",
            "T6 144 + T7 144 + T5_s 32 + mbarriers = 320.1 KiB, limit 227 KiB",
        ),
        (
            {"m": 256, "n": 256, "k": 32, "groups": 1, "stages": 3, "registers": None},
            "registers",
            "512 accumulators of a thread and 28 other registers exceed the 248 of a thread, "
            "of 256 in a CTA",
        ),
        (
            {"m": 192, "n": 256, "k": 32, "groups": 3, "stages": 3, "registers": (24, 160)},
            "registers",
            "128 accumulators of one wgmma and 32 other registers exceed the 128 of a thread, "
            "of 512 in a CTA",
        ),
    ],
    ids=["stages", "accumulators", "wgmma"],
)
def test_illegal_by_a_limit(shape: dict[str, Any], rule: str, why: str) -> None:
    found = cooperative(definition(), **shape).check()
    assert isinstance(found.error, ScheduleError) and not found.legal
    assert (found.error.rule, found.error.why) == (rule, why)


def test_legal_without_a_kernel_says_so() -> None:
    from lowering.ground.errors import UnsupportedError

    e = UnsupportedError("this", "that", "Do so")
    found = Check(e, ("a relation",))
    assert found.legal
    assert str(found) == (
        "legal, because the index of the load loop follows from compute's loops:\n"
        "  a relation\n"
        "but there is no kernel for it: this is not supported; supported: that. Do so\n"
    )
    assert found.to_dict()["error"] == {
        "what": "this", "supported": "that", "hint": "Do so", "text": str(e),
    }  # fmt: skip


_PAIR: Any = (40, "x")


def refusal(call: Any) -> str:
    s = Schedule(definition())
    with pytest.raises(ScheduleError) as refused:
        call(s)
    assert s.history == ()
    return str(refused.value)


def test_a_label_that_no_loop_has() -> None:
    assert refusal(lambda s: s.split(s.acc, "Mo", 2)) == (
        "ScheduleError[axis]: split('T4', 'Mo', 2): T4 has no loop labelled 'Mo'\n"
        "  legal here: 'M'; 'N'; 'K'\n"
        "  in:\n"
        "    T4_l_float:\n"
        "      0: for i10 = M [Serial] in 0 .. M\n"
        "      1: for i11 = N [Serial] in 0 .. N\n"
        "      2: for i12 = K [Serial] in 0 .. K"
    )


def test_a_label_that_two_loops_have() -> None:
    s = Schedule(definition())
    s.split(s.acc, "M", 2, labels=("x", "x"))
    with pytest.raises(ScheduleError) as refused:
        s.merge(s.acc, "x", "N")
    assert str(refused.value).startswith(
        "ScheduleError[axis]: merge('T4', 'x', 'N'): T4 has 2 loops labelled 'x'\n"
        "  legal here: 0; 1; 'N'; 'K'\n  in:\n    T4_l_float:"
    )


def test_a_tensor_that_is_not_there() -> None:
    for call in (
        lambda s: s["T9"],
        lambda s: s.split("T9", "M", 2),
        lambda s: s.inline_at("T9", 0),
    ):
        assert "there is no tensor T9\n  legal here: T0; T1; T2; T3; T4; T5" in refusal(call)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda s: s.parallelize(s.acc, 0, "BIDx"),
            "parallelize('T4', 0, 'BIDx'): parallel takes a ParallelType, not 'BIDx'\n"
            f"  legal here: {'; '.join(map(repr, ParallelType))}",
        ),
        (
            lambda s: s.split(s.acc, 0, 2.5),
            "split('T4', 0, 2.5): factor takes an int or Expr, not 2.5",
        ),
        (
            lambda s: s.split(s.acc, 0, 2, labels="ab"),
            "split('T4', 0, 2): labels takes a tuple of 2 str, not 'ab'",
        ),
        (
            lambda s: s.set_memory_type(s.acc, "shared"),
            "set_memory_type('T4', 'shared'): memory takes a MemoryType, not 'shared'\n"
            f"  legal here: {'; '.join(map(repr, MemoryType))}",
        ),
        (
            lambda s: s.circular_buffer(s.a, 4, 2, "TIDy"),
            "circular_buffer('T2', 4, 2, 'TIDy'): type takes a WarpSpecialized or Pipelined, "
            "not 'TIDy'",
        ),
        (
            lambda s: s.circular_buffer(s.a, 4, 2, WarpSpecialized(ParallelType.TIDy, _PAIR)),
            "circular_buffer('T2', 4, 2, WarpSpecialized(on=ParallelType.TIDy, "
            "num_registers=(40, 'x'))): num_registers takes an int, "
            "not 'x'",
        ),
        (
            lambda s: s.configure(speed=11),
            "configure(speed=11): there is no option speed\n  legal here: epilogue_stages; "
            "programmatic_dependent_launch; prefetched_steps; cache_policies; "
            "l2_promotions; smem_swizzles; promote_prologue_smem_reuse",
        ),
        (
            lambda s: s.configure(vector=4),
            "configure(vector=4): a thread accesses 1 or 2 columns at once, not 4\n"
            "  legal here: 1; 2",
        ),
        (
            lambda s: s.configure(epilogue_stages=0),
            "configure(epilogue_stages=0): 0 buffers hold nothing\n  legal here: 1 and more; None",
        ),
        (
            lambda s: s.configure(cache_policies={"T4": ScheduleError}),
            "the policy of T4 takes a CachePolicy",
        ),
        (
            lambda s: s.set_allocation_domain("T5", (1, 0)),
            "set_allocation_domain('T5', (1, 0)): T5 is no operand in global memory, those are "
            "T0, T1",
        ),
        (
            lambda s: s.set_allocation_domain("T0", (1, 1)),
            "set_allocation_domain('T0', (1, 1)): (1, 1) does not name each dimension of T0, "
            "0 to 1, once",
        ),
        (
            lambda s: s.reorder(s.acc, ["N", "N"]),
            "reorder('T4', ('N', 'N')): loop N is named 2 times",
        ),
        (
            lambda s: s.reorder(s.acc, {"M": 2, 0: 1}),
            "reorder('T4', {'M': 2, 0: 1}): loop M is named 2 times",
        ),
        (
            lambda s: s.reorder(s.acc, [9, 9]),
            "reorder('T4', (9, 9)): position 9 is named 2 times",
        ),
        (
            lambda s: s.reorder(s.acc, "MNK"),
            "reorder('T4', 'MNK'): 'MNK' is no order: a mapping of loops to positions, or a list "
            "of loops",
        ),
        (
            lambda s: s.merge(s.acc, True),
            "merge('T4', True): a loop is named by its position or its label, not by True",
        ),
    ],
    ids=lambda x: x.partition("(")[0] if isinstance(x, str) else "",
)
def test_a_mistake_in_an_argument(call: Any, text: str) -> None:
    assert text in refusal(call)


@pytest.mark.parametrize("prefetch", [2, 6])
def test_what_is_named_in_place_of_too_many_stages_is_legal(prefetch: int) -> None:
    """All of it, and nothing else that has as many stages."""

    def found(stages: int, ahead: int) -> ScheduleError | None:
        s = Schedule.of(definition())
        text = sub(r"(circular_buffer\('T\d', )\d, \d", rf"\g<1>{stages}, {ahead}", str(s))
        error = Schedule.parse(text).check().error
        assert error is None or isinstance(error, ScheduleError)
        return error

    error = found(40, prefetch)
    assert error is not None and error.rule == "smem"
    named = [tuple(map(int, findall(r"=(\d+)", x))) for x in error.legal]
    assert [stages for stages, *_ in named] == [1, 2, 3, 4]
    assert not any(found(stages, *(ahead or [prefetch])) for stages, *ahead in named)
    again, huge = found(41, prefetch), found(100000, prefetch)
    assert again is not None and again.legal == error.legal
    assert huge is not None and huge.legal == ("stages <= 4, prefetch < stages",)


def sums(n: int) -> Expr:
    """So many CTAs, added up."""
    return reduce(add, [Special("nctaid.x")] * n)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda s: s.split(s.acc, 0, sums(500)), "the factor has more than 100 parts"),
        (lambda s: s.split(s.acc, 0, sums(5) * 10**5000), "a number of the factor has more than"),
        (lambda s: s.split(s.acc, 0, 10**5000), "factor takes a number of at most 64 bits, not of"),
        (lambda s: s.split("T99", 0, sums(5000)), "there is no tensor T99"),
        (lambda s: s.merge(s.acc, 0, traversal=10**5000), "traversal takes a number of at most"),
        (lambda s: s.reorder(s.acc, {10**5000: 0}), "a position takes a number of at most 64 bits"),
        (lambda s: s.set_allocation_domain("T0", (10**5000, 0)), "(..., 0) does not name each"),
        (lambda s: s.merge(s.acc, sums(5000)), "by its position or its label, not by ..."),
    ],
)
def test_what_is_too_long_to_print(call: Any, text: str) -> None:
    assert text in refusal(call)


def test_loops_by_label_and_position() -> None:
    one, two = (Schedule(definition()) for _ in range(2))
    one[one.acc].split("M", 64).reorder(["N", "Mo"]).merge("N", "Mo")
    two.split(two.acc, 0, 64)
    two.reorder(two.acc, {2: 0, 0: 1})
    two.merge(two.acc, 0, 1)
    assert one.fusion == two.fusion
    assert one[one.acc].loops == ("N·Mo", "Mi", "K")
    assert str(one[one.acc]).startswith("T4_l_float:\n  0: for ")


def test_an_order_that_moves_nothing_is_no_call() -> None:
    s = Schedule(definition())
    s.reorder(s.acc, ["M", "N"])
    assert s.history == ()
