"""The method: every way to run a module or a definition is checked, then they take turns.

A way runs as a program calls it, one call after the other, and as a replayed CUDA graph. What the
host takes counts in the calls where the GPU waits for it, and not in the graph. Calls and replays
take turns apart from each other, so that replays do not always find the GPU as calls of the same
way have left it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from traceback import format_exception
from typing import Any, Protocol

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.measure import Broken, OutOfMemory, Plan, Tell
from wsched.bench.method.statistic import orders
from wsched.bench.models.asked import Asked
from wsched.bench.peers.systems import Skip

__all__ = [
    "COMPILE", "EAGER", "FACTOR", "METHOD", "NVFUSER", "OWN", "THUNDER", "THUNDER_NVFUSER",
    "TOLERANCE", "WAYS", "Case", "Device", "Way", "prepare_case",
]  # fmt: skip

EAGER, COMPILE, NVFUSER, OWN = "eager", "compile", "nvfuser", "wsched"
THUNDER, THUNDER_NVFUSER = "thunder", "thunder+nvfuser"
WAYS = (EAGER, COMPILE, THUNDER, THUNDER_NVFUSER, NVFUSER, OWN)
"""Torch's eager mode; torch.compile; thunder as it is, and with nvFuser for linear and matmul;
nvFuser's own execute of a definition; the last two with wsched installed."""

FACTOR = 2.0
"""The relative Frobenius error of a module may be so many times that of the eager mode, which in 16
bits sends some tokens to other experts than fp32 does."""

TOLERANCE = 2e-2
"""The error of a definition beside torch's eager mode, which rounds at the same places."""

METHOD = (
    "Each way is called once and compared with fp32 (a module: the error may be twice that of the "
    "eager mode) or with torch's eager mode (a definition), then calls and replays of all "
    "ways take turns, each round in a random order drawn from the seed: {rounds} rounds of about "
    "{replay_ms:g} ms after one that is not counted. us: from call to call, between two "
    "synchronizations; host_us: until the last call returns; graph_us: replays of a CUDA graph of "
    "one call. Modules have the sizes of published models in bf16, definitions their own."
)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run.

    Args:
        call: runs once; its results.
        around: what is so while it runs.
    """

    call: Callable[[], Sequence[Any]]
    around: Callable[[], AbstractContextManager[object]] = nullcontext


class Case(Protocol):
    """A module or a definition with its inputs."""

    def way(self, name: str) -> Way:
        """Make one of :data:`WAYS`; raises ``Skip`` or ``UnsupportedError``."""

    def error(self, results: Sequence[Any]) -> float:
        """The largest relative Frobenius error of the results; NaN if an element is."""

    def limit(self) -> float:
        """What the error may be."""

    def told(self, way: Way) -> dict[str, Any]:
        """What wsched takes of a call: ``flops`` of all matmuls, ``own`` of those in its kernels,
        ``reasons`` of the others with theirs, ``cuts`` of definitions with their pictures.
        """


class Device(Protocol):
    """What the method asks of the device; the tests have one that needs no GPU."""

    def case(self, asked: Asked, seed: int) -> Case:
        """Draw weights and inputs; what was drawn before goes.

        Raises:
            OutOfMemory: they do not fit.
            UnsupportedError: a file that cannot be read.
        """

    def synchronize(self) -> object:
        """Wait until the GPU is idle."""

    def graph(self, way: Way) -> Callable[[], object]:
        """Capture one call; what it returns replays it."""

    def alive(self) -> bool:
        """Whether the CUDA context still works."""


@dataclass(frozen=True, slots=True)
class _Entrant:
    """A way in the rounds."""

    way: Way
    score: dict[str, Any]
    replay: Callable[[], object] | None


@dataclass(slots=True)
class _Turn:
    """What is timed by itself: a way's calls, or its replays."""

    name: str
    run: Callable[[int], Mapping[str, float]]
    score: dict[str, Any]
    times: int = 3
    seconds: float = field(default=0.0)


def prepare_case(
    device: Device,
    asked: Asked,
    ways: Sequence[str],
    excluded: Collection[str],
    plan: Plan,
    tell: Tell,
    seed: int = 0,
    clock: Callable[[], float] = perf_counter,
) -> Callable[[], dict[str, Any]]:
    """Make, check and capture the ways of one module or definition; what this returns measures.

    Args:
        device: where.
        asked: what.
        ways: of :data:`WAYS`.
        excluded: those that are left out.
        plan: how long.
        tell: see :class:`~wsched.bench.method.measure.Tell`.
        seed: of weights, inputs and the order.
        clock: seconds.

    Returns:
        A function that lets the ways take turns, and returns ``{"systems": {way: score}, "told"}``.
        A score has ``status`` (``ok``, ``skipped``, ``wrong``, ``failed``), ``reason`` if not ok,
        ``traceback`` if failed, ``error``, and lists ``us``, ``host_us`` and ``graph_us`` with an
        entry for each round; ``told`` is what :meth:`Case.told` says, missing where what was asked
        for does not fit into memory or cannot be read.

    Raises:
        Broken: the CUDA context is lost.
    """
    tell("", "inputs")
    try:
        case = device.case(asked, seed)
    except (OutOfMemory, UnsupportedError) as error:
        skipped = {"status": "skipped", "reason": str(error)}
        return lambda: {"systems": {n: dict(skipped) for n in ways}}
    scores: dict[str, dict[str, Any]] = {}
    entrants: dict[str, _Entrant] = {}
    told: dict[str, Any] = {}
    for name in (n for n in ways if n not in excluded):
        scores[name] = {"status": "skipped", "reason": ""}
        entrant = _enter(device, case, name, scores[name], tell)
        if entrant is not None:
            entrants[name] = entrant
            if name == OWN:
                tell(name, "what is taken")
                told = case.told(entrant.way)

    def measure() -> dict[str, Any]:
        _measure(device, entrants, plan, tell, f"{seed} {asked}", clock)
        return {"systems": scores, "told": told}

    return measure


def _measure(
    device: Device,
    entrants: Mapping[str, _Entrant],
    plan: Plan,
    tell: Tell,
    seed: str,
    clock: Callable[[], float],
) -> None:
    """Let calls and replays take turns; times into the scores."""
    turns = dict[str, _Turn]()
    for name, entrant in entrants.items():
        tell(name, "first calls")
        kinds = _kinds(device, entrant, clock)
        found = {f"{name} {k}": _Turn(name, run, entrant.score) for k, run in kinds.items()}
        _lengthen(tuple(found.values()), plan)
        turns |= found
    for number, order in enumerate(orders(sorted(turns), plan.rounds + 1, seed)):
        for turn in (turns[each] for each in order):
            tell(turn.name, f"round {number}", turn.seconds)
            timed = turn.run(turn.times)
            if number:
                for key, us in timed.items():
                    turn.score.setdefault(key, []).append(us)


def _kinds(
    device: Device, entrant: _Entrant, clock: Callable[[], float]
) -> dict[str, Callable[[int], Mapping[str, float]]]:
    """What is timed of a way, in microseconds of each of so many: calls, with the host in them, and
    replays if there is a graph.
    """

    def calls(times: int) -> Mapping[str, float]:
        with entrant.way.around():
            us, host = _burst(device, entrant.way.call, times, clock)
        return {"us": us, "host_us": host}

    replay = entrant.replay
    if replay is None:
        return {"calls": calls}
    return {"calls": calls, "replays": lambda times: {
        "graph_us": _burst(device, replay, times, clock)[0]
    }}  # fmt: skip


def _lengthen(turns: Sequence[_Turn], plan: Plan) -> None:
    """Find how many calls or replays are as long as the plan says, once all have run."""
    for turn in turns:
        turn.run(turn.times)
    for turn in turns:
        us = next(iter(turn.run(turn.times).values()))
        turn.times = max(3, round(plan.replay_ms * 1e3 / us))
        turn.seconds = turn.times * us / 1e6


def _enter(
    device: Device, case: Case, name: str, score: dict[str, Any], tell: Tell
) -> _Entrant | None:
    """Make, check and capture a way; None, with the reason in its score, if it cannot take part."""
    try:
        tell(name, "compile")
        way = case.way(name)
        with way.around():
            error = case.error(way.call())
        limit = case.limit()
        score["error"] = error if error == error else None
        if not error <= limit:
            score |= {"status": "wrong", "reason": f"error {error:.2e}, limit {limit:.2e}"}
            return None
        score["status"] = "ok"
        return _Entrant(way, score, _captured(device, name, way, score, tell))
    except (Skip, UnsupportedError) as refusal:
        score["reason"] = str(refusal)
    except Exception as error:  # another system's failure, whatever it is, must not end the run
        first = (str(error).strip().splitlines() or [""])[0]
        score |= {"status": "failed", "reason": f"{type(error).__name__}: {first}"}
        score["traceback"] = "".join(format_exception(error))
    if not device.alive():
        raise Broken(score["reason"])
    return None


def _captured(
    device: Device, name: str, way: Way, score: dict[str, Any], tell: Tell
) -> Callable[[], object] | None:
    """A graph of a call; None, with the reason in its score, of what cannot be captured."""
    tell(name, "capture")
    try:
        return device.graph(way)
    except Exception as error:
        score["graph_reason"] = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if not device.alive():
            raise
    return None


def _burst(
    device: Device, call: Callable[[], object], calls: int, clock: Callable[[], float]
) -> tuple[float, float]:
    device.synchronize()
    begin = clock()
    for _ in range(calls):
        call()
    returned = clock()
    device.synchronize()
    return (clock() - begin) / calls * 1e6, (returned - begin) / calls * 1e6
