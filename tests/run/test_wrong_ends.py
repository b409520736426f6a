"""Ends that are none, which only the device can know: a word says that a kernel has met some."""

from __future__ import annotations

import pytest
import torch

import wsched
from tests.grouped import FORMS, given
from tests.run.test_grouped import kernel as of_rows
from tests.run.test_grouped import run
from tests.run.test_grouped_forms import kernel
from wsched.run.wrong_ends import flag_of


@pytest.mark.parametrize(
    ("ends", "wrong"),
    [
        ((4, 4, 12), False),
        ((0, 0, 0), False),
        ((5, 3, 9), True),
        ((-4, 2, 6), True),
        ((4, 9, 13), True),
        ((12, 12, -1), True),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_who_asks_is_told_once(form: str, ends: tuple[int, ...], wrong: bool) -> None:
    matrix = "kn" if form == "sums" else "nk"
    x, w, _ = given((4, 4, 4), 16, 32, matrix=matrix, ranks=FORMS[form])
    made = of_rows("cooperative") if form == "rows" else kernel(form, "cooperative")
    wsched.wrong_ends("cpu")  # what ran before in this process may have met such ends
    run(made, (x, w, torch.tensor(ends, dtype=torch.int32)))
    run(made, (x, w, torch.tensor([4, 8, 12], dtype=torch.int32)))
    assert wsched.wrong_ends("cpu") is wrong
    assert not wsched.wrong_ends()


def test_a_device_on_which_no_kernel_has_met_groups() -> None:
    assert not wsched.wrong_ends("meta")


def test_the_word_stays_where_it_is() -> None:
    """A captured graph has its address."""
    cpu = torch.device("cpu")
    assert flag_of(cpu) is flag_of(cpu)
    assert flag_of(torch.device("meta")).device.type == "meta"
