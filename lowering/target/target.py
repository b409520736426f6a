"""What a kernel is made for: the limits of a GPU and its matrix instruction.

Whoever compiles names the target; a schedule, its plan and its kernel carry it, so that the proof,
the rules of the lowering, the passes, the verifier, the machine and the launch ask it for limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from lowering.target.mma import MmaFamily
from lowering.target.ptx import WARPGROUP
from lowering.target.tensor_memory import TensorMemory

__all__ = ["Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU that kernels are made for.

    Args:
        arch: what compilers call it, with its architecture-specific instructions.
        capability: compute capability, (major, minor).
        gpus: names of such GPUs.
        sms: multiprocessors of the first of them.
        mma: its matrix instruction.
        max_threads: of a CTA.
        shared_bytes: dynamic shared memory that a CTA may ask for.
        registers: 32-bit registers of an SM; one CTA of ours has them all.
        register_step: setmaxnreg takes multiples of it ...
        setmaxnreg: ... from the first to the second number.
        named_barriers: hardware barriers of a CTA; number 0 is ``__syncthreads``.
        max_cluster: CTAs of a cluster that each such GPU can run.
        tensor_memory: where its matrix instruction has the accumulators; None where registers have
            them.
    """

    arch: str
    capability: tuple[int, int]
    gpus: tuple[str, ...]
    sms: int
    mma: MmaFamily
    max_threads: int
    shared_bytes: int
    registers: int
    register_step: int
    setmaxnreg: tuple[int, int]
    named_barriers: int
    max_cluster: int
    tensor_memory: TensorMemory | None = None

    def __hash__(self) -> int:
        return hash(self.arch)

    @property
    def name(self) -> str:
        """What a schedule calls it: ``arch``, and the CTAs that have a part of one of its matrix
        instructions, where these are several.
        """
        return self.arch if self.mma.ctas == 1 else f"{self.arch}.cta_group::{self.mma.ctas}"

    @property
    def gpu(self) -> str:
        """The GPU in words."""
        return "a GPU of compute capability {}.{}".format(*self.capability)

    @property
    def capabilities(self) -> str:
        """Its compute capability in words, with the names of such GPUs."""
        number = "{}.{}".format(*self.capability)
        return f"compute capability {number} ({', '.join(self.gpus)})"

    def registers_at_entry(self, threads: int) -> int:
        """Registers per thread that a CTA starts with: the SM's, rounded down to whole steps.

        ``__launch_bounds__(threads, 1)`` makes ptxas use this count at entry (168 at 384 threads on
        Hopper). An instruction can name 255, of which whole steps are 248. Registers are given to
        whole warpgroups, a warp to each quarter of the SM.
        """
        given = -(-threads // WARPGROUP) * WARPGROUP
        return min(self.registers // given, 255) // self.register_step * self.register_step

    def registers_problem(self, threads: int, shares: tuple[tuple[int, int], ...]) -> str | None:
        """Why roles of a CTA cannot have the registers that each wants; None if they can.

        The pool is what the CTA was launched with: setmaxnreg only moves registers within it, and
        an increase beyond it waits for ever, which ptxas does not notice.

        Args:
            threads: of the CTA.
            shares: (threads, registers per thread) of each role.
        """
        return self._count_problem(*(n for _, n in shares)) or self.pool_problem(threads, shares)

    def register_pair_problem(self, threads: int, load: int, compute: int) -> str | None:
        """Why one load warpgroup cannot keep ``load`` registers a thread, the others ``compute``.

        As :meth:`registers_problem`; besides, the load warpgroup gives and the others take.
        """
        if problem := self._count_problem(load, compute):
            return problem
        entry = self.registers_at_entry(threads)
        if not load <= entry <= compute:
            return (
                f"{load} and {compute} must lie on either side of the {entry} registers that "
                f"{threads} threads start with"
            )
        return self.pool_problem(threads, ((WARPGROUP, load), (threads - WARPGROUP, compute)))

    def register_pairs(self, threads: int) -> tuple[tuple[int, int], ...]:
        """Pairs (load, compute) that leave the compute warpgroups as much as possible."""
        return _register_pairs(self, threads)

    def count_problem(self, count: int) -> str | None:
        """Why setmaxnreg does not take a count; None if it does."""
        low, high = self.setmaxnreg
        if count % self.register_step == 0 and low <= count <= high:
            return None
        return f"setmaxnreg takes multiples of {self.register_step} from {low} to {high}"

    def _count_problem(self, *counts: int) -> str | None:
        found = ((self.count_problem(n), n) for n in counts)
        return next((f"{problem}, not {n}" for problem, n in found if problem), None)

    def pool_problem(
        self, threads: int, shares: tuple[tuple[int, int], ...], entry: int | None = None
    ) -> str | None:
        """Why the registers of a CTA, ``entry`` of each thread or all that there are, do not
        suffice for (threads, registers per thread) of each role, or None.
        """
        entry = entry or self.registers_at_entry(threads)
        need = sum(n * count for n, count in shares)
        if need <= threads * entry:
            return None
        parts = " + ".join(f"{n} x {count}" for n, count in shares)
        return f"{parts} = {need} registers, the CTA has {threads} x {entry} = {threads * entry}"


@lru_cache(maxsize=64)
def _register_pairs(target: Target, threads: int) -> tuple[tuple[int, int], ...]:
    """Hundreds of schedules with the same few numbers of threads ask for them in a choice."""
    entry, high = target.registers_at_entry(threads), target.setmaxnreg[1]
    most: dict[int, int] = {}
    for load in (24, 32, 40):
        fitting = [
            compute
            for compute in range(entry, high + 1, target.register_step)
            if target.register_pair_problem(threads, load, compute) is None
        ]
        if fitting:
            most[fitting[-1]] = load
    return tuple((load, compute) for compute, load in most.items())
