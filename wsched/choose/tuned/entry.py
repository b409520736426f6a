"""An entry of a table: a problem, the schedule that was the fastest for it, and how fast it was."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from sys import float_info
from typing import Any, get_args, get_type_hints

from lowering.ground.errors import WschedError
from lowering.target.target import Target
from lowering.target.targets import TARGETS
from wsched.choose.problem import Problem, demands
from wsched.fusion import DataType
from wsched.schedule.matmul.computed import Computed
from wsched.schedule.matmul.limits import require_legal_for
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["Entry", "EntryError", "problem_from_dict", "problem_to_dict"]


LARGEST = float_info.max
"""Of floats: an integer in JSON may be larger, and is none."""


class EntryError(WschedError, ValueError):
    """Data that are no entry, or one whose schedule its problem cannot have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A measured schedule.

    Args:
        problem: all that a choice depends on.
        params: the fastest schedule, or the cost model's choice where no other was faster.
        us: its time, the median of the last rounds in microseconds.
        choice_us: that of the cost model's choice in the same rounds; None if that was not right.
        wsched: the version that measured.
        date: when, in UTC: ``2026-11-21T09:00:00+00:00``.
    """

    problem: Problem
    params: MatmulParams
    us: float
    choice_us: float | None
    wsched: str
    date: str

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        return {
            "problem": problem_to_dict(self.problem),
            "params": self.params.to_dict(),
            "us": round(self.us, 3),
            "choice_us": None if self.choice_us is None else round(self.choice_us, 3),
            "wsched": self.wsched,
            "date": self.date,
        }

    @classmethod
    def of(cls, problem: Problem, data: dict[str, Any]) -> Entry:
        """The inverse; ``problem`` is what ``data`` has under that name.

        Raises:
            EntryError: a value that is missing or of another type; a schedule that does not exist
                or is illegal for the problem.
        """
        made = cls(
            problem,
            _params(problem, data.get("params")),
            _time(data, "us"),
            None if data.get("choice_us") is None else _time(data, "choice_us"),
            *(_word(data, name) for name in ("wsched", "date")),
        )
        return made


def _params(problem: Problem, data: Any) -> MatmulParams:
    if not isinstance(data, dict):
        raise EntryError(f"params is {data!r}, not a dict")
    try:
        params = MatmulParams.from_dict(data)
        require_legal_for(demands(problem), params)
    except WschedError as e:
        raise EntryError(str(e).splitlines()[0]) from None
    if why := _obstacle(problem, params):
        raise EntryError(why)
    return params


def _obstacle(problem: Problem, params: MatmulParams) -> str:
    """What the problem's tensors cannot have of a schedule that its types can have."""
    if params.use_smem_epilogue and problem.unaligned is not None:
        return f"use_smem_epilogue=True: TMA does not store rows of {problem.n} elements"
    if params.use_smem_epilogue and not problem.smem_epilogue:
        return "use_smem_epilogue=True: these results are stored from registers"
    if params.loads_epilogue_inputs and problem.inputs is None:
        return f"epilogue_input_stages={params.epilogue_input_stages}: TMA cannot load these"
    if params.supported_vec_size.epilogue > 1 and not (problem.pairs and problem.n % 2 == 0):
        return f"supported_vec_size.epilogue={params.supported_vec_size.epilogue}: no pairs here"
    if params.batch_invariant is not problem.batch_invariant:
        return f"batch_invariant={params.batch_invariant}: the problem says otherwise"
    return ""


def _time(data: dict[str, Any], name: str) -> float:
    value: Any = data.get(name)
    if type(value) not in (int, float) or not 0 < value <= LARGEST:
        raise EntryError(f"{name} is {value!r}, not a time")
    return float(value)


def _word(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise EntryError(f"{name} is {value!r}, not a text")
    return value


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON data: types and the target by name; what few have only of these."""
    data = {f.name: _plain(getattr(problem, f.name)) for f in fields(problem)}
    few = ("grouped", "computed")
    return {n: v for n, v in data.items() if v or not (n.endswith("_entries") or n in few)}


def _plain(value: Any) -> Any:
    if isinstance(value, DataType):
        return value.name
    if isinstance(value, Target):
        return value.arch
    if isinstance(value, Computed):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return [_plain(x) for x in value] if isinstance(value, tuple) else value


@cache
def _hints() -> dict[str, Any]:
    """The types of a problem's fields; a table has dozens of problems."""
    return get_type_hints(Problem)


def problem_from_dict(data: Any) -> Problem:
    """The inverse; what is left out has its default.

    Raises:
        EntryError: no dict, a name that a problem does not have or one that it needs, a value of
            another type.
    """
    if not isinstance(data, dict):
        raise EntryError(f"problem is {data!r}, not a dict")
    hints = _hints()
    for name in data:
        if name not in hints:
            raise EntryError(f"a problem has no {name!r}")
    try:
        found = Problem(**{n: _value(n, hints[n], v) for n, v in data.items()})
    except TypeError as e:  # an argument is missing
        raise EntryError(str(e)) from None
    if found.scaled is not None and (len(found.scaled) != 2 or min(found.scaled) < 1):
        raise EntryError(f"scaled is {list(found.scaled)}, not rows of A and columns of B")
    if not (found.results or found.reductions.results):
        raise EntryError("a problem without results")
    return found


def _value(name: str, kind: Any, value: Any) -> Any:
    """``value`` as the type of a field of :class:`Problem`."""
    if kind is DataType:
        return _dtype(name, value)
    if kind is Target:
        return _target(name, value)
    if kind in (int, bool, str):
        if type(value) is not kind:
            raise EntryError(f"{name} is {value!r}, not a {kind.__name__}")
        return value
    if value is None and type(None) in get_args(kind):
        return None
    if Computed in get_args(kind):
        return _computed(name, value)
    if not isinstance(value, list):
        raise EntryError(f"{name} is {value!r}, not a list")
    if kind == tuple[int, ...] or tuple[int, int] in get_args(kind):
        return tuple(_value(name, int, v) for v in value)
    return tuple(_dtype(name, v) for v in value)


def _computed(name: str, value: Any) -> Computed:
    """What is computed on an operand: a side, a type, instructions for an element."""
    if not isinstance(value, dict) or value.keys() != {f.name for f in fields(Computed)}:
        raise EntryError(f"{name} is {value!r}, not a side, a dtype and work")
    side, work = value["side"], value["work"]
    if side not in ("a", "b") or type(work) not in (int, float) or not 0 < work <= LARGEST:
        raise EntryError(f"{name} is {value!r}, not a side, a dtype and work")
    return Computed(side, _dtype(name, value["dtype"]), float(work))


def _dtype(name: str, value: Any) -> DataType:
    if not isinstance(value, str) or value not in DataType.__members__:
        raise EntryError(f"{name} has {value!r}, which is no type")
    return DataType[value]


def _target(name: str, value: Any) -> Target:
    found = next((t for t in TARGETS if t.arch == value), None)
    if found is None:
        legal = ", ".join(t.arch for t in TARGETS)
        raise EntryError(f"{name} is {value!r}, which is no target: {legal}")
    return found
