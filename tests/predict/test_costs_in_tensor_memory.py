"""What statements are taken to cost where sums are in tensor memory."""

from __future__ import annotations

from lowering.kernel.nodes import Tcgen05Commit, Tcgen05Load, Tcgen05Mma
from lowering.kernel.visit import walk
from lowering.machine.clock import Work
from tests.rungs import kernel
from wsched.predict.costs import ORDER, Hopper
from wsched.predict.costs_in_tensor_memory import costs_of
from wsched.predict.world import resident


def test_costs_of_tensor_memory() -> None:
    """128 x 128 x 16 are 64 cycles of the one tensor core; a commit comes behind them."""
    made = kernel(4, "sm_100a").kernel
    costs, found = costs_of(made), {type(s): s for s in walk(made.body)}
    assert costs.work(found[Tcgen05Mma]) == Work("tensor", False, 64.0, 0.0)
    assert costs.work(found[Tcgen05Commit]) == Work("tensor", False, 0.0, 0.0)
    assert costs.work(found[Tcgen05Load]) == Work("cells", True, 64.0, 0.0)
    assert costs.busy(found[Tcgen05Mma]) == costs.busy(found[Tcgen05Load]) == ORDER


def test_the_other_target_has_its_own() -> None:
    made = kernel(4).kernel
    assert costs_of(made) == Hopper(made)


def test_columns_of_an_sm_are_those_of_its_ctas() -> None:
    """128 columns of 512 a CTA; shared memory alone would hold four of them, too."""
    assert resident(kernel(4, "sm_100a")) == 4
    (sums,) = kernel(4, "sm_100a").kernel.tensors
    assert sums.columns == 128
