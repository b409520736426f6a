"""The method: check, capture, then rounds in which every system runs in turn.

The GPU is limited by power, so a time means something only beside another that was taken in the
same seconds: the systems alternate, each round starts with another one, and round r + 1 is queued
before round r is read, so that the GPU never idles between two systems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Protocol

from wsched.bench.problem import Problem
from wsched.bench.statistic import input_sets, repetitions, rotated
from wsched.bench.systems import Launch, Prepared, Skip

__all__ = ["METHOD", "Accuracy", "Broken", "Gpu", "Plan", "Sampler", "measure_shape"]

METHOD = (
    "Every system is captured in a CUDA graph of {replay_ms:g} ms; graphs are replayed in turn, "
    "the order rotated each round, {rounds} rounds after one that is not counted, in {processes} "
    "fresh processes. Operands are drawn from a normal distribution; sets of buffers are rotated "
    "so that none is found in the L2 cache. Before timing and after it the result, poisoned with "
    "NaN first, is compared with fp32. A ratio is the median over processes of the median over "
    "rounds of the peer's time over the system's in the same round; spreads are quartiles over "
    "all rounds."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    Args:
        rounds: counted rounds.
        replay_ms: time of one system in one round.
        energy_s: seconds in which each system runs alone for its energy; 0 leaves that out.
    """

    rounds: int = 10
    replay_ms: float = 25.0
    energy_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Distance from fp32.

    Args:
        error: relative Frobenius error; NaN if an element is.
        outliers: elements further from fp32 than ``tolerance * (|reference| + rms)``, which also
            finds one wrong element among millions.
    """

    error: float
    outliers: int

    def to_dict(self) -> dict[str, Any]:
        """Return both as JSON data, in which NaN does not exist: None."""
        return {"error": None if isnan(self.error) else self.error, "outliers": self.outliers}

    def complaint(self, tolerance: float) -> str:
        """Say what is wrong with the result, empty if it is right."""
        if self.error < tolerance and self.outliers == 0:
            return ""
        return (
            f"wrong result: relative error {self.error:.2e} (limit {tolerance:.0e}), "
            f"{self.outliers} elements off"
        )


class Broken(Exception):  # noqa: N818  (an outcome that ends the process, not a mistake in it)
    """The CUDA context is lost; nothing more can be measured in this process."""


class Gpu(Protocol):
    """What the method asks of the device; the tests have one that needs no GPU."""

    @property
    def l2_bytes(self) -> int:
        """Size of the L2 cache."""

    def allocate(self, problem: Problem, sets: int) -> None:
        """Draw ``sets`` sets of A, B and D; the former ones go."""

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        """Compile a system; raises :class:`Skip`."""

    def accuracy(self, launch: Launch) -> Accuracy:
        """Launch once into a poisoned D and compare."""

    def capture(self, launch: Launch, launches: int) -> Any:
        """Record a graph of launches, rotating among the sets."""

    def replay(self, graph: Any) -> Any:
        """Queue a graph between two events."""

    def wait(self, replay: Any) -> float:
        """Wait for a replay; its time in microseconds."""

    def accuracy_of_graph(self, graph: Any) -> Accuracy:
        """Poison every D, replay, and compare the last result."""

    def alive(self) -> bool:
        """Whether the CUDA context still works."""

    def joules(self) -> float | None:
        """Energy counter of the board; None where there is none."""


class Sampler(Protocol):
    """Reads clocks and power in the background."""

    def start(self) -> None:
        """Begin to sample."""

    def stop(self) -> dict[str, Any]:
        """End; a summary of the samples."""


@dataclass(slots=True)
class _Entrant:
    """A system in the rounds, and what will be reported of it."""

    launch: Launch
    graph: Any
    launches: int
    record: dict[str, Any]
    times: list[float] = field(default_factory=list)


Tell = Callable[[str, str], None]
"""Says what comes next: (system, step). Whoever watches blames it for the silence that follows."""


def measure_shape(
    gpu: Gpu,
    problem: Problem,
    systems: Mapping[str, dict[str, Any] | None],
    plan: Plan,
    sampler: Sampler,
    tell: Tell,
) -> dict[str, Any]:
    """Measure one shape.

    Args:
        gpu: the device.
        problem: what to compute.
        systems: name -> parameters, None for a peer or for wsched's heuristics.
        plan: how long.
        sampler: clocks and power beside the rounds.
        tell: see :data:`Tell`.

    Returns:
        ``{"sets", "systems": {name: record}, "clocks"}``. A record has ``status`` (``ok``,
        ``skipped``, ``wrong``, ``failed``), ``reason`` if not ok, and for measured ones
        ``launches`` of a graph, ``times_us`` of a launch per round, ``error``, ``details``.

    Raises:
        Broken: the CUDA context is lost.
    """
    sets = input_sets(problem.shape.bytes, gpu.l2_bytes)
    gpu.allocate(problem, sets)
    records: dict[str, dict[str, Any]] = {}
    entrants: dict[str, _Entrant] = {}
    for name, params in systems.items():
        entrant = _enter(gpu, name, params, problem, plan, sets, records, tell)
        if entrant is not None:
            entrants[name] = entrant
    sampler.start()
    try:
        _rounds(gpu, entrants, plan, tell)
    finally:
        clocks = sampler.stop()
    for name, entrant in entrants.items():
        _finish(gpu, name, entrant, problem, plan, tell)
    return {"sets": sets, "systems": records, "clocks": clocks}


def _enter(
    gpu: Gpu,
    name: str,
    params: dict[str, Any] | None,
    problem: Problem,
    plan: Plan,
    sets: int,
    records: dict[str, dict[str, Any]],
    tell: Tell,
) -> _Entrant | None:
    """Compile, check and capture a system; None, with the reason recorded, if it cannot run."""
    record = records[name] = {"status": "skipped", "reason": "", "details": {}}
    step = "compile"
    try:
        tell(name, step)
        prepared = gpu.prepare(name, params, problem)
        record["details"] = prepared.details
        step = "check"
        tell(name, step)
        accuracy = gpu.accuracy(prepared.launch)
        record |= accuracy.to_dict()
        complaint = accuracy.complaint(problem.tolerance)
        if complaint:
            record |= {"status": "wrong", "reason": complaint}
            return None
        step = "capture"
        tell(name, step)
        return _capture(gpu, prepared.launch, plan, sets, record)
    except Skip as skip:
        record["reason"] = str(skip)
    except Exception as error:  # another system's failure, whatever it is, must not end the run
        record |= {"status": "failed", "reason": f"{step}: {_brief(error)}"}
        if not gpu.alive():
            raise Broken(record["reason"]) from error
    return None


def _brief(error: Exception) -> str:
    """The first line of an error, after its type."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def _capture(gpu: Gpu, launch: Launch, plan: Plan, sets: int, record: dict[str, Any]) -> _Entrant:
    """A graph of about ``plan.replay_ms``, its length found with a short one."""
    short = gpu.capture(launch, sets)
    gpu.wait(gpu.replay(short))
    one = gpu.wait(gpu.replay(short)) / sets
    launches = repetitions(one, plan.replay_ms, sets)
    return _Entrant(launch, gpu.capture(launch, launches), launches, record)


def _rounds(gpu: Gpu, entrants: Mapping[str, _Entrant], plan: Plan, tell: Tell) -> None:
    """Fill ``times`` of every entrant; the first round warms up and is not kept."""
    names = list(entrants)
    queued: list[list[tuple[str, Any]]] = []
    for turn in range(plan.rounds + 1):
        queued.append([(n, gpu.replay(entrants[n].graph)) for n in rotated(names, turn)])
        if turn > 0:
            _read(gpu, entrants, queued, turn - 1, tell)
    _read(gpu, entrants, queued, plan.rounds, tell)


def _read(
    gpu: Gpu,
    entrants: Mapping[str, _Entrant],
    queued: list[list[tuple[str, Any]]],
    turn: int,
    tell: Tell,
) -> None:
    for name, replay in queued[turn]:
        tell(name, f"round {turn}")
        elapsed = gpu.wait(replay)
        if turn > 0:
            entrants[name].times.append(elapsed / entrants[name].launches)


def _finish(
    gpu: Gpu, name: str, entrant: _Entrant, problem: Problem, plan: Plan, tell: Tell
) -> None:
    """Check the result of the timed graph, and measure its energy if that is wanted."""
    record = entrant.record
    tell(name, "check after timing")
    complaint = gpu.accuracy_of_graph(entrant.graph).complaint(problem.tolerance)
    record |= {"launches": entrant.launches, "times_us": entrant.times}
    if complaint:
        record |= {"status": "wrong", "reason": f"after timing, {complaint}"}
        return
    record["status"] = "ok"
    if plan.energy_s > 0:
        tell(name, "energy")
        per_launch = _energy(gpu, entrant, plan)
        if per_launch is not None:
            record["pj_per_flop"] = per_launch / problem.shape.flops * 1e12


def _energy(gpu: Gpu, entrant: _Entrant, plan: Plan) -> float | None:
    """Joules of one launch, the system running alone; None where the board does not count them."""
    typical = sorted(entrant.times)[len(entrant.times) // 2] * entrant.launches
    replays = max(round(plan.energy_s * 1e6 / typical), 1)
    gpu.wait(gpu.replay(entrant.graph))
    before = gpu.joules()
    for replay in [gpu.replay(entrant.graph) for _ in range(replays)]:
        gpu.wait(replay)
    after = gpu.joules()
    if before is None or after is None:
        return None
    return (after - before) / (replays * entrant.launches)
