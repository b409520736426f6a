"""The proof of a kernel, where a test wants all of it."""

from __future__ import annotations

from lowering.kernel.kernel import Kernel
from lowering.proof.obligation import Proof
from lowering.proof.prove import prove
from wsched.run.counts import admitted_by
from wsched.schedule.plan import Plan

__all__ = ["proved"]


def proved(kernel: Kernel, plan: Plan | None = None) -> Proof:
    """The proof of a kernel, for the launches that its plan admits; fails with what is open."""
    found = prove(kernel, None if plan is None else admitted_by(plan))
    assert found.proved, "\n".join(map(str, found.open))
    return found
