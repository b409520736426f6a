"""Where kernels read and write global memory: boxes that are moved are refuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.circles import circles
from lowering.proof.obligation import Verdict
from tests.batches import batched
from tests.grouped import ADDED, grouped
from tests.lowering.proof.test_families import reduced
from tests.mutants.subjects import subject
from tests.proofs import proved
from tests.schedules import SCHEDULES, cooperative, deferred, definition, dynamic
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import MatmulParams


def made(text: str, name: str, by_tma: bool = True) -> Kernel:
    params = replace(SCHEDULES[name], use_smem_epilogue=by_tma)
    return compile_fusion(import_fusion(text), params).kernel


_TWO = cooperative(128, 32, 32, stages=3)


def added(params: MatmulParams) -> Kernel:
    """Rows that are added by their numbers, in chunks of 16 columns."""
    params = replace(dynamic(params), use_smem_epilogue=False, epilogue_columns=16)
    return compile_fusion(import_fusion(ADDED), params).kernel


KERNELS: dict[str, Callable[[], Kernel]] = {
    "plain": lambda: made(definition(), "coop_128x128"),
    "by threads": lambda: made(definition(), "coop_128x128", False),
    "cluster": lambda: made(definition(), "cluster_2x1"),
    "stream_k": lambda: made(definition(), "stream_k"),
    "batch": lambda: made(batched(), "coop_128x128"),
    "groups": lambda: made(grouped(), "dynamic"),
    "groups by threads": lambda: made(grouped(), "dynamic", False),
    "narrow groups": lambda: subject("grouped_cluster").kernel,
    "reduced": lambda: reduced("coop_128x256").kernel,
    "added": lambda: added(_TWO),
    "added later": lambda: added(deferred(_TWO)),
}

ROWS = " - (Mo * 128 + group * 64)"
ADDS = " + (Mo * 128 + group * 64), 0]"

MOVED = {
    "in front of the tensor": ("plain", "T5[Mo * 128", "T5[Mo * 128 - 64", "T5[-64, 0] is acc"),
    "loaded from in front of it": ("plain", "T0[Mo2 * 128", "T0[Mo2 * 128 - 1", "T0[-1, 0] is acc"),
    "on another tile": ("plain", "T5[Mo * 128", "T5[Mo * 64", "are both written"),
    "one chunk twice": ("plain", "No * 128 + chunk * 64]", "No * 128]", "are both written"),
    "one chunk fewer": ("by threads", "for chunk in 0 .. 2", "for chunk in 0 .. 1",
                        "8192 of 16384 elements of T5 are written"),
    "the rows of one warpgroup": ("by threads", "+ group * 64", "+ 0 * 64", "are both written"),
    "behind the tensor": ("by threads", "T5[Mo * 128", "T5[Mo * 128 + N", "of T5 are written"),
    "on the tile of a peer": ("cluster", "T5[(Mc * 2 + ctaM)", "T5[(Mc * 2)", "are both written"),
    "on another batch": ("batch", "T5[B2,", "T5[min(B2, 0),", "are both written"),
    "on no batch": ("batch", "T5[B2,", "T5[B2 - 1,", "T5[-1, 0, 0] is accessed"),
    "behind a group": ("groups", "T5[end, first", "T5[M, end + first - M", "are both written"),
    "rows of the next group": ("groups by threads", "limit=M - first - ", "limit=M - ", "are both"),
    "no column of a group behind the others": (
        "groups", "ceildiv(size, 128) * ceildiv(N, 256)", "ceildiv(size, 128) * ceildiv(N, 257)",
        "elements of T5 are written",
    ),
    "no last rows of a group": (
        "groups", "ceildiv(size, 128) * ceildiv(N, 256)", "size // 128 * ceildiv(N, 256)",
        "elements of T5 are written",
    ),
    "a quotient that is half of it": (
        "narrow groups", "2147483647 // max(divisor2, 1)", "2147483647 // max(divisor2, 2)",
        "elements of T5 are written",
    ),
    "of another matrix": ("groups", "T1[B3, ", "T1[B3 - 1, ", "T1[-1, 0, 0] is accessed"),
    "nowhere": ("plain", "max(n_tiles - %ctaid.x, 0)", "min(n_tiles - %ctaid.x, 0)",
                "0 of 16384 elements of T5 are written"),
    "a sum of another tile": ("reduced", "T11[Mo,", "T11[0,", "are both written"),
    "numbers of the next row": (
        "added", f"end{ADDS}", f"end + 1{ADDS}", "elements of T5 are written"),
    "numbers of another tile": ("added", f"end{ADDS}", "end + group * 64, 0]", "are both written"),
    "rows behind a group, too": ("added", f"limit=M - first{ROWS}, ", "", "are both written"),
    "a row fewer": ("added", "limit=M - first", "limit=M - 1 - first",
                    "elements of T5 are written"),
    "rows behind those of the numbers": ("added", "T5[0, 0, No", "T5[0, 1, No",
                                         "numbers of rows of T5 count from 1 on"),
    "in another matrix": ("added", "T5[0, 0, No", "T5[1, 0, No", "elements of T5 are written"),
    "columns further": ("added", "T5[0, 0, No * 32", "T5[0, 0, No * 32 + 1", "of T5 are written"),
    "one chunk added twice": ("added later", "No_held * 32 + 16]", "No_held * 32]",
                              "are both written"),
    "no last chunk": ("added later", "k == min(1, n_k - 1)", "k == 1",
                      "2080 of 4128 elements of T5 are written"),
    "numbers of the next tile": ("added later", "(Mo_held * 128 + group * 64), 0]",
                                 "(Mo * 128 + group * 64), 0]", "are both written"),
}  # fmt: skip


@cache
def text_of(kernel: str) -> str:
    return print_kernel(KERNELS[kernel]())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_element_once(kernel: str) -> None:
    """Proved of the kernels as they are."""
    found = proved(parse_kernel(text_of(kernel)))
    assert any(o.name == "results" for o in found.obligations)


@pytest.mark.parametrize("fault", MOVED)
def test_a_box_is_moved(fault: str) -> None:
    """Refuted at a size that is named, though everybody comes to an end."""
    kernel, before, after, said = MOVED[fault]
    text = text_of(kernel)
    assert before in text
    moved = parse_kernel(text.replace(before, after))
    waits, claim, _ = circles(moved, agents(moved))
    assert (waits.verdict, claim.verdict) == (Verdict.PROVED, Verdict.REFUTED)
    assert claim.why.startswith("at ") and said in claim.why


NUMBERS = "T7[0, first - M + end + (Mo * 128 + group * 64), 0]"


@pytest.mark.parametrize(
    "numbers",
    [NUMBERS.replace(", 0]", ", 1]"), NUMBERS.replace("[0,", "[1,"), f"{NUMBERS}, limit=5"],
)
def test_numbers_that_are_not_all_loaded(numbers: str) -> None:
    """Rows whose numbers nobody loads have zeros instead: where they go to is not known."""
    assert NUMBERS in text_of("added")
    moved = parse_kernel(text_of("added").replace(NUMBERS, numbers))
    _, claim, _ = circles(moved, agents(moved))
    assert claim.verdict is Verdict.UNPROVED
