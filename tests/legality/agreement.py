"""What the proof, the oracle, the machine and the kernel's proof say of one schedule, and whether
they agree.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lowering.cuda.emit import emit_cuda
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.proof.obligation import Verdict as Proved
from lowering.proof.prove import prove
from tests.legality.machine import compiled, problems, run_wrong
from tests.legality.oracle import Verdict, judge, tile_of
from tests.legality.walk import NotJudged
from wsched.fusion import Fusion
from wsched.run.counts import admitted_by
from wsched.schedule.plan import Plan, make_plan

__all__ = ["SECONDS", "Outcome", "outcome"]

SECONDS = 20
"""That the proof of a kernel may take, of processor time."""

_BYTES = (2, 4, 8, 16)
"""That a thread copies at once: by plain loads and stores, or by ``cp.async``."""


@dataclass(frozen=True)
class Outcome:
    """What was said.

    Args:
        oracle: the verdict; None where the oracle has no opinion.
        refused: the rule that the proof refused it by, None if it was accepted.
        why: the refusal's text, or what is not supported.
        unsupported: whether there is no lowering for it, or no memory of such a shape.
        wrong: what went wrong on the machine, behind what the proof says of the kernel, or in the
            proof itself; or what is refuted of a kernel whose runs were right.
        unproved: the claims about the kernel that are not proved, by name; None without a kernel.
    """

    oracle: Verdict | None
    refused: str | None = None
    why: str = ""
    unsupported: bool = False
    wrong: str | None = None
    unproved: tuple[str, ...] | None = None

    @property
    def legal(self) -> bool:
        """Whether the oracle finds it legal."""
        return self.oracle is not None and self.oracle.why is None

    @property
    def ran(self) -> bool:
        """Whether there is a kernel."""
        return self.refused is None and not self.unsupported

    @property
    def says(self) -> str:
        """What the proof says of the kernel, in a line."""
        if self.wrong is not None:
            return self.wrong.splitlines()[0]
        return f"is proved but for {', '.join(self.unproved)}" if self.unproved else "is proved"

    @property
    def fault(self) -> str | None:
        """What must not happen: an illegal schedule accepted, or a wrong result.

        Shapes that no kernel has may be left to the lowering.
        """
        if self.wrong is not None or self.refused is not None or self.oracle is None:
            return self.wrong
        if self.oracle.why is None or (self.oracle.shape and self.unsupported):
            return None
        return f"accepted, but illegal: {self.oracle.why}"

    @property
    def cautious(self) -> bool:
        """Whether it was refused though legal."""
        return self.refused is not None and self.legal


def outcome(fusion: Fusion, seed: int = 0) -> Outcome:
    """Ask all of them; ``seed`` says which numbers there are, in which order the machine runs what
    may run, and how many bytes threads copy at once.
    """
    try:
        verdict = judge(fusion)
    except NotJudged:
        verdict = None
    try:
        made = make_plan(fusion)
    except ScheduleError as e:
        return Outcome(verdict, e.rule, e.why)
    except Exception as e:
        return Outcome(verdict, wrong=f"the proof fails: {type(e).__name__}: {e}")
    try:
        kernel = compiled(made, copied=_BYTES[seed % len(_BYTES)])
        emit_cuda(kernel)
    except (UnsupportedError, ScheduleError) as e:
        return Outcome(verdict, why=str(e), unsupported=True)
    except Exception as e:
        return Outcome(verdict, wrong=f"the lowering fails: {type(e).__name__}: {e}")
    if verdict is not None and verdict.why is not None:
        return Outcome(verdict)
    for problem in problems(tile_of(fusion)):
        try:
            wrong = run_wrong(fusion, kernel, problem, seed)
        except UnsupportedError as e:
            return Outcome(verdict, why=str(e), unsupported=True)
        except Exception as e:  # of the machine, or of a kernel that it cannot even start
            wrong = f"{type(e).__name__}: {str(e)[:200]} in {problem}"
        if wrong is not None:
            return Outcome(verdict, wrong=f"{_proved(verdict, kernel, made).says}, but {wrong}")
    said = _proved(verdict, kernel, made)
    return said if said.wrong is None else replace(said, wrong=f"runs right, but {said.wrong}")


def _proved(verdict: Verdict | None, kernel: Kernel, made: Plan) -> Outcome:
    """What the proof says of a kernel."""
    try:
        with at_most(SECONDS):
            found = prove(kernel, admitted_by(made)).open
    except TimeoutError:
        return Outcome(verdict, unproved=(f"nothing in {SECONDS} s",))
    except Exception as e:
        return Outcome(verdict, wrong=f"the kernel's proof fails: {type(e).__name__}: {e}")
    refuted = [str(o) for o in found if o.verdict is Proved.REFUTED]
    if refuted:
        return Outcome(verdict, wrong=f"is refuted: {refuted[0]}")
    return Outcome(verdict, unproved=tuple(dict.fromkeys(o.name for o in found)))


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stop what is done within, in the main thread, after so long, whoever else has the processor.

    Raises:
        TimeoutError: it was stopped.
    """

    def stop(*_: object) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
