"""Schedules of sums whose steps are scaled: on the machine, proved, as machine code; refused."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.prove import prove
from tests.proofs import proved
from tests.schedules import (
    cooperative,
    exchanged,
    in_tensor_memory,
    ping_pong,
    split_k,
    stream_k,
)
from tests.tiers import in_tiers
from wsched.front.own import kernel_of
from wsched.front.scaled import scaled_mm_call
from wsched.run.counts import admitted_by
from wsched.schedule.matmul.params import MatmulParams

torch = pytest.importorskip("torch", reason="torch is not installed")

WAYS = {
    "cooperative": cooperative(128, 128, k=128, stages=4),
    "rows in turn": cooperative(256, 64, k=128, stages=4),
    "half steps": cooperative(128, 128, k=64, stages=4),
    "ping-pong": ping_pong(64, 128, k=128, stages=4),
    "split-K": split_k(cooperative(128, 64, k=128, stages=4), 2),
    "cluster": cooperative(128, 128, k=128, stages=4, cluster=(2, 1)),
    "exchanged": exchanged(cooperative(128, 32, k=128, stages=4)),
    "exchanged ping-pong": exchanged(ping_pong(64, 16, k=128, stages=4)),
}
ROWS_IN_TURN = cooperative(256, 128, k=128, stages=3)
PAIRS = [(1, 128), (1, 1), (128, 1), (128, 128)]
M, N, K = 200, 264, 400


def call(blocks: tuple[int, int] = (1, 128)) -> tuple[Any, Any]:
    """A call, and its result in fp64."""
    generator = torch.Generator().manual_seed(1)
    x, w = (torch.randn(n, K, generator=generator).to(torch.float8_e4m3fn) for n in (M, N))
    p, q = (
        torch.exp2(torch.randint(-6, 7, (-(-n // of), -(-K // 128)), generator=generator).float())
        for n, of in zip((M, N), blocks, strict=True)
    )
    wide = [
        t.double() * s.repeat_interleave(of, 0)[:n].repeat_interleave(128, 1)[:, :K]
        for t, s, n, of in zip((x, w), (p, q), (M, N), blocks, strict=True)
    ]
    return scaled_mm_call(x, w.t(), p, q.t()), wide[0] @ wide[1].t()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("blocks", PAIRS, ids=str)
@pytest.mark.parametrize("name", in_tiers(tuple(WAYS), ("cooperative", "exchanged ping-pong")))
def test_right_proved_and_without_spills(name: str, blocks: tuple[int, int]) -> None:
    given, wanted = call(blocks)
    kernel = wsched.compile(*given, params=WAYS[name])
    assert (kernel(*given[1])[0] - wanted).norm() < 4e-3 * wanted.norm()
    proved(kernel.kernel, kernel.plan)
    assert kernel.resources.clean


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T2[0, Mo", "T2[1, Mo"),
        ("T2[k + 1, Mo", "T2[1, Mo"),
        ("T2[k + 1, Mo", "T2[k, Mo"),
        ("T2[k + 1, Mo * 256 + group * 128]", "T2[k + 1, Mo * 256]"),
        ("T3[No, k + 1]", "T3[No + 1, k + 1]"),
        ("T3[No, k + 1]", "T3[0, k + 1]"),
        ("T3[No, k + 1]", "T3[No, n_k - 1 - k]"),
        ("frag.pointwise mul, sum2,", "frag.pointwise mul, acc,"),
        ("frag.rows scale3, 64", "frag.rows scale3, 0"),
        ("frag.pointwise mul, sum2, scale_rows2", "frag.pointwise mul, sum2, scale_rows"),
        ("scaled2, row=64, rows=64", "scaled2, rows=64"),
    ],
    ids=["begins with the second", "always the second", "the step before", "another warpgroup's",
         "the next columns", "the first columns", "in another order", "what is summed",
         "the first rows", "those of the first rows", "onto the first rows"],
)  # fmt: skip
def test_the_proof_tells_blocks_apart(old: str, new: str) -> None:
    given, _ = call()
    kernel = wsched.compile(*given, params=ROWS_IN_TURN)
    assert refuted(kernel.kernel, old, new, kernel.plan)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("      if group == 1 {\n        bar.arrive turn[0]\n      }\n", ""),
        ("group == 1 {\n        bar.arrive turn[0]", "group == 0 {\n        bar.arrive turn[0]"),
        ("      if group == 0 {\n        bar.sync turn[0]\n      }\n", ""),
        ("          bar.sync turn[group]\n          wgmma.fence\n          sum2",
         "          wgmma.fence\n          sum2"),
        ("          bar.arrive turn[1 - group]\n          sum:", "          sum:"),
        ("          bar.arrive turn[1 - group]\n          sum:",
         "          if k < 3 {\n bar.arrive turn[1 - group]\n }\n          sum:"),
    ],
    ids=["nobody is let in", "one of its own", "an arrival is left over", "rows without a turn",
         "nobody is let in for the second rows", "only in some steps"],
)  # fmt: skip
def test_the_proof_counts_turns(old: str, new: str) -> None:
    kernel = wsched.compile(*call()[0], params=ROWS_IN_TURN)
    text = print_kernel(kernel.kernel)
    assert text.count(old) == 1, text
    found = prove(parse_kernel(text.replace(old, new)), admitted_by(kernel.plan))
    assert "named barriers" in {o.name for o in found.open}, found


def refuted(kernel: Kernel, old: str, new: str, plan: Any) -> bool:
    text = print_kernel(kernel)
    assert text.count(old) == 1, text
    found = prove(parse_kernel(text.replace(old, new)), admitted_by(plan))
    return not found.proved


def why(params: MatmulParams, blocks: tuple[int, int] = (1, 128), **more: Any) -> str:
    with pytest.raises(ScheduleError) as caught:
        wsched.compile(*call(blocks)[0], params=params, **more)
    return str(caught.value.why)


def test_blocks_that_a_warpgroup_would_have_parts_of() -> None:
    assert why(cooperative(128, 96, k=128, stages=4)) == (
        "the warp tile's n 96 is no divisor of the 128 that a scale is for"
    )
    assert why(exchanged(cooperative(128, 24, k=128, stages=4)), (128, 1)) == (
        "the warp tile's n 24 is no divisor of the 128 that a scale is for"
    )
    assert why(cooperative(128, 64, k=256, stages=2)) == (
        "the tile's k 256 is no divisor of 128, of which each is scaled"
    )
    assert why(stream_k(cooperative(128, 64, k=128, stages=4))) == (
        "DistributeStagesAcrossSMs of a sum whose steps are scaled"
    )
    wsched.compile(*call((1, 1))[0], params=cooperative(128, 96, k=128, stages=4))


def test_tensor_memory() -> None:
    with pytest.raises((ScheduleError, UnsupportedError)) as caught:
        wsched.compile(*call()[0], params=in_tensor_memory(128, 128, k=128))
    assert "scales inside a sum in the tensor memory of sm_100a" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ((", 64, labels=('No'", ", 64, labels=('chunk'"),
         (", 96, labels=('No'", ", 32, labels=('chunk'"),
         "96 of N of a warpgroup of T6 = mma(T8, T9, promotion = 128, scales = {T2 of 1, T3 of "
         "128}) is not supported; supported: a divisor of the 128 that a scale is for"),
        ((", 128, labels=('k'",), (", 256, labels=('k'",),
         "a scaled product over 256 of K in a step, promoted every 128 is not supported; "
         "supported: one of at most 128 of K in a step"),
        ((", 128, labels=('k'",), (", 192, labels=('k'",),
         "192 of K at a time, 1 times a step, of T6 = mma(T8, T9, promotion = 128, scales = {T2 of "
         "1, T3 of 128}) is not supported; supported: one product of a step over a divisor of 128 "
         "of K, or a multiple"),
    ],
    ids=["columns", "K", "K of one and a half"],
)  # fmt: skip
def test_schedules_by_calls(old: tuple[str, ...], new: tuple[str, ...], what: str) -> None:
    """What limits do not see the rule refuses, by the names of the schedule."""
    text = str(wsched.Schedule.of(call()[0][0], cooperative(128, 64, k=128, stages=2)))
    assert kernel_of(wsched.Schedule.parse(text)).kernel.name
    for a, b in zip(old, new, strict=True):
        assert a in text
        text = text.replace(a, b)
    with pytest.raises(UnsupportedError) as caught:
        kernel_of(wsched.Schedule.parse(text))
    assert str(caught.value).startswith(what)
