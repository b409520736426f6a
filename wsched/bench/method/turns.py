"""Several workers on one machine: they prepare beside each other, and each measures alone."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Container
from enum import Enum, auto

__all__ = ["Alone", "Enough", "Turn", "Turns"]


class Enough(Exception):  # noqa: N818  (a wish, not a mistake)
    """No more is wanted of this run."""


class _Stage(Enum):
    """Where a worker is: behind others, preparing, prepared, measuring, done."""

    WAITS = auto()
    PREPARES = auto()
    PREPARED = auto()
    MEASURES = auto()
    ENDED = auto()


_UNPREPARED = (_Stage.WAITS, _Stage.PREPARES)


class Alone:
    """The turn of a worker beside which there is no other."""

    announced = False
    """Whether the worker says when it is prepared, and waits until it is told to measure."""

    def hold(self, process: subprocess.Popen[str] | None = None) -> None:
        """Go on, with this process if there is one."""

    def come(self) -> None:
        """Wait until the worker may measure."""


class Turn(Alone):
    """The turn of one of several workers; a context around all that is done for it.

    Args:
        turns: of all of them.
        place: its number.
    """

    announced = True

    def __init__(self, turns: Turns, place: int) -> None:
        self._turns, self._place = turns, place

    def __enter__(self) -> Turn:
        self._turns.enter(self._place, _Stage.PREPARES)
        return self

    def __exit__(self, *_: object) -> None:
        self._turns.enter(self._place, _Stage.ENDED)

    def hold(self, process: subprocess.Popen[str] | None = None) -> None:
        """Raises :class:`Enough` once the worker is left."""
        self._turns.hold(self._place, process)

    def come(self) -> None:
        """Likewise."""
        self._turns.enter(self._place, _Stage.PREPARED)
        self._turns.enter(self._place, _Stage.MEASURES)


class Turns:
    """Who may prepare, and who may measure.

    So many prepare at a time. Who is prepared waits until nobody prepares any more; then one after
    the other measures. Who breaks while it measures prepares anew within its turn.

    Args:
        count: of workers.
        at_once: how many of them prepare at a time.
    """

    def __init__(self, count: int, at_once: int) -> None:
        self._stages, self._at_once = [_Stage.WAITS] * count, at_once
        self._left = set[int]()
        self._processes = dict[int, subprocess.Popen[str]]()
        self._changed = threading.Condition()

    def of(self, place: int) -> Turn:
        """The turn of a worker."""
        return Turn(self, place)

    def enter(self, place: int, stage: _Stage) -> None:
        """Wait until a worker may be at a stage, and let it.

        Raises:
            Enough: the worker is left.
        """
        with self._changed:
            if stage is _Stage.ENDED or self._stages[place] is not _Stage.MEASURES:
                self._changed.wait_for(lambda: place in self._left or self._may(stage))
                self._stages[place] = _Stage.ENDED if place in self._left else stage
                self._changed.notify_all()
            if stage is not _Stage.ENDED:
                self.hold(place)

    def hold(self, place: int, process: subprocess.Popen[str] | None = None) -> None:
        """Take note of a worker's process.

        Raises:
            Enough: the worker is left.
        """
        with self._changed:
            if process is not None:
                self._processes[place] = process
            if place in self._left:
                raise Enough

    def _may(self, stage: _Stage) -> bool:
        if stage is _Stage.PREPARES:
            return self._stages.count(_Stage.PREPARES) < self._at_once
        if stage is _Stage.MEASURES:
            return not any(s in (*_UNPREPARED, _Stage.MEASURES) for s in self._stages)
        return True

    def leave_unprepared(self) -> bool:
        """End those that are not prepared; whether there are any."""
        return self._leave(_UNPREPARED)

    def leave_all(self) -> bool:
        """End all; whether one had not ended."""
        return self._leave([s for s in _Stage if s is not _Stage.ENDED])

    def _leave(self, stages: Container[_Stage]) -> bool:
        with self._changed:
            left = {i for i, stage in enumerate(self._stages) if stage in stages}
            self._left |= left
            for place in left & self._processes.keys():
                self._processes[place].kill()
            self._changed.notify_all()
        return bool(left)
