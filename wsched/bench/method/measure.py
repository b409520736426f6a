"""The method: check, capture, then rounds in which every system runs in turn.

The GPU is limited by power, so a time means something only beside another that was taken in the
same seconds: the systems alternate, in a random order each round, and a replay is queued before the
one in front of it is waited for, so that the GPU never idles between two systems. No more than that
is queued: so it is known which one hangs when nothing ends any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from statistics import median
from typing import Any, Protocol

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.statistic import input_sets, orders, repetitions
from wsched.bench.peers.systems import Launch, Prepared, Skip
from wsched.bench.problem import Problem

__all__ = [
    "METHOD", "Accuracy", "Broken", "Gpu", "OutOfMemory", "Plan", "Sampler", "Tell",
    "measure_shape",
]  # fmt: skip

METHOD = (
    "Every system is captured in a CUDA graph of {replay_ms:g} ms; graphs are replayed in turn, "
    "each round in a random order drawn from the seed, {rounds} rounds after one that is not "
    "counted, in {processes} fresh processes, process i with the seed plus i. Operands are drawn "
    "from a normal distribution; launches rotate among sets of A, B and D, so many that between "
    "two visits of a set twice the L2 cache is touched (up to 4096 sets). Before timing and after "
    "it the results of the first and the last set, poisoned with NaN first wherever the system "
    "writes them, are compared with fp32. A ratio is the median over processes of the median over "
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


class OutOfMemory(Exception):  # noqa: N818  (an answer, not a failure of the benchmark)
    """The operands of a problem do not fit into the GPU's memory; the text says which did not."""


class Gpu(Protocol):
    """What the method asks of the device; the tests have one that needs no GPU."""

    @property
    def l2_bytes(self) -> int:
        """Size of the L2 cache."""

    def allocate(self, problem: Problem, sets: int) -> None:
        """Draw ``sets`` sets of A, B and D; the former ones go; raises :class:`OutOfMemory`."""

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        """Compile a system; raises :class:`Skip` or ``UnsupportedError`` if it cannot take part."""

    def accuracy(self, launch: Launch) -> Accuracy:
        """Launch into poisoned memory with the first and the last set, and compare."""

    def capture(self, launch: Launch, launches: int) -> Any:
        """Record a graph of launches, rotating among the sets."""

    def replay(self, graph: Any) -> Any:
        """Queue a graph between two events."""

    def wait(self, replay: Any) -> float:
        """Wait for a replay; its time in microseconds."""

    def accuracy_of_graph(self, graph: Any) -> Accuracy:
        """Poison what the graph writes, replay, and compare the first and the last set."""

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
    """A system in the rounds, and what will be reported of it; a replay takes ``seconds``."""

    launch: Launch
    graph: Any
    launches: int
    seconds: float
    score: dict[str, Any]
    times: list[float] = field(default_factory=list)


class Tell(Protocol):
    """Says what comes next. Whoever watches blames the system for the silence that follows."""

    def __call__(self, system: str, step: str, seconds: float = 0.0) -> None:
        """``seconds``: how long the step's work on the GPU takes, by what was measured before."""


def measure_shape(
    gpu: Gpu,
    problem: Problem,
    systems: Mapping[str, dict[str, Any] | None],
    plan: Plan,
    sampler: Sampler,
    tell: Tell,
    seed: int = 0,
) -> dict[str, Any]:
    """Measure one shape.

    Args:
        gpu: the device.
        problem: what to compute.
        systems: name -> parameters, None for a peer or for wsched's heuristics.
        plan: how long.
        sampler: clocks and power beside the rounds.
        tell: see :class:`Tell`.
        seed: of the order in the rounds.

    Returns:
        ``{"sets", "orders", "systems": {name: score}, "clocks"}``. A score has ``status``
        (``ok``, ``skipped``, ``wrong``, ``failed``), ``reason`` if not ok, and for measured ones
        ``launches`` of a graph, ``times_us`` of a launch per round, ``error``, ``details``.
        ``orders`` are those of all rounds, of which the first is not counted.

    Raises:
        Broken: the CUDA context is lost.
    """
    sets = input_sets(problem.shape.bytes, gpu.l2_bytes)
    scores: dict[str, dict[str, Any]] = {}
    entrants: dict[str, _Entrant] = {}
    try:
        gpu.allocate(problem, sets)
    except OutOfMemory as error:
        reason = f"out of memory for {sets} sets of {problem.shape.bytes} bytes: {error}"
        scores = {n: {"status": "skipped", "reason": reason, "details": {}} for n in systems}
        clocks = {"source": "none", "samples": 0}
        return {"sets": sets, "orders": [], "systems": scores, "clocks": clocks}
    for name, params in systems.items():
        entrant = _enter(gpu, name, params, problem, plan, sets, scores, tell)
        if entrant is not None:
            entrants[name] = entrant
    order = orders(list(entrants), plan.rounds + 1, f"{seed} {problem.shape}")
    sampler.start()
    try:
        _rounds(gpu, entrants, order, tell)
    finally:
        clocks = sampler.stop()
    for name, entrant in entrants.items():
        _finish(gpu, name, entrant, problem, plan, tell)
    return {"sets": sets, "orders": order, "systems": scores, "clocks": clocks}


def _enter(
    gpu: Gpu,
    name: str,
    params: dict[str, Any] | None,
    problem: Problem,
    plan: Plan,
    sets: int,
    scores: dict[str, dict[str, Any]],
    tell: Tell,
) -> _Entrant | None:
    """Compile, check and capture a system; None, with the reason in its score, if it cannot run."""
    score = scores[name] = {"status": "skipped", "reason": "", "details": {}}
    step = "compile"
    try:
        tell(name, step)
        prepared = gpu.prepare(name, params, problem)
        score["details"] = prepared.details
        step = "check"
        tell(name, step)
        accuracy = gpu.accuracy(prepared.launch)
        score |= accuracy.to_dict()
        complaint = accuracy.complaint(problem.tolerance)
        if complaint:
            score |= {"status": "wrong", "reason": complaint}
            return None
        step = "capture"
        return _capture(gpu, name, prepared.launch, plan, sets, score, tell)
    except (Skip, UnsupportedError) as refusal:
        score["reason"] = str(refusal)
    except Exception as error:  # another system's failure, whatever it is, must not end the run
        score |= {"status": "failed", "reason": f"{step}: {_brief(error)}"}
        score["details"] = {**score["details"], "failure": str(error)}
    if not gpu.alive():  # a refusal may be a CUDA error too, of a peer that has one type for all
        raise Broken(score["reason"])
    return None


def _brief(error: Exception) -> str:
    """The first line of an error, after its type."""
    lines = str(error).strip().splitlines() or [""]
    kind = type(error).__name__
    return lines[0] if lines[0].startswith(kind) else f"{kind}: {lines[0]}"


def _capture(
    gpu: Gpu,
    name: str,
    launch: Launch,
    plan: Plan,
    sets: int,
    score: dict[str, Any],
    tell: Tell,
) -> _Entrant:
    """A graph of about ``plan.replay_ms``, its length found with a short one."""
    tell(name, "capture")
    short = gpu.capture(launch, sets)
    tell(name, "first replay")
    first = gpu.wait(gpu.replay(short))
    tell(name, "second replay", first / 1e6)
    one = gpu.wait(gpu.replay(short)) / sets
    launches = repetitions(one, plan.replay_ms, sets)
    tell(name, "capture of all launches")
    return _Entrant(launch, gpu.capture(launch, launches), launches, one * launches / 1e6, score)


def _rounds(
    gpu: Gpu, entrants: Mapping[str, _Entrant], order: Sequence[Sequence[str]], tell: Tell
) -> None:
    """Fill ``times`` of every entrant; the first round warms up and is not kept."""
    turns = [(turn, entrants[n], n) for turn, names in enumerate(order) for n in names]

    def say(at: int) -> None:
        turn, entrant, name = turns[at]
        tell(name, f"round {turn}", entrant.seconds)

    for at, elapsed in _queued(gpu, [entrant.graph for _, entrant, _ in turns], say):
        turn, entrant, _ = turns[at]
        if turn > 0:
            entrant.times.append(elapsed / entrant.launches)


def _queued(
    gpu: Gpu, graphs: Sequence[Any], say: Callable[[int], None]
) -> Iterator[tuple[int, float]]:
    """Replay graphs one after another, the next one queued while one runs; (place, microseconds).

    ``say`` is called when the replay at a place is the only one that is queued: before another is
    added, which may block as well when the GPU hangs.
    """
    following = None
    for at, graph in enumerate(graphs):
        say(at)
        running = gpu.replay(graph) if following is None else following
        following = gpu.replay(graphs[at + 1]) if at + 1 < len(graphs) else None
        yield at, gpu.wait(running)


def _finish(
    gpu: Gpu, name: str, entrant: _Entrant, problem: Problem, plan: Plan, tell: Tell
) -> None:
    """Check the result of the timed graph, and measure its energy if that is wanted."""
    score = entrant.score
    tell(name, "check after timing", entrant.seconds)
    complaint = gpu.accuracy_of_graph(entrant.graph).complaint(problem.tolerance)
    score |= {"launches": entrant.launches, "times_us": entrant.times}
    if complaint:
        score |= {"status": "wrong", "reason": f"after timing, {complaint}"}
        return
    score["status"] = "ok"
    if plan.energy_s > 0:
        per_launch = _energy(gpu, name, entrant, plan, tell)
        if per_launch is not None:
            score["pj_per_flop"] = per_launch / problem.shape.flops * 1e12


def _energy(gpu: Gpu, name: str, entrant: _Entrant, plan: Plan, tell: Tell) -> float | None:
    """Joules of one launch, the system running alone; None where the board does not count them."""
    typical = median(entrant.times) * entrant.launches
    replays = max(round(plan.energy_s * 1e6 / typical), 1)

    def say(at: int) -> None:
        tell(name, f"energy, replay {at + 1} of {replays}", entrant.seconds)

    tell(name, "energy", entrant.seconds)
    gpu.wait(gpu.replay(entrant.graph))
    before = gpu.joules()
    for _ in _queued(gpu, [entrant.graph] * replays, say):
        pass
    after = gpu.joules()
    if before is None or after is None:
        return None
    return (after - before) / (replays * entrant.launches)
