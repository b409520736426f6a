"""A run: cubins are made ahead by threads, and each kernel is launched on many sizes.

Threads call NVRTC and nothing else, which needs no lock of Python: one that lowered kernels would
hold up every call of torch's. What a launch finds stays on the device until all launches of its
kernel are under way: the host waits once for each kernel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from time import perf_counter

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.stress.launches import WRONG, Executed, Where, Worked, drawn_kernel, launched, sizes_of
from wsched.stress.results import Failure, Row

__all__ = ["Plan", "judged", "lives", "rows"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run.

    Args:
        where: on what.
        count: launches.
        seconds: after which no kernel is begun.
        each: launches of a kernel.
        threads: that make cubins, one ahead for each.
    """

    where: Where
    count: int
    seconds: float
    each: int
    threads: int


def rows(
    plan: Plan, done: Container[int], begin: Callable[[int], None] = lambda _: None
) -> Iterator[Row]:
    """What came of each kernel, in order.

    Args:
        plan: how much.
        done: numbers of kernels that are left out: what came of them is known.
        begin: is told of each kernel before its first launch.
    """
    start, launches = perf_counter(), 0
    numbers = (n for n in count() if n not in done)
    with ThreadPoolExecutor(plan.threads) as pool:
        waiting: deque[Worked | Row] = deque()
        try:
            while launches < plan.count and perf_counter() - start < plan.seconds:
                while len(waiting) < plan.threads:
                    waiting.append(_made(plan.where, next(numbers), pool))
                row = waiting.popleft()
                if isinstance(row, Worked):
                    row = _row(plan.where, row, min(plan.each, plan.count - launches), begin)
                launches += row.launches
                yield row
                if row.failures and not lives(plan.where):
                    return
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _made(where: Where, number: int, pool: ThreadPoolExecutor) -> Worked | Row:
    """A kernel whose cubin is on its way; a row where there is none."""
    try:
        worked = drawn_kernel(where, number)
    except (ScheduleError, UnsupportedError) as e:
        return Row(number, "", 0, 0, 0.0, (), str(e).splitlines()[0])
    except Exception as e:  # whatever it is, it belongs to the kernel
        return Row(number, "", 0, 0, 0.0, (Failure(-1, "", _said(e)),))
    kernel = worked.kernel
    if where.device != "cpu" and not isinstance(kernel, Executed):
        _ = kernel.source  # made here, not by the thread
        pool.submit(lambda: kernel.compiled)
    return worked


def _row(where: Where, worked: Worked, each: int, begin: Callable[[int], None]) -> Row:
    """What comes of a kernel, once its cubin is there."""
    if where.device != "cpu" and not isinstance(worked.kernel, Executed):
        try:
            _ = worked.kernel.loaded
        except Exception as e:
            return Row(worked.number, "", 0, 0, 0.0, (Failure(-1, "", _said(e)),))
    begin(worked.number)
    return judged(where, worked, range(each))


def lives(where: Where) -> bool:
    """Whether the device still answers: a kernel that faults takes its context with it."""
    import torch

    try:
        if where.device != "cpu":
            torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def judged(where: Where, worked: Worked, numbers: range) -> Row:
    """Launches of a kernel, and what is wrong with them."""
    import torch

    start, failures, refused = perf_counter(), list[Failure](), dict[int, str]()
    found: dict[int, torch.Tensor] = {}
    for launch in numbers:
        try:
            wrong = launched(where, worked, launch)
            if isinstance(wrong, str):
                refused[launch] = wrong
            else:
                found[launch] = wrong
        except Exception as e:  # whatever it is, it belongs to the launch
            failures.append(Failure(launch, str(sizes_of(where, worked, launch)), _said(e)))
            if not lives(where):
                break
    counts: list[list[int]] = []
    try:
        counts = torch.stack(list(found.values())).tolist() if found else []
    except RuntimeError as e:
        failures += [Failure(-1, "", _said(e))] if not failures else []
    failures += [
        Failure(launch, str(sizes_of(where, worked, launch)), text)
        for launch, each in zip(found, counts, strict=False)
        if (text := _wrong(each))
    ]
    name, seconds = worked.name, perf_counter() - start
    form = type(worked.form).__name__.lower()
    untaken = next(iter(refused.items()), None)
    return Row(
        worked.number, name, len(found), len(refused), seconds, tuple(failures), form=form,
        untaken=untaken,
    )  # fmt: skip


def _wrong(counts: list[int]) -> str:
    """What is wrong with a launch; empty if nothing is."""
    told = [f"{n} {what}" for n, what in zip(counts[:2], WRONG[:2], strict=True) if n]
    return ", ".join([*told, *(what for n, what in zip(counts[2:], WRONG[2:], strict=True) if n)])


def _said(e: Exception) -> str:
    return f"{type(e).__name__}: {e}"
