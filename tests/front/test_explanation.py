"""An explanation as a text and as data, whatever found it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wsched.choose.nvfuser_cost import NvfuserCost
from wsched.front.explanation import (
    CUT_DOWN,
    NO_PREDICTION,
    RUNNERS_UP,
    Choice,
    Explanation,
    KernelFacts,
    PartFacts,
)
from wsched.front.route import Fate, Refusal
from wsched.importer import MissingOp
from wsched.schedule.matmul.params import MatmulParams

KERNEL = KernelFacts(
    "64x32x16", 4, "matmul", 2, 384, 1024, 0, 7.25, None, {}, ("k = tile * 2 + k",), {},
    schedule=("split(K, 64)", "bind(TIDx)"),
)  # fmt: skip

TEXT = f"""\
64x32x16 on 4 multiprocessors: matmul
  2 CTAs of 384 threads and 1024 bytes of shared memory
  predicted: {NO_PREDICTION}

legal, because the index of the load loop follows from compute's loops:
  k = tile * 2 + k

schedule, call by call:
  split(K, 64)
  bind(TIDx)
"""


def test_a_kernel() -> None:
    assert str(KERNEL) == TEXT
    assert str(replace(KERNEL, counts_us=7.25)) == TEXT  # as it is predicted


def test_what_a_kernel_has_beside() -> None:
    found = str(replace(KERNEL, tensor_columns=128, counts_us=6.04, counts="measured"))
    assert found == TEXT.replace(
        "shared memory\n", "shared memory, 128 columns of tensor memory\n"
    ).replace(f"{NO_PREDICTION}\n", f"{NO_PREDICTION}\n  counts as 6.0 us, measured\n")


def test_a_kernel_of_parameters() -> None:
    """They are shown in place of calls."""
    params = MatmulParams()
    found = str(replace(KERNEL, schedule=(), params=params.to_dict()))
    head, shown = found.split("parameters, under nvFuser's names:\n")
    assert "call by call" not in head
    assert shown == "".join(f"  {line}\n" for line in str(params).splitlines())


PART = PartFacts("wsched", ("x", "w"), ("y", "z"), ("linear", "cast", "cast"))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "wsched: x, w -> y, z: linear, 2 cast"),
        ({"into": (("z", "r"),)}, "wsched: x, w -> y, z (into r): linear, 2 cast"),
        ({"kernel": KERNEL},
         "wsched: x, w -> y, z: linear, 2 cast\n    matmul, 64x32x16, predicted 7.2 us"),
        ({"kernel": replace(KERNEL, counts_us=6.0, counts="measured")},
         "wsched: x, w -> y, z: linear, 2 cast\n    matmul, 64x32x16, measured 6.0 us"),
        ({"kernel": replace(KERNEL, predicted_us=None)},
         "wsched: x, w -> y, z: linear, 2 cast\n    matmul, 64x32x16"),
        ({"sweep": "sweep, 3 us", "views": ("v is w",), "copied": "x is copied", "kept": True},
         "wsched: x, w -> y, z: linear, 2 cast\n    sweep, 3 us\n    v is w\n    x is copied\n"
         "    once, then kept while x, w stay as they are"),
    ],
)  # fmt: skip
def test_a_part(more: dict[str, object], text: str) -> None:
    assert str(replace(PART, **more)) == text  # type: ignore[arg-type]


CUT = Explanation("cut", "cuda:0", None, (), ())


def test_all_that_a_text_has() -> None:
    found = replace(
        CUT, device="cpu", kernel=KERNEL, parts=(PART, replace(PART, runs="torch")),
        choices=(Choice("stages", "4", "they fit"),), refusals=(Refusal("split_2", "slower"),),
        matmuls=(Fate(3, "linear", "y", "matmul"),), predicted_us=9.96, installed="takes it",
        nvfuser=NvfuserCost(8, 4, 2.5), missing=(MissingOp("fft", (7,), "nobody has it"),),
    )  # fmt: skip
    assert (
        str(found)
        == f"""\
{KERNEL}
route on cpu: cut into wsched's kernels and the rest
{CUT_DOWN}
all parts: predicted 10.0 us
nvFuser's route: predicted 12.0 us: matmul by cuBLAS 8.0, other kernels 4.0, on the host 2.5
under wsched.install(): takes it

parts, in the order in which they run:
  1. {PART}
  2. {replace(PART, runs="torch")}

matmuls:
  {found.matmuls[0]}

chosen:
  stages = 4: they fit

not taken:
  split_2: slower

operations that wsched has not:
  fd.ops.fft (line 7): nobody has it
"""
    )
    assert found.to_dict()["nvfuser"] == {
        "matmul_us": 8, "kernels_us": 4, "host_us": 2.5, "us": 12,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("route", "text"),
    [
        ("wsched", "route on cuda:0: wsched's kernel\n"),
        ("cut", "route on cuda:0: cut into wsched's kernels and the rest\n"),
        ("nvfuser", "route on cuda:0: nvFuser, because wsched has no kernel for it\n"),
        ("torch", "route on cuda:0: torch, one operation after the other\n"),
    ],
)
def test_a_route_alone(route: str, text: str) -> None:
    assert str(replace(CUT, route=route)) == text


def test_times_of_the_machine_are_told_where_there_are_kernels() -> None:
    for more, told in (({"kernel": KERNEL}, True), ({"parts": (PART,)}, True), ({}, False)):
        found = replace(CUT, **more)  # type: ignore[arg-type]
        assert CUT_DOWN not in str(found)
        assert (CUT_DOWN in str(replace(found, device="cpu"))) is told


@pytest.mark.parametrize("more", [0, 1, 3])
def test_of_many_refusals_the_first_are_shown(more: int) -> None:
    refusals = tuple(Refusal(f"way {n}", "slower") for n in range(RUNNERS_UP + more))
    shown = str(replace(CUT, refusals=refusals)).split("\nnot taken:\n")[1]
    lines = [f"  way {n}: slower" for n in range(RUNNERS_UP)]
    lines += [f"  and {more} more (all of them: --json)"] if more else []
    assert shown.splitlines() == lines
    assert len(replace(CUT, refusals=refusals).to_dict()["refusals"]) == len(refusals)


def test_plain_data() -> None:
    """The facts of the kernel stand beside the route; a time of all parts is of several alone."""
    found = replace(CUT, kernel=KERNEL).to_dict()
    assert [*found][:4] == ["route", "device", "problem", "sms"]
    assert (found["kernel"], found["predicted_us"]) == ("matmul", 7.25)
    assert CUT.to_dict()["kernel"] is None
    assert replace(CUT, predicted_us=9.5).to_dict()["predicted_us"] == 9.5
